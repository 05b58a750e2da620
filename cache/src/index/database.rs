//! The file of the index as a database: opening, changing and replacing it. A failure either
//! concerns a file, or means that the index has to be rebuilt.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use redb::{Builder, Database, StorageBackend};

use crate::CacheError;
use crate::fs::{Fs, FsError, Open, beside};
use crate::index::backend::{Direct, Failure, Overlay, Sync};
use crate::index::tables::{IndexFailure, IndexResult, Tables, View, broken};
use crate::layout::Layout;

/// Memory for the pages of the index.
const PAGE_CACHE: usize = 64 << 20;

pub(crate) fn convert(layout: &Layout, failure: IndexFailure) -> CacheError {
    match failure {
        IndexFailure::Fs(error) => CacheError::while_writing(error, &layout.dir, 0),
        IndexFailure::Broken(reason) => CacheError::Index { path: layout.ledger.clone(), reason },
    }
}

/// Damaged pages can make the database panic; that also only means a rebuild.
pub(crate) fn guarded<T>(work: impl FnOnce() -> IndexResult<T>) -> IndexResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(broken("its pages are damaged")))
}

/// Replaces a failure by the file error behind it.
pub(crate) fn with_cause<T>(
    failure: &Failure,
    work: impl FnOnce() -> IndexResult<T>,
) -> IndexResult<T> {
    guarded(work).map_err(|error| match failure.take() {
        Some(cause) if !is_damage(&cause) => IndexFailure::Fs(cause),
        _ => error,
    })
}

/// A file that ends early counts as damaged, and so does a folder in its place.
fn is_damage(error: &FsError) -> bool {
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::InvalidData, ErrorKind::IsADirectory];
    kinds.contains(&error.kind())
}

/// The database takes an empty file for a new one.
pub(crate) fn require_content(backend: &impl StorageBackend) -> IndexResult<()> {
    if backend.len().map_err(broken)? == 0 { Err(broken("it is empty")) } else { Ok(()) }
}

pub(crate) fn database(backend: impl StorageBackend) -> IndexResult<Database> {
    Builder::new().set_cache_size(PAGE_CACHE).create_with_backend(backend).map_err(broken)
}

pub(crate) fn open_view(fs: &dyn Fs, layout: &Layout) -> IndexResult<View> {
    let file = match fs.open(&layout.ledger, Open::Read) {
        Err(error) if error.is_not_found() => return Err(broken("it is missing")),
        Err(error) if error.is_a_folder() => return Err(broken("it is a folder")),
        other => other?,
    };
    let failure = Arc::new(Failure::default());
    let backend = Overlay::new(file, Arc::clone(&failure))?;
    require_content(&backend)?;
    let done = backend.done.clone();
    with_cause(&failure, || View::open(database(backend)?, done))
}

/// One change of the index, durable on return. The commit also records the free pages, so the file
/// can be left as after a crash: closing it would cost three more syncs.
pub(crate) fn transact<T>(
    backend: Direct,
    change: &mut dyn FnMut(&mut Tables<'_>) -> IndexResult<T>,
) -> IndexResult<T> {
    let done = backend.done.clone();
    let database = database(backend)?;
    let mut transaction = database.begin_write().map_err(broken)?;
    transaction.set_quick_repair(true);
    let value = {
        let mut tables = Tables::open(&transaction)?;
        let value = change(&mut tables)?;
        tables.finish()?;
        value
    };
    transaction.commit().map_err(broken)?;
    done.set();
    Ok(value)
}

/// Writes a new index file and replaces the old one.
pub(crate) fn replace(
    fs: &dyn Fs,
    layout: &Layout,
    change: &mut dyn FnMut(&mut Tables<'_>) -> IndexResult<()>,
) -> IndexResult<()> {
    let fresh = beside(&layout.ledger);
    let backend = Direct::new(fs.open(&fresh, Open::CreateNew)?, Sync::Now);
    let failure = Arc::clone(&backend.failure);
    let written = with_cause(&failure, || transact(backend, change));
    let moved = written.and_then(|()| Ok(fs.rename(&fresh, &layout.ledger)?));
    if moved.is_err() {
        let _ = fs.remove_file(&fresh);
    }
    moved?;
    Ok(fs.sync_dir(&layout.dir)?)
}
