//! The objects that the jobs of a batch read from the remote.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use stage_core::Item;
use stage_core::key::ItemReads;

use crate::pipeline::Reads;
use crate::run::message::{GatherSource, GatherSources};
use crate::store::{ReadError, Store};

#[derive(Default)]
pub struct Inputs {
    /// The data sets.
    pub roots: Vec<Digest>,
    pub objects: Vec<Digest>,
    /// Of a training: everything that it reads.
    pub ports: Option<GatherSources>,
}

/// The objects of items that a stage reads.
pub fn objects<'a>(reads: &ItemReads, items: impl Iterator<Item = &'a Item>) -> BTreeSet<Digest> {
    let mut objects = BTreeSet::new();
    for item in items {
        objects.extend(reads.see(item).to_item().fields.blobs().map(|blob| blob.digest));
    }
    objects
}

impl Inputs {
    /// All of them, with the tables of the data sets.
    pub fn all(self, store: &Store) -> Result<BTreeSet<Digest>, ReadError> {
        let mut all = tables(store, &self.roots)?;
        all.extend(self.objects);
        for source in self.ports.iter().flat_map(BTreeMap::values).flatten() {
            all.extend(read_by(store, source)?);
        }
        Ok(all)
    }
}

fn tables(store: &Store, roots: &[Digest]) -> Result<BTreeSet<Digest>, ReadError> {
    let mut tables = BTreeSet::new();
    for root in roots {
        tables.insert(*root);
        tables.extend(store.dataset(root)?.buckets.iter().map(|bucket| bucket.chunk));
    }
    Ok(tables)
}

fn read_by(store: &Store, source: &GatherSource) -> Result<BTreeSet<Digest>, ReadError> {
    let mut wanted = BTreeSet::new();
    match source {
        GatherSource::Artifact { fields, .. } => {
            wanted.extend(fields.blobs().map(|blob| blob.digest));
        }
        GatherSource::Dataset { root, reads, .. } => {
            for bucket in store.dataset(root)?.buckets {
                let items = store.chunk(&bucket.chunk)?.items;
                match reads {
                    Reads::All => wanted.extend(
                        items.iter().flat_map(|item| item.fields.blobs()).map(|b| b.digest),
                    ),
                    Reads::Fields { names, id } => {
                        wanted.extend(objects(&ItemReads::new(names, *id), items.iter()));
                    }
                }
            }
        }
    }
    Ok(wanted)
}
