//! Stopping: once cleanly, twice at once, and by nobody reading any more.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throstle_tests::{Project, RanProgram, Running, command, write_clips};

use crate::small;

/// The clip `c` is worked on until there is a file `go`.
const HELD: &str = r#"
[pipeline]
name = "held"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

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
        let project = Project::new(HELD);
        write_clips(&project, &["a", "b", "c", "d", "e"]);
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
        let project = Project::new(HELD);
        write_clips(&project, &["c"]);
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
