//! Runs one program in a private folder.
//!
//! The program and its descendants form one process group. However the run ends, nothing of the
//! group is left behind.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::command::line::Shell;
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::signal::Signal;
use stage_programs::{self as programs, Program};

use super::direct;
use super::tail::{self, OutputTail};
use super::template::{CommandLine, SHELL};

/// The program to run.
#[derive(Debug, Clone)]
pub struct CommandSpec<'a> {
    pub line: CommandLine,
    /// The private folder, with the inputs in it.
    pub folder: &'a Utf8Path,
    /// The complete environment of the program.
    pub environment: BTreeMap<String, String>,
    /// Required output files, relative to the folder.
    pub outputs: Vec<Utf8PathBuf>,
    pub timeout: Option<Duration>,
    /// The folder of its inputs, if they are not in the private folder.
    pub inputs: Option<&'a Utf8Path>,
    /// A folder for its complete output, not only the end of it.
    pub said: Option<&'a Utf8Path>,
}

/// The files in it.
const SAID: [&str; 2] = ["stdout.txt", "stderr.txt"];

/// The results of a successful program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The outputs in the order in which they were declared.
    pub outputs: Vec<Bytes>,
    pub stdout: String,
    pub stderr: String,
    /// No process of its group is left, and none holds its streams.
    pub is_over: bool,
}

/// The reason why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Line(super::template::TemplateError),
    #[error("the shell cannot be started: {0}")]
    Start(io::Error),
    #[error("the program `{program}` was not found; {}{end}", advice(program))]
    NotFound { program: String, end: End },
    #[error("the command ended with status {status}{end}")]
    Failed { status: i32, end: End },
    #[error("the command was killed by signal {signal} ({name}){end}")]
    Killed { signal: i32, name: String, end: End },
    #[error("the command ran longer than {seconds} s and was killed{end}")]
    Timeout { seconds: f64, end: End },
    #[error("the command was stopped")]
    Stopped,
    #[error("the command succeeded but did not write `{path}`{end}")]
    NoOutput { path: Utf8PathBuf, end: End },
    #[error("the output `{path}` has {bytes} bytes, more than {MAX_OUTPUT_BYTES}")]
    TooLarge { path: Utf8PathBuf, bytes: u64 },
    #[error("the output `{path}` is {found}, not a file")]
    NotAFile { path: Utf8PathBuf, found: &'static str },
    #[error("the output `{path}` is {found}, not a folder")]
    NotAFolder { path: Utf8PathBuf, found: &'static str },
    #[error("the text output `{path}` is not UTF-8")]
    NotText { path: Utf8PathBuf },
    #[error("the items in the output `{path}` cannot be read: {problem}")]
    NoItems { path: Utf8PathBuf, problem: String },
    #[error("the folder `{path}` has a file with a name that is not UTF-8")]
    NoName { path: Utf8PathBuf },
    #[error(
        "no space for the command, {free} bytes left at `{folder}`: free some, then run \
         again{cause}"
    )]
    NoRoom {
        folder: Utf8PathBuf,
        free: u64,
        /// After a semicolon; empty if the program reported nothing.
        cause: String,
    },
    #[error(
        "the command failed with only {free} bytes free at `{folder}`; the next run tries again: \
         {cause}"
    )]
    LittleRoom { folder: Utf8PathBuf, free: u64, cause: String },
    /// A disk that is neither that of its folder nor that of temporary files.
    #[error("the command reports a full disk: free some space there, then run again; {cause}")]
    NoRoomElsewhere { cause: String },
    #[error("a fault of the machine stopped the command; {cause}")]
    Machine { cause: String },
    /// The same for a process or a thread.
    #[error("the machine could not start a process or thread for the command; {cause}")]
    NoProcess { cause: String },
    #[error("failed to {action} `{path}`: {error}")]
    Io { action: &'static str, path: Utf8PathBuf, error: io::Error },
}

impl CommandError {
    /// True if the program itself ended in a way that its input may have caused.
    pub fn is_of_the_program(&self) -> bool {
        self.reject_code().is_some()
            || matches!(self, CommandError::Killed { .. } | CommandError::NotFound { .. })
    }

    /// The end of the program's output.
    pub fn said(&self) -> &str {
        match self {
            CommandError::NotFound { end, .. }
            | CommandError::Failed { end, .. }
            | CommandError::Killed { end, .. }
            | CommandError::NoOutput { end, .. } => &end.0,
            _ => "",
        }
    }

    /// With only the last line of the program's output.
    pub fn in_short(&self) -> String {
        let (said, whole) = (self.said().trim(), self.to_string());
        match said.lines().next_back() {
            Some(last) => whole.replacen(said, last, 1),
            None => whole,
        }
    }

