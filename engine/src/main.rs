//! The program `throstle`: the plain Rust stages, and the worker's for those that need libtorch.

fn main() -> std::process::ExitCode {
    engine::cli::main(stage_speech::stages())
}
