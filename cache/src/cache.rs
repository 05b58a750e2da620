//! The cache as a whole, and the state that its parts share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use bytes::Bytes;
use camino::Utf8Path;

use crate::claim::{Claim, Claims};
use crate::fs::{Fs, Open};
use crate::index::ledger::Ledger;
use crate::layout::Layout;
use crate::pack::packs::{PackFiles, ShortPacks};
use crate::pack::uncommitted::Commits;
use crate::pack::writer::Writer;
use crate::staging::StagingDir;
use crate::stat::StatFile;
use crate::{Access, CacheError, Digest};

/// A store of objects and records in a folder. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Cache(pub(crate) Arc<Shared>);

/// Locks are taken in this order: writer, ledger, pending.
pub(crate) struct Shared {
    /// For what is in the folder of the cache.
    pub fs: Arc<dyn Fs>,
    /// For everything else.
    pub outside: Arc<dyn Fs>,
    pub layout: Layout,
    pub access: Access,
    notes: Mutex<Vec<String>>,
    writer: Mutex<Writer>,
    ledger: Ledger,
    pending: RwLock<Commits>,
    pub packs: PackFiles,
    pub short: ShortPacks,
    /// Damaged objects that the index does not know about yet.
    forgotten: Mutex<HashSet<Digest>>,
    /// All damaged objects that this process has found.
    damaged: Mutex<HashSet<Digest>>,
    claims: Arc<Claims>,
    /// The folder in which large objects wait for the next commit.
    waiting_room: Mutex<Option<StagingDir>>,
    pub stat: StatFile,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Cache({})", self.0.layout.dir)
    }
}

impl Cache {
    /// The folder of the cache, as it was given to [`Cache::open`].
    pub fn dir(&self) -> &Utf8Path {
        &self.0.layout.dir
    }

    /// The file system around the cache; operations that a signal interrupts are repeated.
    // The other file system is private to this crate.
    #[allow(clippy::misnamed_getters)]
    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.0.outside
    }

    /// The file system for what is in the folder of the cache: it changes nothing elsewhere, and
    /// follows no link in it.
    pub fn home(&self) -> &Arc<dyn Fs> {
        &self.0.fs
    }

    /// The access with which it was opened.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// Messages for people about limitations of this cache.
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes commits of other processes visible; true if something changed since the last call.
    ///
    /// # Errors
    ///
    /// [`CacheError::Gone`] if the cache was removed, moved or replaced, and [`CacheError::Fs`] if
    /// its state cannot be read.
    pub fn refresh(&self) -> Result<bool, CacheError> {
        self.0.ledger().require_in_place()?;
        self.0.ledger().refresh()
    }

    /// The number of commits so far, by all processes: records read at the same number are the same.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if the state of the cache cannot be read.
    pub fn generation(&self) -> Result<u64, CacheError> {
        self.0.ledger().generation()
    }

    /// Fails if the cache was removed, moved or replaced since it was opened.
    ///
    /// # Errors
    ///
    /// [`CacheError::Gone`] if it was, and [`CacheError::Fs`] if its state cannot be read.
    pub fn require_in_place(&self) -> Result<(), CacheError> {
        self.0.ledger().require_in_place()
    }

    /// Compacts the index if many commits left holes in it: for the end of a run. True if it did.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and [`CacheError::Index`],
    /// [`CacheError::NoSpace`] or [`CacheError::Fs`] if the index cannot be written anew.
    pub fn tidy(&self) -> Result<bool, CacheError> {
        self.0.ledger().compact()
    }

    /// Makes the index and the stat index durable, as far as this process has changed them: for the
    /// end of a run.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if the disk cannot sync one of the files. The packs are durable all the
    /// same.
    pub fn sync(&self) -> Result<(), CacheError> {
        self.0.stat.sync()?;
        self.0.ledger().sync()
    }

    /// Tests if the index is valid and has all entries of the packs. After a power cut, opening the
    /// cache for writing brings it up to date.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if the index or a pack cannot be read. A damaged index is no error.
    pub fn is_up_to_date(&self) -> Result<bool, CacheError> {
        self.0.ledger().is_up_to_date()
    }

    /// The size of uncommitted objects and records.
    pub fn pending_bytes(&self) -> u64 {
        self.0.pending().bytes()
    }

    /// A private folder for unfinished files.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and [`CacheError::NoSpace`] or
    /// [`CacheError::Fs`] if the folder cannot be made.
    pub fn staging(&self) -> Result<StagingDir, CacheError> {
        self.0.require_writable()?;
        StagingDir::create(&self.0)
    }

    /// The right to work on a key; None while another process or thread has it.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if the lock fails. A file system without locks is no error: there, only
    /// threads of this process exclude each other.
    pub fn claim(&self, key: &Digest) -> Result<Option<Claim>, CacheError> {
        Ok(self.0.claims.claim(key)?)
    }

    /// The right to a number, such as that of a run, which may be held for a long time.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::claim`].
    pub fn claim_number(&self, number: u64) -> Result<Option<Claim>, CacheError> {
        Ok(self.0.claims.claim_number(number)?)
    }

    /// True when this process or another has claimed a number.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::claim`].
    pub fn number_is_held(&self, number: u64) -> Result<bool, CacheError> {
        Ok(self.0.claims.number_is_held(number)?)
    }

    /// Waits until the claim is released; false after the time limit.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::claim`].
    pub fn wait_for(&self, key: &Digest, timeout: Duration) -> Result<bool, CacheError> {
        Ok(self.0.claims.wait_for(key, timeout)?)
    }
}

