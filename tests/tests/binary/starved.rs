//! A machine without threads, processes or space: no verdict, no bug, and a way to continue.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use throstle_tests::{Project, RanProgram, small_disk, write_clips};

use crate::small::{done, project};

/// Processes of a user are counted together, so each test has its own user.
fn user(number: u32) -> u32 {
    100_000 + (std::process::id() % 10_000) * 10 + number
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        path.read_dir().unwrap().for_each(|entry| give(&entry.unwrap().path(), user));
    }
}

fn is_root() -> bool {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        eprintln!("left out: only root can run programs as a user with no other process");
    }
    is_root
}

fn program(project: &Project) -> String {
    project.throstle(&[]).get_program().to_str().unwrap().to_owned()
}

fn in_shell(project: &Project, lines: &str) -> Output {
    Command::new("sh").args(["-c", lines]).current_dir(project.path()).output().unwrap()
}

#[test]
fn a_user_without_processes_or_threads_pauses_and_gets_no_verdict() {
    if !is_root() {
        return;
    }
    let expected = done().files("out");
    let user = user(0);
    for processes in [1, 2, 3, 4, 5, 6, 8, 12] {
        let project = project();
        // By another program: while this one writes it, a child of another test would hold it open,
        // and an open program cannot be started.
        let copied =
            Command::new("cp").arg(program(&project)).arg(project.file("throstle")).status();
        assert!(copied.unwrap().success());
        give(project.path(), user);
        let ran = RanProgram::of(in_shell(
            &project,
            &format!(
                "exec setpriv --reuid={user} --regid={user} --clear-groups \
                 prlimit --nproc={processes}:{processes} ./throstle run . --json --threads 2"
            ),
        ));
        let place = format!("{processes}: {} {:?}", ran.errors, ran.events);
        assert!(matches!(ran.code, Some(0 | 75)), "{:?} {place}", ran.code);
        assert!(!ran.errors.contains("bug"), "{place}");
        for event in ["item-quarantined", "stage-failed"] {
            assert!(ran.all(event).is_empty(), "{place}");
        }
        assert_eq!(ran.last()["event"], "finished", "{place}");
        assert_eq!(project.run().code, Some(0), "{place}");
        assert!(project.files("out") == expected, "{place}: the exports are others");
    }
}

/// From sizes at which nothing starts to some at which all is done.
#[test]
fn a_limit_on_memory_pauses_and_gives_no_verdict() {
    let expected = done().files("out");
    let mut paused = 0;
    // The data of a small run, and the address space of the program, its libraries and threads.
    let megabytes = (1..24).chain((46..72).step_by(2)).chain([80, 120, 200]);
    for kilobytes in megabytes.map(|megabytes| megabytes * 1024) {
        for limit in ["-v", "-d"] {
            let project = project();
            let throstle = program(&project);
            let limited = |arguments: &str| {
                let lines = format!("ulimit {limit} {kilobytes} && exec {throstle} {arguments}");
                in_shell(&project, &lines)
            };
            // A program that is larger than its limit never begins.
            if !limited("--version").status.success() {
                continue;
            }
            let ran = RanProgram::of(limited("run . --json --threads 4"));
            let place = format!("{limit} {kilobytes}: {} {:?}", ran.errors, ran.events);
            assert!(matches!(ran.code, Some(0 | 75)), "{:?} {place}", ran.code);
            assert!(!ran.errors.contains("bug"), "{place}");
            for event in ["item-quarantined", "stage-failed"] {
                assert!(ran.all(event).is_empty(), "{place}");
            }
            paused += usize::from(ran.code == Some(75));
            assert_eq!(project.run().code, Some(0), "{place}");
            assert!(project.files("out") == expected, "{place}: the exports are others");
        }
    }
    assert!(paused > 0, "no run met its limit");
}

#[test]
fn an_output_without_room_ends_a_run_alike_with_and_without_work() {
    let project = project();
    for _ in 0..2 {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = project.throstle(&["run", ".", "--json"]);
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(75), "{told}");
        assert!(told.contains("standard output: "), "{told}");
        project.run();
    }
}

/// The outputs are separate files in the cache.
fn large() -> Project {
    let project = project();
    let zeros = "head -c 1200000 /dev/zero > {out.words}; printf %s {text} >>";
    project.edit("pipeline.toml", |text| {
        let text = text.replace("printf %s {text} | wc -w >", zeros);
        text.replace("export = \"out/{id}.txt\"", "")
    });
    project
}

fn on_full_disk(project: &Project, size: &str, lines: &str) -> String {
    let throstle = program(project);
    let output = small_disk::script(
        project.path(),
        size,
        &format!(
            "t() {{ {throstle} \"$@\" --cache $DISK/cache; }}\n\
             fill() {{ dd if=/dev/zero of=$DISK/fill bs=4k 2>/dev/null; }}\n\
             free() {{ df --output=avail $DISK | tail -n 1 | tr -d ' '; }}\n{lines}"
        ),
    );
    let told = [output.stdout, output.stderr].concat();
    String::from_utf8(told).unwrap()
}

#[test]
fn a_cache_on_a_full_disk_is_read() {
    if !small_disk::is_available() {
        return;
    }
    let project = project();
    let told = on_full_disk(
        &project,
        "16m",
        "t run . || exit 1; fill\n\
         sed -i s/Sana/Toinen/ data/metadata.csv; t run .; [ $? = 75 ] || exit 2\n\
         for command in 'status .' 'plan .' 'report .' 'graph .' 'why words' 'items clips'; do\n\
         t $command >/dev/null || echo \"failed: $command\"\n\
         done\n\
         t cache gc --yes --empty-trash || echo \"failed: gc\"\n\
         rm $DISK/fill; t run . || echo \"failed: run\"; echo ended\n",
    );
    assert!(told.contains("ended\n") && !told.contains("failed: "), "{told}");
}

