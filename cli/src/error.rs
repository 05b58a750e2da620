//! Errors that end a command, their messages and their exit codes.

use std::error::Error;
use std::io;

use cache::CacheError;
use cache::fs::{FsError, MachineFault};
use engine::engine::EngineError;
use engine::error::PlanError;
use engine::event::Event;
use engine::manifest::Problems;
use engine::store::ReadError;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use stage_core::course::Idle;
use view::escape::{clean, clean_lines, told_apart};

use super::terminal::Terminal;

/// The result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    /// Stopped on purpose; running again continues.
    Paused,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => FAILED,
            Exit::Paused => PAUSED,
        }
    }
}

pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
pub const PAUSED: u8 = 75;

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments do not fit the manifest or the cache.
    #[error("{message}")]
    Usage { message: String, help: Option<String> },
    #[error(transparent)]
    Manifest(#[from] Box<Problems>),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    File(#[from] FsError),
    #[error("standard output")]
    Output(io::Error),
    /// The process lacks something for itself, such as a thread.
    #[error("cannot {what}")]
    Process { what: &'static str, source: io::Error },
    /// The message names each training.
    #[error("the schedule of a training has settings without effect")]
    Schedules(Vec<(String, Idle)>),
    #[error("{message}")]
    Failed { message: String, help: Option<String> },
}

impl CliError {
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> CliError {
        CliError::Usage { message: message.into(), help: words(help) }
    }

    pub fn failed(message: impl Into<String>, help: impl Into<String>) -> CliError {
        CliError::Failed { message: message.into(), help: words(help) }
    }

    pub fn process(what: &'static str) -> impl FnOnce(io::Error) -> CliError {
        move |source| CliError::Process { what, source }
    }

    /// The fault of the machine, if that is the cause.
    pub fn machine_fault(&self) -> Option<String> {
        match self {
            CliError::Engine(error) => error.machine_fault(),
            CliError::Cache(error) => error.machine_fault().map(|_| error.whole()),
            CliError::File(error) => error.machine_fault().map(|_| error.whole()),
            CliError::Process { what, source } => MachineFault::of(source).map(|_| {
                let advice = MachineFault::advice(source);
                let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
                format!("cannot {what}: {source}{advice}")
            }),
            _ => None,
        }
    }

    /// True if a file could not be written since its disk is full.
    fn is_disk_full(&self) -> bool {
        match self {
            CliError::Cache(error) | CliError::Engine(EngineError::Cache(error)) => {
                error.is_no_space()
            }
            CliError::File(error) => error.is_no_space(),
            _ => false,
        }
    }

    /// The message with its causes in one line.
    pub fn told(&self) -> String {
        let mut told = self.to_string();
        for cause in causes(self) {
            told.push_str(": ");
            told.push_str(&cause);
        }
        told
    }

    pub fn code(&self) -> u8 {
        match self {
            CliError::Usage { .. } | CliError::Schedules(_) | CliError::Manifest(_) => USAGE,
            CliError::Engine(EngineError::Unready { .. }) => USAGE,
            // The reader closed the pipe because it has seen enough.
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            error if error.is_disk_full() => PAUSED,
            _ => FAILED,
        }
    }

    /// The event of a run that ends with it.
    pub fn event(&self) -> Event {
        Event::RunFailed { message: self.told(), help: self.help() }
    }

    /// The text for standard error; empty if there is nothing to report.
    pub fn render(&self, terminal: &Terminal) -> String {
        told_apart(&self.rendered(terminal)).into_owned()
    }

    fn rendered(&self, terminal: &Terminal) -> String {
        match self {
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => String::new(),
            CliError::Manifest(problems) => diagnostic(&**problems, terminal),
            CliError::Schedules(mistakes) => {
                let bad = terminal.errors.bad("error");
                let told = mistakes.iter().map(|(stage, idle)| {
                    let (stage, message, help) =
                        (clean(stage), clean(&idle.message), clean(&idle.help));
                    format!("{bad}: stage `{stage}`: {message}\n  help: {help}\n")
                });
                told.collect()
            }
            error => {
                let mut text = terminal.errors.bad("error");
                text.push_str(": ");
                text.push_str(&clean_lines(&error.to_string()));
                for cause in causes(error) {
                    text.push_str(&format!("\n  caused by: {}", clean(&cause)));
                }
                if let Some(help) = error.help() {
                    text.push_str(&format!("\n  help: {}", clean(&help)));
                }
                text.push('\n');
                text
            }
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            CliError::Usage { help, .. } | CliError::Failed { help, .. } => help.clone(),
            CliError::Engine(EngineError::Stage { error, .. }) => error.help().map(str::to_owned),
            CliError::Engine(EngineError::Unready { help, .. }) => Some(help.clone()),
            CliError::Cache(CacheError::NoCache { .. }) => {
                Some("nothing has run here yet: start with `throstle run`".into())
            }
            error if error.is_disk_full() => {
                Some("the disk is full: free some space, then run the same command again".into())
            }
            _ => None,
        }
    }
}

/// The causes below the first message, without repetitions of it.
fn causes(error: &CliError) -> Vec<String> {
    let mut said = error.to_string();
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.contains(&text) {
            causes.push(text.clone());
            said = text;
        }
        next = cause.source();
    }
    causes
}

