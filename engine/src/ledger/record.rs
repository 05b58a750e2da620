//! The records in the index, and their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::event::{StageCounts, Status};
use bytes::Bytes;
use cache::{Digest, Table};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stage_core::key::{HashSink, Sink, StageKey};
use stage_core::{Fields, Reject, StageError};

use crate::reason::Reason;

/// Item key to [`ItemRecord`].
pub const ITEM: Table = Table(1);
/// Chunk key to [`ChunkRecord`].
pub const CHUNK: Table = Table(2);
/// Whole-stage key to [`StageRecord`].
pub const STAGE: Table = Table(3);
/// Pipeline and stage name to [`LastRecord`].
pub const LAST: Table = Table(4);
/// Run number to [`RunRecord`].
pub const RUN: Table = Table(5);
/// A gather's own parts, and projections of data sets: key to [`Fields`] or a digest.
pub const MEMO: Table = Table(6);
/// Stage kind, models and device to the batch size that fitted, in bytes.
pub const LIMIT: Table = Table(7);

/// An export to [`ExportRecord`].
pub const EXPORT: Table = Table(8);
/// A manifest to the exports of its last complete run.
pub const EXPORTS: Table = Table(9);

/// Whole-stage key of a training stage to [`CheckpointRecord`].
pub const CHECKPOINT: Table = Table(10);
/// A stage of a pipeline and its key without a parent to the key of its parent.
pub const PARENT: Table = Table(11);

/// A training stage of a pipeline to the [`StageKey`] that its last training began under.
pub const TRAINED_AS: Table = Table(31);

/// A period of GPU work to [`crate::gpu_hours::UsageRecord`].
pub const USAGE: Table = Table(12);
/// A kind of stage, its parameters and a device to [`crate::measure::Measure`].
pub const MEASURE: Table = Table(13);
/// Run number to [`crate::estimate::RunOutcome`].
pub const COST: Table = Table(14);
/// A run on a paid machine to [`crate::spending::Spent`].
pub const SPENT: Table = Table(15);
/// Whole-stage key of a training stage to the progress of its newest checkpoint: finished steps and
/// all steps.
pub const PROGRESS: Table = Table(16);

/// Key: a stage of a pipeline, and the number of a part. Value: the items that it had quarantined
/// when it failed by its limit, see `unrecorded`.
pub const EXCESS: Table = Table(21);

/// A stage of a pipeline to the output with which it last failed: see [`crate::failed_output`].
pub const JUDGED: Table = Table(48);

/// Run number to [`BegunRecord`], for a run that has not ended.
pub const BEGUN: Table = Table(24);

/// Whole-stage key of a training stage to [`StepTimes`].
pub const STEP_TIMES: Table = Table(25);

/// Whole-stage key to [`Previous`]: the parts of the key, to compare runs.
pub const MADE_OF: Table = Table(20);

/// A question about the items of a chunk, and the chunk, to [`PartRecord`].
pub const PART: Table = Table(26);

/// The present start of a machine to the [`stage_core::device::Devices`] that a worker found there.
pub const DEVICES: Table = Table(30);

/// The value of a part of a data set, kept as long as the part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    pub chunk: Digest,
    pub value: Bytes,
}

/// Whole-stage key of a training to the relation of its checkpoints here to those in the remote.
pub const MIRRORED: Table = Table(42);

/// Whole-stage key of a stage in a trial of a sweep to [`FailedRecord`]: it fails on every machine.
pub const FAILED: Table = Table(45);
/// The same for a failure that depends on limits, or says nothing about other machines; the key has
/// these limits too.
pub const FAILED_HERE: Table = Table(46);
/// Whole-stage key of a stage in a trial of a sweep to the number of runs here in which it failed for
/// a reason that may pass.
pub const TRIES: Table = Table(47);

/// The failure of a trial, for which the trial is to blame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedRecord {
    pub run: u64,
    pub message: String,
}

/// The checkpoints of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    pub pipeline: String,
    /// The run that saved the newest one.
    pub run: u64,
    /// The parent outcome of the training itself.
    pub parent: Option<Digest>,
    /// The newest first, then the one before it.
    pub states: Vec<Fields>,
    /// The time that saving the newest took.
    pub seconds: f64,
}

/// The outcome of one item's work. Failures and cancellations are never recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ItemRecord {
    /// The fields that the stage wrote, and its notes.
    Done {
        fields: Fields,
        notes: Vec<(String, u64)>,
        seconds: f32,
    },
    Rejected(Reject),
}

/// The outcome of a whole bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkRecord {
    /// `None` if every item of the bucket was quarantined.
    pub chunk: Option<Digest>,
    pub items: u32,
    pub rejects: Vec<(Arc<str>, Reject)>,
}

