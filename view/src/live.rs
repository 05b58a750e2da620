//! The live display on a terminal: running stages at its end, redrawn repeatedly, and finished ones
//! as lines above, which stay.
//!
//! Events are noted by the caller; a thread of the display draws them at most ten times a second,
//! so that a slow terminal never delays the run. Nothing is drawn for a very short run.

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

use engine::event::Event;

use super::Reporter;
use super::lines::{finished, message};
use super::paint::Paint;
use super::summary::Summary;

use area::Area;
pub use area::Size;
use engine::gauge::{Gauge, GpuReading};
use state::LiveState;

/// Nothing is drawn before this.
const PATIENCE: Duration = Duration::from_millis(300);
/// The shortest time between two drawings.
const FRAME: Duration = Duration::from_millis(100);
/// The interval for updating times and devices without events.
const TICK: Duration = Duration::from_secs(1);
/// The time that a terminal that takes nothing may delay the end of the process.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The terminal of a display.
pub struct Surface {
    pub output: Box<dyn Write + Send>,
    pub paint: Paint,
    /// Called before each drawing.
    pub size: Arc<dyn Fn() -> Size + Send + Sync>,
    /// Creates the sources of readings, once there is something to draw.
    pub gauges: Box<dyn FnOnce() -> Vec<Box<dyn Gauge>> + Send>,
}

pub struct Live {
    shared: Arc<Mutex<Redraw>>,
    paint: Paint,
    size: Arc<dyn Fn() -> Size + Send + Sync>,
    summary: Summary,
    /// Ends the drawing thread when it is dropped; the thread restores the terminal.
    painter: Option<(Sender<()>, JoinHandle<Area>)>,
}

/// The events since the last drawing, and the state after them.
struct Redraw {
    state: LiveState,
    above: String,
    is_new: bool,
}

impl Live {
    pub fn new(surface: Surface) -> io::Result<Live> {
        let state = LiveState::new(Instant::now());
        let shared = Arc::new(Mutex::new(Redraw { state, above: String::new(), is_new: true }));
        let (sender, ended) = channel();
        let (paint, size, noted) = (surface.paint, surface.size.clone(), shared.clone());
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
                        // A display with a bug is given up; the closing text is not.
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
        Ok(Live { shared, paint, size, summary: Summary::default(), painter })
    }

    /// Removes the display and leaves this text at the end.
    fn finish(&mut self, text: &str) {
        let Some((sender, thread)) = self.painter.take() else { return };
        drop(sender);
        // A display that panicked has nothing more to draw.
        if let Ok(mut area) = thread.join() {
            area.end(text);
        }
    }
}

fn locked(shared: &Mutex<Redraw>) -> MutexGuard<'_, Redraw> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_new(shared: &Mutex<Redraw>) -> bool {
    locked(shared).is_new
}

/// The thread that draws.
struct Painter {
    paint: Paint,
    size: Arc<dyn Fn() -> Size + Send + Sync>,
    area: Area,
    gauges: Vec<Box<dyn Gauge>>,
    readings: Vec<GpuReading>,
    asked: Option<Instant>,
}

impl Painter {
    fn draw(&mut self, shared: &Mutex<Redraw>) {
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
            let columns = Some((self.size)().0);
            let paint = Paint { columns, ..paint };
            let text = self.summary.render(*status, stages, *seconds, paint);
            self.finish(&text);
            return Ok(());
        }
        let line = match event {
            // These are in the display.
            Event::Waiting { .. } | Event::CheckpointKept { .. } => None,
            Event::StageFinished { stage, counts, .. } => (counts.executed > 0)
                .then(|| finished(stage, &self.summary.shared_out(stage, counts), paint)),
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
