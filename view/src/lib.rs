//! Shows plans and runs to people and programs: text, the report, graphs, comparisons.
//!
//! A run is shown from its events alone, so that the live display, plain lines, JSON lines and the
//! stored log cannot disagree. Nothing here knows the destination of the text: every reporter
//! writes to the output that it is given.

pub mod card;
pub mod compare;
pub mod course;
pub mod escape;
pub mod estimate;
pub mod flac;
pub mod graph;
pub mod items;
pub mod json;
pub mod lines;
pub mod live;
pub mod local;
pub mod notes;
pub mod pace;
pub mod paint;
pub mod plan;
pub mod rate;
pub mod report;
pub mod review;
pub mod summary;
pub mod table;
pub mod voices;

use std::io;

use engine::event::Event;
use engine::runlog::RunLog;

/// Receives the events of a run in order.
pub trait Reporter: Send {
    /// An error means that the output is gone.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// The process is about to end before the run does: removes the display.
    fn leave(&mut self) {}
}

/// Several reporters that see the same events.
#[derive(Default)]
pub struct Reporters(Vec<Box<dyn Reporter>>);

impl Reporters {
    pub fn add(&mut self, reporter: impl Reporter + 'static) {
        self.0.push(Box::new(reporter));
    }
}

impl Reporter for Reporters {
    /// Every reporter gets the event; the first error is returned.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut result = Ok(());
        for reporter in &mut self.0 {
            result = result.and(reporter.event(event));
        }
        result
    }

    fn leave(&mut self) {
        self.0.iter_mut().for_each(|reporter| reporter.leave());
    }
}

impl Reporter for RunLog {
    /// A log that cannot be written is given up silently.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        RunLog::event(self, event);
        Ok(())
    }
}
