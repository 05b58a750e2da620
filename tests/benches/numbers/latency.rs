//! Short calls: start-up, no-op, one changed clip, all files touched.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use cache::Digest;

use crate::arguments::Arguments;
use crate::clock::{let_files_age, median, medians_in_turn, timed};
use crate::corpus::{RATE, Size, clip};
use crate::peers;
use crate::project::{MANIFEST, Project};
use crate::raw;
use crate::table::{Table, milliseconds};

const RUNS: usize = 15;
const TOUCHES: usize = 7;
const MILLISECOND: Duration = Duration::from_millis(1);

pub fn start_up(arguments: &Arguments, table: &mut Table) {
    let project = Project::empty(arguments);
    project.call(&["plan"]);
    let version = project.call_often(RUNS, &["--version"]);
    table.at_most("`throstle --version`", version, 5 * MILLISECOND);
    let plan = project.call_often(RUNS, &["plan"]);
    table.at_most("`throstle plan`, empty pipeline", plan, 5 * MILLISECOND);
}

pub fn measure(arguments: &Arguments, table: &mut Table) {
    arguments.sizes().into_iter().for_each(|size| measure_size(arguments, size, table));
}

fn measure_size(arguments: &Arguments, size: Size, table: &mut Table) {
    let project = Project::new(arguments, size);
    let name = thousands(size.clips);
    let cold = project.run();
    assert_eq!(cold.executed as usize, 2 * size.clips + 1, "every clip twice, and the table");
    table.plain(&format!("cold run, {name} clips of {} s", size.seconds), milliseconds(cold.time));
    let_files_age();
    let wants = |part| arguments.wants("latency", part);
    if wants("no-op") || wants("changed") {
        let no_op = no_op(&project, size, &name, table);
        if wants("changed") {
            one_changed(arguments, &project, MANIFEST, no_op, table);
        }
    }
    if wants("touched") {
        all_touched(&project, &name, table);
    }
    if wants("hashing") {
        hashing(&project, &name, table);
    }
    if wants("peers") {
        peers::measure(arguments, &project, &name, table);
    }
    if wants("gather") {
        gathered(arguments, &project, table);
    }
}

/// One changed clip where a stage adds all clips up.
fn gathered(arguments: &Arguments, project: &Project, table: &mut Table) {
    const GATHER: &str = "\n[stage.speakers]\nuse = \"speaker.stats\"\ninput = \"good\"\n";
    let manifest = format!("{MANIFEST}{GATHER}");
    fs::write(project.path().join("pipeline.toml"), &manifest).unwrap();
    (0..3).for_each(|_| _ = project.run());
    let no_op = project.call_often(RUNS, &["run"]);
    one_changed(arguments, project, &manifest, no_op, table);
}

fn no_op(project: &Project, size: Size, name: &str, table: &mut Table) -> Duration {
    // Files that were too young when they were hashed are hashed once more; after that none is.
    project.run();
    let run = project.run();
    assert_eq!(run.executed, 0, "nothing has changed");
    let stat = || timed(|| raw::stat(&project.clips)).0;
    let (no_op, stat) = medians_in_turn(RUNS, || project.call(&["run"]), stat);
    let what = format!("no-op, {name} clips x 3 stages");
    let limit = match size.clips {
        ..=4_000 => Some(15),
        4_001..=10_000 => Some(25),
        _ => None,
    };
    match limit {
        Some(limit) => table.at_most(&what, no_op, limit * MILLISECOND),
        None => table.within(&what, no_op, ("a bare two-thread stat", stat), 2.0),
    }
    table.plain(&format!("bare two-thread stat of {name} clips"), milliseconds(stat));
    no_op
}

/// The clip's own work is the cost of its change in a corpus of that one clip, over a no-op there.
fn one_changed(
    arguments: &Arguments,
    project: &Project,
    manifest: &str,
    no_op: Duration,
    table: &mut Table,
) {
    let alone = Project::with(arguments, Size::of(1), manifest);
    (0..3).for_each(|_| _ = alone.run());
    let first = if manifest == MANIFEST { 9_000_000 } else { 9_500_000 };
    let idle = alone.call_often(RUNS, &["run"]);
    let work = changed(&alone, first).saturating_sub(idle);
    let grace = if project.clips.len() > 10_000 { 40 } else { 20 };
    let limit = no_op + work + grace * MILLISECOND;
    let name = thousands(project.clips.len());
    let limited = format!("no-op + the clip's work ({}) + {grace} ms", milliseconds(work));
    let behind = if manifest == MANIFEST { "" } else { ", `speaker.stats` behind" };
    let what = format!("one changed clip among {name}{behind}; limit: {limited}");
    table.at_most(&what, changed(project, first), limit);
}

/// The median time of a run after a change of one clip. Clips from `first` on are new to the project.
fn changed(project: &Project, first: u64) -> Duration {
    let change_and_run = |round: u64| {
        let bytes = clip(first + round, (2.0 * f64::from(RATE)) as usize, RATE);
        fs::write(&project.clips[project.clips.len() / 2], bytes).unwrap();
        let_files_age();
        let ran = project.run();
        assert!([3, 4].contains(&ran.executed), "one clip in two stages, the table, and a gather");
        ran.time
    };
    let mut times: Vec<Duration> = (0..7).map(change_and_run).collect();
    times.sort();
    times[times.len() / 2]
}

fn all_touched(project: &Project, name: &str, table: &mut Table) {
    let touch_and_run = || {
        let now = SystemTime::now();
        for path in &project.clips {
            File::options().append(true).open(path).unwrap().set_modified(now).unwrap();
        }
        let_files_age();
        let ran = project.run();
        assert_eq!(ran.executed, 0, "the contents are the same");
        ran.time
    };
    let hash = || timed(|| raw::hash(&project.clips)).0;
    let (touched, bare) = medians_in_turn(TOUCHES, touch_and_run, hash);
    let what = format!("all {name} touched, nothing changed");
    table.within(&what, touched, ("a bare two-thread blake3", bare), 1.3);
}

/// The store's own hashing against the program of the algorithm's authors.
fn hashing(project: &Project, name: &str, table: &mut Table) {
    let own = median(5, || {
        for path in &project.clips {
            std::hint::black_box(Digest::of(&fs::read(path).unwrap()));
        }
    });
    let what = format!("read and hash {name} clips, one thread");
    let theirs = || {
        // More names than a command line can take are split.
        let hash = |clips: &[PathBuf]| {
            let mut command = Command::new("b3sum");
            command.args(["--num-threads", "1"]).args(clips).output()
        };
        let (time, outputs) =
            timed(|| project.clips.chunks(5_000).map(hash).collect::<Result<Vec<_>, _>>());
        outputs.ok().filter(|all| all.iter().all(|one| one.status.success())).map(|_| time)
    };
    let mut times: Vec<Duration> = (0..5).filter_map(|_| theirs()).collect();
    times.sort();
    match times.get(times.len() / 2) {
        Some(theirs) => table.within(&what, own, ("b3sum", *theirs), 1.0 / 0.9),
        None => table.plain(&what, format!("{} (no b3sum here)", milliseconds(own))),
    }
}

pub fn thousands(number: usize) -> String {
    match number {
        1_000.. => format!("{},{:03}", number / 1_000, number % 1_000),
        _ => number.to_string(),
    }
}
