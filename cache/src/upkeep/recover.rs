//! Recovery on open: indexes or cuts off the remains of dead processes, and detects truncated
//! packs.

use std::collections::HashMap;

use crate::CacheError;
use crate::fs::{FsFile, LockKind, Open};
use crate::index::database::convert;
use crate::index::ledger::Ledger;
use crate::upkeep::rebuild::read_tail;

/// Packs that differ from the index.
pub(crate) struct MissingPacks {
    /// Truncated packs, with their readable lengths.
    pub short: HashMap<u32, u64>,
    /// Those of them that are missing.
    pub gone: Vec<u32>,
    /// The reason why the end of a pack could not be indexed.
    pub full: Option<String>,
}

/// Compares the packs with the index.
pub(crate) fn recover(ledger: &Ledger, writable: bool) -> Result<MissingPacks, CacheError> {
    let (fs, layout) = (ledger.fs(), ledger.layout());
    let indexed: HashMap<u32, u64> = ledger.read(|view| view.packs())?.into_iter().collect();
    let mut lengths = HashMap::new();
    let mut full = None;
    for number in layout.pack_numbers(fs)? {
        match fs.metadata(&layout.pack(number)) {
            Ok(metadata) => _ = lengths.insert(number, metadata.size),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if writable {
        for (number, length) in &lengths {
            if *length > indexed.get(number).copied().unwrap_or(0) {
                match adopt(ledger, *number) {
                    // It is indexed once there is space; until then it is ignored.
                    Err(error) if error.is_no_space() => full = Some(error.whole()),
                    other => drop(other?),
                }
            }
        }
    }
    let length = |number: &u32| lengths.get(number).copied().unwrap_or(0);
    let short = |(number, indexed): (u32, u64)| {
        (length(&number) < indexed).then(|| (number, length(&number)))
    };
    let gone = indexed.keys().filter(|number| !lengths.contains_key(number)).copied().collect();
    let short = indexed.into_iter().filter_map(short).collect();
    Ok(MissingPacks { short, gone, full })
}

/// A pack locked by this process, and its end.
pub(crate) struct AdoptedPack {
    pub file: Box<dyn FsFile>,
    pub end: u64,
    pub truncated: bool,
}

/// Locks a pack, indexes the entries that its dead writer finished, and cuts off the torn rest.
/// None if a living process writes it.
pub(crate) fn adopt(ledger: &Ledger, number: u32) -> Result<Option<AdoptedPack>, CacheError> {
    let (fs, layout) = (ledger.fs(), ledger.layout());
    let file = match fs.open(&layout.pack(number), Open::ReadWrite) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let alone = match file.try_lock(LockKind::Exclusive) {
        Ok(true) => true,
        Ok(false) => return Ok(None),
        // Without locks, a living writer looks like a dead one: nothing is cut off.
        Err(error) if error.is_unsupported() => false,
        Err(error) => return Err(error.into()),
    };
    let indexed = ledger.read(|view| view.pack(number))?;
    let length = file.len()?;
    if length <= indexed {
        let truncated = length < indexed;
        return Ok(alone.then_some(AdoptedPack { file, end: indexed, truncated }));
    }
    let tail = read_tail(fs, layout, &*file, number, indexed)
        .map_err(|failure| convert(layout, failure))?;
    if !tail.entries.is_empty() {
        // Written, but perhaps never synced.
        file.sync_data()?;
        fs.sync_dir(&layout.packs)?;
    }
    ledger.write(|tables| {
        for (offset, entry) in &tail.entries {
            tables.take_in(number, *offset, entry)?;
        }
        tables.set_pack(number, tail.end)
    })?;
    if alone && tail.end < length {
        file.set_len(tail.end)?;
        file.sync_data()?;
    }
    Ok(alone.then_some(AdoptedPack { file, end: tail.end, truncated: false }))
}
