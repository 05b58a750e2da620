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
        match ort::init_from(path) {
            Ok(environment) => {
                environment.with_name("throstle").with_telemetry(false).commit();
                return Ok(opened.insert(OpenLibrary { path: path.clone() }).clone());
            }
            Err(_) if is_searched(path) => {}
            Err(error) => failures.push(sentence(path, &error)),
        }
    }
    Err(failures)
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
