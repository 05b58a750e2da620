//! Unused files of a remote.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cache::Digest;

use crate::error::RemoteError;
use crate::layout;
use crate::outcome::{self, Outcome};
use crate::remote::Remote;
use crate::storage::ListedFile;

/// The files of a remote that nothing needs: see [`Remote::garbage`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnusedFiles {
    /// The names of unused files.
    pub unused: Vec<String>,
    /// The size of the unused files.
    pub bytes: u64,
    /// The names of odd entries, each with what it is not. They stay.
    pub odd: Vec<(String, &'static str)>,
}

/// Younger files may belong to a push that is still running.
const GRACE: i64 = 24 * 3_600;

/// If the newest checkpoint of a training is damaged, the one before it is used.
const KEPT: usize = 2;

impl Remote {
    /// Finds unused files: leftovers of interrupted pushes, and, with an age in seconds, older
    /// outcomes and logs with the packs and objects that only those outcomes need.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files.
    pub fn garbage(&self, older_than: Option<i64>) -> Result<UnusedFiles, RemoteError> {
        let now = self.cache.fs().now() / 1_000_000_000;
        let all = self.everything()?;
        let indexes = self.indexes(&all)?;
        let is_old =
            |listed: &ListedFile| older_than.is_some_and(|age| listed.modified < now - age);
        let (mut unused, mut used_packs) = self.outcomes(&all, is_old)?;
        let superseded = self.superseded(&all, &mut used_packs)?;
        let labelled: HashSet<Digest> = all
            .iter()
            .filter(|listed| listed.name.starts_with(layout::KNOWN))
            .filter_map(|listed| layout::digest_of(&listed.name))
            .collect();
        // A pack without outcomes may still have outcomes of single items.
        let newest = newest(&all);
        let is_kept = |id: &Digest| {
            let written = newest.get(id).copied().unwrap_or(0);
            if !indexes.contains_key(id) {
                written > now - GRACE
            } else if used_packs.contains(id) {
                true
            } else if superseded.contains(id) && !labelled.contains(id) {
                written > now - GRACE
            } else {
                older_than.is_none_or(|age| written >= now - age)
            }
        };
        let live: HashSet<Digest> = indexes
            .iter()
            .filter(|(id, _)| is_kept(id))
            .flat_map(|(_, index)| index.large().map(|(digest, _)| digest))
            .collect();
        for listed in &all {
            let name = listed.name.as_str();
            let folder = name.split('/').next().unwrap_or_default();
            let is_young = listed.modified > now - GRACE;
            let is_used = match folder {
                layout::PACKS => {
                    !layout::is_of_pack(name) || layout::pack_of(name).is_none_or(|id| is_kept(&id))
                }
                layout::KNOWN => layout::digest_of(name).is_none_or(|id| is_kept(&id)),
                layout::OBJECTS => {
                    is_young || layout::digest_of(name).is_none_or(|id| live.contains(&id))
                }
                _ => true,
            };
            if !is_used || (layout::is_unfinished(name) && !is_young) {
                unused.insert(name);
            }
        }
        // It may be what uses the others.
        if let Some((name, why)) = self.unreadable().into_iter().next() {
            return Err(self.refused(format!("`{name}`: {why}")));
        }
        let bytes = all.iter().filter(|listed| unused.contains(listed.name.as_str()));
        let bytes = bytes.map(|listed| listed.size).sum();
        let mut unused: Vec<String> = unused.into_iter().map(str::to_owned).collect();
        unused.sort_by_key(|name| rank(name));
        let odd = self.odd()?.into_iter().map(|name| {
            let expected = layout::expected(&name);
            (name, expected)
        });
        Ok(UnusedFiles { unused, bytes, odd: odd.collect() })
    }

    /// The names of old outcomes and logs, and the packs of all other outcomes.
    fn outcomes<'a>(
        &self,
        all: &'a [ListedFile],
        is_old: impl Fn(&ListedFile) -> bool,
    ) -> Result<(BTreeSet<&'a str>, HashSet<Digest>), RemoteError> {
        let (mut old, mut used_packs) = (BTreeSet::new(), HashSet::new());
        for listed in all {
            let is = |folder: &str| layout::is_in(&listed.name, folder);
            let key = is(layout::RESULTS).then(|| layout::digest_of(&listed.name)).flatten();
            let last = listed.name.rsplit('/').next().unwrap_or_default();
            let is_log = is(layout::LOGS) && layout::is_log(last);
            if (key.is_some() || is_log) && is_old(listed) {
                old.insert(listed.name.as_str());
            } else if let Some(key) = key {
                let found = self.place.get(&listed.name, outcome::MOST_BYTES);
                let found = found.map_err(|refusal| self.give_up(refusal))?;
                let outcome = found.and_then(|bytes| Outcome::decode(&bytes, &key));
                used_packs.extend(outcome.into_iter().flat_map(|outcome| outcome.packs));
            }
        }
        Ok((old, used_packs))
    }

    /// Removes unused files.
    ///
    /// # Errors
    ///
    /// If the remote does not answer, or refuses to remove a file. Others may be gone by then.
    pub fn remove(&self, collected: &UnusedFiles) -> Result<(), RemoteError> {
        for name in &collected.unused {
            self.place.remove(name).map_err(|refusal| self.give_up(refusal))?;
        }
        Ok(())
    }

    /// The packs of all checkpoints. Those of the newest two of each unfinished training are used. The
    /// records stay: their numbers keep older attempts off.
    fn superseded(
        &self,
        all: &[ListedFile],
        used_packs: &mut HashSet<Digest>,
    ) -> Result<HashSet<Digest>, RemoteError> {
        let mut trainings: BTreeMap<Digest, BTreeSet<u64>> = BTreeMap::new();
        for (key, number) in all.iter().filter_map(|file| layout::checkpoint_of(&file.name)) {
            trainings.entry(key).or_default().insert(number);
        }
        let mut packs = HashSet::new();
        for (key, numbers) in &trainings {
            packs.extend(self.packs_of_checkpoints(key, numbers)?);
            if !all.iter().any(|file| file.name == layout::result(key)) {
                let newest = numbers.iter().rev().take(KEPT).copied().collect();
                used_packs.extend(self.packs_of_checkpoints(key, &newest)?);
            }
        }
        Ok(packs)
    }
}

/// The time of the newest file of each pack.
fn newest(all: &[ListedFile]) -> BTreeMap<Digest, i64> {
    let mut newest: BTreeMap<Digest, i64> = BTreeMap::new();
    for listed in all {
        if let Some(id) = layout::pack_of(&listed.name) {
            let age = newest.entry(id).or_default();
            *age = (*age).max(listed.modified);
        }
    }
    newest
}

/// Outcomes are removed first, and an index before its volumes: so nothing refers to a removed
/// file.
fn rank(name: &str) -> u8 {
    match name.split('/').next().unwrap_or_default() {
        layout::RESULTS => 0,
        layout::KNOWN => 1,
        layout::PACKS if name.ends_with("/INDEX") => 2,
        _ => 3,
    }
}
