//! After any change in a folder of recordings (other contents, extensions, links, pipes, sockets,
//! names that are not UTF-8, modes), an incremental run gives the same as a run from scratch. A
//! failing sequence prints its seed and its edits; `REPLAY` runs one seed.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use camino::Utf8Path;
use engine::event::Status;
use engine::plan::PlannedValue;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use throstle_tests::{Lab, wav};

const REPLAY: Option<u64> = None;
const EDITS: usize = 6;

const MANIFEST: &str = r#"
[pipeline]
name = "files"

[stage.folder]
use = "corpus.folder"
folder = "data"
quarantine = 1.0

[stage.table]
use = "corpus.table"
table = "rows.csv"
audio = "data"
quarantine = 1.0

[stage.sentences]
use = "dataset.merge"
input = ["folder", "table"]
prefix = "stage"

[stage.checked]
use = "audio.check"
input = "folder"
quarantine = 1.0

[stage.decoded]
use = "audio.decode"
input = "table"
quarantine = 1.0
export = "out/{id}.wav"
"#;

const FLAC: &[u8] = include_bytes!("../../../stages/speech/tests/audio_fixtures/tone.flac");
const MP3: &[u8] = include_bytes!("../../../stages/speech/tests/audio_fixtures/tone.mp3");

const STEMS: [&str; 3] = ["anna/a", "anna/b", "ben/c"];
const EXTENSIONS: [&str; 5] = [".wav", ".flac", ".mp3", ".lab", ""];
/// Bytes that are not UTF-8, and text that looks like them when printed.
const ODD_NAMES: [&[u8]; 3] = [b"anna/caf\xe9.wav", b"ben/\xff", b"anna/caf\\xE9.wav"];

/// Changes that a person may make between two runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edit {
    Write(&'static str, &'static str, Content),
    Place(&'static str, &'static str, Thing),
    /// To another extension of the same stem.
    Rename(&'static str, &'static str, &'static str),
    Remove(&'static str, &'static str),
    Odd(usize, bool),
    Mode(&'static str, &'static str, u32),
    /// Long enough for stats to be trusted.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Wav,
    OtherWav,
    Flac,
    FlacWithTag,
    Mp3,
    Text,
    Nothing,
}

/// Entries that may replace a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Thing {
    Pipe,
    Socket,
    Folder,
    /// A link to this.
    Link(&'static str),
}

/// Relative to the link: itself, a file, a folder, nothing, a device, a terminal, a file of the
/// kernel that waits for more.
const TARGETS: [&str; 8] =
    ["a.wav", "b.lab", "c.wav", "../ben", "nowhere", "/dev/zero", "/dev/tty", "/proc/kmsg"];

impl Content {
    fn bytes(self) -> Vec<u8> {
        match self {
            Content::Wav => wav(1_000),
            Content::OtherWav => wav(2_000),
            Content::Flac => FLAC.to_vec(),
            Content::FlacWithTag => [FLAC, b"TAG", &[0; 125]].concat(),
            Content::Mp3 => MP3.to_vec(),
            Content::Text => b"Hei.".to_vec(),
            Content::Nothing => Vec::new(),
        }
    }
}

struct World {
    lab: Lab,
}

