//! Asks a run to stop: signals and the end of the time it has.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stage_core::event::Event;
use stage_core::programs;

use super::error::PAUSED;
use super::guard;
use crate::engine::StopFlag;
use crate::show::{Reporter, Reporters, units};

/// Reporters that several threads tell.
pub type Shared = Arc<Mutex<dyn Reporter>>;

/// For what has no display.
pub fn silent() -> Shared {
    Arc::new(Mutex::new(Reporters::default()))
}

/// The second signal ends the process at once; nothing that is finished can be lost by that.
pub fn on_signals(stop: StopFlag, display: Shared) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if stop.is_pressing() && signal != SIGHUP {
                // Whoever holds the display for longer than a moment is stuck in it.
                if let Ok(mut display) = display.try_lock() {
                    display.leave();
                }
                programs::end_all();
                guard::stand_down();
                std::process::exit(i32::from(PAUSED));
            }
            if !stop.is_pressing() {
                stop.request();
                tell(&display, "asked to by a signal; once more stops at once");
            }
        }
    })?;
    Ok(())
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
