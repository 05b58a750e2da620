//! Many entries in one block of memory: records of a fixed size, folder names written once, and no
//! allocation on loading.
//!
//! Layout: number of entries, number of folders, length of the text (u32 each); the digest of all
//! contents; the folders as offset and length in the text; the entries; the text.

use std::cmp::Ordering;

use bytes::Bytes;

use super::entry::{NewContent, StatEntry, What};
use super::row::{DIGEST, ENTRY, NAME, Row, STATS, push_row, stats_of};

use crate::{Digest, Hasher};

const COUNTS: usize = 12;
const HEAD: usize = COUNTS + 32;
const DIR: usize = 8;
/// The largest number of new contents that are looked up one by one.
const FEW: usize = 64;

/// The number of bytes that are hashed at a time.
const PIECE: usize = 64 << 10;

/// Rows that replace others: the index (u32) and all but the name of each.
#[derive(Debug, Default)]
pub(super) struct NewRows {
    pub count: u32,
    pub bytes: Vec<u8>,
}

impl NewRows {
    pub const ROW: usize = 4 + ENTRY - NAME.end;
}

/// The entries of one section, sorted by folder and then by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    bytes: Bytes,
    count: usize,
    dirs: usize,
}

/// The entries are sorted here, so their order may change. Of several for one path, the last
/// counts.
impl From<Vec<StatEntry>> for Section {
    fn from(mut entries: Vec<StatEntry>) -> Section {
        entries.sort_by(|a, b| split(&a.path).cmp(&split(&b.path)));
        entries.dedup_by(|later, earlier| {
            let same = later.path == earlier.path;
            if same {
                let by_digest = later.by_digest && earlier.by_digest;
                std::mem::swap(later, earlier);
                earlier.by_digest = by_digest;
            }
            same
        });
        let (mut dirs, mut rows, mut text) = (Vec::new(), Vec::new(), String::new());
        let mut last_dir = None;
        for entry in &entries {
            let (dir, name) = split(&entry.path);
            if last_dir != Some(dir) {
                dirs.extend_from_slice(&(text.len() as u32).to_le_bytes());
                dirs.extend_from_slice(&(dir.len() as u32).to_le_bytes());
                text.push_str(dir);
                last_dir = Some(dir);
            }
            push_row(&mut rows, entry, dirs.len() / DIR - 1, text.len(), name.len());
            text.push_str(name);
        }
        let (count, dir_count) = (entries.len(), dirs.len() / DIR);
        let mut bytes = Vec::with_capacity(HEAD + dirs.len() + rows.len() + text.len());
        for number in [count, dir_count, text.len()] {
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        }
        bytes.resize(HEAD, 0);
        bytes.extend_from_slice(&dirs);
        bytes.extend_from_slice(&rows);
        bytes.extend_from_slice(text.as_bytes());
        Section { bytes: Bytes::from(bytes), count, dirs: dir_count }.with_content()
    }
}