/// Removes any entry at a path.
fn clear(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

impl World {
    fn new() -> World {
        let lab = World::lab();
        let world = World { lab };
        let rows = STEMS.iter().flat_map(|stem| {
            [".wav", ".flac", ""].map(|extension| format!("{stem}{extension}|Hei {stem}.\n"))
        });
        world.lab.write("rows.csv", &rows.collect::<String>());
        for stem in STEMS {
            world.apply(Edit::Write(stem, ".wav", Content::Wav));
            world.apply(Edit::Write(stem, ".lab", Content::Text));
        }
        world
    }

    fn lab() -> Lab {
        let mut lab = Lab::new();
        lab.stages.extend(stage_speech::stages());
        lab.write("pipeline.toml", MANIFEST);
        lab
    }

    fn path(&self, stem: &str, extension: &str) -> PathBuf {
        self.lab.base().join("data").join(format!("{stem}{extension}")).into_std_path_buf()
    }

    fn apply(&self, edit: Edit) {
        match edit {
            Edit::Write(stem, extension, content) => {
                let path = self.path(stem, extension);
                clear(&path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content.bytes()).unwrap();
            }
            Edit::Place(stem, extension, thing) => {
                let path = self.path(stem, extension);
                clear(&path);
                match thing {
                    Thing::Pipe => mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap(),
                    Thing::Socket => drop(UnixListener::bind(&path).unwrap()),
                    Thing::Folder => fs::create_dir(&path).unwrap(),
                    Thing::Link(target) => symlink(target, &path).unwrap(),
                }
            }
            Edit::Rename(stem, from, to) => {
                let (from, to) = (self.path(stem, from), self.path(stem, to));
                if fs::symlink_metadata(&from).is_ok() && from != to {
                    clear(&to);
                    fs::rename(from, to).unwrap();
                }
            }
            Edit::Remove(stem, extension) => clear(&self.path(stem, extension)),
            Edit::Odd(at, is_there) => {
                let data = self.lab.base().join("data").into_std_path_buf();
                let path = data.join(OsStr::from_bytes(ODD_NAMES[at]));
                clear(&path);
                if is_there {
                    fs::write(path, wav(3_000)).unwrap();
                }
            }
            Edit::Mode(stem, extension, mode) => {
                let path = self.path(stem, extension);
                if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
            Edit::Wait => self.lab.age(),
        }
    }

    /// The same files in a project without earlier runs.
    fn afresh(&self) -> Lab {
        let lab = World::lab();
        let (from, to) = (self.lab.base(), lab.base());
        let copied = Command::new("cp")
            .args(["-a", from.join("data").as_str(), from.join("rows.csv").as_str(), to.as_str()])
            .status();
        assert!(copied.unwrap().success());
        lab
    }

    fn check(&self) -> Result<(), String> {
        let (lab, clean) = (&self.lab, self.afresh());
        let ran = lab.run();
        let afresh = clean.run();
        let same = |what: &str, same: bool| {
            if same {
                Ok(())
            } else {
                Err(format!("{what}: {:?}\n{:?}", ran.events, afresh.events))
            }
        };
        same("status", ran.status == afresh.status && ran.status == Status::Done)?;
        let (one, other) = (outcome(lab), outcome(&clean));
        same(&format!("outcome\n{one:#?}\n{other:#?}\n"), one == other)?;
        same("exports", lab.files("out") == clean.files("out"))?;
        same("a second run does nothing", lab.run().nothing_executed())
    }
}

/// The data sets, which are named by their content, and all quarantined items with their reasons.
fn outcome(lab: &Lab) -> Vec<String> {
    let (pipeline, plan) = (lab.pipeline(), lab.plan());
    let mut lines = Vec::new();
    for stage in &pipeline.stages {
        let planned = plan.stage(stage.id);
        for output in planned.known.outputs.values() {
            if let PlannedValue::Root { root, items } = output {
                lines.push(format!("{} {root} {items}", stage.name));
            }
        }
        let rejects = planned.known.rejects.iter();
        lines.extend(rejects.map(|(item, reject)| format!("{} {item} {reject:?}", stage.name)));
    }
    lines.sort();
    lines
}

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

fn random_edit(random: &mut StdRng) -> Edit {
    use Content::*;
    let (stem, extension) = (pick(random, &STEMS), pick(random, &EXTENSIONS));
    let target = pick(random, &TARGETS);
    match random.random_range(0..20) {
        0..=4 => {
            let content = [Wav, OtherWav, Flac, FlacWithTag, Mp3, Text, Nothing];
            Edit::Write(stem, extension, pick(random, &content))
        }
        5..=8 => Edit::Rename(stem, extension, pick(random, &EXTENSIONS)),
        9..=12 => {
            let things = [Thing::Pipe, Thing::Socket, Thing::Folder, Thing::Link(target)];
            Edit::Place(stem, extension, pick(random, &things))
        }
        13 => Edit::Place(stem, extension, Thing::Link(target)),
        14 => Edit::Remove(stem, extension),
        15..=16 => Edit::Odd(random.random_range(0..ODD_NAMES.len()), random.random_bool(0.6)),
        17 => Edit::Mode(stem, extension, pick(random, &[0o000, 0o444, 0o644])),
        _ => Edit::Wait,
    }
}

/// Applies the edits, with a run after some of them, and names the sequence that fails.
fn sequence(edits: &[Edit]) -> Result<(), String> {
    let world = World::new();
    world.check()?;
    for (at, edit) in edits.iter().enumerate() {
        world.apply(*edit);
        // Several edits between two runs, too.
        if at % 3 != 1 {
            world.check().map_err(|problem| format!("after edit {at}: {problem}"))?;
        }
    }
    world.check()
}

fn sequences(count: u64) {
    let seeds = REPLAY.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let edits: Vec<Edit> = (0..EDITS).map(|_| random_edit(&mut random)).collect();
        if let Err(problem) = sequence(&edits) {
            let mut script = String::new();
            edits.iter().for_each(|edit| writeln!(script, "    Edit::{edit:?},").unwrap());
            panic!("seed {seed}:\nsequence(&[\n{script}])\n{problem}");
        }
    }
}

#[test]
fn incremental_equals_afresh_whatever_lies_in_the_folder() {
    sequences(20);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_incremental_equals_afresh_whatever_lies_in_the_folder() {
    sequences(2_000);
}

/// One sequence through each thing, so that none depends on a seed.
#[test]
fn everything_that_is_no_file_is_set_aside_by_itself_and_comes_back() {
    let mut edits = vec![Edit::Wait];
    for target in TARGETS {
        edits.push(Edit::Place("anna/b", ".wav", Thing::Link(target)));
        edits.push(Edit::Place("ben/c", ".lab", Thing::Link(target)));
        edits.push(Edit::Wait);
    }
    for thing in [Thing::Pipe, Thing::Socket, Thing::Folder] {
        edits.push(Edit::Place("anna/a", ".wav", thing));
        edits.push(Edit::Place("anna/b", ".lab", thing));
        edits.push(Edit::Wait);
    }
    edits.extend((0..ODD_NAMES.len()).map(|at| Edit::Odd(at, true)));
    edits.push(Edit::Write("anna/a", ".wav", Content::Wav));
    edits.push(Edit::Odd(0, false));
    sequence(&edits).unwrap();
}

#[test]
fn what_a_recording_is_called_decides_nothing() {
    sequence(&[
        Edit::Write("anna/a", ".wav", Content::Flac),
        Edit::Wait,
        Edit::Wait,
        Edit::Rename("anna/a", ".wav", ".flac"),
        Edit::Wait,
        Edit::Wait,
        Edit::Write("anna/b", ".flac", Content::Wav),
        Edit::Rename("anna/b", ".flac", ".wav"),
    ])
    .unwrap();
    let world = World::new();
    world.apply(Edit::Write("anna/a", ".wav", Content::Flac));
    world.lab.run();
    let found = outcome(&world.lab);
    let is_set_aside = |line: &String| line.starts_with("checked anna/a ");
    assert!(!found.iter().any(is_set_aside), "{found:#?}");
    world.apply(Edit::Rename("anna/a", ".wav", ".flac"));
    let renamed = world.lab.run();
    assert_eq!(renamed.executed("checked"), 0, "{:?}", renamed.events);
}

/// The clip of this name is quarantined; the names of the others are unchanged.
#[test]
fn one_odd_file_costs_one_item() {
    let world = World::new();
    world.apply(Edit::Place("anna/b", ".wav", Thing::Pipe));
    world.apply(Edit::Odd(0, true));
    let base = world.lab.base();
    assert!(Utf8Path::new(&base).join("data").is_dir());
    let outcome = {
        world.lab.run();
        outcome(&world.lab)
    };
    let aside: Vec<&String> = outcome.iter().filter(|line| line.starts_with("folder ")).collect();
    let expected = [
        "folder anna/b Reject { code: \"unreadable-file\", reason: \"cannot open `data/anna/b.wav`: \
         it is a named pipe, not a regular file\" }",
        "folder anna/caf\\xe9.wav Reject { code: \"not-utf8\", reason: \"the name of \
         `data/anna/caf\\\\xe9.wav` is not UTF-8; rename it\" }",
    ];
    assert_eq!(aside[1..], expected);
}
