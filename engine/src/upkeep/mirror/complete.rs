//! Outcomes in a remote that refer to objects which it lacks: no machine can use them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use remote::{Contents, Outcome, Remote, RemoteError, VerifyReport};
use stage_core::Blob;
use stage_core::{Chunk, Dataset, Fields};

use crate::record::{PortValue, STAGE, StageRecord, decode};

/// The objects of an outcome.
struct OutcomeObjects {
    outcome: Outcome,
    objects: HashSet<Digest>,
}

/// Adds the outcomes to the damage that lack objects, or do not name the pack that has them.
/// Recordings are read where they are, and no remote has them: `is_in_a_source` knows those of this
/// project.
pub fn find_incomplete(
    remote: &Remote,
    verified: &mut VerifyReport,
    is_in_a_source: &dyn Fn(&Digest) -> bool,
) -> Result<(), RemoteError> {
    let contents = remote.contents(verified);
    let (mut all, mut in_place) = (Vec::new(), HashSet::<Digest>::new());
    let mut tables = HashMap::new();
    for outcome in contents.outcomes()? {
        let record = decode::<StageRecord>(&outcome.value).filter(|_| outcome.table == STAGE.0);
        let mut objects = HashSet::new();
        for value in record.iter().flat_map(|record| record.outputs.values()) {
            let mut blobs = BlobsByField::new();
            match value {
                PortValue::Artifact(fields) => add(fields, &mut blobs),
                PortValue::Dataset { root, .. } => {
                    for chunk in reach(&contents, &mut tables, root, &mut objects)? {
                        chunk.items.iter().for_each(|item| add(&item.fields, &mut blobs));
                    }
                }
            }
            for blobs in blobs.into_values() {
                // Such as adopted tokens.
                if !blobs.iter().any(|blob| contents.has(blob)) {
                    in_place.extend(&blobs);
                }
                objects.extend(blobs);
            }
        }
        all.push(OutcomeObjects { outcome, objects });
    }
    let mut incomplete = Vec::new();
    for OutcomeObjects { outcome, objects } in all {
        let unnamed: Vec<Digest> =
            objects.into_iter().filter(|object| !contents.leads_to(&outcome, object)).collect();
        let is_in_place = |object| in_place.contains(object) || is_in_a_source(object);
        let missing =
            unnamed.iter().filter(|object| contents.has(object) || !is_in_place(object)).count();
        if missing > 0 {
            incomplete.push((outcome.key, missing));
        }
    }
    for (key, missing) in incomplete {
        let why = match missing {
            1 => "1 object of this result is missing".to_owned(),
            _ => format!("{missing} objects of this result are missing"),
        };
        verified.add_outcome(&key, why);
    }
    Ok(())
}

type BlobsByField = HashMap<Arc<str>, HashSet<Digest>>;

/// Adds all blobs but recordings, which are read where they are.
fn add(fields: &Fields, blobs: &mut BlobsByField) {
    for (name, value) in fields.iter() {
        if let Some(blob) = value.as_blob().filter(|blob| &*blob.kind != Blob::RECORDING) {
            blobs.entry(name.clone()).or_default().insert(blob.digest);
        }
    }
}

/// Adds the tables of a data set to the objects. Returns its items, as far as its tables are there.
fn reach(
    contents: &Contents,
    tables: &mut HashMap<Digest, Bytes>,
    root: &Digest,
    objects: &mut HashSet<Digest>,
) -> Result<Vec<Chunk>, RemoteError> {
    let mut read = |digests: HashSet<Digest>| -> Result<Vec<Bytes>, RemoteError> {
        let new = digests.iter().copied().filter(|digest| !tables.contains_key(digest)).collect();
        tables.extend(contents.read(&new)?);
        Ok(digests.iter().filter_map(|digest| tables.get(digest).cloned()).collect())
    };
    objects.insert(*root);
    let lists = read([*root].into())?;
    let dataset = lists.first().and_then(|bytes| Dataset::decode(bytes).ok()).unwrap_or_default();
    let chunks: HashSet<Digest> = dataset.buckets.iter().map(|bucket| bucket.chunk).collect();
    objects.extend(&chunks);
    let chunks = read(chunks)?;
    Ok(chunks.iter().filter_map(|bytes| Chunk::decode(bytes).ok()).collect())
}
