//! The program `throstle`: the stages in plain Rust, and the worker for stages that need libtorch.

fn main() -> std::process::ExitCode {
    engine::cli::main(stage_speech::stages())
}
