//! `setup`: fetches a private libtorch for the worker of a package, or the library that plays graphs.

use std::process::Command;

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use view::escape::clean;

use super::player::{has_player, private_player};
use super::torch::{self, RELEASE};
use super::worker;
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::Program;

/// The modules of the program that fetches and unpacks it, in the order of their imports. They need only
/// the standard library of Python.
const MODULES: [(&str, &str); 3] = [
    ("versions", include_str!("../../../python/setup/versions.py")),
    ("index", include_str!("../../../python/setup/index.py")),
    ("setup", include_str!("../../../python/setup/setup.py")),
];
/// Loads the modules from arguments, since a program that was built from source has no package.
const LOAD: &str = "\
import sys, types
*modules, to, release, form = sys.argv[1:]
for name, source in zip(modules[::2], modules[1::2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name + '.py', 'exec'), module.__dict__)
sys.exit(module.main(to, release, form))
";
/// The form that is onnxruntime.
const PLAYER: &str = "player";
/// The file of the first GPU.
const GPU: &str = "/dev/nvidia0";

pub fn setup(program: &Program, arguments: &arguments::Setup) -> Result<Exit, CliError> {
    if arguments.player {
        return player(program, arguments.again);
    }
    let to = worker::private_torch().ok_or_else(homeless)?;
    let place = clean(to.as_str()).into_owned();
    let has_gpu = || RealFs.exists(GPU.into()).unwrap_or(false);
    let with_gpu = arguments.cuda || (!arguments.cpu && has_gpu());
    let is_there = torch::is_whole(&to.join("torch"));
    if is_there && (!with_gpu || torch::has_cuda(&to.join("torch"))) && !arguments.again {
        program.tell(&format!("torch {RELEASE} is already in `{place}`"));
        return Ok(Exit::Done);
    }
    let (form, size) = if with_gpu { ("cuda", "about 3 GB") } else { ("cpu", "about 0.6 GB") };
    program.tell(&format!("downloading torch {RELEASE} ({form}, {size}) to `{place}`"));
    if fetch(&to, RELEASE, form)? && torch::is_whole(&to.join("torch")) {
        program.tell("ready: `throstle doctor` checks the worker");
        Ok(Exit::Done)
    } else {
        Ok(Exit::Failed)
    }
}

fn homeless() -> CliError {
    CliError::usage("there is no home folder", "set HOME or XDG_DATA_HOME")
}

/// Fetches onnxruntime.
fn player(program: &Program, again: bool) -> Result<Exit, CliError> {
    let (to, release) = (private_player().ok_or_else(homeless)?, stage_player::RELEASE);
    let place = clean(to.as_str()).into_owned();
    if has_player(&to) && !again {
        program.tell(&format!("onnxruntime {release} is already in `{place}`"));
        return Ok(Exit::Done);
    }
    program.tell(&format!("downloading onnxruntime {release} (28 MB) to `{place}`"));
    if fetch(&to, release, PLAYER)? && has_player(&to) {
        program.tell("ready: `throstle say VOICE.onnx TEXT` speaks with it");
        Ok(Exit::Done)
    } else {
        Ok(Exit::Failed)
    }
}

/// Fetches a release into a folder; false if the reason for a failure was told.
fn fetch(to: &Utf8Path, release: &str, form: &str) -> Result<bool, CliError> {
    let above = to.parent().unwrap_or(to);
    RealFs.create_dir_all(above)?;
    let python = python();
    let status = Command::new(&python)
        // Isolated, so that no file of the current folder takes the place of a standard module.
        .args(["-I", "-c", LOAD])
        .args(MODULES.iter().flat_map(|(name, source)| [name, source]))
        .args([to.as_str(), release, form])
        .status()
        .map_err(|error| {
            let message = format!("`{python}` cannot be started: {error}");
            CliError::failed(message, "install Python 3, or activate an environment with it")
        })?;
    Ok(status.success())
}

/// The Python of the active environment, or of the environment of this program, or the one on the
/// search path.
fn python() -> String {
    let active = std::env::var("VIRTUAL_ENV").ok().filter(|folder| !folder.is_empty());
    let active = active.map(|folder| Utf8PathBuf::from(folder).join("bin/python"));
    let own = std::env::current_exe().ok().and_then(|own| Utf8PathBuf::from_path_buf(own).ok());
    let beside = own.map(|own| own.with_file_name("python3"));
    let mut places = active.into_iter().chain(beside);
    let found = places.find(|python| RealFs.exists(python).unwrap_or(false));
    found.map_or_else(|| "python3".to_owned(), Utf8PathBuf::into_string)
}
