//! Reads packs back into the index: all of them if the index is lost, or the tail that a dead
//! process left behind.

use crate::CacheError;
use crate::fs::{Fs, FsFile, Open};
use crate::index::backend::DoneFlag;
use crate::index::database::{convert, database, guarded, replace};
use crate::index::tables::{IndexResult, Tables, View, broken};
use crate::layout::Layout;
use crate::pack::entry::{Entry, PACK_MARK};
use crate::pack::scan::{Scan, ScannedEntry};

/// The results of rebuilding the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Packs that were read.
    pub packs: u64,
    /// Objects found in them.
    pub objects: u64,
    /// Records found in them, of which the last one for each key counts.
    pub records: u64,
    /// Positions in packs without a valid entry.
    pub damaged: u64,
}

/// No pack had a higher number than `highest`, according to the files beside the packs.
pub(crate) fn replace_ledger(
    fs: &dyn Fs,
    layout: &Layout,
    highest: u32,
) -> Result<RebuildReport, CacheError> {
    let mut report = RebuildReport::default();
    replace(fs, layout, &mut |tables| {
        tables.saw_pack(highest)?;
        report = read_all(fs, layout, tables)?;
        Ok(())
    })
    .map_err(|failure| convert(layout, failure))?;
    if !layout.pack_numbers(fs)?.is_empty() {
        // Records may still refer to objects that the packs lost. The mark is best effort.
        let _ = fs.open(&layout.losses, crate::fs::Open::Create);
    }
    Ok(report)
}

/// For a read-only cache.
pub(crate) fn view_in_memory(fs: &dyn Fs, layout: &Layout) -> IndexResult<View> {
    guarded(|| {
        let database = database(redb::backends::InMemoryBackend::new())?;
        let transaction = database.begin_write().map_err(broken)?;
        {
            let mut tables = Tables::open(&transaction)?;
            read_all(fs, layout, &mut tables)?;
            tables.finish()?;
        }
        transaction.commit().map_err(broken)?;
        View::open(database, DoneFlag::default())
    })
}

fn read_all(fs: &dyn Fs, layout: &Layout, tables: &mut Tables<'_>) -> IndexResult<RebuildReport> {
    let mut report = RebuildReport::default();
    // Packs in the trash still own their numbers.
    for (_, number) in layout.packs_in_trash(fs)? {
        tables.saw_pack(number)?;
    }
    for number in layout.pack_numbers(fs)? {
        let file = match fs.open(&layout.pack(number), Open::Read) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        report.packs += 1;
        let mut scan = Scan::new(&*file, number, 0)?;
        let mut sound = 0;
        while let Some(found) = scan.next()? {
            match found {
                ScannedEntry::Entry { offset, entry } => {
                    if is_there(fs, layout, &entry)? {
                        tables.take_in(number, offset, &entry)?;
                        match entry {
                            Entry::Object { .. } | Entry::Loose { .. } => report.objects += 1,
                            Entry::Record { .. } | Entry::Gone { .. } => report.records += 1,
                            Entry::Piece { .. } => {}
                        }
                    }
                    sound = scan.position();
                }
                ScannedEntry::Damaged | ScannedEntry::Garbage => report.damaged += 1,
            }
        }
        tables.set_pack(number, sound)?;
    }
    Ok(report)
}

/// The entry of an object outside the packs counts only if its file exists.
fn is_there(fs: &dyn Fs, layout: &Layout, entry: &Entry) -> IndexResult<bool> {
    let Entry::Loose { digest, size } = entry else {
        return Ok(true);
    };
    match fs.metadata(&layout.object(digest)) {
        Ok(metadata) => Ok(metadata.is_file() && metadata.size == *size),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The part of a pack after its indexed part, up to the first invalid entry.
pub(crate) struct Tail {
    pub entries: Vec<(u64, Entry)>,
    /// The end of the valid entries; the rest is torn.
    pub end: u64,
}

/// The caller holds the pack's lock, so nobody is writing it.
pub(crate) fn read_tail(
    fs: &dyn Fs,
    layout: &Layout,
    file: &dyn FsFile,
    number: u32,
    indexed: u64,
) -> IndexResult<Tail> {
    let mut tail = Tail { entries: Vec::new(), end: indexed };
    let mut scan = Scan::new(file, number, indexed)?;
    while let Some(ScannedEntry::Entry { offset, entry }) = scan.next()? {
        tail.end = scan.position();
        if is_there(fs, layout, &entry)? {
            tail.entries.push((offset, entry));
        }
    }
    // A pack with only its mark, or a part of it, is written from the start.
    if tail.end <= PACK_MARK.len() as u64 && tail.entries.is_empty() {
        tail.end = indexed.min(tail.end);
    }
    Ok(tail)
}
