//! The side of the engine in a conversation with a worker: it answers the questions of a job.

use stage_core::{Context, StageError};
use stage_worker::wire::{Answer, MAX_FRAME, Question, Reply};

use crate::run::context::EngineContext;

pub trait Desk {
    fn answer(&mut self, question: Question) -> Answer;

    /// Takes a report, which needs no answer.
    fn hear(&mut self, _report: &Reply) {}

    /// The task of a run; `None` for work that no schedule can give up on.
    fn ticket(&self) -> Option<u64> {
        None
    }
}

/// For requests that concern no job.
pub struct NoJob;

impl Desk for NoJob {
    fn answer(&mut self, question: Question) -> Answer {
        refusal(question)
    }
}

/// The answer where nothing can be read or recorded.
pub fn refusal(question: Question) -> Answer {
    let none = || StageError::failed("nothing can be read or recorded here");
    match question {
        Question::Read(_) => Answer::Bytes(Err(none())),
        Question::Find(_) | Question::Staging => Answer::Path(None),
        Question::Keep { .. } | Question::KeepFile { .. } => Answer::Kept(Err(none())),
        Question::Recall(_) => Answer::Recalled(Ok(None)),
        Question::Remember(..) => Answer::Remembered(Err(none())),
        Question::Checkpoint(_) => Answer::Saved(Err(none())),
        Question::LastCheckpoint | Question::Parent => Answer::Found(Ok(None)),
        Question::SetAside(..) => Answer::SetAside(Err(none())),
        Question::Stopping => Answer::Stopping(false),
        Question::MayBegin { .. } => Answer::May(false),
    }
}

impl Desk for EngineContext {
    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Read(blob) => Answer::Bytes(self.read(&blob).and_then(fitting)),
            Question::Find(blob) => Answer::Path(self.file_of(&blob)),
            Question::Staging => Answer::Path(self.staging()),
            Question::KeepFile { kind, path } => Answer::Kept(self.keep_file(&kind, &path)),
            Question::Recall(key) => Answer::Recalled(self.recall(&key)),
            Question::Remember(key, output) => Answer::Remembered(self.remember(&key, output)),
            Question::Keep { kind, bytes } => Answer::Kept(self.keep(&kind, bytes)),
            Question::Checkpoint(state) => Answer::Saved(self.checkpoint(state)),
            Question::LastCheckpoint => Answer::Found(self.last_checkpoint()),
            Question::Parent => Answer::Found(self.parent()),
            Question::SetAside(port, rejects) => {
                let rejects = rejects.into_iter().map(|(place, reject)| (place as usize, reject));
                Answer::SetAside(self.set_aside(&port, rejects.collect()))
            }
            Question::Stopping => Answer::Stopping(self.stopping()),
            Question::MayBegin { validates } => Answer::May(self.may_begin_step(validates)),
        }
    }

    fn hear(&mut self, report: &Reply) {
        match report {
            Reply::Progress { done, total } => self.progress(*done, *total),
            Reply::Begins(course) => self.begins(course),
            Reply::Metrics { step, values } => {
                let values = values.iter().map(|(name, value)| (name.as_str(), *value));
                self.metrics(*step, &values.collect::<Vec<_>>());
            }
            _ => {}
        }
    }

    fn ticket(&self) -> Option<u64> {
        Some(self.ticket)
    }
}

/// Turns a message that is too large for a frame into an error of the stage.
fn fitting(bytes: bytes::Bytes) -> Result<bytes::Bytes, StageError> {
    const HEAD: usize = 64;
    if bytes.len() + HEAD <= MAX_FRAME as usize {
        Ok(bytes)
    } else {
        Err(StageError::failed(format!("an object of {} B is too large here", bytes.len())))
    }
}
