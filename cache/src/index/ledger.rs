//! Access to the index for all threads and processes: short critical sections under one lock file,
//! a view that is kept while nobody has written, and a rebuild from the packs if the index is lost.
//!
//! While this process changes the index, its other threads use the previous view: a change does not
//! touch the pages of the state before it, since a crash must find them intact. Only the next
//! change reuses them, and it has to wait for the lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::fs::{Fs, LockKind, Open, size_of};
use crate::index::backend::{Direct, Failure, Overlay, Sync};
use crate::index::database::{
    convert, database, guarded, open_view, require_content, transact, with_cause,
};
use crate::index::gate::{Boot, Gate, Guard};
use crate::index::rows::{Known, Location};
use crate::index::tables::{IndexFailure, IndexResult, Tables, View, broken};
use crate::layout::Layout;
use crate::pack::entry::PACK_MARK;
use crate::upkeep::rebuild;
use crate::{Access, CacheError, Digest, Table};

/// Below three times this length, holes in the index do not matter.
const WORTH_COMPACTING: u64 = 4 << 20;

pub(crate) struct Ledger {
    fs: Arc<dyn Fs>,
    /// Finds the cache by its path, where another one may be meanwhile.
    outside: Arc<dyn Fs>,
    layout: Layout,
    access: Access,
    gate: Gate,
    /// This boot of the machine, if changes may be synced later.
    boot: Option<Boot>,
    /// True after such a change.
    is_unsynced: AtomicBool,
    state: Mutex<LedgerState>,
    /// Notified when a change of this process ends.
    changed: Condvar,
}

/// The objects and the records of an index.
pub(crate) type Rows = (Vec<(Digest, Location)>, Vec<(Table, Digest, Known)>);

struct LedgerState {
    /// With the count of changes that it has seen. During a change: the state before it.
    view: Option<(u64, View)>,
    /// The count of changes at the last refresh.
    seen: u64,
    /// A thread of this process changes the index and holds its lock.
    changing: bool,
}

/// A change in progress. Dropping it ends it, with any result.
struct LedgerChange<'a> {
    ledger: &'a Ledger,
    guard: Option<Guard>,
    /// The number of unfinished changes in a row before this one.
    unfinished: u64,
}

impl Drop for LedgerChange<'_> {
    fn drop(&mut self) {
        // The old view must not be used once others can change the index.
        let mut state = self.ledger.state();
        state.view = None;
        state.changing = false;
        self.ledger.gate.end_change();
        self.guard = None;
        self.ledger.changed.notify_all();
    }
}

impl Ledger {
    /// The file systems are that for the folder of the cache, and that around it.
    pub fn open(
        (fs, outside): (Arc<dyn Fs>, Arc<dyn Fs>),
        layout: &Layout,
        access: Access,
    ) -> Result<Ledger, CacheError> {
        let layout = layout.clone();
        let gate = Gate::open(&*fs, &layout, access)?;
        let state = Mutex::new(LedgerState { view: None, seen: 0, changing: false });
        let changed = Condvar::new();
        let boot = Boot::present(&*fs, &layout);
        let is_unsynced = AtomicBool::new(false);
        let ledger =
            Ledger { fs, outside, layout, access, gate, boot, is_unsynced, state, changed };
        ledger.refresh()?;
        if ledger.is_doubtful()? {
            ledger.look_after_restart()?;
        }
        Ok(ledger)
    }

    /// Tests if the machine was restarted after changes that were, or may have been, unsynced.
    fn is_doubtful(&self) -> Result<bool, CacheError> {
        let changed = self.gate.boot()?;
        Ok(!changed.is_none() && self.boot != Some(changed))
    }

