#![allow(clippy::unwrap_used)]
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{RenameFlags, renameat_with};

use super::*;
use crate::fs::RealFs;

const WALKS: [Walk; 2] = [Walk::AtOnce, Walk::BySteps];

/// A folder to stay in, and one beside it that must stay as it is.
struct World {
    _above: tempfile::TempDir,
    inside: Utf8PathBuf,
    outside: Utf8PathBuf,
}

impl World {
    fn new() -> World {
        let above = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(above.path().canonicalize().unwrap()).unwrap();
        let (inside, outside) = (path.join("inside"), path.join("outside"));
        fs::create_dir_all(inside.join("a")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("theirs"), "theirs").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        World { _above: above, inside, outside }
    }

    fn confined(&self, walk: Walk) -> Confined {
        let handle = state::enter(CWD, self.inside.as_str(), Links::Followed).unwrap();
        Confined::around(&self.inside, handle, walk)
    }

    fn at(&self, path: &str) -> Utf8PathBuf {
        self.inside.join(path)
    }

    #[track_caller]
    fn assert_nothing_outside(&self) {
        let names: Vec<String> =
            RealFs.read_dir(&self.outside).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["theirs"]);
        assert_eq!(fs::read_to_string(self.outside.join("theirs")).unwrap(), "theirs");
    }
}

