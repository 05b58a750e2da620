//! Limits on what clients may take.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest body of a request, in bytes.
    pub body: usize,
    /// The time that a client has to send its whole request, and to take each part of the answer.
    pub patience: Duration,
    /// Connections that are open at once. For a further one, the oldest without a request is closed;
    /// if there is none, the further one is refused.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { body: 64 << 10, patience: Duration::from_secs(10), connections: 64 }
    }
}