impl Section {
    /// The section with these entries in place of those for the same paths, if they have the same
    /// content; None if an entry has no such place.
    pub fn renewed(&self, entries: &[StatEntry]) -> Option<Section> {
        let stands_for_the_same = |row: &Row<'_>, entry: &StatEntry| {
            row.stands_for() == (entry.what, &entry.digest.as_bytes()[..])
        };
        self.with_rows(entries, stands_for_the_same)
    }

    /// The section with these entries in place of those for the same paths, and the changed
    /// contents. None if an entry is not about a file, if more than its digest was requested, if
    /// several files had the same content, or if there are too many.
    pub fn with_new_contents(&self, entries: &[StatEntry]) -> Option<(Section, Vec<NewContent>)> {
        if entries.len() > FEW {
            return None;
        }
        let mut contents = Vec::new();
        let replaced = self.with_rows(entries, |row, entry| {
            let (old, new, size) = (row.digest(), entry.digest, entry.size);
            if old != new {
                contents.push(NewContent { old, new, size });
            }
            row.by_digest() && row.what() == What::File && entry.what == What::File
        })?;
        let is_one_file = |content: &NewContent| self.of_content(&content.old).count() == 1;
        contents.iter().all(is_one_file).then(|| (replaced.with_content(), contents))
    }

    /// Replaces the state and digest of each entry in the row of its path, if the test allows it.
    fn with_rows(
        &self,
        entries: &[StatEntry],
        mut agree: impl FnMut(&Row<'_>, &StatEntry) -> bool,
    ) -> Option<Section> {
        let (mut places, mut expected) = (Vec::with_capacity(entries.len()), 0);
        for entry in entries {
            let index = self.position_near(&entry.path, expected)?;
            expected = index + 1;
            if !agree(&self.row(index)?, entry) {
                return None;
            }
            places.push(index);
        }
        let mut bytes = self.bytes.to_vec();
        for (index, entry) in places.into_iter().zip(entries) {
            let start = HEAD + self.dirs * DIR + index * ENTRY;
            bytes[start + STATS..start + DIGEST].copy_from_slice(&stats_of(entry));
            bytes[start + DIGEST..start + ENTRY].copy_from_slice(entry.digest.as_bytes());
        }
        Some(Section { bytes: Bytes::from(bytes), ..*self })
    }

    /// Computes its digest. For each entry: the length of its path (u64), the path, the kind (u8),
    /// the digest.
    fn with_content(self) -> Section {
        let mut hasher = Hasher::new();
        // Less memory than for all of them, which a process would have to be given first.
        let mut entered = Vec::with_capacity(2 * PIECE);
        for row in (0..self.count).filter_map(|index| self.row(index)) {
            let (dir, (start, size)) = (self.dir_bytes(row.dir()), row.name());
            let (name, between) = (self.text_bytes(start, size), between(dir));
            let length = dir.len() + between.len() + name.len();
            entered.extend_from_slice(&(length as u64).to_le_bytes());
            for part in [dir, between, name] {
                entered.extend_from_slice(part);
            }
            entered.push(row.what() as u8);
            entered.extend_from_slice(&row.0[DIGEST..]);
            if entered.len() >= PIECE {
                hasher.update(&entered);
                entered.clear();
            }
        }
        let content = hasher.update(&entered).finish();
        let mut bytes = Vec::from(self.bytes);
        bytes[COUNTS..HEAD].copy_from_slice(content.as_bytes());
        Section { bytes: Bytes::from(bytes), ..self }
    }

    /// The rows that differ from those of a section with the same paths; None if its paths are
    /// others, or if the rows take more than this number of bytes.
    pub(super) fn rows_unlike(&self, old: &Section, most: u64) -> Option<NewRows> {
        let mut rows = NewRows::default();
        if self.bytes.as_ptr() == old.bytes.as_ptr() && self.bytes.len() == old.bytes.len() {
            return Some(rows);
        }
        for index in self.unlike(old)? {
            rows.count += 1;
            rows.bytes.extend_from_slice(&(index as u32).to_le_bytes());
            rows.bytes.extend_from_slice(&self.row(index)?.0[NAME.end..]);
            if rows.bytes.len() as u64 > most {
                return None;
            }
        }
        Some(rows)
    }

    /// Puts such rows into the bytes of a section; None if they do not fit.
    pub(super) fn renew(bytes: &mut [u8], content: &Digest, rows: &[u8]) -> Option<()> {
        let number =
            |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
        let (count, dirs) = (number(0)?, number(4)?);
        let first = HEAD.checked_add(dirs.checked_mul(DIR)?)?;
        bytes.get_mut(COUNTS..HEAD)?.copy_from_slice(content.as_bytes());
        for row in rows.chunks_exact(NewRows::ROW) {
            let index = u32::from_le_bytes(row[..4].try_into().ok()?) as usize;
            let start = first + index.min(count) * ENTRY;
            let end = (index < count).then_some(start + ENTRY)?;
            bytes.get_mut(start + NAME.end..end)?.copy_from_slice(&row[4..]);
        }
        Some(())
    }

    /// None if the parts do not fill the bytes exactly.
    pub(super) fn parse(bytes: Bytes) -> Option<Section> {
        let number =
            |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
        let (count, dirs, text) = (number(0)?, number(4)?, number(8)?);
        let expected = HEAD + dirs * DIR + count * ENTRY + text;
        (bytes.len() == expected).then_some(Section { bytes, count, dirs })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of all paths and contents; times and inodes do not enter.
    pub fn content(&self) -> Digest {
        let mut digest = [0u8; 32];
        if let Some(bytes) = self.bytes.get(COUNTS..HEAD) {
            digest.copy_from_slice(bytes);
        }
        Digest::from_bytes(digest)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entry at a position, from 0, in the order of [`Section::iter`].
    pub fn get(&self, index: usize) -> Option<StatEntry> {
        let row = self.row(index)?;
        Some(StatEntry {
            path: self.path(&row),
            size: row.size(),
            mtime_ns: row.mtime_ns(),
            ctime_ns: row.ctime_ns(),
            inode: row.inode(),
            hashed_ns: row.hashed_ns(),
            digest: row.digest(),
            what: row.what(),
            by_digest: row.by_digest(),
        })
    }

    /// The size of an entry that is not about a folder.
    pub fn file_size(&self, index: usize) -> Option<u64> {
        Some(self.row(index).filter(|row| row.what() != What::Dir)?.size())
    }

    /// The digest of an entry, without the rest of it.
    pub fn digest(&self, index: usize) -> Option<Digest> {
        Some(self.row(index)?.digest())
    }

    /// The indices of all entries with this digest.
    pub fn of_content(&self, digest: &Digest) -> impl Iterator<Item = usize> {
        (0..self.count).filter(|index| {
            self.row(*index).is_some_and(|row| row.0[DIGEST..] == digest.as_bytes()[..])
        })
    }

    /// All entries, sorted by folder and name.
    pub fn iter(&self) -> impl Iterator<Item = StatEntry> {
        (0..self.count).filter_map(|index| self.get(index))
    }

    /// The entry for a path, by a binary search.
    pub fn find(&self, path: &str) -> Option<StatEntry> {
        self.get(self.position(path)?)
    }

    /// Like [`Section::position`], but fast if the entry is at the expected index.
    pub fn position_near(&self, path: &str, expected: usize) -> Option<usize> {
        let here = self.row(expected).map(|row| self.parts(&row));
        if here == Some(split(path)) { Some(expected) } else { self.position(path) }
    }

    /// Pairs of entries with different contents in two sections.
    pub fn changes_from(&self, old: &Section) -> Vec<(Option<StatEntry>, Option<StatEntry>)> {
        let mut changes = Vec::new();
        if let Some(unlike) = self.unlike(old) {
            let differs = |index: &usize| match (old.row(*index), self.row(*index)) {
                (Some(a), Some(b)) => a.stands_for() != b.stands_for(),
                _ => true,
            };
            let both = |index| (old.get(index), self.get(index));
            return unlike.into_iter().filter(differs).map(both).collect();
        }
        let (mut before, mut now) = (0, 0);
        loop {
            let order = match (old.row(before), self.row(now)) {
                (None, None) => return changes,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => old.parts(&a).cmp(&self.parts(&b)),
            };
            let (gone, new) = (order.is_le(), order.is_ge());
            let same = || {
                let (a, b) = (old.row(before), self.row(now));
                a.zip(b).is_some_and(|(a, b)| a.stands_for() == b.stands_for())
            };
            if order.is_ne() || !same() {
                let (a, b) = (old.get(before), self.get(now));
                changes.push((a.filter(|_| gone), b.filter(|_| new)));
            }
            before += usize::from(gone);
            now += usize::from(new);
        }
    }

    /// The rows that differ from those of a section with the same paths at the same positions; None
    /// if the paths differ.
    fn unlike(&self, other: &Section) -> Option<Vec<usize>> {
        let rows = HEAD + self.dirs * DIR;
        let text = rows + self.count * ENTRY;
        let is_alike = (self.count, self.dirs) == (other.count, other.dirs)
            && self.bytes.get(HEAD..rows) == other.bytes.get(HEAD..rows)
            && self.bytes.get(text..) == other.bytes.get(text..);
        if !is_alike {
            return None;
        }
        let mut unlike = Vec::new();
        for index in 0..self.count {
            let (own, others) = (self.row(index)?, other.row(index)?);
            if own.0 != others.0 {
                (own.0[NAME] == others.0[NAME]).then(|| unlike.push(index))?;
            }
        }
        Some(unlike)
    }

    /// The index of the entry for a path.
    pub fn position(&self, path: &str) -> Option<usize> {
        let wanted = split(path);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.row(middle)?;
            match self.parts(&row).cmp(&wanted) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    pub(super) fn row(&self, index: usize) -> Option<Row<'_>> {
        let start = HEAD + self.dirs * DIR + index * ENTRY;
        if index >= self.count {
            return None;
        }
        Some(Row(self.bytes.get(start..start + ENTRY)?.try_into().ok()?))
    }

    pub(super) fn dir(&self, index: usize) -> &str {
        std::str::from_utf8(self.dir_bytes(index)).unwrap_or_default()
    }

    fn dir_bytes(&self, index: usize) -> &[u8] {
        let head = self.bytes.get(HEAD + index * DIR..HEAD + index * DIR + DIR).unwrap_or(&[0; 8]);
        let number = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        self.text_bytes(number(0), number(4))
    }

    pub(super) fn name(&self, row: &Row<'_>) -> &str {
        let (offset, length) = row.name();
        std::str::from_utf8(self.text_bytes(offset, length)).unwrap_or_default()
    }

    fn text_bytes(&self, offset: usize, length: usize) -> &[u8] {
        let start = HEAD + self.dirs * DIR + self.count * ENTRY + offset;
        self.bytes.get(start..start + length).unwrap_or_default()
    }

    /// Folder and name.
    fn parts(&self, row: &Row<'_>) -> (&str, &str) {
        (self.dir(row.dir()), self.name(row))
    }

    pub(super) fn path(&self, row: &Row<'_>) -> String {
        let (dir, name) = self.parts(row);
        let mut path = String::with_capacity(dir.len() + 1 + name.len());
        path.push_str(dir);
        if !between(dir.as_bytes()).is_empty() {
            path.push('/');
        }
        path.push_str(name);
        path
    }
}

/// The bytes between a folder and a name in it.
fn between(dir: &[u8]) -> &'static [u8] {
    if dir.is_empty() || dir == b"/" { b"" } else { b"/" }
}

/// Folder and name of a path.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((dir, name)) => (dir, name),
        None => ("", path),
    }
}
