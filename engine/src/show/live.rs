//! The view of a run on a terminal: what runs now at its end, drawn over again and again, and what
//! came to an end as lines above, which stay.
//!
//! Events are noted by whoever tells them; a thread of the view draws them ten times a second at
//! most, so that a slow terminal never holds up the run. Of a run that is over in a moment
//! nothing is drawn.

mod area;
mod curve;
mod page;
mod state;
mod text;

use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stage_core::event::Event;

use super::Reporter;
use super::lines::{finished, message};
use super::paint::Paint;
use super::summary::Summary;
use crate::gauge::{Gauge, Reading};

use area::Area;
pub use area::Size;
use state::State;

/// Before this nothing is drawn.
const PATIENCE: Duration = Duration::from_millis(300);
/// The least time between two drawings.
const FRAME: Duration = Duration::from_millis(100);
/// How often the times move while no event comes, and devices are asked.
const TICK: Duration = Duration::from_secs(1);
/// How long a terminal that takes nothing may hold up the end of the process.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What a view is drawn on.
pub struct Surface {
    pub output: Box<dyn Write + Send>,
    pub paint: Paint,
    /// Asked before each drawing.
    pub size: Box<dyn Fn() -> Size + Send>,
    /// Makes the sources of readings, once there is something to draw.
    pub gauges: Box<dyn FnOnce() -> Vec<Box<dyn Gauge>> + Send>,
}

pub struct Live {
    shared: Arc<Mutex<Noted>>,
    paint: Paint,
    summary: Summary,
    /// Ends the thread that draws when it is dropped; the thread gives the terminal back.
    painter: Option<(Sender<()>, JoinHandle<Area>)>,
}

/// What was told since the last drawing, and all that it has led to.
struct Noted {
    state: State,
    above: String,
    is_new: bool,
}

impl Live {
    pub fn new(surface: Surface) -> io::Result<Live> {
        let state = State::new(Instant::now());
        let shared = Arc::new(Mutex::new(Noted { state, above: String::new(), is_new: true }));
        let (sender, ended) = channel();
        let (paint, noted) = (surface.paint, shared.clone());
        let painter = Painter {
            paint,
            size: surface.size,
            area: Area::new(surface.output),
            gauges: Vec::new(),
            readings: Vec::new(),
            asked: None,
        };
        let make = surface.gauges;
        let thread = std::thread::Builder::new().name("view".into()).spawn(move || {
            let mut painter = painter;
            let mut drawn: Option<Instant> = None;
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                painter.gauges = make();
                loop {
                    if drawn.is_none_or(|drawn| drawn.elapsed() >= TICK) || is_new(&noted) {
                        drawn = Some(Instant::now());
                        let draw = AssertUnwindSafe(|| painter.draw(&noted));
                        // A view with a bug is given up; what is told at the end is not.
                        if std::panic::catch_unwind(draw).is_err() {
                            break;
                        }
                    }
                    if ended.recv_timeout(FRAME) != Err(RecvTimeoutError::Timeout) {
                        break;
                    }
                }
            }
            painter.area.end(&std::mem::take(&mut locked(&noted).above));
            painter.area
        })?;
        let painter = Some((sender, thread));
        Ok(Live { shared, paint, summary: Summary::default(), painter })
    }

    /// Takes the view away and leaves this text as the last.
    fn finish(&mut self, text: &str) {
        let Some((sender, thread)) = self.painter.take() else { return };
        drop(sender);
        // A view that has broken has nothing to say any more.
        if let Ok(mut area) = thread.join() {
            area.end(text);
        }
    }
}

fn locked(shared: &Mutex<Noted>) -> MutexGuard<'_, Noted> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_new(shared: &Mutex<Noted>) -> bool {
    locked(shared).is_new
}

/// The thread that draws.
struct Painter {
    paint: Paint,
    size: Box<dyn Fn() -> Size + Send>,
    area: Area,
    gauges: Vec<Box<dyn Gauge>>,
    readings: Vec<Reading>,
    asked: Option<Instant>,
}

impl Painter {
    fn draw(&mut self, shared: &Mutex<Noted>) {
        if self.asked.is_none_or(|asked| asked.elapsed() >= TICK) {
            self.asked = Some(Instant::now());
            self.readings = self.gauges.iter_mut().flat_map(|gauge| gauge.read()).collect();
        }
        let size = (self.size)();
        let mut noted = locked(shared);
        noted.is_new = false;
        let above = std::mem::take(&mut noted.above);
        let lines = page::lines(&noted.state, &self.readings, Instant::now(), size);
        drop(noted);
        let columns = size.0.saturating_sub(1);
        let lines = lines.iter().map(|line| line.render(columns, self.paint)).collect();
        self.area.draw(&above, lines, size);
    }
}

impl Reporter for Live {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.observe(event);
        let paint = self.paint;
        if let Event::Finished { status, stages, seconds } = event {
            let text = self.summary.render(*status, stages, *seconds, paint);
            self.finish(&text);
            return Ok(());
        }
        let line = match event {
            // These stand in the view.
            Event::Waiting { .. } | Event::CheckpointKept { .. } => None,
            Event::StageFinished { stage, counts, .. } => {
                (counts.executed > 0).then(|| finished(stage, counts, paint))
            }
            event => message(event, paint),
        };
        let mut noted = locked(&self.shared);
        noted.state.observe(event, Instant::now());
        noted.is_new = true;
        if let Some(line) = line {
            noted.above.push_str(&line);
            noted.above.push('\n');
        }
        Ok(())
    }

    fn leave(&mut self) {
        let Some((sender, thread)) = self.painter.take() else { return };
        drop(sender);
        let end = Instant::now() + LAST_WORDS;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.leave();
    }
}
