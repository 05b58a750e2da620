//! `setup`: fetches a private libtorch for the worker of a package.

use std::process::Command;

use cache::fs::{Fs, RealFs};
use camino::Utf8PathBuf;
use view::escape::clean;

use super::arguments;
use super::error::{CliError, Exit};
use super::project::Program;
use super::torch::{self, RELEASE};
use super::worker;

/// The program that fetches and unpacks it, with only the standard library of Python.
const FETCH: &str = include_str!("../../python/throstle/setup.py");
/// The file of the first GPU.
const GPU: &str = "/dev/nvidia0";

pub fn setup(program: &Program, arguments: &arguments::Setup) -> Result<Exit, CliError> {
    let Some(to) = worker::private_torch() else {
        return Err(CliError::usage("there is no home folder", "set HOME or XDG_DATA_HOME"));
    };
    let place = clean(to.as_str()).into_owned();
    if torch::is_whole(&to.join("torch")) && !arguments.again {
        program.tell(&format!("torch {RELEASE} is already in `{place}`"));
        return Ok(Exit::Done);
    }
    let has_gpu = || RealFs.exists(GPU.into()).unwrap_or(false);
    let form = if arguments.cuda || (!arguments.cpu && has_gpu()) { "cuda" } else { "cpu" };
    let size = if form == "cuda" { "about 3 GB" } else { "about 0.6 GB" };
    program.tell(&format!("downloading torch {RELEASE} ({form}, {size}) to `{place}`"));
    let above = to.parent().unwrap_or(&to);
    RealFs.create_dir_all(above)?;
    let python = python();
    let status = Command::new(&python)
        .args(["-c", FETCH, to.as_str(), RELEASE, form])
        .status()
        .map_err(|error| {
            let message = format!("`{python}` cannot be started: {error}");
            CliError::failed(message, "install Python 3, or activate an environment with it")
        })?;
    match status.success() && torch::is_whole(&to.join("torch")) {
        true => {
            program.tell("ready: `throstle doctor` checks the worker");
            Ok(Exit::Done)
        }
        false => Ok(Exit::Failed),
    }
}

/// The Python of the active environment, or the one on the search path.
fn python() -> String {
    let active = std::env::var("VIRTUAL_ENV").ok().filter(|folder| !folder.is_empty());
    let active = active.map(|folder| Utf8PathBuf::from(folder).join("bin/python"));
    let active = active.filter(|python| RealFs.exists(python).unwrap_or(false));
    active.map_or_else(|| "python3".to_owned(), Utf8PathBuf::into_string)
}
