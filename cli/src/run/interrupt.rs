//! Asks a run to stop, after a signal or at its time limit.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cache::Cache;
use engine::engine::StopFlag;
use engine::event::Event;
use engine::units;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use stage_programs as programs;
use view::{Reporter, Reporters};

use crate::error::PAUSED;

/// The time for which a run may continue reading after a request to stop.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// The longest delay by the terminal when a run is ended immediately.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Reporters shared by several threads.
pub type Shared = Arc<Mutex<dyn Reporter>>;

/// A reporter for commands without a display.
pub fn silent() -> Shared {
    Arc::new(Mutex::new(Reporters::default()))
}

/// The second signal ends the process immediately; finished work is never lost by this.
///
/// The thread that receives signals never blocks: other threads print the messages.
pub fn on_signals(stop: StopFlag, display: Shared) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if stop.is_pressing() && signal != SIGHUP {
                end_at_once(&display);
            }
            if !stop.is_pressing() {
                stop.request();
                in_background(&display, |display| {
                    tell(display, "received a signal; press Ctrl-C again to quit now");
                });
                let stop = stop.clone();
                in_background(&display, move |display| end_what_hangs(&stop, display));
            }
        }
    })?;
    Ok(())
}

/// For a command that loses nothing when it is killed, and that continues when it is repeated. A
/// signal records what it has fetched so far, and ends it with 75; the second one ends it
/// immediately.
pub fn pause_on_signals(cache: Cache, command: &'static str) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let pause = move || {
        // Only the first one, since `forever` does not end.
        let _ = signals.forever().next();
        let (recorded, recording) = mpsc::channel();
        let record = move || {
            // The next command fetches unrecorded objects again.
            let _ = cache.commit();
            eprintln!("stopped by a signal; run `throstle {command}` to continue");
            let _ = recorded.send(());
        };
        let started = thread::Builder::new().name("stopping".into()).spawn(record).is_ok();
        let begun = Instant::now();
        let is_recording = || recording.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout);
        while started && begun.elapsed() < PATIENCE && is_recording() {
            if signals.pending().next().is_some() {
                break;
            }
        }
        programs::end_all();
        // SAFETY: `_exit` ends the process and touches no memory.
        unsafe { libc::_exit(i32::from(PAUSED)) }
    };
    thread::Builder::new().name("signals".into()).spawn(pause)?;
    Ok(())
}

/// Like [`on_signals`] for a job of a scheduler, which warns with SIGUSR1 before its time limit: the SIGTERM
/// at the limit is no second request.
pub fn on_warnings(stop: StopFlag, display: Shared) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut requests = 0;
        for signal in signals.forever() {
            requests += u32::from(signal == SIGINT || signal == SIGTERM);
            if requests > 1 {
                end_at_once(&display);
            }
            if !stop.is_pressing() {
                stop.request();
                in_background(&display, |display| {
                    tell(display, "received a signal; saving and stopping")
                });
            }
        }
    })?;
    Ok(())
}

/// Runs a task that may block.
fn in_background(display: &Shared, what: impl FnOnce(&Shared) + Send + 'static) {
    let display = display.clone();
    // If no thread can be started, the task does not run. The next signal still ends the run.
    let _ = thread::Builder::new().name("stopping".into()).spawn(move || what(&display));
}

/// Waits for nothing: everything that a process does on exit may be stuck.
fn end_at_once(display: &Shared) -> ! {
    let (left, leaving) = mpsc::channel();
    in_background(display, move |display| {
        // A thread that holds the display for longer is stuck.
        if let Ok(mut display) = display.try_lock() {
            display.leave();
        }
        let _ = left.send(());
    });
    programs::end_all();
    let _ = leaving.recv_timeout(LAST_WORDS);
    thread::sleep(LOOK);
    // SAFETY: `_exit` ends the process and touches no memory.
    unsafe { libc::_exit(i32::from(PAUSED)) }
}

/// Ends the process if a stopped run that only reads does not finish soon; it has nothing to save.
fn end_what_hangs(stop: &StopFlag, display: &Shared) -> ! {
    let mut begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        thread::sleep(LOOK);
        if !stop.is_reading() {
            begun = Instant::now();
        }
    }
    in_background(display, |display| tell(display, "a read does not return; quitting"));
    end_at_once(display);
}

/// Stops the run when this number of seconds has passed since `start`. If they are over already,
/// this thread stops it, since work could begin before a new thread does.
pub fn after(seconds: f64, start: Instant, stop: StopFlag, display: Shared) -> io::Result<()> {
    let left = move || span(seconds).saturating_sub(start.elapsed());
    let end = move || {
        if !stop.is_requested() {
            stop.request_after_batch();
            let time = units::seconds(seconds);
            tell(&display, &format!("time limit of {time} reached"));
        }
    };
    if left().is_zero() {
        end();
        return Ok(());
    }
    thread::Builder::new().name("deadline".into()).spawn(move || {
        thread::sleep(left());
        end();
    })?;
    Ok(())
}

/// The time at which a run that began at `start` is asked to stop.
pub fn deadline(start: Instant, seconds: f64) -> Option<Instant> {
    start.checked_add(span(seconds))
}

/// Far longer than any run, without an overflow.
fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 1e9))
}

fn tell(display: &Shared, why: &str) {
    let mut display = display.lock().unwrap_or_else(PoisonError::into_inner);
    // The run stops even if the event cannot be shown.
    let _ = display.event(&Event::Stopping { why: why.to_owned() });
}
