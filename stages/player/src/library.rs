//! The library of onnxruntime, opened at run time.

use std::sync::Mutex;
use std::sync::PoisonError;

use camino::{Utf8Path, Utf8PathBuf};

/// The release that is fetched and tested. The oldest that works is 1.17.
pub const RELEASE: &str = "1.32.0";

/// The library that this process has opened: it stays so until the process ends.
static OPENED: Mutex<Option<OpenLibrary>> = Mutex::new(None);

/// An open library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLibrary {
    pub path: Utf8PathBuf,
}

/// Opens the first of these libraries that works. One without a folder is looked for as the system does.
///
/// # Errors
///
/// A sentence for each library that is there and cannot be opened; none if there is none.
pub fn open(candidates: &[Utf8PathBuf]) -> Result<OpenLibrary, Vec<String>> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = opened.as_ref() {
        return Ok(library.clone());
    }
    let mut failures = Vec::new();
    for path in candidates {
        match try_open(path) {
            Ok(()) => return Ok(opened.insert(OpenLibrary { path: path.clone() }).clone()),
            Err(OpenFailure::NotLoaded(_)) if is_searched(path) => {}
            Err(OpenFailure::NotLoaded(why)) => failures.push(why),
            // `ort` takes any library for open from here on.
            Err(OpenFailure::Refused(why)) => return Err(vec![why]),
        }
    }
    Err(failures)
}

enum OpenFailure {
    NotLoaded(String),
    Refused(String),
}

/// Loads a library before `ort` does: after one attempt that failed, `ort` reports every other one as open.
fn try_open(path: &Utf8Path) -> Result<(), OpenFailure> {
    let not_loaded = |error: libloading::Error| {
        let text = error.to_string();
        let text = text.lines().next().unwrap_or_default();
        OpenFailure::NotLoaded(format!("`{path}` cannot be loaded ({text})"))
    };
    // SAFETY: the person or the system names this library to be run in this process.
    let library = unsafe { libloading::Library::new(path.as_std_path()) }.map_err(not_loaded)?;
    // SAFETY: the symbol is only looked up.
    let base = unsafe { library.get::<unsafe extern "C" fn()>(b"OrtGetApiBase") };
    if base.is_err() {
        return Err(OpenFailure::NotLoaded(format!("`{path}` is not onnxruntime")));
    }
    // It stays loaded until the process ends.
    std::mem::forget(library);
    let environment =
        ort::init_from(path).map_err(|error| OpenFailure::Refused(sentence(path, &error)))?;
    environment.with_name("throstle").with_telemetry(false).commit();
    Ok(())
}

/// Tests if the system looks for a library, which need not be there.
fn is_searched(path: &Utf8Path) -> bool {
    path.parent().is_none_or(|folder| folder.as_str().is_empty())
}

fn sentence(path: &Utf8Path, error: &ort::LoadDynamicError) -> String {
    match error {
        ort::LoadDynamicError::Dlopen { error, .. } => {
            let text = error.to_string();
            let text = text.lines().next().unwrap_or_default();
            format!("`{path}` cannot be loaded ({text})")
        }
        ort::LoadDynamicError::MissingApi { .. } => format!("`{path}` is not onnxruntime"),
        ort::LoadDynamicError::BadVersion { version_str, .. } => {
            format!("`{path}` is onnxruntime {version_str}, and 1.17 is the oldest that works")
        }
    }
}
