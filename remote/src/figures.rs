//! The contents of a remote by kind: files, sizes, and logs of runs.

use std::collections::{BTreeMap, HashSet};

use crate::error::RemoteError;
use crate::layout;
use crate::remote::Remote;
use crate::storage::ListedFile;

/// The numbers and sizes of files in a remote, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of packs.
    pub packs: u64,
    /// The size of all files of packs.
    pub pack_bytes: u64,
    /// The number of large objects.
    pub objects: u64,
    /// The size of all large objects.
    pub object_bytes: u64,
    /// The number of outcomes.
    pub outcomes: u64,
    /// The number of logs of runs.
    pub logs: u64,
    /// The size of all files.
    pub bytes: u64,
}

impl Remote {
    /// All files of the remote; none if it has not begun. Another folder is refused: its files are
    /// not ours.
    pub(crate) fn everything(&self) -> Result<Vec<ListedFile>, RemoteError> {
        if !self.place.place().can_list() {
            return Err(self.refused("it cannot list its files"));
        }
        let all = self.place.list("").map_err(|refusal| self.give_up(refusal))?;
        let is_file_of_others = |listed: &ListedFile| !layout::is_unfinished(&listed.name);
        if !self.is_begun()?
            && !all.iter().any(|listed| listed.name == layout::MARK)
            && all.iter().any(is_file_of_others)
        {
            let (mark, line) = (layout::MARK, layout::FORMAT.trim_end());
            let why = format!(
                "it has files but no `{mark}`, so it is not a remote; if it was one, write the line \
                 `{line}` into this file"
            );
            return Err(self.refused(&why));
        }
        self.state().is_listed = true;
        Ok(all)
    }

    /// Fails for a folder of other files; an empty one may become a remote.
    ///
    /// # Errors
    ///
    /// If it is a folder of other files, or if the remote does not answer.
    pub fn require_mark(&self) -> Result<(), RemoteError> {
        if !self.is_begun()? && self.place.place().can_list() {
            self.everything()?;
        }
        Ok(())
    }

    /// The names of folders and pipes in the place of files, and of files in the place of folders.
    pub(crate) fn odd(&self) -> Result<Vec<String>, RemoteError> {
        self.place.odd().map_err(|refusal| self.give_up(refusal))
    }

    /// The files and folders that could not be read so far, with the reasons.
    pub(crate) fn unreadable(&self) -> BTreeMap<String, String> {
        self.place.place().unreadable()
    }

    /// Counts the files of the remote.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files.
    pub fn figures(&self) -> Result<Figures, RemoteError> {
        let mut figures = Figures::default();
        let mut packs = HashSet::new();
        for ListedFile { name, size, .. } in self.everything()? {
            figures.bytes += size;
            let (folder, _) = name.split_once('/').unwrap_or_default();
            match folder {
                layout::PACKS => {
                    packs.extend(layout::pack_of(&name));
                    figures.pack_bytes += size;
                }
                layout::OBJECTS => {
                    figures.objects += 1;
                    figures.object_bytes += size;
                }
                layout::RESULTS => figures.outcomes += 1,
                layout::LOGS => figures.logs += 1,
                _ => {}
            }
        }
        figures.packs = packs.len() as u64;
        Ok(figures)
    }

    /// The names and contents of logs of runs.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files.
    pub fn logs(&self) -> Result<Vec<ListedFile>, RemoteError> {
        let mut logs = self.everything()?;
        logs.retain(|log| log.name.split('/').next() == Some(layout::LOGS));
        logs.iter_mut().for_each(|log| {
            log.name = log.name.rsplit('/').next().unwrap_or_default().to_owned();
        });
        logs.retain(|log| layout::is_log(&log.name));
        Ok(logs)
    }

    /// The bytes of a log; none if there is no such log.
    ///
    /// # Errors
    ///
    /// If the remote cannot be reached, refuses a request, or does not answer in time.
    pub fn log(&self, name: &str) -> Result<Option<bytes::Bytes>, RemoteError> {
        const MOST: u64 = 1 << 30;
        if layout::is_log(name) {
            let found = self.place.get(&layout::log(name), MOST);
            found.map_err(|refusal| self.give_up(refusal))
        } else {
            Ok(None)
        }
    }
}
