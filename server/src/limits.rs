//! Limits on what clients may take.

use std::time::Duration;

/// The time before the rate of a request counts: a client may pause once.
const HEAD_START: Duration = Duration::from_secs(2);
/// The least rate of a request, in bytes per second.
const LEAST_RATE: f64 = 1024.0;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest body of a request, in bytes.
    pub body: usize,
    /// The time that a client has to send its whole request, and to take each part of the answer.
    pub patience: Duration,
    /// Requests that are answered at once; further ones are refused.
    pub connections: usize,
    /// Connections beside them that still send their requests. For a further one, the slowest of the
    /// peer that has the most of them is closed.
    pub arriving: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { body: 64 << 10, patience: Duration::from_secs(10), connections: 64, arriving: 64 }
    }
}

impl Limits {
    /// The time since its connection in which a request has to go on, once this much of it has
    /// arrived. Before its first byte, the client only has to begin within the patience.
    pub fn time_for(&self, received: u64) -> Duration {
        match received {
            0 => self.patience,
            _ => {
                let at_least = Duration::from_secs_f64(received as f64 / LEAST_RATE);
                self.patience.min(HEAD_START + at_least)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_drips_is_late_long_before_the_patience_is_over() {
        let limits = Limits::default();
        let seconds = |received| limits.time_for(received).as_secs_f64();
        assert_eq!(seconds(0), 10.0);
        assert!(seconds(20) < 2.1, "a byte every 100 ms");
        assert_eq!(seconds(2048), 4.0);
        assert_eq!(seconds(1 << 20), 10.0);
        let short = Limits { patience: Duration::from_millis(300), ..limits };
        assert_eq!(short.time_for(1), short.patience);
    }
}
