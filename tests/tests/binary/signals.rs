//! Stopping: once cleanly, twice immediately, and when nobody reads the output any more.

use std::io::{PipeReader, PipeWriter, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throstle_tests::{Project, RanProgram, Running, command, send};

use crate::small;

/// The clip `c` takes until there is a file `go`.
const HELD: &str = r#"
[stage.held]
use = "command"
input = "clips"
fields = ["text"]
command = """
case {text} in *c.)
    echo $$ > {base}/process
    touch {base}/begun
    while [ -e {base}/data ] && ! [ -e {base}/go ]; do sleep 0.02; done;;
esac
echo {text} > {out.said}"""
outputs = { said = "said.txt" }
export = "out/{id}.txt"
"#;

fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} never comes", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_stops_the_run_with_75_and_the_next_goes_on_where_it_was() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let project = Project::of_clips(&["a", "b", "c", "d", "e"], HELD);
        let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
        wait_for(&project.file("begun"));
        running.send(signal);
        assert!(running.read_to("stopping")["why"].as_str().unwrap().contains("signal"));
        let last = running.read_to("finished");
        assert_eq!((running.code(), &last["status"]), (Some(75), &"paused".into()), "{signal}");
        let first = last["stages"]["held"]["executed"].as_u64().unwrap();
        assert!(first < 5, "the held clip is not finished: {last}");

        project.write("go", "");
        let ran = project.run();
        assert_eq!(ran.executed()["held"], 5 - first, "nothing is done twice");
        assert_eq!(project.text("out/c.txt"), "Sana c.\n");
        project.run().assert_nothing_done();
    }
}

#[test]
fn a_second_signal_ends_the_users_own_programs_as_well() {
    for _ in 0..10 {
        let project = Project::of_clips(&["c"], HELD);
        let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
        wait_for(&project.file("begun"));
        // Two of a kind could arrive as one.
        running.send(Signal::SIGTERM);
        running.send(Signal::SIGINT);
        assert_eq!(running.code(), Some(75));
        let program = Pid::from_raw(project.text("process").trim().parse().unwrap());
        let start = Instant::now();
        while kill(program, None).is_ok() {
            assert!(start.elapsed() < Duration::from_secs(10), "{program} goes on alone");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// In the small world a stage can be deaf to a request to stop.
const DEAF: &str = r#"
[pipeline]
name = "deaf"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"
"#;

#[test]
fn a_second_signal_ends_a_run_that_does_not_come_to_an_end() {
    let project = Project::new(DEAF);
    project.write("data/one.txt", "deaf");
    let arguments = ["run", ".", "--json"];
    let mut running = Running::start(command("small_world", project.path(), &arguments));
    running.read_to("stage-started");
    running.send(Signal::SIGTERM);
    running.read_to("stopping");
    running.send(Signal::SIGTERM);
    assert_eq!(running.code(), Some(75));
    project.write("data/one.txt", "hearing");
    let output = command("small_world", project.path(), &arguments).output().unwrap();
    assert_eq!(RanProgram::of(output).executed()["loud"], 1);
}

/// A pipe without a reader and without space for another byte.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let flags = fcntl(&writer, FcntlArg::F_GETFL).unwrap();
    let flags = OFlag::from_bits_retain(flags);
    fcntl(&writer, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
    while (&writer).write(b"x").is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    (reader, writer)
}

/// The exit code of a process that has to exit by itself.
fn code_of(child: &mut Child) -> Option<i32> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it goes on whatever it is told");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_stops_a_run_that_nobody_reads() {
    for arguments in [&["run", "."][..], &["run", ".", "--json"]] {
        let project = Project::of_clips(&["c"], HELD);
        let (_reader, full) = full_pipe();
        let mut command = project.throstle(arguments);
        if arguments.contains(&"--json") {
            command.stdout(full).stderr(Stdio::null())
        } else {
            command.stderr(full).stdout(Stdio::null())
        };
        let mut child = command.spawn().unwrap();
        wait_for(&project.file("begun"));
        send(child.id(), Signal::SIGINT);
        assert_eq!(code_of(&mut child), Some(75), "{arguments:?}");
        project.write("go", "");
        assert_eq!(project.run().executed()["held"], 1);
    }
}

#[test]
fn a_second_signal_ends_a_run_that_nobody_reads_at_once() {
    for arguments in [&["run", "."][..], &["run", ".", "--json"]] {
        // Without an export there is a warning before the run begins.
        let project = Project::new(&format!("{DEAF}export = \"out/{{id}}.txt\"\n"));
        // More than a run buffers for its reader.
        (0..4_000).for_each(|number| project.write(&format!("data/{number}.txt"), "bad"));
        project.write("data/one.txt", "deaf");
        let (_reader, full) = full_pipe();
        let mut command = command("small_world", project.path(), arguments);
        if arguments.contains(&"--json") {
            command.stdout(full).stderr(Stdio::null())
        } else {
            command.stderr(full).stdout(Stdio::null())
        };
        let mut child = command.spawn().unwrap();
        wait_for(&project.file(".throstle/runs/000001.jsonl"));
        send(child.id(), Signal::SIGINT);
        send(child.id(), Signal::SIGTERM);
        assert_eq!(code_of(&mut child), Some(75), "{arguments:?}");
    }
}

#[test]
fn the_first_signal_ends_a_run_whose_reading_hangs() {
    let stuck = "[pipeline]\nname = \"stuck\"\n[stage.all]\nuse = \"test.stuck\"\n";
    let project = Project::new(stuck);
    let mut running =
        Running::start(command("small_world", project.path(), &["run", ".", "--json"]));
    running.read_to("started");
    running.send(Signal::SIGTERM);
    assert_eq!(running.code(), Some(75));
}

/// Prints the processes that it started, in its own group and in another, and waits.
const FAMILY: &str = r#"
[stage.held]
use = "command"
input = "clips"
fields = ["text"]
command = """
sleep 600 & echo $! > {base}/child
setsid sh -c 'echo $$ > {base}/apart; exec sleep 600' &
while ! [ -s {base}/apart ]; do sleep 0.02; done
echo $$ > {base}/process
touch {base}/begun
wait
echo {text} > {out.said}"""
outputs = { said = "said.txt" }
"#;

#[test]
fn no_program_outlives_an_engine_that_was_killed() {
    let project = Project::of_clips(&["c"], FAMILY);
    let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
    wait_for(&project.file("begun"));
    running.send(Signal::SIGKILL);
    assert_eq!(running.code(), None);
    for name in ["process", "child", "apart"] {
        let process = Pid::from_raw(project.text(name).trim().parse().unwrap());
        let begin = Instant::now();
        while kill(process, None).is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(20), "`{name}` goes on alone");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = small::done();
    for arguments in [&["items", "words"][..], &["stages"], &["schema"], &["plan", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = project.throstle(arguments).stdout(writer).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
