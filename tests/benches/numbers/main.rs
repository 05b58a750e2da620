//! Measures throstle against its limits and against the capabilities of the machine, side by side
//! in one run, and prints a Markdown table. Nothing here fails a build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod arguments;
mod clock;
mod commands;
mod corpus;
mod disks;
mod inside;
mod latency;
mod memory;
mod overhead;
mod peers;
mod project;
mod raw;
mod recordings;
mod remote;
mod report;
mod resampling;
mod small;
mod stages;
mod table;
mod throughput;

use arguments::{Arguments, PARTS};
use table::Table;

type Measure = fn(&Arguments, &mut Table);

fn main() {
    let arguments = Arguments::read();
    if let Some(items) = arguments.plan_memory {
        return memory::child(items);
    }
    if let Some(folder) = &arguments.run_memory {
        return recordings::child(folder, &arguments.program);
    }
    if !arguments.measure {
        return;
    }
    let mut table = Table::default();
    let measures: [Measure; PARTS.len()] = [
        latency::start_up,
        latency::measure,
        overhead::measure,
        throughput::measure,
        small::measure,
        resampling::measure,
        commands::measure,
        memory::measure,
        recordings::measure,
        remote::measure,
        report::measure,
    ];
    for ((group, parts), measure) in PARTS.iter().zip(measures) {
        if parts.iter().chain([group]).any(|part| arguments.wants(group, part)) {
            measure(&arguments, &mut table);
        }
    }
    print!("{}", table.markdown());
}
