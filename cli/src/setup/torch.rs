//! Finds the libtorch for a worker that came without one, as in a wheel.
//!
//! A worker that was built from source knows its own libtorch; one of a package lies in
//! `site-packages/throstle/bin` and needs exactly the release that it was built with, since libtorch
//! promises no binary interface.

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};

/// The release that the worker is built with.
pub const RELEASE: &str = "2.11.0";
/// The place of a worker in its package.
const PACKAGED: &str = "throstle/bin";
const LIBRARY: &str = "lib/libtorch_cpu.so";
/// The library that a private copy has only with the parts for a GPU.
const CUDA_LIBRARY: &str = "lib/libtorch_cuda.so";

/// The libtorch that a worker loads.
#[derive(Debug, PartialEq)]
pub enum Torch {
    /// The worker has its own.
    Own,
    /// The folder of the package `torch`.
    Folder(Utf8PathBuf),
    /// A sentence about what is there instead.
    Lacking(String),
}

/// The folders where a torch may be.
pub struct Places {
    /// `VIRTUAL_ENV`.
    pub active: Option<Utf8PathBuf>,
    /// The copy of `throstle setup`.
    pub private: Option<Utf8PathBuf>,
}

impl Places {
    /// The libtorch for this worker.
    pub fn find(&self, worker: &Utf8Path) -> Torch {
        let Some(site) = packaged_in(worker) else { return Torch::Own };
        let active = self.active.iter().flat_map(|active| packages_in(active));
        let folders = std::iter::once(site.to_owned()).chain(active).chain(self.private.clone());
        let mut other = None;
        for folder in folders.map(|folder| folder.join("torch")) {
            match release(&folder) {
                Some(found) if found == RELEASE && is_there(&folder.join(LIBRARY)) => {
                    return Torch::Folder(folder);
                }
                Some(found) => other = other.or(Some((found, folder))),
                None => {}
            }
        }
        Torch::Lacking(match other {
            Some((found, folder)) if found == RELEASE => {
                format!("`{folder}` lacks the libraries of torch {RELEASE}")
            }
            Some((found, folder)) => {
                format!("`{folder}` is torch {found}, and the worker needs torch {RELEASE}")
            }
            None => format!("torch {RELEASE}, which the worker needs, was not found"),
        })
    }
}

/// The `site-packages` of a worker that belongs to a package.
fn packaged_in(worker: &Utf8Path) -> Option<&Utf8Path> {
    let folder = worker.parent().filter(|folder| folder.ends_with(PACKAGED))?;
    folder.parent()?.parent()
}

/// The folders of packages in an environment of Python.
pub fn packages_in(environment: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    for libraries in ["lib", "lib64"].map(|name| environment.join(name)) {
        let entries = RealFs.read_dir(&libraries).unwrap_or_default();
        let pythons = entries.iter().filter(|entry| entry.name.starts_with("python3"));
        for python in pythons.map(|entry| libraries.join(&entry.name)) {
            found.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
        }
    }
    found
}

/// The release of a package `torch`, without its build: `2.11.0` for `2.11.0+cu130`.
pub fn release(folder: &Utf8Path) -> Option<String> {
    let text = RealFs.read(&folder.join("version.py")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    let version = line.trim().trim_matches(['\'', '"']);
    Some(version.split('+').next().unwrap_or(version).to_owned())
}

/// True if a folder has the torch that the worker needs.
pub fn is_whole(folder: &Utf8Path) -> bool {
    release(folder).as_deref() == Some(RELEASE) && is_there(&folder.join(LIBRARY))
}

/// True if a folder has the parts for a GPU.
pub fn has_cuda(folder: &Utf8Path) -> bool {
    is_there(&folder.join(CUDA_LIBRARY))
}

fn is_there(path: &Utf8Path) -> bool {
    RealFs.exists(path).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn path(&self, path: &str) -> Utf8PathBuf {
            Utf8Path::from_path(self.0.path()).unwrap().join(path)
        }

        fn torch(&self, folder: &str, version: &str) -> Utf8PathBuf {
            let torch = self.path(folder).join("torch");
            std::fs::create_dir_all(torch.join("lib")).unwrap();
            let text = format!("__all__ = []\n__version__ = '{version}'\ncuda = None\n");
            std::fs::write(torch.join("version.py"), text).unwrap();
            std::fs::write(torch.join(LIBRARY), "").unwrap();
            torch
        }

        fn find(&self) -> Torch {
            let places =
                Places { active: Some(self.path("active")), private: Some(self.path("private")) };
            places.find(&self.path("env/lib/python3.11/site-packages/throstle/bin/throstle-torch"))
        }
    }

    #[test]
    fn the_torch_beside_the_worker_comes_before_the_active_and_the_private_one() {
        let machine = Machine(tempfile::tempdir().unwrap());
        assert_eq!(
            machine.find(),
            Torch::Lacking("torch 2.11.0, which the worker needs, was not found".to_owned())
        );
        let private = machine.torch("private", "2.11.0");
        assert_eq!(machine.find(), Torch::Folder(private));
        let active = machine.torch("active/lib/python3.12/site-packages", "2.11.0+cpu");
        assert_eq!(machine.find(), Torch::Folder(active));
        let beside = machine.torch("env/lib/python3.11/site-packages", "2.11.0+cu130");
        assert_eq!(machine.find(), Torch::Folder(beside));
    }

    #[test]
    fn another_release_is_passed_over_and_named_if_there_is_none_that_fits() {
        let machine = Machine(tempfile::tempdir().unwrap());
        let other = machine.torch("env/lib/python3.11/site-packages", "2.9.1+cu128");
        let told = format!("`{other}` is torch 2.9.1, and the worker needs torch 2.11.0");
        assert_eq!(machine.find(), Torch::Lacking(told));
        let private = machine.torch("private", "2.11.0");
        assert_eq!(machine.find(), Torch::Folder(private));
    }

    #[test]
    fn a_worker_that_was_built_from_source_has_its_own() {
        let places = Places { active: None, private: None };
        assert_eq!(places.find("/src/target/release/throstle-torch".into()), Torch::Own);
    }
}
