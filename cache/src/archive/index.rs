//! The index of an archive: the file that turns volumes into an archive.
//!
//! Text: a mark, the name of the archive, those of its bases, a line per volume, and a checksum of
//! all that. It is written last, so a torn archive has none.

use std::fmt::Write;

use camino::{Utf8Path, Utf8PathBuf};

use crate::fs::Fs;
use crate::pack::entry::checksum;
use crate::{CacheError, Digest};

const NAME: &str = "ARCHIVE";
/// The first line before the format number.
const MARK: &str = "throstle archive ";
const FORMAT: u32 = 1;
/// The longest accepted index, with some ten thousand volumes.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Identifies the archive; drawn when it is written.
    pub id: Digest,
    /// The archives with the entries that are left out of this one.
    pub bases: Vec<Digest>,
    /// The cache lacked objects that its records refer to.
    pub has_losses: bool,
    /// In the order of their numbers, starting at 1.
    pub volumes: Vec<Volume>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    pub bytes: u64,
    pub entries: u64,
}

/// The file of a volume; names are never taken from an archive.
pub fn volume_path(folder: &Utf8Path, number: u32) -> Utf8PathBuf {
    folder.join(format!("volume-{number:04}.pack"))
}

impl Index {
    pub fn new(fs: &dyn Fs, bases: Vec<Digest>) -> Index {
        let parts = [fs.now() as u64, fs.random(), fs.random()].map(u64::to_le_bytes);
        Index { id: Digest::of(&parts.concat()), bases, has_losses: false, volumes: Vec::new() }
    }

    pub fn is_there(fs: &dyn Fs, folder: &Utf8Path) -> Result<bool, CacheError> {
        Ok(fs.exists(&folder.join(NAME))?)
    }

    /// The index of the archive in a folder.
    pub fn read(fs: &dyn Fs, folder: &Utf8Path) -> Result<Index, CacheError> {
        let path = folder.join(NAME);
        let advice = "copy it again";
        let damaged = || CacheError::DamagedArchive { path: path.clone(), advice };
        let unusable = |reason| CacheError::Archive { folder: folder.to_owned(), reason };
        match fs.metadata(&path) {
            Ok(metadata) if metadata.is_file() && metadata.size <= MOST_BYTES => {}
            Ok(_) => return Err(damaged()),
            Err(error) if error.is_not_found() => {
                let reason = "it has no file `ARCHIVE`, which `pack-cache` writes last".to_owned();
                return Err(unusable(reason));
            }
            Err(error) => return Err(error.into()),
        }
        let text = String::from_utf8_lossy(&fs.read(&path)?).into_owned();
        let format = |line: &str| line.strip_prefix(MARK)?.parse::<u32>().ok();
        match text.lines().next().and_then(format) {
            Some(found) if found > FORMAT => Err(unusable(format!(
                "it has format {found}, this program knows {FORMAT}: use a newer program"
            ))),
            _ => Index::parse(&text).ok_or_else(damaged),
        }
    }

    /// Makes the volumes a durable archive.
    pub fn write(&self, fs: &dyn Fs, folder: &Utf8Path) -> Result<(), CacheError> {
        Ok(fs.write_durably(&folder.join(NAME), self.text().as_bytes())?)
    }

    fn text(&self) -> String {
        let mut text = format!("{MARK}{FORMAT}\nid {}\n", self.id);
        // Writing to a string cannot fail.
        for base in &self.bases {
            let _ = writeln!(text, "base {base}");
        }
        if self.has_losses {
            text.push_str("losses\n");
        }
        for volume in &self.volumes {
            let _ = writeln!(text, "volume {} {}", volume.bytes, volume.entries);
        }
        let check = check(&text);
        let _ = writeln!(text, "check {check}");
        text
    }

    /// The longest index that is read.
    pub const MOST_BYTES: u64 = MOST_BYTES;

    pub fn parse(text: &str) -> Option<Index> {
        let at = text.rfind("check ")?;
        let (body, last) = text.split_at(at);
        if last.trim_end() != format!("check {}", check(body)) {
            return None;
        }
        let first = format!("{MARK}{FORMAT}\nid ");
        let mut lines = body.strip_prefix(&first)?.lines();
        let id = lines.next()?.parse().ok()?;
        let mut index = Index { id, bases: Vec::new(), has_losses: false, volumes: Vec::new() };
        for line in lines {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["base", id] => index.bases.push(id.parse().ok()?),
                ["losses"] => index.has_losses = true,
                ["volume", bytes, entries] => {
                    let (bytes, entries) = (bytes.parse().ok()?, entries.parse().ok()?);
                    index.volumes.push(Volume { bytes, entries });
                }
                _ => return None,
            }
        }
        Some(index)
    }
}

fn check(text: &str) -> String {
    format!("{:016x}", u64::from_le_bytes(checksum(&[text.as_bytes()])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let volumes = vec![Volume { bytes: 7, entries: 1 }, Volume { bytes: 9, entries: 2 }];
        Index { id: Digest::of(b"id"), bases: vec![Digest::of(b"base")], has_losses: true, volumes }
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        assert_eq!(Index::parse(&index().text()), Some(index()));
    }

    #[test]
    fn an_index_with_any_letter_changed_or_cut_off_is_refused() {
        let text = index().text();
        for at in 0..text.len() - 1 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(Index::parse(&String::from_utf8_lossy(&changed)), None, "byte {at}");
            assert_eq!(Index::parse(&text[..at]), None, "cut at {at}");
        }
    }
}
