//! The command line with the stages of the small world, one of which hears no request to stop.

use std::process::ExitCode;

fn main() -> ExitCode {
    engine::cli::main(throstle_tests::stages::all())
}