/// Exchanges a folder with a link out, again and again, while the work is done.
fn while_exchanging(world: &World, work: impl FnOnce()) {
    let (folder, link, done) = (world.at("a"), world.at("link"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let exchange = || {
            while !done.load(Ordering::Relaxed) {
                let flags = RenameFlags::EXCHANGE;
                renameat_with(CWD, folder.as_str(), CWD, link.as_str(), flags).unwrap();
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, exchange).unwrap();
        work();
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nothing_is_written_outside_while_a_folder_is_exchanged_with_a_link() {
    for walk in WALKS {
        let world = World::new();
        let mut written = 0;
        while_exchanging(&world, || {
            for number in 0..2_000 {
                // A new handle each time: a kept one leads to the folder in any case.
                let confined = world.confined(walk);
                let path = world.at(&format!("a/b/{number}"));
                let result = confined
                    .create_dir_all(path.parent().unwrap())
                    .and_then(|()| confined.write_durably(&path, b"ours"));
                match result {
                    Ok(()) => written += 1,
                    Err(error) => assert!(error.is_link_on_path() || error.is_not_found()),
                }
            }
        });
        world.assert_nothing_outside();
        let real = [world.at("a"), world.at("link")].into_iter().find(|path| !path.is_symlink());
        let files = fs::read_dir(real.unwrap().join("b")).map_or(0, Iterator::count);
        assert_eq!(files, written, "{walk:?}");
    }
}

#[test]
fn nothing_is_removed_outside_while_a_folder_is_exchanged_with_a_link() {
    for walk in WALKS {
        let world = World::new();
        while_exchanging(&world, || {
            for number in 0..1_000 {
                let confined = world.confined(walk);
                let _ = confined.write_new(&world.at("a/theirs"), b"ours");
                let _ = match number % 2 {
                    0 => confined.remove_file(&world.at("a/theirs")),
                    _ => confined.remove_dir_all(&world.at("a/theirs/")),
                };
                let _ = confined.rename(&world.at("a/theirs"), &world.at("mine"));
                let _ = confined.set_readonly(&world.at("a/theirs"));
            }
        });
        world.assert_nothing_outside();
    }
}

#[test]
fn a_link_is_refused_by_name_wherever_it_is() {
    for walk in WALKS {
        let world = World::new();
        let confined = world.confined(walk);
        fs::create_dir_all(world.at("a/b")).unwrap();
        symlink("a", world.at("to-a")).unwrap();
        symlink(world.outside.join("theirs"), world.at("a/file")).unwrap();
        confined.write_new(&world.at("a/own"), b"own").unwrap();
        let own = world.at("a/own");
        for path in ["link/new", "to-a/new", "to-a/b/new"].map(|path| world.at(path)) {
            let refusals = [
                confined.write_new(&path, b""),
                confined.create_dir(&path),
                confined.rename(&own, &path),
                confined.hard_link(&own, &path),
                confined.copy_unsynced(&own, &path).map(drop),
                confined.remove_file(&path),
                confined.remove_dir_all(&path),
                confined.metadata(&path).map(drop),
                confined.sync_dir(path.parent().unwrap()),
                confined.read_dir(path.parent().unwrap()).map(drop),
                confined.create_dir_all(path.parent().unwrap()),
                confined.confined_to(path.parent().unwrap()).map(drop),
            ];
            for (number, refusal) in refusals.into_iter().enumerate() {
                let error = refusal.unwrap_err();
                assert!(error.is_link_on_path(), "{number} at {path}: {}", error.whole());
            }
        }
        let file = world.at("a/file");
        for how in [Open::Read, Open::ReadWrite, Open::Create] {
            assert!(confined.open(&file, how).unwrap_err().is_link_on_path());
        }
        assert!(confined.set_readonly(&file).unwrap_err().is_link_on_path());
        let told = confined.read(&file).unwrap_err().whole();
        let expected = "a symbolic link is in its place or on its path";
        assert_eq!(told, format!("cannot open `{file}`: {expected}"));
        // The link itself can be replaced and removed.
        confined.rename(&own, &file).unwrap();
        assert_eq!(confined.read(&file).unwrap(), b"own");
        confined.remove_dir_all(&world.at("link")).unwrap();
        world.assert_nothing_outside();
    }
}

#[test]
fn no_path_leads_out_by_itself() {
    let world = World::new();
    let confined = world.confined(Walk::AtOnce);
    for path in [world.at("../outside/new"), world.at("a/../new"), world.outside.join("new")] {
        assert!(confined.write_new(&path, b"").is_err(), "{path}");
        assert!(confined.remove_file(&world.outside.join("theirs")).is_err());
        assert!(confined.rename(&world.outside.join("theirs"), &world.at("mine")).is_err());
    }
    world.assert_nothing_outside();
    // Reading elsewhere is allowed: originals of copies are in the cache.
    assert!(confined.exists(&world.outside.join("theirs")).unwrap());
    assert_eq!(confined.boot(), RealFs.boot());
    confined.copy(&world.outside.join("theirs"), &world.at("a/copy")).unwrap();
    confined.hard_link(&world.outside.join("theirs"), &world.at("a/name")).unwrap();
    assert_eq!(confined.read(&world.at("a/copy")).unwrap(), b"theirs");
    assert_eq!(confined.metadata(&world.at("a/name")).unwrap().size, 6);
}

#[test]
fn the_present_folder_is_one_by_both_of_its_names() {
    let confined = Confined::to(Utf8Path::new("")).unwrap();
    for name in ["", "."] {
        assert!(confined.metadata(Utf8Path::new(name)).unwrap().is_dir());
        assert_eq!(confined.below(Utf8Path::new(name)).unwrap(), "");
    }
    assert_eq!(confined.below(Utf8Path::new("./src/lib.rs")).unwrap(), "src/lib.rs");
    assert!(confined.exists(Utf8Path::new("Cargo.toml")).unwrap());
    confined.sync_dir(Utf8Path::new(".")).unwrap();
    assert!(confined.below(Utf8Path::new("/")).is_err());
}

#[test]
fn a_link_on_the_way_to_the_folder_is_the_users_own() {
    let world = World::new();
    let confined = Confined::to(&world.at("link")).unwrap();
    confined.write_new(&world.at("link/new"), b"new").unwrap();
    assert_eq!(fs::read(world.outside.join("new")).unwrap(), b"new");
    assert!(Confined::to(&world.at("nothing")).unwrap_err().is_not_found());
}

#[test]
fn a_folder_that_another_process_has_made_anew_is_opened_anew() {
    let world = World::new();
    let confined = world.confined(Walk::AtOnce);
    let path = world.at("a/b/file");
    for _ in 0..3 {
        confined.create_dir_all(path.parent().unwrap()).unwrap();
        confined.write_new(&path, b"ours").unwrap();
        assert!(confined.exists(&path).unwrap());
        fs::remove_dir_all(world.at("a")).unwrap();
        assert!(!confined.exists(&path).unwrap());
    }
    // A folder that this process moves takes its handle along.
    confined.create_dir_all(path.parent().unwrap()).unwrap();
    confined.write_new(&path, b"ours").unwrap();
    confined.rename(&world.at("a/b"), &world.at("a/c")).unwrap();
    assert!(!confined.exists(&path).unwrap());
    assert_eq!(confined.read(&world.at("a/c/file")).unwrap(), b"ours");
}

#[test]
fn a_folder_is_removed_with_all_that_is_in_it_and_no_more() {
    let world = World::new();
    let confined = world.confined(Walk::AtOnce);
    let deep = world.at("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    symlink(&world.outside, deep.join("link")).unwrap();
    fs::write(deep.join("file"), "").unwrap();
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xe9");
    fs::create_dir(deep.as_std_path().join(odd)).unwrap();
    for folder in ["a/b/c", "a/b"] {
        fs::set_permissions(world.at(folder), PermissionsExt::from_mode(0o000)).unwrap();
    }
    confined.remove_dir_all(&world.at("a")).unwrap();
    confined.remove_dir_all(&world.at("a")).unwrap();
    assert!(!world.at("a").exists());
    world.assert_nothing_outside();
}
