//! Files that a remote is known to have, and that somebody may have removed since.

use std::collections::BTreeSet;

use cache::{CacheError, Digest};

use crate::error::RemoteError;
use crate::index::{ObjectLocation, PackIndex};
use crate::known::{Label, There};
use crate::layout;
use crate::push::log_key;
use crate::remote::Remote;
use crate::storage::ListedFile;

/// More packs than this are looked for by listing everything.
const MOST_PACKS: usize = 32;

impl Remote {
    /// Forgets what the remote was known to have and has no longer: somebody may have removed files.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files. Or if the index of the cache cannot be
    /// read or written.
    pub fn look_again(&self) -> Result<(), RemoteError> {
        if !self.place.place().can_list() {
            return Ok(());
        }
        let all = self.everything()?;
        let mut there = There::default();
        for ListedFile { name, size, .. } in &all {
            let (folder, last) = (name.split('/').next(), name.rsplit('/').next());
            let last = last.unwrap_or_default();
            match (folder, layout::digest_of(name), layout::pack_of(name)) {
                (Some(layout::RESULTS), Some(key), _) => _ = there.outcomes.insert(key),
                (Some(layout::OBJECTS), Some(digest), _) => {
                    there.objects.insert((digest, *size));
                }
                (Some(layout::KNOWN), ..) => there.labels.extend(layout::label_of(name)),
                (Some(layout::LOGS), ..) => _ = there.outcomes.insert(log_key(last)),
                (Some(layout::PACKS), _, Some(id)) if last == "INDEX" => {
                    there.packs.insert(id);
                }
                (Some(layout::PACKS), _, Some(id)) => {
                    if let Some(number) = layout::volume_number(&id, name) {
                        there.volumes.insert((id, (number, *size)));
                    }
                }
                _ => {}
            }
        }
        let unreadable = self.unreadable();
        let is_hidden = |name: &str| {
            unreadable.keys().any(|hidden| hidden == name || layout::is_in(name, hidden))
        };
        let packs: Vec<Digest> = self.with_known(|known| {
            known.add_hidden(&mut there, &is_hidden);
            known.keep_only(&self.cache, &self.url, &there)?;
            Ok(known.packs().map(|pack| pack.id).collect())
        })?;
        self.keep_labels(there.labels.iter().copied())?;
        let mut state = self.state();
        state.checked.extend(packs);
        state.labels = Some(there.labels);
        // Packs may be learned again, although they name objects that are gone.
        state.large = Some(there.objects);
        Ok(())
    }

    /// The labels that somebody has removed, as far as everything was listed before.
    pub(crate) fn missing_labels(&self) -> Result<Vec<Label>, CacheError> {
        let (there, scopes) = {
            let state = self.state();
            match &state.labels {
                Some(there) => (there.clone(), state.scopes.clone()),
                None => return Ok(Vec::new()),
            }
        };
        self.with_known(|known| Ok(known.missing_labels(&there, &scopes)))
    }

    /// Learns all packs that the remote has, also those that it lacked for a time.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files. Or if the index of the cache cannot be
    /// read or written.
    pub fn learn_all(&self) -> Result<(), RemoteError> {
        if !self.place.place().can_list() || !self.is_begun()? {
            return Ok(());
        }
        let all = self.everything()?;
        let indexes = all.iter().filter(|listed| listed.name.ends_with("/INDEX"));
        let packs: BTreeSet<Digest> =
            indexes.filter_map(|listed| layout::pack_of(&listed.name)).collect();
        self.learn(&packs.into_iter().collect::<Vec<_>>()).map(drop)
    }

    /// Looks for the packs with these objects, once each. If one is gone, everything is listed.
    pub(crate) fn look_for_packs<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Digest>,
    ) -> Result<(), RemoteError> {
        let checked = self.state().checked.clone();
        let mut packs: BTreeSet<Digest> = BTreeSet::new();
        let mut large: BTreeSet<(Digest, u64)> = BTreeSet::new();
        let indexes: Vec<PackIndex> = self.with_known(|known| {
            for digest in objects {
                let Some((pack, found)) = known.find(digest) else { continue };
                if !checked.contains(&pack) {
                    packs.insert(pack);
                    if let ObjectLocation::Large { size } = found {
                        large.insert((*digest, size));
                    }
                }
            }
            Ok(packs.iter().filter_map(|id| known.pack(id).cloned()).collect())
        })?;
        if indexes.is_empty() || !self.place.place().can_list() {
            return Ok(());
        }
        if indexes.len() > MOST_PACKS || large.len() > MOST_PACKS {
            return self.look_again();
        }
        let large: Vec<(Digest, u64)> = large.into_iter().collect();
        let are_there = self.each(&indexes, |index| self.has_pack(index));
        let sizes = self.each(&large, |(digest, size)| {
            let found = self.place.size(&layout::object(digest));
            Ok(found.map_err(|refusal| self.give_up(refusal))? == Some(*size))
        });
        let are_there: Result<Vec<bool>, RemoteError> =
            are_there.into_iter().chain(sizes).collect();
        if are_there?.contains(&false) {
            return self.look_again();
        }
        self.state().checked.extend(packs);
        Ok(())
    }

    /// Tests if the remote has the files of a pack, without reading them.
    fn has_pack(&self, index: &PackIndex) -> Result<bool, RemoteError> {
        let listed = self.place.list(&layout::pack(&index.id));
        let listed = listed.map_err(|refusal| self.give_up(refusal))?;
        let has = |name: &str, size: Option<u64>| {
            listed.iter().any(|file| file.name == name && size.is_none_or(|size| file.size == size))
        };
        Ok(has(&layout::index(&index.id), None)
            && index
                .volumes()
                .all(|(number, size)| has(&layout::volume(&index.id, number), Some(size))))
    }
}
