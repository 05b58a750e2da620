//! The program `throstle`: the stages in plain Rust, and the worker for stages that need libtorch.

#[global_allocator]
static ALLOCATOR: cache::memory::Allocator = cache::memory::Allocator;

fn main() -> std::process::ExitCode {
    cli::main(stage_speech::stages())
}
