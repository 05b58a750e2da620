//! Measures throstle against the numbers it promises and against what the machine can do, side
//! by side in one run, and prints the outcome as a Markdown table. Nothing here fails a build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod arguments;
mod clock;
mod corpus;
mod inside;
mod latency;
mod memory;
mod overhead;
mod peers;
mod project;
mod raw;
mod resampling;
mod stages;
mod table;
mod throughput;

use arguments::Arguments;
use table::Table;

fn main() {
    let arguments = Arguments::read();
    if let Some(items) = arguments.plan_memory {
        return memory::child(items);
    }
    if !arguments.measure {
        return;
    }
    let mut table = Table::default();
    latency::start_up(&arguments, &mut table);
    for size in arguments.sizes() {
        latency::measure(&arguments, size, &mut table);
    }
    overhead::measure(&arguments, &mut table);
    throughput::measure(&arguments, &mut table);
    resampling::measure(&arguments, &mut table);
    memory::measure(&arguments, &mut table);
    print!("{}", table.markdown());
}
