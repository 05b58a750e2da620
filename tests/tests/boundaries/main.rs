//! Allowed dependencies of packages: only the worker's may reach libtorch, so that a no-op run
//! never loads it. Only some may name a model family: neither engine nor cache.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stage_families::FAMILIES;
use throstle_tests::guide::{document, root};
use throstle_tests::modules::{Modules, circles};

mod names;
mod release;

/// The package that opens onnxruntime, and its only user, which the worker does not link.
const PLAYER: (&str, &str) = ("ort", "stage-player");

/// The packages that link libtorch.
const LIBTORCH: [&str; 2] = ["tch", "torch-sys"];
const WORKER: &str = "stage-torch";

/// The dependencies of packages, by name.
struct Packages {
    members: BTreeSet<String>,
    /// The packages linked into a package's library and programs.
    linked: BTreeMap<String, BTreeSet<String>>,
    /// The same, with those of its tests and build scripts.
    all: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    /// The dependencies in the lock file.
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

    /// All packages that a member and its tests need, transitively.
    fn reach(&self, member: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        // The tests of a dependency are not built with it.
        let mut open: Vec<String> = self.all[member].iter().cloned().collect();
        while let Some(name) = open.pop() {
            if reached.insert(name.clone()) {
                open.extend(self.linked.get(&name).into_iter().flatten().cloned());
            }
        }
        reached
    }
}

