//! Runs the pipeline in a folder and prints the last event as JSON, for tests with several
//! processes: to kill, to run side by side, to limit.
//!
//! `lab_run FOLDER [--cache FOLDER] [--kill-at N] [--eager] [--files N] [--memory]`: exit by
//! SIGKILL at the N-th event; make everything durable immediately; limit the open files; plan
//! instead of running and print the peak memory.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::RunOptions;
use engine::event::Event;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, raise};
use throstle_tests::{Lab, worlds};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = Utf8PathBuf::from(arguments.next().unwrap());
    let lab = Lab::in_folder(&folder);
    let (mut options, mut kill_at, mut plan) = (RunOptions::default(), u64::MAX, false);
    let mut cache = folder.join(".throstle");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--cache" => cache = arguments.next().unwrap().into(),
            "--kill-at" => kill_at = arguments.next().unwrap().parse().unwrap(),
            "--eager" => options = worlds::eager(),
            "--memory" => plan = true,
            "--files" => {
                let limit = arguments.next().unwrap().parse().unwrap();
                setrlimit(Resource::RLIMIT_NOFILE, limit, limit).unwrap();
            }
            other => panic!("unknown argument `{other}`"),
        }
    }
    let cache = Cache::open(&cache, lab.fs.clone(), Access::ReadWrite).unwrap();
    if plan { print_plan(&lab, &cache) } else { run(&lab, &cache, &options, kill_at) }
}

fn run(lab: &Lab, cache: &Cache, options: &RunOptions, kill_at: u64) {
    let mut count = 0;
    let mut last = None;
    let mut sink = |event: Event| {
        count += 1;
        if count == kill_at {
            raise(Signal::SIGKILL).unwrap();
        }
        last = Some(event);
    };
    lab.engine().run(&lab.pipeline(), cache, options, &mut sink).unwrap();
    println!("{}", serde_json::to_string(&last.unwrap()).unwrap());
}

fn print_plan(lab: &Lab, cache: &Cache) {
    let plan = lab.engine().plan(&lab.pipeline(), cache, &[], &mut |_| {}).unwrap();
    let executed: u64 = plan.stages.iter().map(|stage| stage.executed + stage.pending).sum();
    let status = std::fs::read_to_string(Utf8Path::new("/proc/self/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("{executed} {}", peak.trim().trim_end_matches(" kB"));
}
