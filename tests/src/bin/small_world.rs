//! The command line with the stages of the small world, one of which hears no request to stop, and
//! with one that does not behave.

use std::process::ExitCode;
use std::sync::Arc;

use throstle_tests::{stages, unruly};

fn main() -> ExitCode {
    let mut stages = stages::all();
    stages.push(Arc::new(unruly::Unruly));
    engine::cli::main(stages)
}
