//! Connections that have not sent the head of their request. Browsers open some ahead of time, and
//! clients without purpose could take every place with them: the oldest gives way to a new one, unless
//! its head may still be on the way.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time in which a client that has connected sends the head of its request.
const GRACE: Duration = Duration::from_millis(200);

/// By the order in which they were accepted.
#[derive(Default)]
pub struct Silent(Mutex<BTreeMap<u64, (Instant, TcpStream)>>);

impl Silent {
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn add(&self, order: u64, stream: &TcpStream) -> io::Result<()> {
        self.streams().insert(order, (Instant::now(), stream.try_clone()?));
        Ok(())
    }

    pub fn remove(&self, order: u64) {
        self.streams().remove(&order);
    }

    /// Closes the oldest; false if there is none that has had its time.
    pub fn close_oldest(&self) -> bool {
        let mut streams = self.streams();
        let oldest = streams.first_entry().filter(|entry| entry.get().0.elapsed() >= GRACE);
        let Some(oldest) = oldest else { return false };
        // A failure means that the client was faster.
        let _ = oldest.remove().1.shutdown(Shutdown::Both);
        true
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, (Instant, TcpStream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
