//! The command line with the stages of the small world, one of them deaf to stop requests, with a
//! misbehaving stage, and with a voice and the stages in plain Rust.

use std::process::ExitCode;
use std::sync::Arc;

use throstle_tests::{stages, unruly, voice};

fn main() -> ExitCode {
    let mut stages = stages::all();
    stages.push(Arc::new(unruly::Unruly));
    stages.push(Arc::new(unruly::Stuck));
    stages.extend(voice::all());
    stages.extend(stage_speech::stages());
    cli::main(stages)
}