    /// Some of the last changes may not have reached the disk. A valid index is then the index of
    /// one moment, and the packs have the later changes.
    fn look_after_restart(&self) -> Result<(), CacheError> {
        if self.access == Access::ReadOnly {
            let mut state = self.state();
            let _guard = self.gate.lock(LockKind::Shared)?;
            let is_up_to_date = self.is_sound()? && self.has_all_packs()?;
            return if is_up_to_date { Ok(()) } else { self.view_in_memory(&mut state) };
        }
        let begun = self.begin()?;
        // Another process may have been faster.
        if self.is_doubtful()? {
            self.heal(begun.unfinished.max(1))?;
            if self.boot.is_none() {
                self.fs.open(&self.layout.ledger, Open::ReadWrite)?.sync_data()?;
            }
            let boot = self.boot.unwrap_or_default();
            self.gate.set_boot(&*self.fs, &self.layout, boot)?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state once no thread of this process changes the index any more.
    fn at_rest(&self) -> MutexGuard<'_, LedgerState> {
        let state = self.state();
        self.changed
            .wait_while(state, |state| state.changing)
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn fs(&self) -> &dyn Fs {
        &*self.fs
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Tests if other processes are excluded while this one writes.
    pub fn can_lock(&self) -> bool {
        self.gate.can_lock()
    }

    /// Returns the number of unfinished changes in a row.
    fn count_change(&self, state: &mut LedgerState) -> Result<u64, CacheError> {
        let begun = self
            .gate
            .begin_change()
            .map_err(|error| CacheError::while_writing(error, &self.layout.dir, 8))?;
        if state.seen == begun.before {
            state.seen = begun.after;
        }
        state.view.take_if(|(of, _)| *of != begun.before);
        Ok(begun.unfinished)
    }

    /// The count of changes by all processes.
    pub fn generation(&self) -> Result<u64, CacheError> {
        Ok(self.gate.generation()?)
    }

    /// True if others changed the index since the last call.
    pub fn refresh(&self) -> Result<bool, CacheError> {
        let mut state = self.state();
        let now = self.gate.generation()?;
        let changed = now != state.seen;
        state.seen = now;
        Ok(changed)
    }

    pub fn read<T>(&self, mut look: impl FnMut(&View) -> IndexResult<T>) -> Result<T, CacheError> {
        let mut state = self.state();
        if state.changing {
            if let Some((_, view)) = &state.view
                && let Ok(value) = guarded(|| look(view))
            {
                return Ok(value);
            }
            drop(state);
            state = self.at_rest();
        }
        let broken_at = {
            let _guard = self.gate.lock(LockKind::Shared)?;
            match self.look(&mut state, &mut look) {
                Ok(value) => return Ok(value),
                Err(IndexFailure::Fs(error)) => return Err(error.into()),
                Err(IndexFailure::Broken(_)) => self.gate.generation()?,
            }
        };
        self.renew(&mut state, broken_at)?;
        let _guard = self.gate.lock(LockKind::Shared)?;
        self.look(&mut state, &mut look).map_err(|failure| self.convert(failure))
    }

    fn look<T>(
        &self,
        state: &mut LedgerState,
        look: &mut dyn FnMut(&View) -> IndexResult<T>,
    ) -> IndexResult<T> {
        let generation = self.gate.generation()?;
        state.view.take_if(|(of, _)| *of != generation);
        let (_, view) = match state.view.take() {
            Some(view) => state.view.insert(view),
            None => {
                let fresh = open_view(&*self.fs, &self.layout)?;
                state.view.insert((generation, fresh))
            }
        };
        let result = guarded(|| look(view));
        if result.is_err() {
            state.view = None;
        }
        result
    }

    /// All objects and records in the index.
    pub fn rows(&self) -> Result<Rows, CacheError> {
        self.read(|view| {
            let (mut objects, mut records) = (Vec::new(), Vec::new());
            view.objects(&mut |digest, location| {
                objects.push((digest, location));
                Ok(())
            })?;
            view.records(None, &mut |table, key, known| {
                records.push((table, key, known));
                Ok(())
            })?;
            Ok((objects, records))
        })
    }

    /// Changes the index; the change is durable on return.
    pub fn write<T>(
        &self,
        change: impl FnMut(&mut Tables<'_>) -> IndexResult<T>,
    ) -> Result<T, CacheError> {
        self.write_with(Sync::Now, change)
    }

    /// Changes the index by entries that are durable in the packs, so that a power cut may undo it.
    /// All processes see the change on return.
    pub fn write_soon<T>(
        &self,
        change: impl FnMut(&mut Tables<'_>) -> IndexResult<T>,
    ) -> Result<T, CacheError> {
        self.write_with(if self.boot.is_some() { Sync::Later } else { Sync::Now }, change)
    }

    fn write_with<T>(
        &self,
        sync: Sync,
        mut change: impl FnMut(&mut Tables<'_>) -> IndexResult<T>,
    ) -> Result<T, CacheError> {
        self.require_writable()?;
        let begun = self.begin()?;
        self.heal(begun.unfinished)?;
        if let (Sync::Later, Some(boot)) = (sync, self.boot)
            && !self.gate.tells(boot)?
        {
            self.gate.set_boot(&*self.fs, &self.layout, boot)?;
        }
        if sync == Sync::Later {
            self.is_unsynced.store(true, Ordering::Relaxed);
        }
        match self.change(sync, &mut change) {
            Err(IndexFailure::Broken(_)) => {
                self.replace()?;
                self.change(sync, &mut change).map_err(|failure| self.convert(failure))
            }
            result => result.map_err(|failure| self.convert(failure)),
        }
    }

    /// Excludes other processes, and restricts the other threads of this one to reading.
    fn begin(&self) -> Result<LedgerChange<'_>, CacheError> {
        let mut state = self.at_rest();
        let guard = self.gate.lock(LockKind::Exclusive)?;
        self.require_in_place()?;
        let unfinished = self.count_change(&mut state)?;
        state.changing = true;
        Ok(LedgerChange { ledger: self, guard: Some(guard), unfinished })
    }

    /// A process that died while it changed the index may have died because of it: the index is
    /// checked before it is changed again, and after two such deaths it is not trusted at all.
    fn heal(&self, unfinished: u64) -> Result<(), CacheError> {
        let is_trusted = match unfinished {
            0 => true,
            1 => self.is_sound()?,
            _ => false,
        };
        if !is_trusted {
            self.replace()?;
        }
        Ok(())
    }

    fn change<T>(
        &self,
        sync: Sync,
        change: &mut dyn FnMut(&mut Tables<'_>) -> IndexResult<T>,
    ) -> IndexResult<T> {
        let file = match self.fs.open(&self.layout.ledger, Open::ReadWrite) {
            Err(error) if error.is_not_found() => return Err(broken("it is missing")),
            Err(error) if error.is_a_folder() => return Err(broken("it is a folder")),
            other => other?,
        };
        let backend = Direct::new(file, sync);
        require_content(&backend)?;
        let failure = Arc::clone(&backend.failure);
        let result = with_cause(&failure, || transact(backend, change));
        if failure.sync_failed() {
            // The contents of the file are unknown from here on; the packs know everything.
            self.fs.remove_file(&self.layout.ledger)?;
        }
        result
    }

    /// Replaces the index by one rebuilt from the packs.
    fn replace(&self) -> Result<rebuild::RebuildReport, CacheError> {
        self.require_in_place()?;
        rebuild::replace_ledger(&*self.fs, &self.layout, self.gate.highest_pack()?)
    }

    /// Continuing after the cache was removed or moved would recreate an old one, or mix two.
    pub fn require_in_place(&self) -> Result<(), CacheError> {
        if self.gate.is_in_place(&*self.outside, &self.layout)? {
            Ok(())
        } else {
            Err(CacheError::Gone { dir: self.layout.dir.clone() })
        }
    }

    /// An unused pack number.
    pub fn next_pack(&self, last: u32) -> Result<u32, CacheError> {
        Ok(self.gate.highest_pack()?.max(last).saturating_add(1))
    }

    /// Records that this number is used.
    pub fn saw_pack(&self, number: u32) -> Result<(), CacheError> {
        self.gate
            .saw_pack(number)
            .map_err(|error| CacheError::while_writing(error, &self.layout.dir, 8))
    }

    /// Rebuilds the index from the packs.
    pub fn rebuild(&self) -> Result<rebuild::RebuildReport, CacheError> {
        self.require_writable()?;
        let _begun = self.begin()?;
        self.state().view = None;
        self.replace()
    }

    /// Frees pages that many changes left unused; true if it was worth it.
    pub fn compact(&self) -> Result<bool, CacheError> {
        self.require_writable()?;
        let size = self.fs.metadata(&self.layout.ledger)?.size;
        if size < self.gate.compacted()?.max(WORTH_COMPACTING).saturating_mul(3) {
            return Ok(false);
        }
        let begun = self.begin()?;
        // It consists of several changes.
        self.state().view = None;
        self.heal(begun.unfinished)?;
        let backend = Direct::new(self.fs.open(&self.layout.ledger, Open::ReadWrite)?, Sync::Now);
        let failure = Arc::clone(&backend.failure);
        with_cause(&failure, || database(backend)?.compact().map_err(broken))
            .map_err(|failure| self.convert(failure))?;
        self.gate.set_compacted(self.fs.metadata(&self.layout.ledger)?.size)?;
        Ok(true)
    }

    /// Makes the changes durable that this process has not synced.
    pub fn sync(&self) -> Result<(), CacheError> {
        if !self.is_unsynced.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let sync = || self.fs.open(&self.layout.ledger, Open::Read)?.sync_data();
        let synced = {
            let _state = self.at_rest();
            let _guard = self.gate.lock(LockKind::Shared)?;
            sync()
        };
        if synced.is_err() {
            // The contents of the file are unknown from here on; the packs know everything.
            self.alone(|| Ok(self.fs.remove_file(&self.layout.ledger)?))?;
        }
        Ok(synced?)
    }

    /// Tests if the index is valid and has all entries of the packs. After a power cut, it may be
    /// torn, or the index of an earlier moment.
    pub fn is_up_to_date(&self) -> Result<bool, CacheError> {
        let _state = self.at_rest();
        let _guard = self.gate.lock(LockKind::Shared)?;
        Ok(self.is_sound()? && self.has_all_packs()?)
    }

    /// False if a pack that nobody is writing is longer than its indexed part.
    fn has_all_packs(&self) -> Result<bool, CacheError> {
        let indexed = guarded(|| open_view(&*self.fs, &self.layout)?.packs());
        let indexed: HashMap<u32, u64> = match indexed {
            Ok(indexed) => indexed.into_iter().collect(),
            Err(IndexFailure::Broken(_)) => return Ok(false),
            Err(failure) => return Err(self.convert(failure)),
        };
        for number in self.layout.pack_numbers(&*self.fs)? {
            let path = self.layout.pack(number);
            // An empty pack has only a mark.
            let least = PACK_MARK.len() as u64;
            let known = indexed.get(&number).copied().unwrap_or(0).max(least);
            if size_of(&*self.fs, &path)? > known {
                let file = self.fs.open(&path, Open::Read)?;
                if file.try_lock(LockKind::Shared).unwrap_or(true) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads the packs instead of the index, for a cache that cannot be written.
    pub fn read_packs(&self) -> Result<(), CacheError> {
        let mut state = self.at_rest();
        let _guard = self.gate.lock(LockKind::Shared)?;
        self.view_in_memory(&mut state)
    }

    /// Tests if every page of the index has a valid checksum.
    pub fn check_integrity(&self) -> Result<bool, CacheError> {
        let _state = self.at_rest();
        let _guard = self.gate.lock(LockKind::Shared)?;
        self.is_sound()
    }

    fn is_sound(&self) -> Result<bool, CacheError> {
        let file = match self.fs.open(&self.layout.ledger, Open::Read) {
            Err(error) if error.is_not_found() || error.is_a_folder() => return Ok(false),
            other => other?,
        };
        let failure = Arc::new(Failure::default());
        let backend = Overlay::new(file, Arc::clone(&failure))?;
        let sound = with_cause(&failure, || database(backend)?.check_integrity().map_err(broken));
        match sound {
            Ok(sound) => Ok(sound),
            Err(IndexFailure::Broken(_)) => Ok(false),
            Err(failure) => Err(self.convert(failure)),
        }
    }

    /// Reads the packs instead of the index on the disk.
    fn view_in_memory(&self, state: &mut LedgerState) -> Result<(), CacheError> {
        let generation = self.gate.generation()?;
        let view = rebuild::view_in_memory(&*self.fs, &self.layout);
        state.view = Some((generation, view.map_err(|failure| self.convert(failure))?));
        Ok(())
    }

    /// Repairs an index that does not answer.
    fn renew(&self, state: &mut LedgerState, broken_at: u64) -> Result<(), CacheError> {
        if self.access == Access::ReadOnly {
            return self.view_in_memory(state);
        }
        let _guard = self.gate.lock(LockKind::Exclusive)?;
        self.require_in_place()?;
        // Another thread may have been faster.
        if self.gate.generation()? != broken_at {
            return Ok(());
        }
        self.count_change(state)?;
        state.view = None;
        let replaced = self.replace();
        self.gate.end_change();
        replaced.map(|_| ())
    }

    /// Runs something while no other process changes the cache.
    pub fn alone<T>(&self, work: impl FnOnce() -> Result<T, CacheError>) -> Result<T, CacheError> {
        let _state = self.at_rest();
        let _guard = self.gate.lock(LockKind::Exclusive)?;
        self.require_in_place()?;
        work()
    }

    pub fn require_writable(&self) -> Result<(), CacheError> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(CacheError::ReadOnly { dir: self.layout.dir.clone() }),
        }
    }

    fn convert(&self, failure: IndexFailure) -> CacheError {
        convert(&self.layout, failure)
    }
}
