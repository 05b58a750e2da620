//! The records that an engine and the workers of its jobs exchange through the remote store. Each
//! is written once, under a key that is made of the digest of its batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::{Digest, Table};
use serde::{Deserialize, Serialize};
use stage_core::key::{HashSink, Sink};
use stage_core::{Blob, Fields, Reject};

use crate::record::{ItemRecord, PortValue, decode, encode};

/// The table of these records, in outcomes of the remote and in the index.
pub const BATCH: Table = Table(41);
const FORMAT: u32 = 1;

/// Everything that a worker has to know about the work of one stage. Its digest is its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub format: u32,
    /// The time at which it was made: a later run tries failed work again.
    pub begun: i64,
    /// The manifest with its overrides, and the path that it was read from.
    pub manifest: String,
    pub set: Vec<String>,
    pub file: String,
    pub stage: String,
    pub kind: String,
    /// The behaviour version of the kind.
    pub version: u32,
    /// The key of the work: of a whole training, or the part that all items share.
    pub key: Digest,
    /// The outputs of the stages before it, by their names.
    pub upstream: BTreeMap<String, Upstream>,
    pub assets: BTreeMap<String, Fields>,
    /// The content of `File` parameters.
    pub files: BTreeMap<String, Blob>,
    pub work: BatchWork,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Upstream {
    pub outputs: BTreeMap<String, PortValue>,
    pub rejects: Vec<(Arc<str>, Reject)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BatchWork {
    /// The keys of the items of each shard.
    Items(Vec<Vec<Digest>>),
    /// One training.
    Training,
}

impl Batch {
    /// A batch of this program, to be filled in.
    pub fn new(key: Digest, work: BatchWork) -> Batch {
        Batch {
            format: FORMAT,
            begun: 0,
            manifest: String::new(),
            set: Vec::new(),
            file: String::new(),
            stage: String::new(),
            kind: String::new(),
            version: 0,
            key,
            upstream: BTreeMap::new(),
            assets: BTreeMap::new(),
            files: BTreeMap::new(),
            work,
        }
    }

    pub fn id(&self) -> Digest {
        Digest::of(&encode(self))
    }

    /// None if it is another batch, or of another program.
    pub fn decode(bytes: &[u8], id: &Digest) -> Option<Batch> {
        let batch = decode::<Batch>(bytes)?;
        (Digest::of(bytes) == *id && batch.format == FORMAT).then_some(batch)
    }

    pub fn shards(&self) -> u32 {
        match &self.work {
            BatchWork::Items(shards) => shards.len() as u32,
            BatchWork::Training => 1,
        }
    }
}

/// The part of a batch that one worker does.
#[derive(Clone, Debug)]
pub struct Share {
    pub batch: Batch,
    pub shard: u32,
}

impl Share {
    /// The keys of its items; none for a training.
    pub fn keys(&self) -> &[Digest] {
        match &self.batch.work {
            BatchWork::Items(shards) => shards.get(self.shard as usize).map_or(&[], Vec::as_slice),
            BatchWork::Training => &[],
        }
    }
}

/// The result of a shard, written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardResult {
    pub items: Vec<(Digest, ItemRecord)>,
    /// Items that failed without a verdict, by name.
    pub failed: Vec<(Arc<str>, Reject)>,
    pub by: Attempt,
}

impl ShardResult {
    /// The same for equal results: times and machines differ.
    pub fn summary(&self) -> Digest {
        let items = self.items.iter().map(|(key, record)| match record {
            ItemRecord::Done { fields, notes, .. } => {
                let seconds = 0.0;
                let (fields, notes) = (fields.clone(), notes.clone());
                (*key, ItemRecord::Done { fields, notes, seconds })
            }
            rejected => (*key, rejected.clone()),
        });
        Digest::of(&encode(&(items.collect::<Vec<_>>(), &self.failed)))
    }
}

/// One process that works on a shard. A job number of a scheduler does not identify it: a job may
/// be started twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: [u8; 16],
    pub machine: String,
    /// The name of the job for its scheduler; empty if it has none.
    pub job: String,
    /// Seconds since 1970, by the clock of its machine.
    pub begun: i64,
}

/// The end of an attempt without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptReport {
    /// Another job can continue.
    Later { has_moved: bool, why: String },
    /// No other attempt would succeed.
    Failed { message: String },
}

/// The key of a record of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    /// The result of a shard.
    Result(u32),
    /// The attempt with this number at a shard.
    Attempt(u32, u32),
    /// Its report.
    Report(u32, u32),
    /// The scope of the records of a shard: no worker reads those of the others.
    Scope(u32),
    /// The batch is cancelled.
    Cancel,
}

impl Name {
    pub fn of(self, batch: &Digest) -> Digest {
        let (what, shard, number) = match self {
            Name::Result(shard) => ("result of shard", shard, 0),
            Name::Attempt(shard, number) => ("attempt at shard", shard, number),
            Name::Report(shard, number) => ("report on shard", shard, number),
            Name::Scope(shard) => ("records of shard", shard, 0),
            Name::Cancel => ("cancel", 0, 0),
        };
        let mut sink = HashSink::default();
        sink.digest("batch", batch);
        sink.integer(what, i64::from(shard));
        sink.integer("number", i64::from(number));
        sink.finish()
    }
}

/// The name of the log of an attempt at a shard in the remote.
pub fn log_name(batch: &Digest, shard: u32, attempt: u32) -> String {
    format!("job-{}-{}-{}.jsonl", batch.short(), shard + 1, attempt + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_only_under_its_own_name() {
        let batch = Batch::new(Digest::of(b"key"), BatchWork::Items(vec![vec![Digest::of(b"a")]]));
        let bytes = encode(&batch);
        assert_eq!(Batch::decode(&bytes, &batch.id()), Some(batch.clone()));
        assert_eq!(Batch::decode(&bytes, &Digest::of(b"other")), None);
        let newer = Batch { format: FORMAT + 1, ..batch };
        assert_eq!(Batch::decode(&encode(&newer), &newer.id()), None);
    }

    #[test]
    fn every_record_of_a_batch_has_its_own_key() {
        let batches = [Digest::of(b"one"), Digest::of(b"other")];
        let mut names = vec![Name::Cancel];
        for shard in 0..3 {
            names.extend([Name::Result(shard), Name::Scope(shard)]);
            for number in 0..3 {
                names.extend([Name::Attempt(shard, number), Name::Report(shard, number)]);
            }
        }
        let keys = batches.iter().flat_map(|batch| names.iter().map(|name| name.of(batch)));
        let keys: std::collections::BTreeSet<Digest> = keys.collect();
        assert_eq!(keys.len(), 2 * names.len());
    }

    #[test]
    fn results_that_differ_in_times_and_machines_are_equal() {
        let result = |seconds: f32, machine: &str, code: &str| ShardResult {
            items: vec![(
                Digest::of(b"a"),
                ItemRecord::Done { fields: Fields::new(), notes: Vec::new(), seconds },
            )],
            failed: vec![("b".into(), Reject::new(code, "for a reason"))],
            by: Attempt {
                id: [seconds as u8; 16],
                machine: machine.to_owned(),
                job: String::new(),
                begun: seconds as i64,
            },
        };
        assert_eq!(result(1.0, "x", "bad").summary(), result(2.0, "y", "bad").summary());
        assert_ne!(result(1.0, "x", "bad").summary(), result(1.0, "x", "worse").summary());
    }
}