/// A diagnostic with its position in the text.
pub fn diagnostic(diagnostic: &dyn Diagnostic, terminal: &Terminal) -> String {
    let theme = match (terminal.errors.colour, terminal.errors_are_seen) {
        (true, _) => GraphicalTheme::unicode(),
        (false, true) => GraphicalTheme::unicode_nocolor(),
        (false, false) => GraphicalTheme::none(),
    };
    let handler =
        GraphicalReportHandler::new_themed(theme).with_width(terminal.columns).with_links(false);
    let mut text = String::new();
    match handler.render_report(&mut text, diagnostic) {
        Ok(()) => text,
        Err(_) => format!("error: {diagnostic}\n"),
    }
}

/// The words of a help, if there are any.
fn words(help: impl Into<String>) -> Option<String> {
    Some(help.into()).filter(|help| !help.is_empty())
}

/// Of standard output, unless the error names a file.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        match error.downcast::<FsError>() {
            Ok(error) => CliError::File(error),
            Err(error) => CliError::Output(error),
        }
    }
}

impl From<ReadError> for CliError {
    fn from(error: ReadError) -> CliError {
        CliError::failed(error.to_string(), "run the pipeline: it makes lost results again")
    }
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> CliError {
        match error {
            PlanError::Cache(error) => CliError::Cache(error),
            error => CliError::Failed { message: error.to_string(), help: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use view::paint::Paint;

    fn render(error: &CliError) -> String {
        let paint = Paint::default();
        let terminal = Terminal {
            data: paint,
            errors: paint,
            data_is_seen: false,
            errors_are_seen: false,
            errors_are_drawn: false,
            columns: 80,
        };
        error.render(&terminal)
    }

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let source = FsError {
            path: "/data/clips.csv".into(),
            call: "read",
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        };
        let text = render(&CliError::File(source));
        assert_eq!(text, "error: cannot read `/data/clips.csv`\n  caused by: permission denied\n");
        let text = render(&CliError::usage("there is no stage `\u{1b}[2J`", "known stages: a"));
        assert_eq!(text, "error: there is no stage `\\u{1b}[2J`\n  help: known stages: a\n");
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_other_ends_have_their_codes() {
        let closed = CliError::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!((render(&closed).as_str(), closed.code()), ("", 0));
        let full = CliError::Output(io::ErrorKind::StorageFull.into());
        assert_eq!(full.code(), FAILED);
        let of_file = || FsError {
            path: "set/000000.tar".into(),
            call: "write",
            source: io::ErrorKind::StorageFull.into(),
        };
        // Also behind a writer, such as that of a tar file.
        for error in [CliError::from(of_file()), io::Error::other(of_file()).into()] {
            let told = render(&error);
            assert_eq!((error.code(), told.contains("free some space")), (PAUSED, true), "{told}");
            assert!(told.starts_with("error: cannot write `set/000000.tar`"), "{told}");
        }
        let of_engine = CliError::Engine(EngineError::Cache(CacheError::Fs(of_file())));
        assert_eq!(of_engine.code(), PAUSED);
        assert_eq!(CliError::usage("", "").code(), USAGE);
        assert_eq!([Exit::Done, Exit::Failed, Exit::Paused].map(Exit::code), [0, 1, 75]);
    }
}
