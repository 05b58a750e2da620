//! A real Slurm of three nodes on this machine, if its programs are installed and this is root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;
use throstle_tests::guide::root;
use throstle_tests::{Project, RanProgram, Running, command};

use super::places::{Place, WORDS, is_reproducible, notes, wait_until};

struct Slurm {
    folder: tempfile::TempDir,
    port: u16,
}

/// None, with the reason, where no Slurm can be started.
fn slurm(port: u16) -> Option<Slurm> {
    let is_there = |program: &str| {
        ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
    };
    let needed = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel"];
    if let Some(missing) = needed.iter().find(|program| !is_there(program)) {
        eprintln!("skipped: `{missing}` is not installed");
        return None;
    }
    let user = Command::new("id").arg("-u").output().unwrap().stdout;
    if user != b"0\n" {
        eprintln!("skipped: only root can start a Slurm");
        return None;
    }
    let slurm = Slurm { folder: tempfile::tempdir().unwrap(), port };
    assert!(slurm.tool(&["up"]), "see {:?}", slurm.folder.path());
    Some(slurm)
}

impl Slurm {
    fn tool(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new(root().join("tools/slurm.sh"));
        command.arg(self.folder.path()).args(arguments).env("SLURM_PORT", self.port.to_string());
        command.status().unwrap().success()
    }

    fn command(&self, project: &Project, arguments: &[&str]) -> Command {
        let mut command = project.throstle(arguments);
        command.env("SLURM_CONF", self.config());
        command
    }

    fn start(&self, place: &Place) -> Running {
        Running::start(self.command(&place.project, &["run", ".", "--json"]))
    }

