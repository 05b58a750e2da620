//! Cold runs over many tiny clips: the engine's own cost, its use of both cores, and its estimates.

use crate::arguments::Arguments;
use crate::clock::{Spent, spent};
use crate::corpus::Size;
use crate::project::{Project, Ran};
use crate::table::Table;

const SECONDS: f64 = 0.1;
const ROUNDS: usize = 3;
/// Stages that work on items.
const STAGES: usize = 2;
const MIN_CORES: f64 = 1.7;
const MAX_ITEM_US: f64 = 20.0;
/// Either way.
const MAX_ESTIMATE_ERROR: f64 = 2.0;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    for size in arguments.sizes().iter().filter(|size| size.clips >= 10_000 || arguments.quick) {
        let project = Project::new(arguments, Size { clips: size.clips, seconds: SECONDS });
        cold(&project, size.clips, table);
        changed(&project, size.clips, table);
    }
}

fn cold(project: &Project, clips: usize, table: &mut Table) {
    let mut rounds: Vec<(Spent, Ran)> = Vec::new();
    for _ in 0..ROUNDS {
        project.forget();
        rounds.push(spent(|| project.run()));
    }
    rounds.sort_by_key(|(spent, _)| spent.wall);
    let (middle, ran) = rounds.swap_remove(ROUNDS / 2);
    let what = format!("cold run, {clips} clips of {SECONDS} s, resampled and checked");
    let cores = middle.processor.as_secs_f64() / middle.wall.as_secs_f64();
    table.judged(
        &format!("{what}: cores in use"),
        format!("at least {MIN_CORES} of 2"),
        format!("{cores:.2} ({middle})"),
        cores >= MIN_CORES,
    );
    let each = middle.wall.as_secs_f64() * 1e6 / (STAGES * clips) as f64;
    table.judged(
        &format!("{what}: per item and stage"),
        format!("under {MAX_ITEM_US} us"),
        format!("{each:.1} us"),
        each < MAX_ITEM_US,
    );
    estimated(&format!("{what}: estimate without measures"), &ran, table);
}

fn changed(project: &Project, clips: usize, table: &mut Table) {
    project.change_text(0, "Another text.");
    let ran = project.run();
    estimated(&format!("one changed of {clips} clips of {SECONDS} s: estimate"), &ran, table);
}

fn estimated(what: &str, ran: &Ran, table: &mut Table) {
    let took = ran.time.as_secs_f64();
    let factor = ran.expected_seconds / took;
    table.judged(
        what,
        format!("within a factor of {MAX_ESTIMATE_ERROR}"),
        format!("{:.2} s of {took:.2} s: {factor:.2} x", ran.expected_seconds),
        (1.0 / MAX_ESTIMATE_ERROR..=MAX_ESTIMATE_ERROR).contains(&factor),
    );
}
