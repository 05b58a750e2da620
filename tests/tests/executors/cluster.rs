//! A real Slurm of three nodes on this machine, if its programs are installed and this is root.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use throstle_tests::guide::root;
use throstle_tests::{RanProgram, Running};

use crate::places::{Place, WORDS, is_reproducible, notes, wait_until};

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

    fn start(&self, place: &Place) -> Running {
        let mut command = place.project.throstle(&["run", ".", "--json"]);
        command.env("SLURM_CONF", self.config());
        Running::start(command)
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