    /// The JSON of a command that succeeds.
    fn told(&self, place: &Place, command: &str) -> Value {
        let output = self.command(&place.project, &[command, "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits until the submitted run has ended.
    fn wait_for_submitted(&self, place: &Place) {
        wait_until(|| self.told(place, "status")["submitted"]["life"]["state"] == "ended");
    }

    fn run(&self, place: &Place) -> RanProgram {
        self.start(place).ended()
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    /// The nodes with jobs.
    fn busy(&self) -> Vec<String> {
        let mut command = Command::new("squeue");
        command.args(["-h", "-t", "running", "-o", "%N"]).env("SLURM_CONF", self.config());
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.tool(&["down"]);
    }
}

/// Each node has a cache of its own.
const EXECUTOR: &str = "use = \"slurm\"\npartition = \"gpu\"\ntime = \"5m\"\n";

fn slow(seconds: &str) -> String {
    format!("sleep {seconds}; echo {{text}} >> FOLDER/done; {WORDS}")
}

fn place(seconds: &str) -> Place {
    Place::with(&format!("{EXECUTOR}cache = \"FOLDER/node\"\n"), &slow(seconds))
}

fn assert_all_done(place: &Place, ran: &RanProgram) {
    assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(ran), ran.errors);
    assert!(is_reproducible(ran), "{:?}", notes(ran));
    // Three parts of two items, each at most three times.
    assert!(place.lines("done").len() <= 3 * 6);
    place.assert_as_alone();
}

#[test]
fn three_nodes_give_the_results_of_one_machine() {
    let Some(slurm) = slurm(27_817) else { return };
    let place = place("0");
    let ran = slurm.run(&place);
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (6, 6), "{:?}", notes(&ran));
    assert_eq!(place.lines("done").len(), 6);
    assert_all_done(&place, &ran);
    slurm.run(&place).assert_nothing_done();
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_node_that_dies_is_replaced() {
    let Some(slurm) = slurm(27_827) else { return };
    let place = place("2");
    let mut running = slurm.start(&place);
    running.read_until(|event| event["message"].as_str().is_some_and(|m| m.contains("runs on")));
    wait_until(|| !slurm.busy().is_empty());
    assert!(slurm.tool(&["kill", &slurm.busy()[0]]));
    assert_all_done(&place, &running.ended());
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_controller_that_loses_its_memory_loses_no_result() {
    let Some(slurm) = slurm(27_837) else { return };
    let place = place("2");
    let mut running = slurm.start(&place);
    running.read_until(|event| event["message"].as_str().is_some_and(|m| m.contains("jobs on")));
    assert!(slurm.tool(&["lose"]));
    assert_all_done(&place, &running.ended());
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_cancelled_jobs_and_killed_runs_are_continued() {
    let Some(slurm) = slurm(27_847) else { return };
    let place = place("2");
    let mut running = slurm.start(&place);
    running.read_until(|event| event["message"].as_str().is_some_and(|m| m.contains("runs on")));
    running.send(Signal::SIGKILL);
    drop(running);
    let mut command = Command::new("scancel");
    command.args(["--user", "root"]).env("SLURM_CONF", slurm.config());
    assert!(command.status().unwrap().success());
    assert_all_done(&place, &slurm.run(&place));
}

#[test]
fn a_submitted_run_on_slurm_ends_with_the_results_of_one_machine() {
    let Some(slurm) = slurm(27_857) else { return };
    let place = place("0");
    assert_eq!(slurm.told(&place, "submit")["submitted"], true);
    let again = slurm.told(&place, "submit");
    assert_eq!(again["submitted"], false, "{again}");
    slurm.wait_for_submitted(&place);
    assert_eq!(place.lines("done").len(), 6);
    place.assert_as_alone();
    assert_eq!(slurm.told(&place, "submit")["life"], Value::Null, "nothing is left to do");
}

/// Slurm waits about two minutes before it starts a job again.
#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_submitted_run_that_has_to_stop_goes_on() {
    let Some(slurm) = slurm(27_867) else { return };
    let place = place("2");
    place.project.edit("pipeline.toml", |text| format!("{text}\n[session]\nstop_after = \"2s\"\n"));
    assert_eq!(slurm.told(&place, "submit")["submitted"], true);
    slurm.wait_for_submitted(&place);
    place.project.replace("pipeline.toml", "stop_after = \"2s\"", "stop_after = \"1h\"");
    assert_eq!(place.lines("done").len(), 6);
    place.assert_as_alone();
}

/// An executor for a project with this folder of the remote and of the nodes.
fn executor(folder: &Path) -> String {
    let folder = folder.to_str().unwrap();
    std::fs::create_dir(format!("{folder}/remote")).unwrap();
    format!(
        "\n[remote]\nurl = \"file://{folder}/remote\"\n\n[executor.boxes]\n{EXECUTOR}\
         cache = \"{folder}/node\"\npoll = \"500ms\"\n"
    )
}

fn without_executor(project: &Project) -> Project {
    let alone = Project::copy_of(project.path(), &[".throstle", "out"]);
    alone.replace("pipeline.toml", "executor = \"boxes\"\n", "");
    let ran = RanProgram::of(alone.output(&["run", ".", "--json", "--remote", "none"]));
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    alone
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_the_demo_on_slurm_gives_the_files_of_one_machine() {
    let Some(slurm) = slurm(27_877) else { return };
    let shared = tempfile::tempdir().unwrap();
    let project = Project::new("");
    project.remove("pipeline.toml");
    project.printed(&["init", ".", "--template", "demo"]);
    project.edit("pipeline.toml", |text| {
        let mut text = text.to_owned();
        for kind in ["audio.resample", "text.normalize", "vq.encode", "vq.decode"] {
            let line = format!("use = \"{kind}\"\n");
            text = text.replace(&line, &format!("{line}executor = \"boxes\"\n"));
        }
        text + &executor(shared.path()) + "shard = \"20s\"\nmax_jobs = 6\n"
    });
    let begun = Instant::now();
    let ran = Running::start(slurm.command(&project, &["run", ".", "--json"])).ended();
    assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(&ran), ran.errors);
    eprintln!("the demo on Slurm: {:?}", begun.elapsed());
    assert!(notes(&ran).iter().any(|note| note.contains("on `boxes`: job")), "{:?}", notes(&ran));
    assert!(is_reproducible(&ran), "{:?}", notes(&ran));
    assert!(project.files("out") == without_executor(&project).files("out"));
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_thousand_clips_on_slurm_give_the_files_of_one_machine() {
    let Some(slurm) = slurm(27_887) else { return };
    let place = Place::with(
        &format!("{EXECUTOR}cache = \"FOLDER/node\"\n"),
        &format!("echo {{text}} >> FOLDER/done; {WORDS}"),
    );
    place.project.replace("pipeline.toml", "max_jobs = 3", "max_jobs = 12");
    let names: Vec<String> = (0..1_000).map(|number| format!("clip{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    throstle_tests::write_clips(&place.project, &names);
    let begun = Instant::now();
    let ran = slurm.run(&place);
    eprintln!("1,000 clips on Slurm: {:?}", begun.elapsed());
    assert_eq!(ran.executed()["words"], 1_000, "{:?}", notes(&ran));
    assert_eq!(place.lines("done").len(), 1_000, "each item once");
    assert!(is_reproducible(&ran), "{:?}", notes(&ran));
    place.assert_as_alone();
    slurm.run(&place).assert_nothing_done();
}

/// The node stops with its jobs in the middle of their items, and Slurm starts them on another one.
/// Then the first copies go on: two jobs write the same results at once.
#[test]
#[ignore = "soak: make soak runs it"]
fn soak_two_copies_of_a_job_that_write_at_once_give_one_result() {
    let Some(slurm) = slurm(27_897) else { return };
    let place = place("8");
    let mut running = slurm.start(&place);
    running.read_until(|event| {
        event["stage"] == "words"
            && event["message"].as_str().is_some_and(|m| m.contains("runs on"))
    });
    // Long items: the freeze has to find the job at work, also on a busy machine.
    let node = slurm.busy()[0].clone();
    assert!(slurm.tool(&["freeze", &node]));
    running.read_until(|event| event["message"].as_str().is_some_and(|m| m.contains("attempt 2")));
    assert!(slurm.tool(&["thaw", &node]));
    assert_all_done(&place, &running.ended());
}

/// The controller takes the node for dead while its jobs go on.
#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_node_that_is_cut_off_delivers_its_results() {
    let Some(slurm) = slurm(27_907) else { return };
    let place = place("15");
    let mut running = slurm.start(&place);
    running.read_until(|event| {
        event["stage"] == "words"
            && event["message"].as_str().is_some_and(|m| m.contains("runs on"))
    });
    assert!(slurm.tool(&["cut", &slurm.busy()[0]]));
    assert_all_done(&place, &running.ended());
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_time_limit_in_the_middle_of_a_training_changes_no_bit() {
    let Some(slurm) = slurm(27_917) else { return };
    let shared = tempfile::tempdir().unwrap();
    let executor =
        executor(shared.path()).replace("time = \"5m\"", "time = \"1m\"\nwarning = \"30s\"");
    let project = Project::new(&format!("{TRAINING}{executor}"));
    for name in ["a", "b", "c"] {
        project.write(&format!("data/{name}.txt"), format!("text of {name}"));
    }
    let start = |project: &Project, arguments: &[&str]| {
        let arguments = [&["run", ".", "--json"], arguments].concat();
        let mut command = command("small_world", project.path(), &arguments);
        command.env("SLURM_CONF", slurm.config());
        Running::start(command).ended()
    };
    let begun = Instant::now();
    let ran = start(&project, &[]);
    eprintln!("the training on Slurm: {:?}, {:?}", begun.elapsed(), notes(&ran));
    assert_eq!(ran.executed()["model"], 1, "{:?}", notes(&ran));
    assert!(notes(&ran).iter().any(|note| note.contains("attempt 2")), "{:?}", notes(&ran));
    let alone = Project::copy_of(project.path(), &[".throstle", "out"]);
    alone.replace("pipeline.toml", "executor = \"boxes\"\n", "");
    alone.replace("pipeline.toml", "pause = \"200ms\"", "pause = \"0ms\"");
    assert_eq!(start(&alone, &["--remote", "none"]).code, Some(0));
    assert_eq!(project.read("out/model/weights"), alone.read("out/model/weights"));
}

/// A minute of training.
const TRAINING: &str = r#"
[pipeline]
name = "voice"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.model]
use = "test.train"
input = "loud"
steps = 300
every = 20
pause = "200ms"
executor = "boxes"
export = "out/model"
"#;

/// A disk of this size in a folder, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: PathBuf, size: &str) -> Option<Disk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(&folder);
        mount.status().unwrap().success().then_some(Disk(folder))
    }

    fn grow(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_shared_folder_that_is_full_pauses_the_run_until_it_has_room() {
    let Some(slurm) = slurm(27_927) else { return };
    let large = "echo {text} >> FOLDER/done; yes {text} | head -c 300000 > {out.words}";
    let place = Place::with(&format!("{EXECUTOR}cache = \"FOLDER/node\"\n"), large);
    let Some(disk) = Disk::mount(place.folder().join("remote"), "500k") else {
        eprintln!("skipped: no disk can be mounted here");
        return;
    };
    let ran = slurm.run(&place);
    assert_eq!(ran.code, Some(75), "{:?} {}", notes(&ran), ran.errors);
    assert_eq!(ran.all("stage-failed").len(), 0);
    disk.grow("50m");
    assert_all_done(&place, &slurm.run(&place));
}
