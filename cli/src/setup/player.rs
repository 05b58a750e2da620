//! Finds the library that plays graphs, which is opened at run time.

use std::env::current_exe;

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use stage_player::{OpenLibrary, RELEASE, open};

use super::torch::packages_in;
use super::worker::data_folder;

/// The library of the user's choice.
const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";
const ACTIVE_VARIABLE: &str = "VIRTUAL_ENV";
/// The folder of the library in its package, and the beginning of its name.
const PACKAGED: &str = "onnxruntime/capi";
const LIBRARY: &str = "libonnxruntime.so";
/// The names that the system looks for.
const SEARCHED: [&str; 2] = ["libonnxruntime.so.1", LIBRARY];
/// Folders of packages that need no environment.
const SYSTEM: [&str; 2] = ["/usr/local", "/usr"];

/// Opens the library: the one in the variable, else that of `throstle setup --player`, that of the active or the
/// own environment of Python, or that of the system.
///
/// # Errors
///
/// A sentence about what is there instead.
pub fn player() -> Result<OpenLibrary, String> {
    open(&candidates()).map_err(|failures| match failures.as_slice() {
        [] => format!("onnxruntime {RELEASE} was not found"),
        failures => failures.join("; "),
    })
}

/// The folder that `throstle setup --player` fills.
pub fn private_player() -> Option<Utf8PathBuf> {
    Some(data_folder()?.join(format!("onnxruntime-{RELEASE}")))
}

/// Tests if a folder has the library.
pub fn has_player(folder: &Utf8Path) -> bool {
    library_in(folder).is_some()
}

fn candidates() -> Vec<Utf8PathBuf> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(chosen) = variable(LIBRARY_VARIABLE) {
        return vec![chosen.into()];
    }
    let own = current_exe().ok().and_then(|own| Utf8PathBuf::from_path_buf(own).ok());
    let own = own.as_deref().and_then(|own| Some(own.parent()?.parent()?.to_owned()));
    let user = variable("HOME").map(|home| Utf8Path::new(&home).join(".local"));
    let environments = variable(ACTIVE_VARIABLE).map(Utf8PathBuf::from).into_iter().chain(own);
    let environments = environments.chain(user).chain(SYSTEM.map(Utf8PathBuf::from));
    let packages = environments.flat_map(|folder| packages_in(&folder));
    let folders = private_player().into_iter().chain(packages);
    let found = folders.filter_map(|folder| library_in(&folder));
    found.chain(SEARCHED.map(Utf8PathBuf::from)).collect()
}

/// The library in a folder of packages.
fn library_in(packages: &Utf8Path) -> Option<Utf8PathBuf> {
    let folder = packages.join(PACKAGED);
    let entries = RealFs.read_dir(&folder).ok()?;
    let library = entries.iter().find(|entry| entry.name.starts_with(LIBRARY))?;
    Some(folder.join(&library.name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_library_of_a_package_is_found_with_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        assert!(!has_player(folder));
        std::fs::create_dir_all(folder.join(PACKAGED)).unwrap();
        std::fs::write(folder.join(PACKAGED).join("libonnxruntime_providers_shared.so"), "")
            .unwrap();
        assert!(!has_player(folder));
        let library = folder.join(PACKAGED).join("libonnxruntime.so.1.32.0");
        std::fs::write(&library, "").unwrap();
        assert_eq!(library_in(folder), Some(library));
    }
}