/// The output of cargo.
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
fn the_worker_does_not_reach_the_player_and_the_player_links_no_library() {
    let packages = Packages::read();
    let (library, player) = PLAYER;
    // Its tests start the program, which has the player.
    let (mut reached, mut open) = (BTreeSet::new(), vec![WORKER]);
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(packages.linked.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    assert!(!reached.contains(library), "`{WORKER}` links `{library}`");
    let users = packages.all.iter().filter(|(_, dependencies)| dependencies.contains(library));
    assert_eq!(users.map(|(user, _)| user.as_str()).collect::<Vec<_>>(), [player]);
    let manifest = document("Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with("ort = ")).unwrap();
    assert!(
        line.contains("default-features = false") && line.contains("\"load-dynamic\""),
        "{line}"
    );
    assert!(!line.contains("download"), "{line}");
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
    /// The crates of stages that need no computation of a model.
    const STAGES: [&str; 7] = [
        "throstle-cache",
        "throstle-stage-core",
        "stage-programs",
        "stage-signal",
        "stage-expression",
        "stage-formats",
        "stage-families",
    ];
    let expected: [(&str, &[&[&str]]); 17] = [
        ("throstle-cache", &[]),
        ("server", &[]),
        ("stage-signal", &[]),
        ("remote", &[&["throstle-cache"]]),
        ("throstle-stage-core", &[&["throstle-cache"]]),
        ("stage-programs", &[&["throstle-cache"]]),
        ("stage-expression", &[&["throstle-cache", "throstle-stage-core"]]),
        ("stage-worker", &[&["throstle-cache", "throstle-stage-core"]]),
        ("stage-formats", &[&["throstle-cache", "throstle-stage-core"]]),
        ("stage-families", &[&["throstle-cache", "throstle-stage-core", "stage-formats"]]),
        ("stage-speech", &[&STAGES]),
        ("stage-player", &[&STAGES]),
        ("stage-torch", &[&STAGES, &["stage-worker"]]),
        ("manifest", &[&STAGES, &["remote"]]),
        ("engine", &[&STAGES, &["stage-worker", "remote", "manifest"]]),
        ("view", &[&STAGES, &["stage-speech", "engine"]]),
        (
            "cli",
            &[&STAGES, &["stage-speech", "stage-player", "remote", "engine", "view", "server"]],
        ),
    ];
    for (member, allowed) in expected {
        let linked = packages.members_in(member);
        let others: Vec<_> =
            linked.iter().filter(|name| !allowed.concat().contains(name)).collect();
        assert!(others.is_empty(), "`{member}` depends on {others:?}");
    }
    assert!(
        packages.members_in("throstle-stage-core").contains("throstle-cache"),
        "the names have changed"
    );
}

/// The modules of the engine: each may name only those on lines above its own. The first ones are
/// those of the crate `manifest`.
const FLOORS: [&[&str]; 18] = [
    &["manifest", "pipeline", "sweep"],
    &["units", "figure"],
    &["event"],
    &["leftovers", "reason", "runlog", "settled", "unchanged"],
    &["record"],
    &["executor"],
    &["options"],
    &["machine"],
    &[
        "failed_output",
        "gauge",
        "gpu_hours",
        "history",
        "measure",
        "spending",
        "store",
        "unrecorded",
    ],
    &["allowance", "checkpoints", "error", "gc", "tables", "world"],
    &["archive"],
    &["mirror", "engine"],
    &["plan"],
    &["estimate", "export", "noted", "retry", "trials"],
    &["misplaced", "run"],
    &["entry"],
    &["work"],
    &["lib", "testing"],
];

/// Folders of modules that the engine passes on under their own names.
const ROOMS: [&str; 2] = ["ledger", "upkeep"];

/// The modules of the crate that code names by `crate::`, without its tests and comments.
fn named_modules(code: &str) -> BTreeSet<&str> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    paths.map(|path| path.split(|letter| !is_part(letter)).next().unwrap()).collect()
}

#[test]
fn modules_of_the_engine_name_only_those_below_them() {
    let floor = |module: &str| FLOORS.iter().position(|floor| floor.contains(&module));
    let source = root().join("engine/src");
    let mut named = 0;
    for path in files(&source).iter().filter(|path| path.extension().is_some_and(|end| end == "rs"))
    {
        let mut parts =
            path.strip_prefix(&source).unwrap().iter().map(|part| part.to_str().unwrap());
        let own = parts.find(|part| !ROOMS.contains(part)).unwrap().trim_end_matches(".rs");
        if own == "mod" {
            continue;
        }
        let height = floor(own).unwrap_or_else(|| panic!("`{own}` has no floor"));
        if path.ends_with("tests.rs") || path.ends_with("testing.rs") {
            continue;
        }
        let code = std::fs::read_to_string(path).unwrap();
        for other in named_modules(&code).into_iter().filter(|other| *other != own) {
            let below = floor(other).is_some_and(|other| other < height);
            assert!(below, "{}: `{own}` may not name `{other}`", path.display());
            named += 1;
        }
    }
    assert!(named > 100, "{named} uses");
}

#[test]
fn a_module_is_named_wherever_a_path_begins_with_the_crate() {
    let code = "/// [`crate::why`]\nuse crate::plan::Plan;\nfn a() { crate::run::run() }\n\
                #[cfg(test)]\nmod tests {\n    use crate::estimate::Total;\n}\n";
    assert_eq!(named_modules(code), BTreeSet::from(["plan", "run"]));
}

/// The folders of the packages with code.
const MEMBERS: [&str; 18] = [
    "cache",
    "stages/core",
    "stages/expression",
    "stages/programs",
    "stages/signal",
    "stages/worker",
    "stages/formats",
    "stages/families",
    "stages/speech",
    "stages/player",
    "stages/torch",
    "remote",
    "manifest",
    "engine",
    "view",
    "server",
    "cli",
    "tests",
];

/// Tests that measure or change their process. All others join the program of their subject, since each program links
/// the whole workspace.
const PROGRAMS_OF_ONE_FILE: [&str; 5] = [
    "stages/torch/tests/heap.rs",
    "stages/torch/tests/kernels.rs",
    "stages/torch/tests/memory.rs",
    "stages/torch/tests/prepared.rs",
    "tests/tests/importing.rs",
];

#[test]
fn only_tests_that_need_a_process_are_programs_of_one_file() {
    let mut found = Vec::new();
    for folder in ["stages/torch/tests", "tests/tests"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        found.extend(
            names.filter(|name| name.ends_with(".rs")).map(|name| format!("{folder}/{name}")),
        );
    }
    found.sort();
    assert_eq!(found, PROGRAMS_OF_ONE_FILE);
}

/// The largest number of files that may all reach each other.
const MOST: usize = 4;

#[test]
fn no_more_than_four_files_of_a_package_reach_each_other() {
    let roots = MEMBERS.iter().map(|member| root().join(member).join("src/lib.rs"));
    let mut files = 0;
    for source in roots.filter(|source| source.exists()) {
        let references = Modules::read(&source).references();
        files += references.len();
        let large: Vec<String> = circles(&references)
            .into_iter()
            .filter(|circle| circle.len() > MOST)
            .map(|circle| {
                let named = |file: &PathBuf| -> Vec<_> {
                    references[file].iter().filter(|named| circle.contains(named)).collect()
                };
                circle.iter().map(|file| format!("{file:?} names {:?}\n", named(file))).collect()
            })
            .collect();
        assert!(large.is_empty(), "{}", large.join("\n"));
    }
    assert!(files > 500, "{files} files");
}

/// Names of models besides the words of their families and of their stages.
const ALSO: [&str; 12] = [
    "dac",
    "dual_ar",
    "dual-ar",
    "dualar",
    "hifigan",
    "lora",
    "mms",
    "openaudio",
    "s1-mini",
    "s1_mini",
    "coqui",
    "gpt",
];

/// The words of all families, and of the stages for one family alone.
fn words_of_families() -> BTreeSet<&'static str> {
    let own = FAMILIES.iter().map(|family| family.name());
    let kinds = FAMILIES.iter().flat_map(|family| family.kinds());
    let stages = kinds.filter_map(|kind| Some(kind.name.split_once('.')?.0));
    own.chain(stages).chain(ALSO).collect()
}

/// Tests if a text has a word, in any case and without a letter or digit beside it.
fn names(text: &str, word: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + word.len()..].chars().next())
    })
}

/// All files of a folder and the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let nested = entries.map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    nested.flatten().collect()
}

