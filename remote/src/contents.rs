//! The contents of a verified remote, read without storing anything on this machine.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use cache::{ArchiveEntry, Digest, ENTRY_HEADER, archive_entries};

use crate::error::RemoteError;
use crate::index::{ObjectLocation, PackIndex};
use crate::layout;
use crate::outcome::{MOST_BYTES, Outcome};
use crate::remote::Remote;
use crate::verify::VerifyReport;

/// The intact contents of a remote: see [`Remote::contents`].
pub struct Contents<'a> {
    remote: &'a Remote,
    verified: &'a VerifyReport,
    /// The packs of each object.
    packs: HashMap<Digest, Vec<Digest>>,
}

impl Remote {
    /// The intact contents of a remote that was just verified.
    pub fn contents<'a>(&'a self, verified: &'a VerifyReport) -> Contents<'a> {
        let mut packs: HashMap<Digest, Vec<Digest>> = HashMap::new();
        for index in verified.indexes.values() {
            let small = index.small().map(|place| place.digest);
            for digest in small.chain(index.large().map(|(digest, _)| digest)) {
                packs.entry(digest).or_default().push(index.id);
            }
        }
        Contents { remote: self, verified, packs }
    }
}

impl Contents<'_> {
    /// The intact outcomes that were read, with intact packs.
    ///
    /// # Errors
    ///
    /// If the remote cannot be reached, refuses a request, or does not answer in time.
    pub fn outcomes(&self) -> Result<Vec<Outcome>, RemoteError> {
        let names = self.verified.right().filter(|name| layout::is_in(name, layout::RESULTS));
        let keys: Vec<Digest> = names.filter_map(layout::digest_of).collect();
        let found = self.remote.each(&keys, |key| self.remote.read_outcome(key));
        let found: Vec<Option<Outcome>> = found.into_iter().collect::<Result<_, RemoteError>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Tests if any pack has this object.
    pub fn has(&self, digest: &Digest) -> bool {
        self.packs.contains_key(digest)
    }

    /// Tests if a machine that reads the outcome finds this object.
    pub fn leads_to(&self, outcome: &Outcome, digest: &Digest) -> bool {
        let packs = self.packs.get(digest);
        packs.is_some_and(|packs| packs.iter().any(|pack| outcome.packs.contains(pack)))
    }

    /// The intact bytes of those of these objects that the remote has.
    ///
    /// # Errors
    ///
    /// If the remote cannot be reached, refuses a request, or does not answer in time.
    pub fn read(&self, digests: &HashSet<Digest>) -> Result<HashMap<Digest, Bytes>, RemoteError> {
        let digests: Vec<Digest> = digests.iter().copied().collect();
        let read = self.remote.each(&digests, |digest| self.read_one(digest));
        let mut found = HashMap::new();
        for (digest, bytes) in digests.iter().zip(read) {
            found.extend(bytes?.map(|bytes| (*digest, bytes)));
        }
        Ok(found)
    }

    fn read_one(&self, digest: &Digest) -> Result<Option<Bytes>, RemoteError> {
        let indexes: &BTreeMap<Digest, PackIndex> = &self.verified.indexes;
        let packs = self.packs.get(digest).into_iter().flatten();
        for index in packs.filter_map(|pack| indexes.get(pack)) {
            let bytes = match index.find(digest) {
                Some(ObjectLocation::Small(place)) => {
                    let (offset, length) = (u64::from(place.offset), u64::from(place.length));
                    let whole = (place.volume, offset, ENTRY_HEADER + length);
                    let part = self.remote.whole_part(&index.id, whole.0, whole.1, whole.2)?;
                    part.and_then(|part| object_in(place.volume, offset, &part))
                }
                Some(ObjectLocation::Large { .. }) => {
                    let found = self.remote.place.get(&layout::object(digest), MOST_BYTES);
                    found.map_err(|refusal| self.remote.give_up(refusal))?
                }
                None => None,
            };
            if let Some(bytes) = bytes.filter(|bytes| Digest::of(bytes) == *digest) {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// The object in an entry of a volume.
fn object_in(volume: u32, offset: u64, part: &Bytes) -> Option<Bytes> {
    let (entries, _) = archive_entries(volume, offset, part);
    entries.into_iter().find_map(|entry| match entry {
        ArchiveEntry::Object { bytes, .. } => Some(bytes),
        ArchiveEntry::Record { .. } => None,
    })
}
