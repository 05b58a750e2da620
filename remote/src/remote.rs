//! A remote as seen by one process: its known contents, the requests so far, and its state.
//!
//! A remote that does not answer is not asked again by this process: it costs a warning and one
//! time limit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cache::{Cache, CacheError, Digest, Table};

use crate::address::Address;
use crate::error::RemoteError;
use crate::fetch::FetchCounts;
use crate::folder::Folder;
use crate::known::{self, KnownFiles, Label};
use crate::layout;
use crate::outcome::{self, Outcome};
use crate::storage::{Refusal, Storage};
use crate::timed::TimedStorage;
use crate::workers::each;

/// The times at which results are written to the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushing {
    /// During the run, and at its end.
    Always,
    /// At the end of the run.
    End,
    /// Only by a command.
    Never,
}

/// The use of a remote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The times at which results are written.
    pub push: Pushing,
    /// A remote that cannot be used is an error, instead of a warning.
    pub require: bool,
    /// For one request.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let timeout = Duration::from_secs(30);
        Settings { push: Pushing::End, require: false, timeout }
    }
}

/// The meaning of records, which this crate does not know.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Tests if the second value of a record replaces the first, existing one.
    pub prefers: fn(Table, &[u8], &[u8]) -> bool,
    /// Selects the tables that are taken from packs.
    pub takes: fn(Table) -> bool,
    /// The part of a value that two machines have alike; none if that is the whole.
    pub meaning: fn(Table, &[u8]) -> Option<Vec<u8>>,
    /// Selects the tables with records that a scope leads to.
    pub is_scoped: fn(Table) -> bool,
}

/// A remote and the cache of this machine. Requests begin when they are needed.
#[derive(Debug)]
pub struct Remote {
    pub(crate) address: Address,
    /// The key of the address among the records of this machine.
    pub(crate) url: Digest,
    pub(crate) place: TimedStorage,
    pub(crate) settings: Settings,
    pub(crate) rules: Rules,
    pub(crate) cache: Cache,
    /// The present size of a request for small objects.
    pub(crate) window: AtomicU64,
    pub(crate) brought: FetchCounts,
    /// Identifies the attempts of this process at trainings.
    pub(crate) attempt: Digest,
    /// Held by the only push at a time.
    pub(crate) turn: Mutex<()>,
    /// Held by the only one that commits while others fetch.
    pub(crate) committing: Mutex<()>,
    /// Held by the only one that numbers checkpoints.
    numbering: Mutex<()>,
    state: Mutex<RemoteState>,
}

#[derive(Debug, Default)]
pub(crate) struct RemoteState {
    known: Option<KnownFiles>,
    /// The commits of the cache at the last look for what other processes have learned.
    known_at: Option<u64>,
    /// None before the first request; false for a remote without anything.
    begun: Option<bool>,
    /// The keys and scopes that were requested.
    asked: HashSet<Digest>,
    /// The scopes of the work of this process.
    pub scopes: BTreeSet<Digest>,
    /// The only scope that is read.
    only: Option<Digest>,
    notes_all: bool,
    /// Everything was listed by this process: it is a remote, or empty.
    pub is_listed: bool,
    /// Packs that were seen by this process, or written by it.
    pub checked: HashSet<Digest>,
    /// Objects that are damaged or missing in the remote.
    pub wrong: HashSet<Digest>,
    pub repair: OpenRepair,
    /// The large objects with their sizes when everything was listed last.
    pub large: Option<HashSet<(Digest, u64)>>,
    /// The labels when everything was listed last.
    pub labels: Option<HashSet<Label>>,
    away: bool,
    pub notes: Vec<String>,
    /// Files were ignored.
    has_ignored: bool,
    has_damaged: bool,
}

/// A repair between its beginning and its end: what it writes again before it removes damaged packs.
#[derive(Debug, Default)]
pub(crate) struct OpenRepair {
    /// The damaged packs, which count as unknown.
    pub packs: BTreeSet<Digest>,
    /// The outcomes that refer to them, until they are written again.
    pub outcomes: BTreeSet<Digest>,
    /// The names of outcomes that were written again.
    pub replaced: BTreeSet<String>,
    /// The large objects of these packs that the remote has, with their sizes.
    pub large: BTreeMap<Digest, u64>,
}

impl Remote {
    /// At the place that the address names. This asks nothing.
    ///
    /// # Errors
    ///
    /// If the address needs a client that this program was built without.
    pub fn open(
        address: Address,
        settings: Settings,
        rules: Rules,
        cache: Cache,
    ) -> Result<Remote, RemoteError> {
        let place = place(&address, &settings)?;
        Ok(Remote::at(place, address, settings, rules, cache))
    }