    /// A stable word if the error is a verdict on the input, which would fail again. A missing
    /// program, a kill or a slow machine says nothing about it.
    pub fn reject_code(&self) -> Option<&'static str> {
        match self {
            CommandError::Line(_) => Some("unfit-value"),
            CommandError::Failed { .. } => Some("command-failed"),
            CommandError::NoOutput { .. } => Some("no-output"),
            CommandError::TooLarge { .. } => Some("output-too-large"),
            CommandError::NotAFile { .. } | CommandError::NotAFolder { .. } => {
                Some("output-no-file")
            }
            CommandError::NotText { .. } => Some("output-no-text"),
            CommandError::NoItems { .. } => Some("output-no-items"),
            CommandError::NoName { .. } => Some("output-no-name"),
            _ => None,
        }
    }
}

/// The advice for a missing program.
fn advice(program: &str) -> &'static str {
    if program.contains('/') && !program.starts_with('/') {
        "relative paths start in the private folder of the command: write `{base}/` before it \
             for the folder of the manifest"
    } else {
        "install it or correct the command"
    }
}

/// The end of a program's standard error, with terminal control characters made harmless.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End(pub String);

impl std::fmt::Display for End {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.trim().is_empty() {
            Ok(())
        } else {
            write!(formatter, "{}{}", stage_core::SAID, self.0.trim())
        }
    }
}

const MAX_OUTPUT_BYTES: u64 = 4 << 30;
/// The interval at which a running program is checked for a request to stop and for its time limit.
const LOOK: Duration = Duration::from_millis(20);
/// The time that a stream may stay open after its program has ended.
const STREAM_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a program to its end, its timeout, or until `stopping` says so.
pub fn run(
    spec: &CommandSpec<'_>,
    mut stopping: impl FnMut() -> bool,
) -> Result<ProgramOutput, CommandError> {
    let copies = copies(spec)?;
    let mut program = start(spec).map_err(CommandError::Start)?;
    let mut streams = streams(&mut program, copies).map_err(CommandError::Start)?;
    let started = Instant::now();
    let outcome = loop {
        let open = streams.iter().filter_map(OutputTail::open);
        let has_ended = program.ends_or_says(open, LOOK).map_err(CommandError::Start)?;
        if has_ended {
            break ProcessEnd::Ended;
        }
        streams.iter_mut().for_each(OutputTail::read);
        if stopping() {
            break ProcessEnd::Stopped;
        }
        if let Some(timeout) = spec.timeout.filter(|timeout| started.elapsed() > *timeout) {
            break ProcessEnd::Late(timeout);
        }
    };
    // Before the streams are read to their ends: remaining descendants of the program hold them open.
    let ended = program.end().map_err(CommandError::Start);
    tail::drain(&mut streams, STREAM_PATIENCE).map_err(CommandError::Start)?;
    let are_closed = streams.iter().all(|stream| stream.open().is_none());
    let [stdout, stderr] = streams.map(OutputTail::text);
    // Both folders have a new name each time, and a reason must not depend on it.
    let stderr = stderr.replace(spec.folder.as_str(), ".");
    let stderr = match spec.inputs {
        Some(inputs) => stderr.replace(inputs.as_str(), "./in"),
        None => stderr,
    };
    match outcome {
        ProcessEnd::Stopped => Err(CommandError::Stopped),
        ProcessEnd::Late(timeout) => {
            Err(CommandError::Timeout { seconds: timeout.as_secs_f64(), end: End(stderr) })
        }
        ProcessEnd::Ended => {
            let ended = ended?;
            check_status(ended.status, &spec.line, &stderr)?;
            let is_over = are_closed && ended.is_group_gone;
            Ok(ProgramOutput { outputs: outputs(spec, &stderr)?, stdout, stderr, is_over })
        }
    }
}

/// An error if the program at the start of a line or one on the left of a pipe does not exist. So
/// this is detected once and not by every item, and also where the shell goes on without the
/// program. What only the shell knows is left to it.
pub fn check_programs(
    line: &str,
    folder: &Utf8Path,
    environment: &BTreeMap<String, String>,
) -> Result<(), CommandError> {
    let Shell { first, piped, .. } = Shell::read(line).unwrap_or_default();
    let mut programs = first.iter().chain(&piped);
    programs.try_for_each(|program| check_program(program, folder, environment))
}

fn check_program(
    program: &str,
    folder: &Utf8Path,
    environment: &BTreeMap<String, String>,
) -> Result<(), CommandError> {
    if direct::find(program, environment).is_some() {
        return Ok(());
    }
    // The shell itself may know it.
    let spec = CommandSpec {
        line: CommandLine::with("command -v \"$program\"", "program", program),
        folder,
        environment: environment.clone(),
        outputs: Vec::new(),
        timeout: None,
        inputs: None,
        said: None,
    };
    match run(&spec, || false) {
        Err(CommandError::Failed { .. } | CommandError::NotFound { .. }) => {
            Err(CommandError::NotFound { program: program.to_owned(), end: End::default() })
        }
        other => other.map(drop),
    }
}