/// The value of an output port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PortValue {
    Dataset { root: Digest, items: u64 },
    Artifact(Fields),
}

/// The outcome of a stage as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    pub outputs: BTreeMap<String, PortValue>,
    pub rejects: Vec<(Arc<str>, Reject)>,
    /// The number of items, or 1.
    pub items: u64,
    pub notes: BTreeMap<String, u64>,
    /// The time that the work took when it was done.
    pub seconds: f64,
    /// For a stage on whole data sets that has quarantined items. The last field, so that older
    /// records without it can still be read.
    #[serde(deserialize_with = "or_none")]
    pub aside: Option<QuarantineRecord>,
    /// Parameters that were left to the machine, with the selected values: see
    /// `settled_key`. Only of work that was just done.
    #[serde(skip)]
    pub settled: BTreeMap<String, String>,
    /// The reason why this is no outcome: see [`stage_core::GatherOutput::failure`]. Never recorded
    /// under a key.
    #[serde(skip)]
    pub failure: Option<StageError>,
}

/// Details of the items that a stage has quarantined, beside their names and reasons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuarantineRecord {
    /// The number of items that arrived.
    pub of: u64,
    /// For each item the port, and the part that the stage saw: a stage that does not read names
    /// has the same outcome when they change. Empty if the stage reads them.
    pub seen: Vec<(String, Digest)>,
    /// The data sets that the names come from, by port.
    pub roots: BTreeMap<String, Digest>,
}

impl QuarantineRecord {
    /// The number of quarantined items and of all items, for the limit of the stage. An item that a
    /// person has dropped counts as neither.
    pub fn counted(&self, rejects: &[(Arc<str>, Reject)]) -> (u64, u64) {
        let faults = rejects.iter().filter(|(_, reject)| reject.is_fault()).count();
        (faults as u64, self.of.saturating_sub((rejects.len() - faults) as u64))
    }
}

fn or_none<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<T>::deserialize(from).unwrap_or_default())
}

/// The last export, durable unlike the stat index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportRecord {
    pub value: PortValue,
    /// The licences that are written beside an artifact.
    pub licenses: BTreeSet<String>,
    /// The boot id of the machine; empty if unknown.
    pub boot: String,
    /// From here on, older records may end.
    #[serde(deserialize_with = "or_none")]
    pub left_out: Option<LeftOut>,
    #[serde(deserialize_with = "or_none")]
    pub after: Option<AfterExport>,
}

impl ExportRecord {
    /// Tests if another export would write the same files.
    pub fn is_of_the_same(&self, other: &ExportRecord) -> bool {
        let ExportRecord { value, licenses, boot, left_out: _, after: _ } = self;
        (value, licenses, boot) == (&other.value, &other.licenses, &other.boot)
    }

    /// The contents of the files that somebody has changed, by path.
    pub fn kept(&self) -> Option<&BTreeMap<String, Digest>> {
        self.after.as_ref().map(|after| &after.kept)
    }
}

/// The state of the files after an export, as far as it has to outlive the stat index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AfterExport {
    /// Nanoseconds since 1970.
    pub ended_ns: i64,
    /// The contents of the files that somebody has changed, by path.
    pub kept: BTreeMap<String, Digest>,
}

/// Items that cannot be exported under their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub items: u64,
    /// The number of all items.
    pub of: u64,
    /// The first of them, and its reason.
    pub first: String,
}

impl LeftOut {
    /// Adds one more.
    pub fn note(left_out: &mut Option<LeftOut>, of: u64, item: &str, why: &str) {
        let all = left_out.get_or_insert_with(|| LeftOut {
            items: 0,
            of,
            first: format!("item `{item}`: {why}"),
        });
        all.items += 1;
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { items, of, first } = self;
        let before = if *items == 1 { ": " } else { "; the first is " };
        write!(formatter, "{items} of {of} items cannot be exported{before}{first}")
    }
}

/// The present and the previous state of a stage of a pipeline, for reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRecord {
    pub key: StageKey,
    /// The data sets that arrived, by port, as roots.
    pub roots: BTreeMap<String, Vec<Digest>>,
    pub run: u64,
    /// The reasons of that run.
    pub reasons: Vec<Reason>,
    /// The state before.
    pub previous: Option<Box<Previous>>,
}

/// A key, and its roots.
pub type Previous = (StageKey, BTreeMap<String, Vec<Digest>>);

/// One run, for `log`, `status` and garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub run: u64,
    pub pipeline: String,
    /// Seconds since 1970 by the machine's clock.
    pub started: i64,
    pub seconds: f64,
    pub status: Status,
    pub stages: BTreeMap<String, StageCounts>,
    /// The whole-stage keys that this run reached.
    pub keys: BTreeMap<String, Digest>,
    pub licenses: BTreeSet<String>,
    pub pinned: bool,
}

