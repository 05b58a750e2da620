//! The arguments of the worker program.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use stage_core::worker::{Host, serve};

use crate::device::{Machine, report};
use crate::fixture::{self, Comparison};
use crate::stages;

/// Name and version, as the engine sees them.
pub fn program() -> String {
    format!("throstle-torch {}", env!("CARGO_PKG_VERSION"))
}

const USAGE: &str = "\
usage: throstle-torch                serve stages to `throstle` over stdin and stdout
       throstle-torch check          print libtorch and the devices as JSON
       throstle-torch check-fixture FOLDER
                                    compare a model with its reference
       throstle-torch --version";

/// As that of `throstle` for work that the next run goes on with.
const PAUSED: u8 = 75;

/// Runs the command in the arguments; returns the exit code.
pub fn run(arguments: &[String]) -> io::Result<u8> {
    cache::fs::outlive_file_size_limit();
    cache::memory::outlive("throstle-torch: the system has no memory left\n", PAUSED);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => serve_pipe().map(|()| 0),
        ["check"] => say(&serde_json::to_string_pretty(&report(&program()))?),
        ["check-fixture", folder] => check_fixture(folder),
        ["--version" | "-V"] => say(&program()),
        ["--help" | "-h"] => say(USAGE),
        _ => writeln!(io::stderr(), "{USAGE}").map(|()| 2),
    }
}

fn say(text: &str) -> io::Result<u8> {
    writeln!(io::stdout(), "{text}").map(|()| 0)
}

/// One line per tensor; exit code 1 if one of them differs too much.
fn check_fixture(folder: &str) -> io::Result<u8> {
    let comparisons = fixture::check(Path::new(folder)).map_err(io::Error::other)?;
    for comparison in &comparisons {
        let verdict = if comparison.is_good() { "ok" } else { "OFF" };
        let Comparison { name, worst, tolerance } = comparison;
        say(&format!("{name:24} worst {worst:.3e}  tolerance {tolerance:.1e}  {verdict}"))?;
    }
    Ok(u8::from(!comparisons.iter().all(Comparison::is_good)))
}

fn serve_pipe() -> io::Result<()> {
    let machine = Machine::default();
    let stages = stages::all(&machine);
    let prepare = |device: &str, threads: u32| machine.prepare(device, threads);
    let closed = |_: usize| machine.release();
    let devices = || machine.devices();
    let (program, stages, devices) = (program(), &stages, &devices);
    let host = Host { program, stages, prepare: &prepare, devices, closed: &closed };
    let mut pipe = take_stdout()?;
    serve(&host, &mut io::stdin().lock(), &mut pipe)
}

/// The pipe to the engine. From here on, prints of any library go to stderr and cannot mix with
/// frames.
fn take_stdout() -> io::Result<File> {
    let pipe = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both numbers are open descriptors of this process, and `pipe` keeps a copy of the
    // one that is replaced.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::from(pipe))
}
