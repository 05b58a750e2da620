//! Files and folders that a person names for the output of a command.

use cache::cache_around;
use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use view::escape::clean;

use super::error::CliError;

/// Writes the file as [`RealFs::write_named`] does, but nothing in a cache.
pub fn write(file: &Utf8Path, bytes: &[u8]) -> Result<(), CliError> {
    refuse_caches(file)?;
    Ok(RealFs.write_named(file, bytes)?)
}

/// Refuses a place in a cache, where a file of this name may belong to the store.
pub fn refuse_caches(place: &Utf8Path) -> Result<(), CliError> {
    match cache_around(&RealFs, &resolved(place)) {
        None => Ok(()),
        Some(cache) => Err(CliError::usage(
            format!("`{}` is in the cache `{}`", clean(place.as_str()), clean(cache.as_str())),
            "choose a place outside the cache: only throstle itself writes to it",
        )),
    }
}

/// Refuses an existing file or folder that is one of these sources, or in one of them.
pub fn refuse_sources(
    place: &Utf8Path,
    sources: impl IntoIterator<Item = Utf8PathBuf>,
) -> Result<(), CliError> {
    let Ok(real) = RealFs.resolve(place) else { return Ok(()) };
    let mut sources = sources.into_iter().filter_map(|source| RealFs.resolve(&source).ok());
    if sources.any(|source| real.starts_with(source)) {
        Err(CliError::usage(
            format!("`{}` is a file of the pipeline", clean(place.as_str())),
            "choose another file: manifests and sources are never overwritten",
        ))
    } else {
        Ok(())
    }
}

/// The path without links, or else that of the nearest folder that exists.
pub fn resolved(place: &Utf8Path) -> Utf8PathBuf {
    let named = |path: &Utf8Path| match path.as_str() {
        "" => RealFs.resolve(Utf8Path::new(".")),
        _ => RealFs.resolve(path),
    };
    place.ancestors().find_map(|path| named(path).ok()).unwrap_or_else(|| place.to_owned())
}