enum ProcessEnd {
    Ended,
    Late(Duration),
    Stopped,
}

fn start(spec: &CommandSpec<'_>) -> io::Result<Program> {
    let words = spec.line.words().unwrap_or_default();
    if let Some(file) = direct::file(words, &spec.environment) {
        let mut command = Command::new(file);
        command.arg0(&words[0]).args(&words[1..]);
        // A file that the system does not run may be one for the shell.
        if let Ok(program) = start_in(&mut command, spec) {
            return Ok(program);
        }
    }
    start_in(Command::new(SHELL).args(spec.line.arguments()), spec)
}

fn start_in(command: &mut Command, spec: &CommandSpec<'_>) -> io::Result<Program> {
    command.current_dir(spec.folder).env_clear().envs(&spec.environment);
    // As a shell does.
    command.env("PWD", spec.folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    programs::start(command)
}

fn streams(
    program: &mut Program,
    [own, errors]: [Option<fs::File>; 2],
) -> io::Result<[OutputTail; 2]> {
    match program.pipes() {
        (_, Some(stdout), Some(stderr)) => {
            Ok([OutputTail::new(stdout.into(), own)?, OutputTail::new(stderr.into(), errors)?])
        }
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// The files for the complete output of both streams, if requested.
fn copies(spec: &CommandSpec<'_>) -> Result<[Option<fs::File>; 2], CommandError> {
    let Some(folder) = spec.said else { return Ok([None, None]) };
    let [own, errors] = SAID.map(|name| {
        let path = folder.join(name);
        let failed = |error| CommandError::Io { action: "make", path: path.clone(), error };
        fs::File::create(&path).map_err(failed)
    });
    Ok([Some(own?), Some(errors?)])
}

/// The statuses of `sh` for a program that does not exist or cannot be run.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

fn check_status(status: ExitStatus, line: &CommandLine, stderr: &str) -> Result<(), CommandError> {
    let end = End(stderr.to_owned());
    if let Some(signal) = status.signal().or_else(|| signal_of(status.code()?)) {
        let name = Signal::try_from(signal).map_or("unknown", Signal::as_str).to_owned();
        return Err(CommandError::Killed { signal, name, end });
    }
    match status.code() {
        Some(0) => Ok(()),
        Some(NOT_FOUND | NOT_EXECUTABLE) => {
            let program = missing(stderr).map_or_else(|| line.first(), str::to_owned);
            Err(CommandError::NotFound { program, end })
        }
        other => Err(CommandError::Failed { status: other.unwrap_or(-1), end }),
    }
}

/// The program that the shell names in its last line: `sh: 1: say: not found`.
fn missing(stderr: &str) -> Option<&str> {
    let mut parts = stderr.trim_end().lines().next_back()?.rsplit(": ");
    let is_known = matches!(parts.next()?, "not found" | "command not found" | "Permission denied");
    parts.next().filter(|name| is_known && !name.contains(char::is_whitespace))
}

/// A shell adds this to the signal that ended its child.
const KILLED: i32 = 128;

fn signal_of(status: i32) -> Option<i32> {
    Signal::try_from(status - KILLED).ok().map(|signal| signal as i32)
}

fn outputs(spec: &CommandSpec<'_>, stderr: &str) -> Result<Vec<Bytes>, CommandError> {
    spec.outputs.iter().map(|path| output(spec.folder, path, stderr)).collect()
}

pub(crate) const LINK_OR_FOLDER: &str = "a link or a folder";

/// A file that is not regular, in words.
pub(crate) fn found(kind: fs::FileType) -> &'static str {
    match () {
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () if kind.is_file() => "a file",
        () => LINK_OR_FOLDER,
    }
}

pub(crate) fn output(
    folder: &Utf8Path,
    path: &Utf8Path,
    stderr: &str,
) -> Result<Bytes, CommandError> {
    let full = folder.join(path);
    let failed =
        |error| CommandError::Io { action: "read the output", path: path.to_owned(), error };
    // The program may have replaced a folder by a link.
    let above = path.ancestors().skip(1).map(|above| folder.join(above));
    if above.into_iter().any(|above| above.is_symlink()) {
        return Err(CommandError::NotAFile { path: path.to_owned(), found: LINK_OR_FOLDER });
    }
    // The link itself is checked: one that leads elsewhere would read a file of the user.
    let metadata = match fs::symlink_metadata(&full) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CommandError::NoOutput {
                path: path.to_owned(),
                end: End(stderr.to_owned()),
            });
        }
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() {
        let found = found(metadata.file_type());
        return Err(CommandError::NotAFile { path: path.to_owned(), found });
    }
    if metadata.len() > MAX_OUTPUT_BYTES {
        return Err(CommandError::TooLarge { path: path.to_owned(), bytes: metadata.len() });
    }
    fs::read(&full).map(Bytes::from).map_err(failed)
}

#[cfg(test)]
mod tests;
