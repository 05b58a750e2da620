//! The errors of an item or a stage.

use std::io;

use cache::CacheError;
use cache::fs::{FsError, MachineFault};
use serde::{Deserialize, Serialize};

use crate::escape::cleaned;

/// The words before the output of a program in a reason.
pub const SAID: &str = "; it said: ";

/// A verdict on one item that follows from its content: it is quarantined with this reason and not
/// tried again until its content or the stage changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Reject {
    /// A stable word for counting and tests, such as `truncated`.
    pub code: String,
    /// The problem, with figures, and advice.
    pub reason: String,
}

impl Reject {
    /// The code of an item that a person has dropped.
    pub const DROPPED: &str = "dropped";

    /// The code of an item that a stage leaves out since another one has the same content.
    pub const REPEATED: &str = "repeated";

    /// True if it counts towards the limit of a stage: what a person has decided does not, nor does
    /// the repetition of a sound item.
    pub fn is_fault(&self) -> bool {
        ![Reject::DROPPED, Reject::REPEATED].contains(&self.code.as_str())
    }

    /// A verdict with a code, which is a word like `truncated`, and a reason, which people read.
    pub fn new(code: impl Into<String>, reason: impl Into<String>) -> Reject {
        Reject { code: code.into(), reason: reason.into() }
    }

    /// The reason for a failed program: its exit status, and its output.
    pub fn said(code: impl Into<String>, what: &str, said: &str) -> Reject {
        match said.trim() {
            "" => Reject::new(code, what),
            said => Reject::new(code, format!("{what}{SAID}{said}")),
        }
    }

    /// The exit status of a program and its output; for other reasons the whole text, and nothing.
    pub fn parts(&self) -> (&str, &str) {
        self.reason.split_once(SAID).unwrap_or((&self.reason, ""))
    }
}

/// The reason why a stage failed. None of these is ever recorded as a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StageError {
    /// It will fail in the same way until something is changed.
    #[error("{message}")]
    Failed {
        /// One line: the problem, with names in backticks.
        message: String,
        /// Advice for a person, shown below the message.
        help: Option<String>,
    },
    /// Out of memory. A batch is halved and tried again; a stage on all items fails.
    #[error("out of memory: {message}")]
    OutOfMemory {
        /// The allocation that failed, as the library or system reports it.
        message: String,
    },
    /// It may succeed when tried again.
    #[error("{message}")]
    Transient {
        /// One line: the problem.
        message: String,
    },
    /// The run was asked to stop.
    #[error("stopped on request")]
    Stopped,
    /// The disk is full: the run stops, and continues from here once there is space.
    #[error("{message}")]
    NoSpace {
        /// One line, with the path that could not be written.
        message: String,
    },
    /// No item can be processed, and none of them is to blame: the stage ends immediately.
    #[error("{message}")]
    Unable {
        /// One line: the problem, which has nothing to do with an item.
        message: String,
        /// Advice for a person, shown below the message.
        help: Option<String>,
    },
    /// A temporary fault of the machine, such as failing to open one more file: it is retried, and
    /// if that does not help the run stops, and continues from here later.
    #[error("{message}")]
    Machine {
        /// One line, with the call that failed.
        message: String,
    },
    /// It took longer than the `timeout` of its stage. It is not tried again by this run.
    #[error("not done after {seconds} s{said}")]
    TimedOut {
        /// The limit in decimal digits, such as `2.5`.
        seconds: String,
        /// The output of a program as [`SAID`] introduces it, or nothing.
        said: String,
    },
    /// A program that works on batches ended while it had this one. It is halved and tried again; an
    /// item that ends it alone is retried, and then quarantined for this run.
    #[error("{message}")]
    Died {
        /// One line: how the program ended, or where it violated the protocol.
        message: String,
    },
}

/// The advice where a `timeout` has passed.
const TIMEOUT: &str = "raise `timeout` if it needs more";

impl StageError {
    /// An error about work that exceeded this limit in seconds, without the output of a program.
    pub fn timed_out(seconds: f64) -> StageError {
        StageError::TimedOut { seconds: seconds.to_string(), said: String::new() }
    }

    /// The message and its advice in one line, for one item.
    pub fn with_advice(&self) -> String {
        match self {
            StageError::TimedOut { seconds, said } => {
                format!("not done after {seconds} s: {TIMEOUT}{said}")
            }
            other => other.to_string(),
        }
    }

    /// The message is one line: external names in it are escaped.
    pub fn failed(message: impl Into<String>) -> StageError {
        StageError::Failed { message: cleaned(message.into()), help: None }
    }

    /// A failure with advice. Both are one line each: external names in them are escaped.
    pub fn with_help(message: impl Into<String>, help: impl Into<String>) -> StageError {
        let (message, help) = (cleaned(message.into()), cleaned(help.into()));
        StageError::Failed { message, help: Some(help) }
    }

    /// An error of the operating system. All file access of stages comes through here, so that a
    /// machine fault never becomes a verdict on an item.
    pub fn of_io(message: impl Into<String>, error: &io::Error) -> StageError {
        StageError::of_fault(message.into(), MachineFault::of(error))
    }

    /// A full disk is reported with its path.
    pub fn of_file(error: FsError) -> StageError {
        StageError::of_cache("", &CacheError::from(error))
    }

    /// `what` is put before the message.
    pub fn of_cache(what: &str, error: &CacheError) -> StageError {
        StageError::of_fault(format!("{what}{}", error.whole()), error.machine_fault())
    }

    /// An error that is known by its text alone, such as a panic: `other` makes the error if the
    /// machine is not to blame.
    pub fn of_panic(text: &str, other: impl FnOnce(String) -> StageError) -> StageError {
        match MachineFault::of_panic(text) {
            Some(_) => StageError::Machine { message: cleaned(text.to_owned()) },
            None => other(text.to_owned()),
        }
    }

    fn of_fault(message: String, fault: Option<MachineFault>) -> StageError {
        let message = cleaned(message);
        match fault {
            Some(MachineFault::DiskFull) => StageError::NoSpace { message },
            Some(MachineFault::Unable) => StageError::Machine { message },
            None => StageError::failed(message),
        }
    }

    /// A temporary machine fault: nothing is recorded, and the run stops.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, StageError::NoSpace { .. } | StageError::Machine { .. })
    }

    /// The advice for a person; None for errors that no setting mends.
    pub fn help(&self) -> Option<&str> {
        match self {
            StageError::Failed { help, .. } | StageError::Unable { help, .. } => help.as_deref(),
            StageError::TimedOut { .. } => Some(TIMEOUT),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_of_a_time_limit_comes_before_the_output_of_the_program() {
        let said = format!("{SAID}waiting");
        let error = StageError::TimedOut { seconds: "2.5".to_owned(), said };
        assert_eq!(error.to_string(), "not done after 2.5 s; it said: waiting");
        let whole = "not done after 2.5 s: raise `timeout` if it needs more; it said: waiting";
        assert_eq!(error.with_advice(), whole);
        assert_eq!(error.help(), Some(TIMEOUT));
    }

    #[test]
    fn a_name_cannot_forge_a_line_of_a_message() {
        let error = StageError::with_help("`a\nerror: b` is wrong", "take `\u{1b}[2J`");
        assert_eq!(error.to_string(), "`a\\nerror: b` is wrong");
        assert_eq!(error.help(), Some("take `\\u{1b}[2J`"));
        assert_eq!(StageError::failed("one\ntwo").to_string(), "one\\ntwo");
    }
}
