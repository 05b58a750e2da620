//! The memory for planning very many items, in a separate process.

use std::process::Command;

use engine::engine::RunOptions;

use crate::arguments::Arguments;
use crate::inside;
use crate::stages::{MANIFEST, all};
use crate::table::Table;

const GIGABYTE: f64 = 1e9;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let items: usize = if arguments.full { 1_000_000 } else { arguments.scaled(100_000) };
    let own = std::env::current_exe().unwrap();
    let output = Command::new(own)
        .args(["--plan-memory", &items.to_string()])
        .arg("--folder")
        .arg(&arguments.folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let Ok(bytes) = text.trim().parse::<f64>() else {
        return table.plain("memory of a plan", String::from_utf8_lossy(&output.stderr).into());
    };
    let what = format!("memory, {items} items x 3 stages planned");
    let measured = format!("{:.0} MB", bytes / 1e6);
    match items {
        1_000_000 => table.judged(&what, "under 1 GB".into(), measured, bytes < GIGABYTE),
        _ => table.plain(&what, measured),
    }
}

/// Plans this number of unknown items, and prints the peak memory.
pub fn child(items: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let engine = inside::engine(all());
    let set = [format!("stage.many.count={items}")];
    let pipeline = inside::pipeline(&engine, folder.path(), MANIFEST, &set);
    let cache = inside::cache(folder.path());
    let targets = RunOptions::default().targets;
    let plan = engine.plan(&pipeline, &cache, &targets, &mut |_| {}).unwrap();
    let pending: u64 = plan.stages.iter().map(|stage| stage.executed + stage.pending).sum();
    assert_eq!(pending as usize, 2 * items + 1, "all of it is to do");
    println!("{}", peak_bytes());
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