    /// At a place of the caller.
    pub fn at(
        place: Arc<dyn Storage>,
        address: Address,
        settings: Settings,
        rules: Rules,
        cache: Cache,
    ) -> Remote {
        Remote {
            url: Digest::of(address.as_str().as_bytes()),
            address,
            place: TimedStorage::new(place, settings.timeout),
            settings,
            rules,
            cache,
            window: AtomicU64::new(0),
            brought: FetchCounts::default(),
            attempt: random(),
            turn: Mutex::default(),
            committing: Mutex::default(),
            numbering: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// For a process with an identity of its own: no two processes may have the same.
    pub fn with_attempt(mut self, attempt: Digest) -> Remote {
        self.attempt = attempt;
        self
    }

    /// Several requests at a time; the answers are in order.
    pub(crate) fn each<T: Sync, R: Send>(
        &self,
        all: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        each(all, self.place.place().at_once(), work)
    }

    /// The address with which it was opened.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The settings with which it was opened.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Held between the choice of a checkpoint's number and its end.
    pub fn numbering(&self) -> MutexGuard<'_, ()> {
        self.numbering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.place.requests.all()
    }

    /// Tests if entries of packs were damaged. Notes have named the volumes.
    pub fn has_damaged(&self) -> bool {
        self.state().has_damaged
    }

    /// Tests if files were ignored, such as damaged ones. Notes have named them.
    pub fn has_ignored(&self) -> bool {
        self.state().has_ignored
    }

    /// Messages for people since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes)
    }

    /// False for a web server.
    pub fn is_writable(&self) -> bool {
        self.place.place().is_writable()
    }

