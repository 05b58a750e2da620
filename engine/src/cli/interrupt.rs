//! Asks a run to stop: signals and the end of the time it has.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stage_core::event::Event;
use stage_core::programs;

use super::error::PAUSED;
use crate::engine::StopFlag;
use crate::show::{Reporter, Reporters, units};

/// The time that a run may go on reading after a request to stop.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// The time that the terminal may delay a run that is ended at once.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Reporters that several threads tell.
pub type Shared = Arc<Mutex<dyn Reporter>>;

/// For what has no display.
pub fn silent() -> Shared {
    Arc::new(Mutex::new(Reporters::default()))
}

/// The second signal ends the process at once; nothing that is finished can be lost by that.
///
/// The thread that takes the signals never waits: other threads print the messages.
pub fn on_signals(stop: StopFlag, display: Shared) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if stop.is_pressing() && signal != SIGHUP {
                end_at_once(&display);
            }
            if !stop.is_pressing() {
                stop.request();
                aside(&display, |display| {
                    tell(display, "received a signal; press Ctrl-C again to quit now");
                });
                let stop = stop.clone();
                aside(&display, move |display| end_what_hangs(&stop, display));
            }
        }
    })?;
    Ok(())
}

/// Runs a task that may block.
fn aside(display: &Shared, what: impl FnOnce(&Shared) + Send + 'static) {
    let display = display.clone();
    // Without a thread the task is not run; the next signal ends the run all the same.
    let _ = thread::Builder::new().name("stopping".into()).spawn(move || what(&display));
}

/// Nothing is waited for: anything that a process does at its end may be stuck.
fn end_at_once(display: &Shared) -> ! {
    let (left, leaving) = mpsc::channel();
    aside(display, move |display| {
        // A thread that holds the display longer than a moment is stuck.
        if let Ok(mut display) = display.try_lock() {
            display.leave();
        }
        let _ = left.send(());
    });
    programs::end_all();
    let _ = leaving.recv_timeout(LAST_WORDS);
    thread::sleep(LOOK);
    // SAFETY: it ends the process and touches nothing.
    unsafe { libc::_exit(i32::from(PAUSED)) }
}

/// A run that only reads has nothing to save when it is stopped: if it does not finish reading
/// soon, the process ends.
fn end_what_hangs(stop: &StopFlag, display: &Shared) -> ! {
    let mut begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        thread::sleep(LOOK);
        if !stop.is_reading() {
            begun = Instant::now();
        }
    }
    aside(display, |display| tell(display, "input does not arrive; quitting"));
    end_at_once(display);
}

/// Stops the run when so many seconds have passed since `start`.
pub fn after(seconds: f64, start: Instant, stop: StopFlag, display: Shared) -> io::Result<()> {
    let duration = span(seconds);
    thread::Builder::new().name("deadline".into()).spawn(move || {
        thread::sleep(duration.saturating_sub(start.elapsed()));
        if !stop.is_requested() {
            stop.request_after_batch();
            let time = units::seconds(seconds);
            tell(&display, &format!("the {time} that it may take are over"));
        }
    })?;
    Ok(())
}

/// When a run that began at `start` is asked to stop.
pub fn deadline(start: Instant, seconds: f64) -> Option<Instant> {
    start.checked_add(span(seconds))
}

/// Far more than any run takes, and no overflow.
fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 1e9))
}

fn tell(display: &Shared, why: &str) {
    let mut display = display.lock().unwrap_or_else(PoisonError::into_inner);
    // Whether it can be shown makes no difference to stopping.
    let _ = display.event(&Event::Stopping { why: why.to_owned() });
}