/// The recent steps of a training in seconds; those with a validation are longer and kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    pub plain: Option<f64>,
    pub validating: Option<f64>,
}

/// A run that has work. Its [`RunRecord`] replaces this one; a record that stays belongs to a run
/// that is running or was killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BegunRecord {
    pub run: u64,
    pub pipeline: String,
    /// Seconds since 1970 by the clock of the machine.
    pub started: i64,
}

/// The key of a pipeline's stage in [`LAST`]: names, since paths must not matter.
pub fn last_key(pipeline: &str, stage: &str) -> Digest {
    let mut sink = HashSink::default();
    sink.text("pipeline", pipeline);
    sink.text("stage", stage);
    sink.finish()
}

/// The key in [`PARENT`] for a stage with this key without a parent.
pub fn parent_key(pipeline: &str, stage: &str, base: &Digest) -> Digest {
    let mut sink = HashSink::default();
    sink.text("parent in pipeline", pipeline);
    sink.text("stage", stage);
    sink.digest("key", base);
    sink.finish()
}

pub fn run_key(run: u64) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&run.to_be_bytes());
    Digest::from_bytes(bytes)
}

pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    // Serialising plain structs to memory cannot fail in postcard.
    postcard::to_stdvec(record).unwrap_or_default()
}

/// An unreadable record counts as missing: its work runs again.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// The digests of a list that [`encode`] has written, without a look at each byte.
pub fn decode_digests(bytes: &[u8]) -> Option<impl Iterator<Item = Digest>> {
    let (count, bytes) = postcard::take_from_bytes::<usize>(bytes).ok()?;
    let (digests, rest) = bytes.as_chunks::<32>();
    let is_whole = digests.len() == count && rest.is_empty();
    is_whole.then(|| digests.iter().map(|bytes| Digest::from_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_digests_is_read_like_any_record() {
        for count in [0, 1, 127, 128, 700] {
            let all: Vec<Digest> =
                (0..count).map(|at: u32| Digest::of(&at.to_le_bytes())).collect();
            let mut bytes = encode(&all);
            assert_eq!(decode_digests(&bytes).map(Iterator::collect), Some(all.clone()));
            assert_eq!(decode::<Vec<Digest>>(&bytes), Some(all));
            bytes.push(0);
            assert!(decode_digests(&bytes).is_none());
            bytes.truncate(bytes.len().saturating_sub(2));
            assert!(decode_digests(&bytes).is_none());
        }
    }

    #[test]
    fn a_stage_record_without_what_was_set_aside_is_still_read() {
        #[derive(Serialize)]
        struct Before {
            outputs: BTreeMap<String, PortValue>,
            rejects: Vec<(Arc<str>, Reject)>,
            items: u64,
            notes: BTreeMap<String, u64>,
            seconds: f64,
        }
        let before = Before {
            outputs: [("output".to_owned(), PortValue::Artifact(Fields::new()))].into(),
            rejects: vec![("a".into(), Reject::new("bad", "for a reason"))],
            items: 3,
            notes: [("note".to_owned(), 2)].into(),
            seconds: 1.5,
        };
        let read = decode::<StageRecord>(&encode(&before));
        let expected = StageRecord {
            outputs: before.outputs,
            rejects: before.rejects,
            items: 3,
            notes: before.notes,
            seconds: 1.5,
            ..StageRecord::default()
        };
        assert_eq!(read, Some(expected.clone()));
        let aside = Some(QuarantineRecord { of: 7, ..QuarantineRecord::default() });
        let with = StageRecord { aside, ..expected };
        assert_eq!(decode(&encode(&with)), Some(with));
    }

    #[test]
    fn no_two_kinds_of_records_share_a_table() {
        let tables = [
            ITEM,
            CHUNK,
            STAGE,
            LAST,
            RUN,
            MEMO,
            LIMIT,
            EXPORT,
            EXPORTS,
            CHECKPOINT,
            PARENT,
            USAGE,
            MEASURE,
            COST,
            SPENT,
            PROGRESS,
            EXCESS,
            JUDGED,
            BEGUN,
            STEP_TIMES,
            MADE_OF,
            PART,
            TRAINED_AS,
            DEVICES,
            remote::KNOWN,
            crate::executor::batch::BATCH,
            remote::IGNORED,
            MIRRORED,
            FAILED,
            FAILED_HERE,
            TRIES,
        ];
        let numbers: BTreeSet<u8> = tables.iter().map(|table| table.0).collect();
        assert_eq!(numbers.len(), tables.len());
    }
}