    /// False after a request was not answered.
    pub fn is_usable(&self) -> bool {
        !self.state().away
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RemoteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives access to the known contents of the remote.
    pub(crate) fn with_known<T>(
        &self,
        work: impl FnOnce(&mut KnownFiles) -> Result<T, CacheError>,
    ) -> Result<T, CacheError> {
        let mut state = self.state();
        let known = match state.known.take() {
            Some(known) => known,
            None => {
                state.known_at = Some(self.cache.generation()?);
                KnownFiles::load(&self.cache, &self.url)?
            }
        };
        work(state.known.insert(known))
    }

    /// The answer to a request; none if there is no answer, which is reported once.
    pub(crate) fn answer<T>(&self, answer: Result<T, Refusal>) -> Result<Option<T>, RemoteError> {
        let Refusal(why) = match answer {
            Ok(answer) => return Ok(Some(answer)),
            Err(refusal) => refusal,
        };
        let trouble = RemoteError::Away { url: self.address.to_string(), why };
        if self.settings.require {
            return Err(trouble);
        }
        let mut state = self.state();
        if !std::mem::replace(&mut state.away, true) {
            state.notes.push(format!("{trouble}; this command continues without it"));
        }
        Ok(None)
    }

    /// The remote is not asked from now on.
    pub(crate) fn give_up(&self, Refusal(why): Refusal) -> RemoteError {
        self.state().away = true;
        RemoteError::Away { url: self.address.to_string(), why }
    }

    /// Reports a damaged or unreadable file, which is not used.
    pub(crate) fn tell_wrong(&self, name: &str, why: &str) {
        let why = self.unreadable().remove(name).unwrap_or_else(|| why.to_owned());
        let (url, name) = (self.address.to_string(), name.to_owned());
        self.tell_ignored(format!(
            "{}; the file is ignored",
            RemoteError::Wrong { url, name, why }
        ));
    }

    /// Reports a folder that could not be listed. True if it is one.
    pub(crate) fn tell_unreadable(&self, folder: &str) -> bool {
        let is_unreadable = self.unreadable().contains_key(folder);
        if is_unreadable {
            self.tell_wrong(folder, "");
        }
        is_unreadable
    }

    /// Reports a volume with a damaged entry. Its other entries are used.
    pub(crate) fn tell_damaged(&self, name: &str) {
        self.state().has_damaged = true;
        let url = &self.address;
        self.tell_ignored(format!(
            "the remote `{url}` has a damaged file `{name}`: its damaged entries are ignored"
        ));
    }

    fn tell_ignored(&self, told: String) {
        let mut state = self.state();
        state.has_ignored = true;
        if !state.notes.contains(&told) {
            state.notes.push(told);
        }
    }

    /// The next push compares the outcome in the remote with that of this machine.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read or written.
    pub fn forget_outcome(&self, key: &Digest) -> Result<(), CacheError> {
        self.with_known(|known| known.forget_outcome(&self.cache, &self.url, key))
    }

    /// Reports an outcome that the caller cannot use.
    pub fn refuse_outcome(&self, key: &Digest, why: &str) {
        self.tell_wrong(&layout::result(key), why);
    }

    /// True the first time for each.
    pub(crate) fn is_first_question(&self, about: &Digest) -> bool {
        self.state().asked.insert(*about)
    }

    /// True if there is a remote of a known format. Asks once.
    pub(crate) fn is_begun(&self) -> Result<bool, RemoteError> {
        let begun = {
            let state = self.state();
            if state.away { Some(false) } else { state.begun }
        };
        if let Some(begun) = begun {
            return Ok(begun);
        }
        let mark = self.answer(self.place.get(layout::MARK, 64))?.flatten();
        let begun = mark
            .as_ref()
            .is_some_and(|mark| mark.trim_ascii_end() == layout::FORMAT.trim_end().as_bytes());
        if let Some(mark) = mark.filter(|_| !begun) {
            let line = layout::FORMAT.trim_end();
            let is_empty = mark.trim_ascii().is_empty();
            let is_file = || self.place.size(layout::MARK).is_ok_and(|size| size.is_some());
            let unreadable = self.unreadable().remove(layout::MARK);
            let why = match is_empty {
                true if unreadable.is_some() => unreadable.unwrap_or_default(),
                true if is_file() => {
                    format!("it is empty; if this was a remote, write the line `{line}` into it")
                }
                true => "it is not a file".to_owned(),
                false => "it does not mark a remote, or marks one of a newer version".to_owned(),
            };
            self.answer::<()>(Err(Refusal(format!("`{}`: {why}", layout::MARK))))?;
        }
        self.state().begun = Some(begun);
        Ok(begun)
    }

    pub(crate) fn set_begun(&self) {
        self.state().begun = Some(true);
    }

    /// The outcome under a key, if the remote has one. Its objects are known afterwards, and come
    /// when they are read.
    ///
    /// # Errors
    ///
    /// If the remote does not answer and [`Settings::require`](crate::Settings) is set, or if the index of the cache cannot be read or
    /// written.
    pub fn outcome(&self, key: &Digest) -> Result<Option<Bytes>, RemoteError> {
        if !self.is_first_question(key) || !self.is_begun()? {
            return Ok(None);
        }
        let name = layout::result(key);
        let found = self.answer(self.place.get(&name, outcome::MOST_BYTES))?.flatten();
        let Some(bytes) = found else { return Ok(None) };
        let Some(outcome) = Outcome::decode(&bytes, key) else {
            self.tell_wrong(&name, "it is damaged or belongs to another key");
            return Ok(None);
        };
        if known::is_ignored(&self.cache, Table(outcome.table), key)? {
            return Ok(None);
        }
        self.learn(&outcome.packs)?;
        if !self.is_usable() {
            return Ok(None);
        }
        self.with_known(|known| known.keep_outcome(&self.cache, &self.url, key))?;
        Ok(Some(outcome.value.into()))
    }

    /// The present outcome under a key; unlike [`Remote::outcome`], every call asks.
    ///
    /// # Errors
    ///
    /// If the remote does not answer and [`Settings::require`](crate::Settings) is set, or if the index of the cache cannot be read or
    /// written.
    pub fn look_up(&self, key: &Digest) -> Result<Option<Bytes>, RemoteError> {
        if !self.is_begun()? {
            return Ok(None);
        }
        let name = layout::result(key);
        let found = self.answer(self.place.get(&name, outcome::MOST_BYTES))?.flatten();
        let Some(bytes) = found else { return Ok(None) };
        let Some(outcome) = Outcome::decode(&bytes, key) else {
            self.tell_wrong(&name, "it is damaged or belongs to another key");
            return Ok(None);
        };
        self.learn(&outcome.packs)?;
        Ok(self.is_usable().then(|| outcome.value.into()))
    }

    /// Makes records of a scope known; true if there were new ones. The scope is one of this
    /// process: what it pushes is found under it.
    ///
    /// # Errors
    ///
    /// If the remote does not answer and [`Settings::require`](crate::Settings) is set, or if the index of the cache cannot be read or
    /// written.
    pub fn scope(&self, scope: &Digest) -> Result<bool, RemoteError> {
        let is_read = {
            let mut state = self.state();
            state.scopes.insert(*scope);
            state.only.is_none_or(|only| only == *scope)
        };
        if !is_read
            || !self.place.place().can_list()
            || !self.is_first_question(scope)
            || !self.is_begun()?
        {
            return Ok(false);
        }
        let listed = self.answer(self.place.list(&layout::scope(scope)))?.unwrap_or_default();
        let packs: Vec<Digest> =
            listed.iter().filter_map(|listed| layout::digest_of(&listed.name)).collect();
        self.tell_unreadable(&layout::scope(scope));
        let learned = self.learn(&packs)?;
        self.keep_labels(packs.into_iter().map(|pack| (*scope, pack)))?;
        Ok(learned > 0)
    }

    /// Remembers labels of known packs.
    pub(crate) fn keep_labels(
        &self,
        labels: impl IntoIterator<Item = Label>,
    ) -> Result<(), CacheError> {
        self.with_known(|known| {
            for label in labels {
                if known.has_pack(&label.1) {
                    known.keep_label(&self.cache, &self.url, label)?;
                }
            }
            Ok(())
        })
    }

    /// From now on, records are read under this scope alone. Under all others they are only written.
    ///
    /// # Errors
    ///
    /// Those of [`Remote::scope`].
    pub fn read_only_under(&self, scope: &Digest) -> Result<(), RemoteError> {
        self.state().only = Some(*scope);
        self.scope(scope).map(drop)
    }

    /// From now on, the scopes of finished stages are included.
    pub fn note_all_scopes(&self) {
        self.state().notes_all = true;
    }

    /// The scope of a stage without work in this process.
    pub fn note_finished_scope(&self, scope: &Digest) {
        let mut state = self.state();
        if state.notes_all {
            state.scopes.insert(*scope);
        }
    }

    /// Tests if the remote is known to have an object, even if it cannot be fetched now.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read.
    pub fn lists(&self, digest: &Digest) -> Result<bool, CacheError> {
        self.with_known(|known| Ok(known.find(digest).is_some()))
    }

    /// Tests which objects the remote has, as far as this machine knows: asks nothing. Includes what
    /// other processes have learned since: an outcome that one of them has recorded may name objects
    /// that are in the remote alone.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read.
    pub fn knows(&self, digests: &[Digest]) -> Result<Vec<bool>, CacheError> {
        let known = self.knew(digests)?;
        if known.contains(&false) && self.catches_up()? { self.knew(digests) } else { Ok(known) }
    }

    /// Learns what other processes have learned, unless nothing was committed since the last time.
    pub(crate) fn catches_up(&self) -> Result<bool, CacheError> {
        let is_loaded = {
            let state = self.state();
            state.known.is_some() && !state.away
        };
        if !is_loaded {
            return Ok(false);
        }
        let now = self.cache.generation()?;
        if self.state().known_at.replace(now) == Some(now) {
            return Ok(false);
        }
        self.with_known(|known| known.catch_up(&self.cache, &self.url))?;
        Ok(true)
    }

    fn knew(&self, digests: &[Digest]) -> Result<Vec<bool>, CacheError> {
        let wrong: HashSet<Digest> = {
            let state = self.state();
            if state.away {
                return Ok(vec![false; digests.len()]);
            }
            state.wrong.clone()
        };
        self.with_known(|known| {
            let knows = |digest| !wrong.contains(digest) && known.find(digest).is_some();
            Ok(digests.iter().map(knows).collect())
        })
    }
}

/// Different in each process, and for each remote in it.
fn random() -> Digest {
    let random = || RandomState::new().build_hasher().finish();
    let parts = [random(), random(), u64::from(std::process::id())];
    Digest::of(&parts.map(u64::to_le_bytes).concat())
}

fn place(address: &Address, settings: &Settings) -> Result<Arc<dyn Storage>, RemoteError> {
    match address.folder() {
        Some(folder) => Ok(Arc::new(Folder::new(folder))),
        None => server(address, settings.timeout),
    }
}

#[cfg(feature = "cloud")]
fn server(address: &Address, timeout: Duration) -> Result<Arc<dyn Storage>, RemoteError> {
    Ok(Arc::new(crate::cloud::Cloud::new(address.clone(), timeout)))
}

#[cfg(not(feature = "cloud"))]
fn server(address: &Address, _: Duration) -> Result<Arc<dyn Storage>, RemoteError> {
    Err(RemoteError::NotBuilt { url: address.to_string() })
}
