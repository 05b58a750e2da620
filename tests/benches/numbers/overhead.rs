//! The cost of the engine per item without work.

use engine::engine::RunOptions;
use engine::event::Status;

use crate::arguments::Arguments;
use crate::clock::timed;
use crate::inside;
use crate::stages::{MANIFEST, all};
use crate::table::Table;

const LIMIT: f64 = 50.0;

/// Counted per item and stage, on two threads, results durable at the end.
pub fn measure(arguments: &Arguments, table: &mut Table) {
    let count = arguments.scaled(20_000);
    let mut each: Vec<f64> = (0..3).map(|_| one(arguments, count)).collect();
    each.sort_by(f64::total_cmp);
    table.judged(
        &format!("engine overhead per item, {count} items x 2 stages, in process"),
        format!("under {LIMIT} us"),
        format!("{:.1} us", each[1]),
        each[1] < LIMIT,
    );
}

fn one(arguments: &Arguments, count: usize) -> f64 {
    let folder = tempfile::tempdir_in(&arguments.folder).unwrap();
    let engine = inside::engine(all());
    let set = [format!("stage.many.count={count}")];
    let pipeline = inside::pipeline(&engine, folder.path(), MANIFEST, &set);
    let cache = inside::cache(folder.path());
    let (time, status) =
        timed(|| engine.run(&pipeline, &cache, &RunOptions::default(), &mut |_| {}).unwrap());
    assert_eq!(status, Status::Done);
    time.as_secs_f64() * 1e6 / (2 * count) as f64
}
