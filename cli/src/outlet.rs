//! Output that never delays the end of a run: a separate thread writes it.
//!
//! During the run, a slow reader makes the run wait. After a request to stop, a reader that takes
//! nothing is waited for briefly and then abandoned.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::engine::StopFlag;

/// The number of bytes that may wait to be written during a run.
const ROOM: usize = 64 << 10;
/// The time for which a stopping run waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// Clones write to the same output.
#[derive(Clone)]
pub struct Outlet {
    shared: Arc<Shared>,
    stop: StopFlag,
}

struct Shared {
    state: Mutex<OutletState>,
    changed: Condvar,
}

#[derive(Default)]
struct OutletState {
    waiting: Vec<u8>,
    /// Bytes that the thread has taken and not yet written.
    is_writing: bool,
    /// The last time at which the reader took bytes, or at which waiting began.
    moved: Option<Instant>,
    error: Option<io::ErrorKind>,
    /// The reader or the writer is gone.
    is_closed: bool,
}

impl Outlet {
    pub fn new(output: impl Write + Send + 'static, stop: &StopFlag) -> io::Result<Outlet> {
        let shared =
            Arc::new(Shared { state: Mutex::new(OutletState::default()), changed: Condvar::new() });
        let own = shared.clone();
        // If the thread is stuck for good, it ends with the process.
        std::thread::Builder::new().name("output".into()).spawn(move || own.write_to(output))?;
        Ok(Outlet { shared, stop: stop.clone() })
    }

    /// Waits until the condition holds, or until the reader is abandoned.
    fn wait(&self, is_enough: impl Fn(&OutletState) -> bool) -> MutexGuard<'_, OutletState> {
        let mut state = self.shared.state();
        let mut asked = None;
        while !state.is_closed && !is_enough(&state) {
            if self.stop.is_requested() {
                let asked = *asked.get_or_insert_with(Instant::now);
                let since = state.moved.map_or(asked, |moved| moved.max(asked));
                if since.elapsed() >= PATIENCE {
                    state.is_closed = true;
                    break;
                }
            }
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, OutletState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut output: impl Write) {
        let mut state = self.state();
        loop {
            while state.waiting.is_empty() {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            let bytes = std::mem::take(&mut state.waiting);
            state.is_writing = true;
            drop(state);
            let written = self.write_all(&mut output, &bytes);
            state = self.state();
            state.is_writing = false;
            if let Err(error) = written {
                (state.error, state.is_closed) = (Some(error.kind()), true);
                state.waiting.clear();
            }
            self.changed.notify_all();
        }
    }

    fn write_all(&self, output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match output.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.state().moved = Some(Instant::now());
        }
        output.flush()
    }
}

impl Write for Outlet {
    /// An error is returned once, by the first write after it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.wait(|state| state.waiting.len() < ROOM);
        if let Some(error) = state.error.take() {
            return Err(error.into());
        }
        if !state.is_closed {
            state.waiting.extend_from_slice(bytes);
            self.shared.changed.notify_all();
        }
        Ok(bytes.len())
    }

    /// Does not wait for the bytes; [`Outlet::end`] does.
    fn flush(&mut self) -> io::Result<()> {
        match self.shared.state().error.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Outlet {
    /// Waits until everything is written.
    pub fn end(&self) -> io::Result<()> {
        let mut state = self.wait(|state| state.waiting.is_empty() && !state.is_writing);
        match state.error.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_written_arrives_in_order() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut outlet = Outlet::new(writer, &StopFlag::default()).unwrap();
        let lines: Vec<String> = (0..20_000).map(|number| format!("{number}\n")).collect();
        let expected = lines.concat();
        let reading = std::thread::spawn(move || {
            let mut read = vec![0; expected.len()];
            reader.read_exact(&mut read).unwrap();
            assert!(read == expected.as_bytes());
        });
        lines.iter().for_each(|line| outlet.write_all(line.as_bytes()).unwrap());
        outlet.end().unwrap();
        reading.join().unwrap();
    }

    #[test]
    fn a_full_pipe_does_not_hold_up_a_run_that_is_to_stop() {
        let (_reader, writer) = io::pipe().unwrap();
        let stop = StopFlag::default();
        let mut outlet = Outlet::new(writer, &stop).unwrap();
        let asking = stop.clone();
        let asked = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            asking.request();
        });
        for _ in 0..1_000 {
            outlet.write_all(&[b'x'; 4096]).unwrap();
        }
        outlet.end().unwrap();
        asked.join().unwrap();
    }

    #[test]
    fn a_reader_that_is_gone_is_told() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut outlet = Outlet::new(writer, &StopFlag::default()).unwrap();
        outlet.write_all(b"x").unwrap();
        let error = outlet.end().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        outlet.write_all(b"nobody hears it").unwrap();
    }
}
