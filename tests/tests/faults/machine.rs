//! A machine fault is never a verdict: for any failed call and any size of the disk, once the fault
//! is gone the next run equals an undisturbed one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cache::fs::fault::{EACCES, EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS};
use cache::fs::{Call, Fault, FaultFs, Fs, Interceptor, Layer, MemoryFs, RealFs};
use camino::Utf8Path;
use engine::engine::EngineError;
use engine::event::{Event, Status};
use throstle_tests::worlds::{TEXTS, eager, edited, faulty, fresh};
use throstle_tests::{
    Lab, MANIFEST, Project, Ran, RanProgram, command, small_disk, tone, write_clips,
};

const ALL: [i32; 8] = [ENOSPC, EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM, EROFS];
/// Every operation up to this number, and then samples.
const EVERY: u64 = 60;

/// No limit hides a wrong verdict.
fn without_limit(world: MemoryFs) -> MemoryFs {
    let lab = Lab::in_memory(&world);
    let manifest = lab.read("pipeline.toml").unwrap();
    let manifest = manifest
        .lines()
        .map(|line| {
            if line.starts_with("use = \"test.") && !line.contains("join") {
                format!("{line}\nquarantine = 1.0\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect::<String>();
    lab.write("pipeline.toml", &manifest);
    world
}

fn quarantined(ran: &Ran) -> Vec<&Event> {
    ran.events.iter().filter(|event| matches!(event, Event::ItemQuarantined { .. })).collect()
}

/// A run with a machine fault ends done or paused, and quarantines nothing.
fn assert_no_verdict(result: &Result<Ran, EngineError>, place: &str) {
    match result {
        Ok(ran) => {
            assert!(quarantined(ran).is_empty(), "{place}: {:?}", ran.events);
            let told = ran.failures();
            assert!(ran.status != Status::Failed, "{place}: {told:?}");
            if ran.status == Status::Paused {
                assert!(!ran.stopping().is_empty(), "{place}: {:?}", ran.events);
            }
        }
        Err(error) => assert!(error.machine_fault().is_some(), "{place}: {error}"),
    }
}

/// A folder that this process may not write to for now.
#[derive(Debug)]
struct ReadOnlyFolder {
    is_on: AtomicBool,
    error: i32,
}

impl Interceptor for ReadOnlyFolder {
    fn before(&self, call: Call, path: &Utf8Path) -> std::io::Result<()> {
        let changes = [Call::Create, Call::CreateDir, Call::Rename, Call::RemoveFile];
        if self.is_on.load(Ordering::SeqCst)
            && path.starts_with("/lab/out")
            && changes.contains(&call)
        {
            Err(std::io::Error::from_raw_os_error(self.error))
        } else {
            Ok(())
        }
    }
}

#[test]
fn a_read_only_folder_of_exports_pauses_the_run_until_it_is_writable() {
    let expected = Lab::in_memory(&fresh());
    assert_eq!(expected.run().status, Status::Done);
    for error in [EACCES, EROFS] {
        let memory = fresh();
        let folder = ReadOnlyFolder { is_on: AtomicBool::new(true), error };
        let layer = Arc::new(Layer::over(Arc::new(memory.clone()), folder));
        let lab = Lab::through(&memory, Arc::clone(&layer) as Arc<dyn Fs>);
        for _ in 0..2 {
            let ran = lab.run();
            assert_eq!((ran.status, ran.failures()), (Status::Paused, vec![]), "{:?}", ran.events);
            let told = ran.stopping();
            assert_eq!(told.len(), 2, "one for each export: {told:?}");
            assert!(told[0].starts_with("twice: cannot export to `out/anna1.txt`: "), "{told:?}");
            assert!(told[0].contains("make its folder writable"), "{told:?}");
        }
        layer.interceptor().is_on.store(false, Ordering::SeqCst);
        let ran = lab.run();
        assert!(ran.status == Status::Done && ran.nothing_executed(), "{:?}", ran.events);
        assert_eq!(lab.exports(), expected.exports());
    }
}

fn any_call_may_fail(world: &MemoryFs, error: i32, stride: usize) {
    let expected = Lab::in_memory(&world.duplicate());
    assert_eq!(expected.run().status, Status::Done);
    let numbers = (0..EVERY).chain((EVERY..).step_by(stride));
    for (tried, operation) in numbers.enumerate() {
        let memory = world.duplicate();
        let (lab, layer) = faulty(&memory);
        let pipeline = lab.pipeline();
        layer.set(vec![Fault::Nth { operation, error }]);
        let place = format!("error {error} in operation {operation}");
        assert_no_verdict(&lab.attempt(&pipeline, &eager()), &place);
        if layer.struck() == 0 {
            assert!(tried as u64 > EVERY / 2, "only {tried} operations failed");
            return;
        }
        let again = Lab::in_memory(&memory.kill());
        let ran = again.run();
        assert_eq!(ran.status, Status::Done, "{place}: {:?}", ran.events);
        assert_eq!(again.exports(), expected.exports(), "{place}");
        assert!(quarantined(&ran).is_empty() && again.run().nothing_executed(), "{place}");
    }
}

#[test]
fn no_call_that_fails_becomes_a_verdict() {
    for (at, error) in ALL.into_iter().enumerate() {
        any_call_may_fail(&without_limit(fresh()), error, 29 + 4 * at);
    }
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_no_single_call_that_fails_becomes_a_verdict() {
    for error in ALL {
        for world in [fresh(), edited()] {
            any_call_may_fail(&without_limit(world), error, 1);
        }
    }
}

/// All calls fail from some point on, as while a limit is reached.
#[test]
fn a_machine_that_can_do_nothing_any_more_gives_no_verdict() {
    let world = without_limit(fresh());
    let expected = Lab::in_memory(&world.duplicate());
    expected.run();
    for error in [ENOSPC, EMFILE, EIO] {
        for operation in (0..600).step_by(23) {
            let memory = world.duplicate();
            let (lab, layer) = faulty(&memory);
            let pipeline = lab.pipeline();
            layer.set(vec![Fault::From { operation, error }]);
            let place = format!("error {error} from operation {operation}");
            let result = lab.attempt(&pipeline, &eager());
            if let Ok(ran) = &result {
                assert!(quarantined(ran).is_empty(), "{place}: {:?}", ran.events);
            }
            let again = Lab::in_memory(&memory.kill());
            assert_eq!(again.run().status, Status::Done, "{place}");
            assert_eq!(again.exports(), expected.exports(), "{place}");
        }
    }
}

/// The small world with a program instead of its last item stage.
const PROGRAMS: &str = r#"
[pipeline]
name = "words"

[stage.lines]
use = "test.lines"
folder = "data"
quarantine = 1.0

[stage.loud]
use = "test.shout"
input = "lines"
mark = "!"
quarantine = 1.0

[stage.twice]
use = "command"
input = "loud"
fields = ["body"]
command = "cat {body} {body} > {out.body}"
outputs = { body = "body.txt" }
quarantine = 1.0
export = "out/{id}.txt"

[stage.all]
use = "command.once"
input = "twice"
fields = ["body"]
command = "wc -l < {items} > {out.lines}"
outputs = { lines = "lines.txt" }
export = "out/all.txt"
"#;

fn programs(fs: Arc<dyn Fs>) -> Lab {
    let mut lab = Lab::with_fs(fs);
    lab.stages.extend(stage_speech::stages());
    lab.write("pipeline.toml", PROGRAMS);
    for (name, text) in &TEXTS[..3] {
        lab.write(&format!("data/{name}.txt"), text);
    }
    lab
}

fn any_call_around_programs_may_fail(error: i32, operations: impl Iterator<Item = u64>) -> u64 {
    let undisturbed = programs(Arc::new(RealFs));
    assert_eq!(undisturbed.run().status, Status::Done);
    let expected = undisturbed.exports();
    assert_eq!(expected.len(), 3 + 1);
    let mut tried = 0;
    for operation in operations {
        let layer = Arc::new(FaultFs::new(Arc::new(RealFs)));
        let mut lab = programs(layer.clone());
        let pipeline = lab.pipeline();
        layer.set(vec![Fault::Nth { operation, error }]);
        let place = format!("error {error} in operation {operation}");
        assert_no_verdict(&lab.attempt(&pipeline, &eager()), &place);
        let struck = layer.struck();
        layer.set(Vec::new());
        lab.fs = Arc::new(RealFs);
        let ran = lab.run();
        assert_eq!((ran.status, lab.exports()), (Status::Done, expected.clone()), "{place}");
        assert!(lab.run().nothing_executed(), "{place}");
        if struck == 0 {
            break;
        }
        tried += 1;
    }
    tried
}

#[test]
fn no_call_around_a_program_becomes_a_verdict() {
    let tried: u64 = [ENOSPC, EMFILE, EIO]
        .into_iter()
        .map(|error| any_call_around_programs_may_fail(error, (0..).step_by(31)))
        .sum();
    assert!(tried > 15, "only {tried} operations failed");
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_no_single_call_around_a_program_becomes_a_verdict() {
    // Most of the time of a run is waiting for the disk and for programs.
    std::thread::scope(|scope| {
        for error in ALL {
            scope.spawn(move || {
                let tried = any_call_around_programs_may_fail(error, 0..);
                assert!(tried > 100, "only {tried} operations failed");
            });
        }
    });
}

/// Programs that need six times the space of a clip, one that continues after a failed write, and
/// one that removes unfinished output.
const SIX: &str = r#"
[pipeline]
name = "six"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.six]
use = "command"
input = "clips"
fields = ["audio"]
command = "cat {audio} {audio} {audio} {audio} {audio} {audio} > {out.t}"
outputs = { t = "t.bin" }
quarantine = 1.0
export = "out/six/{id}.bin"

[stage.careless]
use = "command"
input = "clips"
fields = ["audio"]
command = "cat {audio} {audio} {audio} > {out.t} 2>/dev/null; echo done"
outputs = { t = "t.bin" }
quarantine = 1.0
export = "out/careless/{id}.bin"

[stage.tidy]
use = "command"
input = "clips"
fields = ["audio"]
command = "if ! cat {audio} {audio} {audio} {audio} > {out.t}; then rm {out.t}; exit 1; fi"
outputs = { t = "t.bin" }
quarantine = 1.0
export = "out/tidy/{id}.bin"

[stage.whole]
use = "command.once"
input = "six"
fields = ["t"]
command = "cat in/* > {out.t}"
outputs = { t = "t.bin" }
export = "out/whole.bin"
"#;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Clips of about 64 kB, none like another.
fn six() -> Project {
    let project = Project::new(SIX);
    write_clips(&project, &NAMES);
    for (at, name) in NAMES.iter().enumerate() {
        project.write(&format!("data/wavs/{name}.wav"), tone(200.0 + at as f64, 2.0, 9_000));
    }
    project
}

fn program() -> String {
    command("throstle", Path::new("."), &[]).get_program().to_str().unwrap().to_owned()
}

type Files = BTreeMap<String, Vec<u8>>;

fn undisturbed() -> Files {
    let project = six();
    assert_eq!(project.run().code, Some(0));
    project.files("out")
}

/// Starts on a disk of this size in kB, three times, and then continues with enough space. Returns
/// the number of pauses before that.
fn grows_from(kilobytes: u64, expected: &Files, arguments: &str) -> usize {
    let project = six();
    let throstle = program();
    let lines = format!(
        "for at in 1 2 3; do {throstle} run . --cache $DISK/cache {arguments} >out$at 2>err$at\n\
         echo $? >> codes; done\n\
         grow 100m; {throstle} run . --cache $DISK/cache --json > grown; echo $? >> codes\n\
         {throstle} run . --cache $DISK/cache --json > again; echo $? >> codes"
    );
    small_disk::script(project.path(), &format!("{kilobytes}k"), &lines);
    let codes = project.text("codes");
    let codes: Vec<&str> = codes.lines().collect();
    let place = format!("{kilobytes} kB {arguments}: {codes:?}");
    let told = |name: &str| {
        format!(
            "{place}\n{}{}",
            project.text(&format!("out{name}")),
            project.text(&format!("err{name}"))
        )
    };
    for at in ["1", "2", "3"] {
        let code = codes[at.parse::<usize>().unwrap() - 1];
        assert!(matches!(code, "0" | "75"), "{}", told(at));
        let said = told(at);
        assert!(!said.contains("error:") && !said.contains("quarantined:"), "{said}");
        assert!(code == "0" || said.contains("no space"), "{said}");
    }
    assert_eq!(codes[3..], ["0", "0"], "{place}: {}", project.text("grown"));
    let last = project.text("again");
    let last: serde_json::Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    for (stage, counts) in last["stages"].as_object().unwrap() {
        assert_eq!(
            (&counts["executed"], &counts["quarantined"]),
            (&0.into(), &0.into()),
            "{stage}"
        );
    }
    assert!(project.files("out") == *expected, "{place}: the exports are others");
    codes[..3].iter().filter(|code| **code == "75").count()
}

#[test]
fn a_disk_that_is_too_small_pauses_and_sets_nothing_aside() {
    if small_disk::is_available() {
        let expected = undisturbed();
        let paused = |size, arguments| grows_from(size, &expected, arguments);
        assert_eq!(paused(40, ""), 3, "there is no room for a cache");
        assert_eq!(paused(500, "--json"), 3, "there is no room for the first program");
        assert_eq!(paused(500, ""), 3);
        paused(1_300, "");
        paused(2_900, "--json");
        assert_eq!(paused(60_000, ""), 0, "there is room enough");
    }
}

/// The program fills the disk, removes what it wrote and says nothing.
const SILENT: &str = r#"
[pipeline]
name = "silent"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.silent]
use = "command"
input = "clips"
fields = ["audio"]
command = """
if ! dd if=/dev/zero of=large bs=100k count=8 2>/dev/null; then rm -f large; exit 1; fi
rm -f large; cat {audio} > {out.t}"""
outputs = { t = "t.bin" }
quarantine = 1.0
export = "out/{id}.bin"
"#;

#[test]
fn a_program_that_fills_the_disk_and_hides_it_is_tried_again_by_the_next_run() {
    if !small_disk::is_available() {
        return;
    }
    let project = || {
        let project = Project::new(SILENT);
        write_clips(&project, &NAMES);
        project
    };
    let calm = project();
    assert_eq!(calm.run().code, Some(0));
    for kilobytes in [700, 1_500, 3_000] {
        let project = project();
        let throstle = program();
        let lines = format!(
            "for at in 1 2; do {throstle} run . --cache $DISK/cache >out$at 2>&1; done\n\
             grow 200m; {throstle} run . --cache $DISK/cache > grown 2>&1; echo $? > code"
        );
        small_disk::script(project.path(), &format!("{kilobytes}k"), &lines);
        let place = format!("{kilobytes} kB: {}", project.text("grown"));
        assert_eq!(project.text("code"), "0\n", "{place}");
        assert!(project.files("out") == calm.files("out"), "{place}");
    }
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_disk_of_any_size_pauses_and_sets_nothing_aside() {
    if small_disk::is_available() {
        let expected = undisturbed();
        let mut paused = 0;
        for size in (20..12_000).step_by(130) {
            let arguments = if size % 20 == 0 { "--json" } else { "--threads 3" };
            paused += grows_from(size, &expected, arguments);
        }
        assert!(paused > 20, "{paused} pauses");
    }
}

/// Runs with `ulimit` and then without.
fn limited(limit: &str, expected: &Files) -> RanProgram {
    let project = six();
    let line = format!("ulimit {limit} || exit 98; exec {} run . --json", program());
    let output = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(project.path())
        .output()
        .unwrap();
    let ran = RanProgram::of(output);
    assert!(
        matches!(ran.code, Some(0 | 75)),
        "{limit}: {:?} {} {:?}",
        ran.code,
        ran.errors,
        ran.events
    );
    assert_eq!(ran.last()["event"], "finished", "{limit}");
    assert_eq!(ran.all("item-quarantined"), Vec::<&serde_json::Value>::new(), "{limit}");
    let again = project.run();
    assert_eq!(again.code, Some(0), "{limit}: {:?}", again.events);
    assert!(project.files("out") == *expected, "{limit}: the exports are others");
    project.run().assert_nothing_done();
    ran
}

/// Programs inherit the limit, and its signal ends them.
#[test]
fn a_limit_on_the_size_of_files_pauses_like_a_full_disk() {
    let expected = undisturbed();
    // In blocks of 512 bytes: too little for the index, for the programs, for the packs.
    for blocks in [20, 300, 700, 2_000] {
        let ran = limited(&format!("-f {blocks}"), &expected);
        assert_eq!(ran.code, Some(75), "{blocks}: {:?}", ran.events);
        assert!(!ran.all("stopping").is_empty(), "{blocks}: {:?}", ran.events);
    }
}

#[test]
fn a_limit_on_open_files_is_no_verdict() {
    let expected = undisturbed();
    for files in [4, 8, 9, 10, 12, 14, 16, 20, 26, 40] {
        let ran = limited(&format!("-n {files}"), &expected);
        let why = ran.all("stopping").first().map(|event| event["why"].to_string());
        let is_told = |why: String| why.contains("raise the limit on open files (`ulimit -n`)");
        assert!(files > 8 || why.is_some_and(is_told), "{files}: {:?}", ran.events);
    }
}

/// The clip `c` is processed by a program that something kills from outside, the first time.
const KILLED: &str = r#"
[pipeline]
name = "killed"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.said]
use = "command"
input = "clips"
fields = ["text"]
command = """
case {text} in *c.) [ -e {base}/go ] || sh -c 'kill -9 $$';; esac &&
echo {text} > {out.said}"""
outputs = { said = "said.txt" }
quarantine = 1.0
retries = 1
export = "out/{id}.txt"
"#;

#[test]
fn a_program_that_is_killed_below_its_shell_is_tried_again_by_the_next_run() {
    let project = Project::new(KILLED);
    write_clips(&project, &["a", "b", "c"]);
    let ran = project.run();
    assert_eq!((ran.code, ran.all("retried").len()), (Some(0), 1), "{:?}", ran.events);
    assert_eq!(project.names("out"), ["a.txt", "b.txt"]);
    let listed = ["items", "said", "--quarantined", "--format", "jsonl"];
    let listed = command("small_world", project.path(), &listed).output().unwrap();
    let listed = (listed.status.code(), String::from_utf8(listed.stdout).unwrap());
    assert!(listed.0 == Some(0) && listed.1.contains("\"id\":\"c\""), "{listed:?}");
    project.write("go", "");
    assert_eq!(project.run().executed(), [("said", 1)].into());
    assert_eq!(project.names("out"), ["a.txt", "b.txt", "c.txt"]);
    project.run().assert_nothing_done();
}

/// The program for the clip `b` speaks of a full disk, and that of the cache has room.
const ELSEWHERE: &str = r#"
[pipeline]
name = "elsewhere"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.said]
use = "command"
input = "clips"
fields = ["text"]
command = """
case {text} in *b.) [ -e {base}/go ] || FAILS;; esac && echo {text} > {out.said}"""
outputs = { said = "said.txt" }
quarantine = 1.0
retries = 1
export = "out/{id}.txt"
"#;

/// The text may quote the input, so only its item waits for the next run.
#[test]
fn an_item_with_a_program_that_speaks_of_another_full_disk_is_set_aside_alone() {
    for fails in [
        "cat /etc/passwd > /dev/full",
        "{{ echo 'unknown tag: No space left on device' >&2; false; }}",
    ] {
        let project = Project::new(&ELSEWHERE.replace("FAILS", fails));
        write_clips(&project, &["a", "b", "c"]);
        let ran = project.run();
        assert_eq!((ran.code, ran.all("retried").len()), (Some(0), 1), "{:?}", ran.events);
        let aside = ran.all("item-quarantined");
        assert_eq!(
            (aside.len(), &aside[0]["item"], &aside[0]["code"]),
            (1, &"b".into(), &"failed".into())
        );
        let reason = aside[0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("the command reports a full disk"), "{reason}");
        assert_eq!(project.names("out"), ["a.txt", "c.txt"]);
        project.write("go", "");
        assert_eq!(project.run().executed()["said"], 1, "the verdict was none");
        assert_eq!(project.names("out"), ["a.txt", "b.txt", "c.txt"]);
        project.run().assert_nothing_done();
    }
}

#[test]
fn the_manifest_of_these_tests_has_the_stages_of_the_small_world() {
    let lab = Lab::in_memory(&without_limit(fresh()));
    assert_ne!(lab.read("pipeline.toml").unwrap(), MANIFEST);
    assert_eq!(lab.pipeline().stages.len(), 4);
    assert!(
        lab.pipeline().stages[..3].iter().all(|stage| !stage.policy.quarantine.is_exceeded(9, 9))
    );
}
