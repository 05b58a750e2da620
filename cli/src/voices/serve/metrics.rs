//! Figures of a server, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub struct Metrics {
    answered: Mutex<BTreeMap<u16, u64>>,
    sentences: AtomicU64,
    refused: AtomicU64,
    abandoned: AtomicU64,
    audio_milliseconds: AtomicU64,
    work_milliseconds: AtomicU64,
}

impl Metrics {
    pub fn answered(&self, status: u16) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered.entry(status).or_default() += 1;
    }

    /// Sentences were spoken together in this time.
    pub fn spoken(&self, sentences: usize, seconds: f64, work: Duration) {
        self.sentences.fetch_add(sentences as u64, Ordering::Relaxed);
        self.audio_milliseconds.fetch_add((seconds * 1e3) as u64, Ordering::Relaxed);
        self.work_milliseconds.fetch_add(work.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A client left before its answer was complete.
    pub fn abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    pub fn text(&self, waiting: usize) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, value: String| {
            text.push_str(&format!("# TYPE throstle_{name} {kind}\nthrostle_{name} {value}\n"));
        };
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed).to_string();
        let seconds =
            |value: &AtomicU64| format!("{:.3}", value.load(Ordering::Relaxed) as f64 / 1e3);
        metric("requests_waiting", "gauge", waiting.to_string());
        metric("requests_refused_total", "counter", count(&self.refused));
        metric("requests_abandoned_total", "counter", count(&self.abandoned));
        metric("sentences_total", "counter", count(&self.sentences));
        metric("audio_seconds_total", "counter", seconds(&self.audio_milliseconds));
        metric("work_seconds_total", "counter", seconds(&self.work_milliseconds));
        text.push_str("# TYPE throstle_answers_total counter\n");
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, count) in &*answered {
            text.push_str(&format!("throstle_answers_total{{status=\"{status}\"}} {count}\n"));
        }
        text
    }
}
