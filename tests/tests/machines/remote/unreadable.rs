//! Files and folders of a remote that this user cannot read: the rest is used, and they stay.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use throstle_tests::{Project, RanProgram};

use super::machines::{Shared, another, first, name_in, warnings};

fn is_root() -> bool {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        eprintln!("left out: only root can run programs as another user");
    }
    is_root
}

fn user() -> u32 {
    100_000 + std::process::id() % 100_000
}

fn give(path: &Path) {
    chown(path, Some(user()), Some(user())).unwrap();
    if path.is_dir() {
        path.read_dir().unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// A machine of a user without special rights.
fn of_user(project: &Project, shared: &Shared) -> Project {
    let other = another(project);
    let program = project.throstle(&[]);
    // By another program: while this one writes it, a child of another test would hold it open, and
    // an open program cannot be started.
    let copied = Command::new("cp").arg(program.get_program()).arg(other.file("throstle")).status();
    assert!(copied.unwrap().success());
    give(other.path());
    give(shared.path());
    other
}

fn as_user(project: &Project, arguments: &[&str]) -> Output {
    let user = user();
    let ids = [format!("--reuid={user}"), format!("--regid={user}")];
    let mut command = Command::new("setpriv");
    command.args(ids).args(["--clear-groups", "./throstle"]).args(arguments);
    command.current_dir(project.path()).env("HOME", project.path()).output().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_used() {
    if !is_root() {
        return;
    }
    let shared = Shared::new();
    let project = first(&shared);
    let parent = |path: PathBuf| path.parent().unwrap().to_owned();
    let paths = [
        shared.files("results").remove(0),
        shared.files("objects").remove(0),
        parent(shared.files("known").remove(0)),
        parent(shared.files("objects").remove(0)),
    ];
    for path in paths {
        let (other, name) = (of_user(&project, &shared), name_in(&shared, &path));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        set_mode(&path, 0);
        let url = shared.url();
        let ran = RanProgram::of(as_user(&other, &["run", ".", "--json", "--remote", &url]));
        assert_eq!(ran.last()["status"], "done", "{name}: {}", ran.errors);
        assert!(ran.executed().len() <= 1, "{name}: {:?}", ran.executed());
        assert_eq!(other.files("out"), project.files("out"), "{name}");
        let told = warnings(&ran).concat();
        assert!(!told.contains("continues without it"), "{name}: {told}");
        assert!(!name.starts_with("results") || told.contains("it cannot be read"), "{told}");

        let verify = ["remote", "verify", "--remote", &url];
        for repair in [&[][..], &["--repair"]] {
            let output = as_user(&other, &[&verify[..], repair].concat());
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(1), "{name}: {told}");
            assert!(
                told.contains(&format!("`{name}`: it cannot be read: permission denied")),
                "{name}: {told}"
            );
        }
        // Something that cannot be read may need the others.
        let gc = as_user(&other, &["remote", "gc", "--remote", &url]);
        let is_object = path.is_file() && name.starts_with("objects");
        assert_eq!(gc.status.code(), Some(if is_object { 0 } else { 1 }), "{gc:?}");
        set_mode(&path, mode);
        let output = as_user(&other, &verify);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("nothing is damaged"), "{name}: {told}");
    }
}
