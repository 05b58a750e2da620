//! Which packages may depend on which: only the worker's may reach libtorch, so that a run with
//! nothing to do never loads it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The packages that link libtorch.
const LIBTORCH: [&str; 2] = ["tch", "torch-sys"];
const WORKER: &str = "stage-torch";

/// Who depends on whom, by name.
struct Packages {
    members: BTreeSet<String>,
    /// What is linked into a package's library and programs.
    linked: BTreeMap<String, BTreeSet<String>>,
    /// The same, and what its tests and build scripts need.
    all: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    /// As the lock file resolves them.
    fn read() -> Packages {
        // Packages of other platforms may not be on this machine.
        let about = cargo(&["-vV"]);
        let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let form = ["metadata", "--format-version", "1", "--offline", "--locked"];
        let metadata = cargo(&[&form[..], &["--filter-platform", host]].concat());
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let listed = metadata["packages"].as_array().unwrap().iter();
        let names: BTreeMap<&str, &str> =
            listed.map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let name = |id: &Value| names[text(id)].to_owned();
        let members = metadata["workspace_members"].as_array().unwrap().iter().map(name).collect();
        let mut packages = Packages { members, linked: BTreeMap::new(), all: BTreeMap::new() };
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            for dependency in node["deps"].as_array().unwrap() {
                let kinds = dependency["dep_kinds"].as_array().unwrap();
                let (from, to) = (name(&node["id"]), name(&dependency["pkg"]));
                if kinds.iter().any(|kind| kind["kind"].is_null()) {
                    packages.linked.entry(from.clone()).or_default().insert(to.clone());
                }
                packages.all.entry(from).or_default().insert(to);
            }
        }
        packages
    }

    /// The members of the workspace that a member links directly.
    fn members_in(&self, member: &str) -> BTreeSet<&str> {
        let linked = self.linked[member].iter().map(String::as_str);
        linked.filter(|name| self.members.contains(*name)).collect()
    }

    /// All that a member and its tests need, however far away.
    fn reach(&self, member: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        // The tests of what a member depends on are not built with it.
        let mut open: Vec<String> = self.all[member].iter().cloned().collect();
        while let Some(name) = open.pop() {
            if reached.insert(name.clone()) {
                open.extend(self.linked.get(&name).into_iter().flatten().cloned());
            }
        }
        reached
    }
}

/// What cargo prints.
fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn no_package_but_the_worker_reaches_libtorch() {
    let packages = Packages::read();
    for member in packages.members.iter().filter(|member| *member != WORKER) {
        let reached = packages.reach(member);
        for library in LIBTORCH {
            assert!(!reached.contains(library), "`{member}` depends on `{library}`");
        }
    }
    let reached = packages.reach(WORKER);
    assert!(LIBTORCH.iter().all(|library| reached.contains(*library)), "the names have changed");
}

#[test]
fn nothing_depends_on_the_worker() {
    let packages = Packages::read();
    for (package, dependencies) in &packages.all {
        assert!(!dependencies.contains(WORKER), "`{package}` depends on `{WORKER}`");
    }
}

#[test]
fn dependencies_point_one_way() {
    let packages = Packages::read();
    let expected: [(&str, &[&str]); 7] = [
        ("cache", &[]),
        ("stage-core", &["cache"]),
        ("stage-formats", &["cache", "stage-core"]),
        ("stage-families", &["cache", "stage-core", "stage-formats"]),
        ("stage-speech", &["cache", "stage-core", "stage-formats", "stage-families"]),
        ("stage-torch", &["cache", "stage-core", "stage-formats", "stage-families"]),
        ("engine", &["cache", "stage-core", "stage-formats", "stage-families", "stage-speech"]),
    ];
    for (member, allowed) in expected {
        let linked = packages.members_in(member);
        let others: Vec<_> = linked.iter().filter(|name| !allowed.contains(name)).collect();
        assert!(others.is_empty(), "`{member}` depends on {others:?}");
    }
    assert!(packages.members_in("stage-core").contains("cache"), "the names have changed");
}
