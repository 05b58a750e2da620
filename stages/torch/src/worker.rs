//! The arguments of the worker program.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::catch_unwind;
use std::path::Path;

use stage_core::device::{DeviceId, DeviceName, UnknownDevice};
use stage_worker::{Host, serve};

use crate::device::{Machine, place, report};
use crate::error::{TorchError, print_only_defects};
use crate::fixture::{self, Comparison, Fixture, Setup};
use crate::runtime::heap::Heap;
use crate::stages;
use crate::train::precision::Precision;

/// Name and version, as the engine sees them.
pub fn program() -> String {
    format!("throstle-torch {}", env!("CARGO_PKG_VERSION"))
}

const USAGE: &str = "\
usage: throstle-torch                serve stages to `throstle` over stdin and stdout
       throstle-torch check          print libtorch and the devices as JSON
       throstle-torch check-fixture FOLDER [--device DEVICE] [--precision PRECISION]
                                    compare a model with its reference: one line for each
                                    tensor; exit code 1 if one differs too much, 2 if the
                                    model or the device does not have this precision
       throstle-torch --version

DEVICE is `cpu` (default) or `cuda:0`; PRECISION is `f32` (default), `tf32`, `bf16` or `fp16`.

In f32 on the CPU, the fixture states tolerances, absolute or relative. Otherwise the
tolerance is ten times that of the fixture, relative to the largest value of the tensor
(or to 1), and at least (for values; for losses, gradients and trained weights):
    f32 1e-4; 1e-3    tf32, fp16 0.02; 0.3    bf16 0.1; 0.6
Codes, durations and sampled tokens must be equal in f32; in other formats they are not
compared.";

/// The exit code for a precision that a model or a device does not have.
const NOT_OFFERED: u8 = 2;

/// As that of `throstle` for work that the next run goes on with.
const PAUSED: u8 = 75;

/// Runs the command in the arguments; returns the exit code. A panic is an error too.
pub fn run(arguments: &[String]) -> io::Result<u8> {
    cache::fs::outlive_file_size_limit();
    cache::memory::outlive("throstle-torch: the system has no memory left\n", PAUSED);
    print_only_defects();
    let failed = |panic| Err(io::Error::other(TorchError::from_panic(panic)));
    catch_unwind(|| command(arguments)).unwrap_or_else(failed)
}

fn command(arguments: &[String]) -> io::Result<u8> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => serve_pipe().map(|()| 0),
        ["check"] => say(&serde_json::to_string_pretty(&report(&program()))?),
        ["check-fixture", folder, options @ ..] => match options_of(options) {
            Some((device, precision)) => {
                check_fixture(folder, device.map_err(named_wrongly)?, precision)
            }
            None => writeln!(io::stderr(), "{USAGE}").map(|()| 2),
        },
        ["--version" | "-V"] => say(&program()),
        ["--help" | "-h"] => say(USAGE),
        _ => writeln!(io::stderr(), "{USAGE}").map(|()| 2),
    }
}

fn say(text: &str) -> io::Result<u8> {
    writeln!(io::stdout(), "{text}").map(|()| 0)
}

/// The device and the precision in `--device cuda:0 --precision bf16`.
fn options_of(words: &[&str]) -> Option<(Result<DeviceId, UnknownDevice>, Precision)> {
    let (pairs, rest) = words.as_chunks::<2>();
    let (mut device, mut precision) = (Ok(DeviceId::Cpu), Precision::F32);
    for [option, value] in pairs {
        match *option {
            "--device" => device = value.parse().map(DeviceName::first),
            "--precision" => precision = Precision::named(value)?,
            _ => return None,
        }
    }
    rest.is_empty().then_some((device, precision))
}

fn named_wrongly(unknown: UnknownDevice) -> io::Error {
    let nearest = unknown.nearest.map(|nearest| format!("; did you mean `{nearest}`?"));
    io::Error::other(format!("{unknown}{}", nearest.unwrap_or_default()))
}

/// One line per tensor; exit code 1 if one of them differs too much.
fn check_fixture(folder: &str, device: DeviceId, precision: Precision) -> io::Result<u8> {
    let machine = Machine::default();
    let folder = Path::new(folder);
    let setup = Setup { device: place(device), precision };
    let model = Fixture::read(folder).map_err(io::Error::other)?.model;
    if let Err(error) = model.check(&setup) {
        return not_offered(&error);
    }
    if setup.device.is_cuda() {
        machine.prepare(device, 1).map_err(io::Error::other)?;
    }
    if let Err(error) = precision.check(&machine.facts(device)) {
        return not_offered(&error);
    }
    let comparisons = fixture::check_on(folder, &setup).map_err(io::Error::other)?;
    for comparison in &comparisons {
        let verdict = if comparison.is_good() { "ok" } else { "OFF" };
        let Comparison { name, worst, tolerance } = comparison;
        say(&format!("{name:24} worst {worst:.3e}  tolerance {tolerance:.1e}  {verdict}"))?;
    }
    Ok(u8::from(!comparisons.iter().all(Comparison::is_good)))
}

fn not_offered(error: &TorchError) -> io::Result<u8> {
    writeln!(io::stderr(), "throstle-torch: {error}").map(|()| NOT_OFFERED)
}

fn serve_pipe() -> io::Result<()> {
    let machine = Machine::default();
    let stages = stages::all(&machine);
    let prepare = |device: DeviceId, threads: u32| machine.prepare(device, threads);
    let closed = |_: usize| machine.release();
    let devices = || machine.devices();
    let heap = Heap::default();
    let processed = || heap.trim();
    let (program, stages, devices) = (program(), &stages, &devices);
    let host = Host {
        program,
        stages,
        prepare: &prepare,
        devices,
        processed: &processed,
        closed: &closed,
    };
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
