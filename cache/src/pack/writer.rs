//! The writing side of the log: appends entries to packs, durably, and tells the index.

use crate::CacheError;
use crate::index::ledger::Ledger;
use crate::pack::entry::Entry;
use crate::pack::packs::{Avoided, OpenPack, Placed, ROLL};
use crate::upkeep::recover::adopt;

/// The packs that this process writes: one commit at a time.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pack: Option<OpenPack>,
    avoided: Avoided,
    sequence: u64,
    /// Packs up to this number get no more entries.
    closed: u32,
}

impl Writer {
    /// Closes the existing packs: later entries go to newer ones.
    pub fn start_new_packs(&mut self, ledger: &Ledger) -> Result<(), CacheError> {
        self.pack = None;
        let numbers = ledger.layout().pack_numbers(ledger.fs())?;
        self.closed = numbers.last().copied().unwrap_or(0).max(self.closed);
        Ok(())
    }

    /// The number of the last record that the index or this process has seen. New records get higher
    /// ones.
    pub fn sequence(&mut self, ledger: &Ledger) -> Result<&mut u64, CacheError> {
        self.sequence = self.sequence.max(ledger.read(|view| view.sequence())?);
        Ok(&mut self.sequence)
    }

    /// Writes entries to the log, syncs it, and tells the index.
    pub fn append_durably(&mut self, ledger: &Ledger, entries: &[Entry]) -> Result<(), CacheError> {
        let needed: u64 = entries.iter().map(Entry::size).sum();
        let mut placed = Vec::with_capacity(entries.len());
        let mut ends = Vec::new();
        let mut left = entries;
        while !left.is_empty() {
            let mut pack = self.open_pack(ledger)?;
            let start = pack.end();
            let number = pack.number;
            match pack.append(left, &mut placed) {
                Ok(count) => left = &left[count..],
                Err(error) => {
                    pack.cut(start);
                    let path = ledger.layout().pack(number);
                    return Err(CacheError::while_writing(error, &path, needed));
                }
            }
            if let Err(error) = pack.sync(ledger.fs(), ledger.layout()) {
                // The result of a failed sync is unknown: everything is written again elsewhere.
                self.avoided.insert(number);
                pack.cut(start);
                return Err(CacheError::while_writing(
                    error,
                    &ledger.layout().pack(number),
                    needed,
                ));
            }
            ends.push((number, pack.end()));
            if !pack.is_full() {
                self.pack = Some(pack);
            }
        }
        // Of two records with one key, the index keeps that with the higher number.
        let mut rows: Vec<&Placed> = placed.iter().collect();
        rows.sort_by_cached_key(|(_, _, entry)| entry.key());
        ledger.write_soon(|tables| {
            tables.take_in_sorted(&rows)?;
            ends.iter().try_for_each(|(number, end)| tables.set_pack(*number, *end))
        })
    }

    /// The pack to append to: the current one, one with space that nobody uses, or a new one.
    fn open_pack(&mut self, ledger: &Ledger) -> Result<OpenPack, CacheError> {
        if let Some(pack) = self.pack.take()
            && pack.is_in_place(ledger.fs(), ledger.layout())?
        {
            return Ok(pack);
        }
        let (indexed, last) = ledger.read(|view| Ok((view.packs()?, view.last_pack()?)))?;
        let numbers = ledger.layout().pack_numbers(ledger.fs())?;
        let full = |number: &u32| indexed.iter().any(|(of, end)| of == number && *end >= ROLL);
        for number in numbers.iter().rev().filter(|number| !full(number)) {
            if *number > self.closed
                && !self.avoided.contains(number)
                && let Some(pack) = resume(ledger, *number)?
            {
                return Ok(pack);
            }
        }
        let next = ledger.next_pack(numbers.last().copied().unwrap_or(0).max(last))?;
        let pack = OpenPack::create(ledger.fs(), ledger.layout(), next)
            .map_err(|error| CacheError::while_writing(error, &ledger.layout().packs, 0))?;
        ledger.saw_pack(pack.number)?;
        Ok(pack)
    }
}

fn resume(ledger: &Ledger, number: u32) -> Result<Option<OpenPack>, CacheError> {
    let adopted = adopt(ledger, number)?;
    let usable = adopted.filter(|adopted| !adopted.truncated && adopted.end < ROLL);
    Ok(usable.map(|adopted| OpenPack::resume(number, adopted.file, adopted.end)))
}
