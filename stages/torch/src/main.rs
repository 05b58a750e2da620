//! `throstle-torch`: the worker that runs the stages on libtorch.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cache::memory::Allocator = cache::memory::Allocator;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match stage_torch::worker::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("throstle-torch: {error}");
            ExitCode::FAILURE
        }
    }
}