const SERVED: &str = r#"
[pipeline]
name = "served"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "[ -e {base}/server ] && echo {text} > {out.words}"
outputs = { words = "words.txt" }
quarantine = 1.0
"#;

#[test]
fn verdicts_are_forgotten_on_a_full_disk() {
    if !small_disk::is_available() {
        return;
    }
    let project = Project::new(SERVED);
    write_clips(&project, &["a", "b", "c"]);
    let told = on_full_disk(
        &project,
        "16m",
        "t run . >/dev/null 2>&1 || exit 1; fill\n\
         t retry words; echo \"code $?\"; rm $DISK/fill; touch server\n\
         t retry words; t run . --json | tail -n 1\n",
    );
    assert!(told.contains("code 0\n"), "{told}");
    let last = told.lines().rfind(|line| line.starts_with('{')).unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&last["status"], &last["stages"]["words"]["executed"]),
        (&"done".into(), &3.into()),
        "{told}"
    );
}

#[test]
fn what_is_not_needed_is_removed_from_a_full_disk() {
    if !small_disk::is_available() {
        return;
    }
    let told = on_full_disk(
        &large(),
        "24m",
        "t run . || exit 1; sed -i 's/1200000/1300000/' pipeline.toml; t run . || exit 2\n\
         fill; echo \"before $(free)\"\n\
         t cache gc --keep-runs 1 --yes --empty-trash || echo failed: gc\n\
         echo \"after $(free)\"; t cache verify || echo failed: verify\n\
         t run . --json | tail -n 1\n",
    );
    assert!(told.contains("before 0\n") && !told.contains("failed: "), "{told}");
    let after = told.split("after ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!(after.parse::<u64>().unwrap() > 5_000, "{told}");
    let last = told.lines().rfind(|line| line.starts_with('{')).unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&last["status"], &last["stages"]["words"]["executed"]),
        (&"done".into(), &0.into())
    );
}

#[test]
fn small_objects_that_are_not_needed_are_removed_from_a_full_disk() {
    if !small_disk::is_available() {
        return;
    }
    let project = large();
    project.edit("pipeline.toml", |text| text.replace("1200000", "900000"));
    let told = on_full_disk(
        &project,
        "24m",
        "t run . || exit 1; sed -i 's/900000/100000/' pipeline.toml; t run . || exit 2\n\
         rm $DISK/cache/stat.idx; fill; echo \"before $(free)\"\n\
         t cache gc --keep-runs 1 --yes --empty-trash || echo failed: gc\n\
         echo \"after $(free)\"; t cache verify || echo failed: verify\n\
         t run . --json | tail -n 1\n",
    );
    assert!(told.contains("before 0\n") && !told.contains("failed: "), "{told}");
    let after = told.split("after ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!(after.parse::<u64>().unwrap() > 2_000, "{told}");
    let last = told.lines().rfind(|line| line.starts_with('{')).unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&last["status"], &last["stages"]["words"]["executed"]),
        (&"done".into(), &0.into())
    );
}

#[test]
fn a_run_that_only_lacks_room_for_its_memo_is_done() {
    if !small_disk::is_available() {
        return;
    }
    let told = on_full_disk(
        &project(),
        "16m",
        "t run . || exit 1; rm $DISK/cache/stat.idx; fill; t run . --json; echo \"code $?\"\n",
    );
    assert!(told.contains("code 0\n") && told.contains("cannot be stored"), "{told}");
}

const CLEANED: &str = r#"
[pipeline]
name = "cleaned"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.said]
use = "command"
input = "clips"
fields = ["text"]
command = """
if [ -e {base}/done ]; then echo {text} > {out.said}; else
touch {base}/done; rm -rf {base}/.throstle/staging/*; mkdir -p "$(dirname {out.said})"; fi"""
outputs = { said = "said.txt" }
quarantine = 1.0
export = "out/{id}.txt"
"#;

#[test]
fn a_private_folder_that_is_cleaned_away_is_made_again() {
    let project = Project::new(CLEANED);
    write_clips(&project, &["a"]);
    let ran = project.run();
    assert_eq!(
        (ran.code, ran.all("retried").len()),
        (Some(0), 1),
        "{} {:?}",
        ran.errors,
        ran.events
    );
    assert!(ran.all("item-quarantined").is_empty(), "{:?}", ran.events);
    assert_eq!(project.names("out"), ["a.txt"]);
}

#[test]
fn a_later_complete_run_frees_what_a_broken_run_left_open() {
    let project = done();
    project.replace("pipeline.toml", "wc -w", "wc -w; exit 1; true");
    assert_eq!(project.run().code, Some(1));
    let unfinished = "is unfinished";
    let planned = || project.printed(&["cache", "gc", "--keep-runs", "1"]);
    assert!(planned().contains(unfinished), "{}", planned());
    project.replace("pipeline.toml", "wc -w; exit 1; true", "wc -w");
    project.run().assert_nothing_done();
    assert!(!planned().contains(unfinished), "{}", planned());
    // A run that finishes nothing leaves no record.
    let runs = project.printed(&["log", "--json"]);
    project.run().assert_nothing_done();
    assert_eq!(project.printed(&["log", "--json"]), runs);
}
