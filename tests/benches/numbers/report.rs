//! The report page of a large data set: its size, and the time that a browser takes to open it.

use std::fs;
use std::time::Duration;

use throstle_tests::browser::{self, Browser};

use crate::arguments::Arguments;
use crate::clock::median;
use crate::project::Project;
use crate::table::{Table, milliseconds};

const LIMIT: Duration = Duration::from_secs(2);
const MOST_BYTES: u64 = 15_000_000;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let sizes = arguments.sizes().into_iter().filter(|size| size.clips <= 10_000);
    let Some(size) = sizes.max_by_key(|size| size.clips) else { return };
    let project = Project::new(arguments, size);
    project.run();
    let written = project.call(&["report"]);
    let page = project.path().join("report.html");
    let bytes = fs::metadata(&page).unwrap().len();
    let what = format!("report of {} clips", size.clips);
    table.plain(&format!("{what}, to write it"), milliseconds(written));
    let shown = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    table.judged(
        &format!("{what}, its size"),
        format!("under {}", shown(MOST_BYTES)),
        shown(bytes),
        bytes < MOST_BYTES,
    );
    if let Err(advice) = browser::program() {
        eprintln!("{what}: not opened: {advice}");
        return;
    }
    let mut browser = Browser::new();
    let opened = median(5, || browser.visit(&page));
    table.at_most(&format!("{what}, to open it in Chromium"), opened, LIMIT);
}
