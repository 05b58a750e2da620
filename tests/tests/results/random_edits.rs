//! After any edits to data and manifest, an incremental run gives the same as a run from scratch. A
//! failing sequence prints its seed and its edits; `REPLAY` runs one seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cache::Digest;
use cache::fs::fault::ENOSPC;
use cache::fs::{Fault, Fs, MemoryFs};
use engine::engine::EngineError;
use engine::event::Status;
use engine::plan::PlannedValue;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use throstle_tests::{Lab, worlds};

const REPLAY: Option<u64> = None;
const EDITS: usize = 6;

/// Edits that a person may make between two runs. Names and texts are literal, so that a printed
/// sequence can be pasted into `replays`.
#[derive(Clone, Debug, PartialEq)]
enum Edit {
    Write(&'static str, &'static str),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Copy(&'static str, &'static str),
    Touch(&'static str),
    Wait,
    Mark(&'static str),
    Salt(&'static str),
    Twice(bool),
    Split(bool),
    Sweep(bool),
    Both(bool),
    /// Texts of fewer bytes are not counted.
    Least(u64),
    /// A run on a disk of this size in bytes.
    Full(u64),
}

const NAMES: [&str; 9] =
    ["anna1", "anna2", "anna3", "ben1", "ben2", "cleo1", "cleo2", "dora1", "emil1"];
const WORDS: [&str; 9] =
    ["hello", "good day", "moin", "servus", "salut", "hej", "a bad one", "broken", "ciao"];

/// The manifest as it stands.
#[derive(Clone)]
struct Manifest {
    mark: &'static str,
    salt: &'static str,
    twice: bool,
    split: bool,
    sweep: bool,
    both: bool,
    least: u64,
}

impl Manifest {
    fn text(&self) -> String {
        let mut text = String::from("[pipeline]\nname = \"random\"\n");
        let mut stage = |name: &str, lines: String| {
            write!(text, "\n[stage.{name}]\nquarantine = 1.0\n{lines}").unwrap();
        };
        stage("lines", "use = \"test.lines\"\nfolder = \"data\"\n".into());
        let Manifest { mark, salt, least, .. } = self;
        let loud = format!("use = \"test.shout\"\ninput = \"lines\"\nmark = \"{mark}\"\n");
        stage(
            "loud",
            format!("{loud}salt = \"{salt}\"\nexport = \"out/loud/{{speaker}}/{{id}}\"\n"),
        );
        let before = if self.split { "split" } else { "loud" };
        if self.split {
            let split = "use = \"test.split\"\ninput = \"loud\"\n";
            stage("split", format!("{split}export = \"out/split/{{id}}.txt\"\n"));
        }
        let last = if self.twice { "twice" } else { before };
        if self.twice {
            let twice = format!("use = \"test.twice\"\ninput = \"{before}\"\n");
            stage("twice", format!("{twice}export = \"out/twice/{{id}}.txt\"\n"));
        }
        if self.sweep {
            let sweep =
                "use = \"test.shout\"\ninput = \"lines\"\nmatrix = { mark = [\"one\", \"two\"] }\n";
            stage("sweep", format!("{sweep}export = \"out/sweep/{{matrix}}/{{id}}\"\n"));
        }
        let from = if self.both { "loud" } else { last };
        stage(
            "joined",
            format!("use = \"test.join\"\ninput = \"{from}\"\nexport = \"out/joined/all\"\n"),
        );
        let tally = format!("use = \"test.tally\"\ninput = \"{from}\"\nleast = {least}\n");
        stage("tally", format!("{tally}export = \"out/tally/all\"\n"));
        text
    }
}

struct World {
    memory: MemoryFs,
    manifest: Manifest,
    texts: BTreeMap<&'static str, &'static str>,
}

impl World {
    fn new() -> World {
        let manifest = Manifest {
            mark: "!",
            salt: "",
            twice: true,
            split: false,
            sweep: false,
            both: false,
            least: 0,
        };
        let mut world = World { memory: MemoryFs::new(), manifest, texts: BTreeMap::new() };
        world.lab().write("pipeline.toml", &world.manifest.text());
        for (name, text) in NAMES.into_iter().zip(WORDS).take(5) {
            world.apply(&Edit::Write(name, text));
        }
        world
    }

    fn lab(&self) -> Lab {
        Lab::in_memory(&self.memory)
    }

    fn apply(&mut self, edit: &Edit) {
        let path = |name: &str| format!("data/{name}.txt");
        match edit.clone() {
            Edit::Write(name, text) => {
                self.lab().write(&path(name), text);
                self.texts.insert(name, text);
            }
            Edit::Remove(name) => {
                if self.texts.remove(name).is_some() {
                    self.lab().remove(&path(name));
                }
            }
            Edit::Rename(from, to) => {
                if let Some(text) = self.texts.remove(from) {
                    self.lab().rename(&path(from), &path(to));
                    self.texts.insert(to, text);
                }
            }
            Edit::Copy(from, to) => {
                if let Some(text) = self.texts.get(from).copied() {
                    self.apply(&Edit::Write(to, text));
                }
            }
            Edit::Touch(name) => {
                if let Some(text) = self.texts.get(name) {
                    self.lab().write(&path(name), text);
                }
            }
            Edit::Wait => self.memory.set_clock(self.memory.now() + 10_000_000_000),
            Edit::Mark(mark) => self.manifest.mark = mark,
            Edit::Salt(salt) => self.manifest.salt = salt,
            Edit::Twice(on) => self.manifest.twice = on,
            Edit::Split(on) => self.manifest.split = on,
            Edit::Sweep(on) => self.manifest.sweep = on,
            Edit::Both(on) => self.manifest.both = on,
            Edit::Least(bytes) => self.manifest.least = bytes,
            Edit::Full(bytes) => {
                self.lab().write("pipeline.toml", &self.manifest.text());
                self.run_with_room_for(bytes);
            }
        }
        self.lab().write("pipeline.toml", &self.manifest.text());
    }

    /// The effect of such a run shows in the next one.
    fn run_with_room_for(&self, bytes: u64) {
        let (lab, faults) = worlds::faulty(&self.memory);
        let pipeline = lab.pipeline();
        faults.set(vec![Fault::Space { bytes, error: ENOSPC }]);
        match lab.attempt(&pipeline, &worlds::eager()) {
            Ok(ran) => assert!(
                matches!(ran.status, Status::Done | Status::Paused),
                "{bytes} bytes: {:?}",
                ran.events
            ),
            // There may not even be space to begin.
            Err(EngineError::Cache(_)) => {}
            Err(error) => panic!("{bytes} bytes: {error}"),
        }
    }

    /// The same files in a world without earlier runs.
    fn afresh(&self) -> Lab {
        let lab = Lab::in_memory(&MemoryFs::new());
        lab.write("pipeline.toml", &self.manifest.text());
        lab.write("data/none", "so that there is a folder");
        for (name, text) in &self.texts {
            lab.write(&format!("data/{name}.txt"), text);
        }
        lab
    }

    /// Runs both ways and compares.
    fn check(&self) -> Result<(), String> {
        let (lab, clean) = (self.lab(), self.afresh());
        let planned = planned_executions(&lab);
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
        same("datasets", roots(&lab) == roots(&clean))?;
        for stage in ran.stages.keys() {
            let folder = format!("out/{}", stage.split('[').next().unwrap());
            same(&folder, lab.files(&folder) == clean.files(&folder))?;
        }
        let distinct = self.texts.values().collect::<BTreeSet<_>>().len() == self.texts.len();
        for (stage, (least, most)) in planned {
            let executed = ran.executed(&stage);
            // The number of words of a text is only known when it has been split.
            let is_behind = self.manifest.split && stage == "twice";
            let most = if is_behind { u64::MAX } else { most };
            let fits = executed <= most && (!distinct || executed >= least);
            same(&format!("{stage}: {executed} of {least} to {most} planned"), fits)?;
        }
        let again = lab.run();
        let broken = self.texts.values().any(|text| *text == "broken");
        same("a second run works", broken || again.nothing_executed())?;
        Ok(())
    }
}

/// The planned numbers of executions of each stage: at least, and at most.
fn planned_executions(lab: &Lab) -> BTreeMap<String, (u64, u64)> {
    let pipeline = lab.pipeline();
    let plan = lab.plan();
    let count = |stage: &engine::pipeline::StageSpec| {
        let planned = plan.stage(stage.id);
        (stage.name.clone(), (planned.executed, planned.executed + planned.pending))
    };
    pipeline.stages.iter().map(count).collect()
}

/// The data sets as the next plan finds them. They are named by their content.
fn roots(lab: &Lab) -> Vec<(String, Digest)> {
    let pipeline = lab.pipeline();
    let plan = lab.plan();
    let root = |stage: &engine::pipeline::StageSpec| {
        let outputs = plan.stage(stage.id).known.outputs.values();
        let roots = outputs.filter_map(|output| match output {
            PlannedValue::Root { root, .. } => Some((stage.name.clone(), *root)),
            _ => None,
        });
        roots.collect::<Vec<_>>()
    };
    pipeline.stages.iter().flat_map(root).collect()
}

fn random_edit(random: &mut StdRng) -> Edit {
    let mut name = || NAMES[random.random_range(0..NAMES.len())];
    let (one, other) = (name(), name());
    let word = WORDS[random.random_range(0..WORDS.len())];
    let on = random.random_bool(0.5);
    match random.random_range(0..19) {
        0..=3 => Edit::Write(one, word),
        4..=5 => Edit::Remove(one),
        6 => Edit::Rename(one, other),
        7 => Edit::Copy(one, other),
        8 => Edit::Touch(one),
        9..=10 => Edit::Wait,
        11 => Edit::Mark(["!", "?", "!!"][random.random_range(0..3)]),
        12 => Edit::Salt(["", "a"][random.random_range(0..2)]),
        13 => Edit::Twice(on),
        14 => Edit::Sweep(on),
        16 => Edit::Split(on),
        15 => Edit::Full(random.random_range(0..8_000)),
        17 => Edit::Least([0, 6, 11][random.random_range(0..3)]),
        _ => Edit::Both(on),
    }
}

/// Applies the edits, with a run after some of them, and names the sequence that fails.
fn sequence(edits: &[Edit]) -> Result<(), String> {
    let mut world = World::new();
    world.check()?;
    for (at, edit) in edits.iter().enumerate() {
        world.apply(edit);
        // Several edits between two runs, too.
        if at % 3 != 1 {
            world.check().map_err(|problem| format!("after edit {at}: {problem}"))?;
        }
    }
    world.check()
}

fn edits_of(seed: u64) -> Vec<Edit> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..EDITS).map(|_| random_edit(&mut random)).collect()
}

fn sequences(count: u64) {
    let seeds = REPLAY.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        let edits = edits_of(seed);
        if let Err(problem) = sequence(&edits) {
            let mut script = String::new();
            edits.iter().for_each(|edit| writeln!(script, "    Edit::{edit:?},").unwrap());
            panic!("seed {seed}:\nsequence(&[\n{script}])\n{problem}");
        }
    }
}

#[test]
fn incremental_equals_afresh() {
    sequences(300);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_incremental_equals_afresh() {
    sequences(10_000);
}

/// Sequences that failed once.
#[test]
fn replays() {
    let wrong_once: &[&[Edit]] = &[&[
        Edit::Write("anna1", "moin"),
        Edit::Wait,
        Edit::Rename("anna1", "emil1"),
        Edit::Write("anna1", "moin"),
    ]];
    for edits in wrong_once {
        sequence(edits).unwrap();
    }
}