impl Shared {
    pub fn new(
        (fs, outside): (Arc<dyn Fs>, Arc<dyn Fs>),
        layout: Layout,
        access: Access,
        (ledger, claims): (Ledger, Claims),
        notes: Vec<String>,
    ) -> Shared {
        Shared {
            stat: StatFile::new(Arc::clone(&fs), layout.stat_index.clone()),
            fs,
            outside,
            layout,
            access,
            notes: Mutex::new(notes),
            writer: Mutex::default(),
            ledger,
            pending: RwLock::default(),
            packs: PackFiles::default(),
            short: ShortPacks::default(),
            forgotten: Mutex::default(),
            damaged: Mutex::default(),
            claims: Arc::new(claims),
            waiting_room: Mutex::default(),
        }
    }

    /// Adds messages for people.
    pub fn tell(&self, told: Vec<String>) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).extend(told);
    }

    pub fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn pending(&self) -> RwLockReadGuard<'_, Commits> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pending_mut(&self) -> RwLockWriteGuard<'_, Commits> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn forgotten(&self) -> MutexGuard<'_, HashSet<Digest>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn damaged(&self) -> MutexGuard<'_, HashSet<Digest>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn require_writable(&self) -> Result<(), CacheError> {
        self.ledger.require_writable()
    }

    /// A path for a large object that waits for the next commit.
    pub fn waiting_path(&self) -> Result<camino::Utf8PathBuf, CacheError> {
        let mut room = self.waiting_room.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = match room.take() {
            Some(dir) => dir,
            None => StagingDir::create(self)?,
        };
        let path = crate::fs::beside(&dir.path().join("object"));
        *room = Some(dir);
        Ok(path)
    }

    /// Writes bytes into a new waiting file.
    pub fn write_waiting(&self, bytes: &Bytes) -> Result<camino::Utf8PathBuf, CacheError> {
        let path = self.waiting_path()?;
        let needed = bytes.len() as u64;
        let written =
            self.fs.open(&path, Open::CreateNew).and_then(|file| file.write_all_at(bytes, 0));
        if let Err(error) = written {
            let _ = self.fs.remove_file(&path);
            return Err(CacheError::while_writing(error, &path, needed));
        }
        Ok(path)
    }
}