#[test]
fn neither_engine_nor_cache_names_a_family() {
    let words = words_of_families();
    assert!(words.contains("vits") && words.contains("fish"), "{words:?}");
    let mut looked_at = 0;
    for path in ["manifest", "engine", "view", "cli", "cache"]
        .into_iter()
        .flat_map(|member| files(&root().join(member)))
    {
        // Pictures and fonts are skipped.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        looked_at += 1;
        for (number, line) in text.to_lowercase().lines().enumerate() {
            let word = words.iter().find(|word| names(line, word));
            assert!(word.is_none(), "{}:{} names {word:?}", path.display(), number + 1);
        }
    }
    assert!(looked_at > 100, "{looked_at} files");
}

#[test]
fn a_family_is_named_by_a_whole_word_in_any_case() {
    for (text, word) in [("const vits_share", "vits"), ("`fish.init`", "fish")] {
        assert!(names(text, word), "{text}");
    }
    for (text, word) in [("invitsed", "vits"), ("selfish", "fish"), ("explorations", "lora")] {
        assert!(!names(text, word), "{text}");
    }
}

/// A block of the page begins with the file that it quotes.
#[test]
fn the_page_about_families_quotes_code_that_is_there() {
    let page = document("docs/adding-a-family.md");
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    for block in &blocks {
        let (block, _) = block.split_once("```").unwrap();
        let (path, quoted) = block.split_once('\n').unwrap();
        let path = path.strip_prefix("// ").unwrap();
        assert!(document(path).contains(quoted), "`{path}` has no such lines:\n{quoted}");
    }
    assert!(blocks.len() > 5, "{} blocks", blocks.len());
}

/// The versions of all packages of a lock file, by name.
fn locked(path: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in document(path).split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap().trim_matches('"').to_owned()
        };
        packages.entry(value("name = ")).or_default().insert(value("version = "));
    }
    packages
}

#[test]
fn the_fuzz_targets_are_locked_to_the_versions_of_the_program() {
    let (program, fuzz) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
    let own = ["arbitrary", "libfuzzer-sys", "throstle-fuzz"];
    for (name, versions) in fuzz.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
        let known = program.get(name).is_some_and(|known| known.is_superset(versions));
        assert!(known, "`{name}` {versions:?}, and the program has {:?}", program.get(name));
    }
    assert!(own.iter().all(|name| fuzz.contains_key(*name)), "the names have changed");
}

/// The packages that stages of others link: they are published, and may stand beside other versions
/// of their dependencies.
const PUBLISHED: [&str; 2] = ["throstle-cache", "throstle-stage-core"];

#[test]
fn packages_that_others_link_can_be_published_and_pin_nothing() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--offline", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let named = |name: &str| packages.iter().find(|package| package["name"] == name).unwrap();
    for name in PUBLISHED {
        let package = named(name);
        for field in ["description", "license", "repository", "readme"] {
            assert!(package[field].is_string(), "`{name}` has no `{field}`");
        }
        assert!(package["publish"].is_null(), "`{name}` is kept from registries");
        let folder = Path::new(text(&package["manifest_path"])).parent().unwrap().to_owned();
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            assert!(folder.join(file).exists(), "`{name}` has no {file}");
        }
        let dependencies = package["dependencies"].as_array().unwrap();
        for dependency in dependencies.iter().filter(|one| one["kind"].is_null()) {
            let (own, wanted) = (text(&dependency["name"]), text(&dependency["req"]));
            assert!(!wanted.starts_with('='), "`{name}` pins `{own}` to {wanted}");
            // A registry knows no folders, and no package without a version.
            assert_ne!(wanted, "*", "`{name}` takes any version of `{own}`");
            let is_own = !dependency["path"].is_null();
            assert!(
                !is_own || PUBLISHED.contains(&own),
                "`{name}` needs `{own}`, which stays here"
            );
        }
        assert!(!dependencies.is_empty());
    }
}

/// True if code names a package as the first part of a path, or brings in its macros.
fn is_used(package: &str, code: &str) -> bool {
    let name = package.replace('-', "_");
    code.match_indices(&name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let behind = &code[at + name.len()..];
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
            && ["::", "!", ";", " as "].iter().any(|sign| behind.starts_with(sign))
    })
}

#[test]
fn every_package_that_is_depended_on_is_used() {
    // It is there for its build metadata.
    const NAMED: [(&str, &str); 1] = [("stages/torch", "torch-sys")];
    for member in MEMBERS {
        let folders = ["src", "tests", "benches", "examples", "build.rs"];
        let paths = folders.map(|folder| root().join(member).join(folder));
        let files = paths
            .iter()
            .filter(|path| path.exists())
            .flat_map(|path| if path.is_dir() { files(path) } else { vec![path.clone()] });
        let code = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let code: String = code.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let manifest = document(&format!("{member}/Cargo.toml"));
        let sections = manifest.split("\n[").filter(|section| section.contains("dependencies]"));
        for line in sections.flat_map(|section| section.lines().skip(1)) {
            let Some((name, _)) = line.split_once(['.', ' ']) else { continue };
            if name.starts_with('#') || NAMED.contains(&(member, name)) {
                continue;
            }
            assert!(is_used(name, &code), "`{member}` does not use `{name}`");
        }
    }
}
