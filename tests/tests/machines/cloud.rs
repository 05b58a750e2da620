//! Buckets and web servers as remotes of the whole program: emulators of S3 (moto) and of Azure (Azurite) where
//! they can be installed, and a web server of a folder.

use std::collections::BTreeMap;

use serde_json::Value;
use throstle_tests::{Project, RanProgram, command, wav};

#[allow(dead_code, reason = "the tests of the crate `remote` use the rest")]
#[path = "../../../remote/tests/emulators/mod.rs"]
mod emulators;

use super::remote::machines::{MANIFEST, Shared, another, machine, warnings};
use emulators::{Emulator, Web};

/// The outputs of a run that has to do everything.
const ALL: [(&str, u64); 5] =
    [("clips", 1), ("words", 5), ("large", 5), ("voice", 5), ("summary", 1)];

/// A remote, and the variables that its clients need.
struct Place {
    url: String,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    fn output(&self, project: &Project, arguments: &[&str]) -> std::process::Output {
        let mut command = command("throstle", project.path(), arguments);
        command.envs(self.variables.iter().cloned()).output().unwrap()
    }

    fn run(&self, project: &Project) -> RanProgram {
        self.run_with(project, &self.url)
    }

    fn run_with(&self, project: &Project, url: &str) -> RanProgram {
        RanProgram::of(self.output(project, &["run", ".", "--json", "--remote", url]))
    }

    fn json(&self, project: &Project, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json", "--remote", &self.url]].concat();
        let output = self.output(project, &arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A second machine executes nothing and exports the same bytes; a changed clip is all of its work; a third
    /// one fetches everything, and then needs no remote.
    fn assert_shared(&self) {
        let one = machine(MANIFEST);
        let ran = self.run(&one);
        assert_eq!((ran.executed(), warnings(&ran)), (ALL.into(), Vec::new()), "{}", ran.errors);
        let other = another(&one);
        let ran = self.run(&other);
        assert_eq!((ran.executed(), warnings(&ran)), (BTreeMap::new(), Vec::new()));
        assert_eq!(other.files("out"), one.files("out"));
        self.assert_pulled(&one);
        other.write("data/wavs/c.wav", wav(9_000));
        let ran = self.run(&other);
        let changed = [("clips", 1), ("voice", 1), ("summary", 1)];
        assert_eq!((ran.executed(), warnings(&ran)), (changed.into(), Vec::new()));
        // The first machine gets the changed results.
        one.write("data/wavs/c.wav", wav(9_000));
        assert_eq!(self.run(&one).executed(), BTreeMap::new());
        assert_eq!(one.files("out"), other.files("out"));
        let alone = another(&other);
        assert_eq!(self.run_with(&alone, "none").executed(), ALL.into());
        assert_eq!(other.files("out"), alone.files("out"));
    }

    fn assert_pulled(&self, one: &Project) {
        let third = another(one);
        let pulled = self.json(&third, &["pull"]);
        // Five large files, and five small files of each of the other two stages, besides the tables.
        assert!(pulled["objects"].as_u64().unwrap() >= 15, "{pulled}");
        assert!(pulled["bytes"].as_u64().unwrap() > 5 * 2_000_000, "{pulled}");
        assert_eq!(pulled["open"], Value::Array(Vec::new()));
        let again = self.json(&third, &["pull"]);
        assert_eq!((&again["objects"], &again["bytes"]), (&0.into(), &0.into()), "{again}");
        assert_eq!(self.run_with(&third, "none").executed(), BTreeMap::new());
        assert_eq!(third.files("out"), one.files("out"));
    }
}

#[test]
fn machines_share_a_whole_run_through_an_s3_server() {
    let Some(moto) = Emulator::moto() else { return };
    Place { url: "s3://team/voice".to_owned(), variables: moto.s3_variables() }.assert_shared();
}

#[test]
fn machines_share_a_whole_run_through_azure_blob_storage() {
    let Some(azurite) = Emulator::azurite() else { return };
    Place { url: "az://team/voice".to_owned(), variables: azurite.azure_variables() }
        .assert_shared();
}

#[test]
fn a_web_server_of_a_folder_serves_a_whole_run_and_is_not_written_to() {
    let shared = Shared::new();
    let one = machine(MANIFEST);
    let folder = Place { url: shared.url(), variables: Vec::new() };
    assert_eq!(folder.run(&one).executed(), ALL.into());
    let before = shared.files("");
    let web = Web::start(shared.path());
    let place = Place { url: web.url(), variables: Vec::new() };
    let other = another(&one);
    let ran = place.run(&other);
    assert_eq!((ran.executed(), warnings(&ran)), (BTreeMap::new(), Vec::new()), "{}", ran.errors);
    assert_eq!(other.files("out"), one.files("out"));
    assert!(!web.take_asked().is_empty());
    place.assert_pulled(&one);
    // New results stay on the machine.
    other.write("data/wavs/c.wav", wav(9_000));
    let ran = place.run(&other);
    assert_eq!((ran.code, ran.executed()["clips"], warnings(&ran)), (Some(0), 1, Vec::new()));
    let alone = another(&other);
    assert_eq!(folder.run_with(&alone, "none").executed(), ALL.into());
    assert_eq!(other.files("out"), alone.files("out"));
    assert_eq!(shared.files(""), before);
    // Nothing to do: nobody is asked.
    web.take_asked();
    place.run(&other).assert_nothing_done();
    assert_eq!(web.take_asked(), []);
    let push = place.output(&other, &["push", "--remote", &place.url]);
    let told = String::from_utf8_lossy(&push.stderr).into_owned();
    assert!(push.status.code() == Some(1) && told.contains("it is read-only"), "{told}");
}
