//! `throstle` with the feature `cloud`, for tests of buckets and web servers. It has a name of its own, so that
//! tests of a program without this feature do not find it.

#[global_allocator]
static ALLOCATOR: cache::memory::Allocator = cache::memory::Allocator;

fn main() -> std::process::ExitCode {
    cli::main(stage_speech::stages())
}
