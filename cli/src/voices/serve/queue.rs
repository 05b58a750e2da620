//! Requests that wait for the voices.
//!
//! One thread owns the worker. It takes a sentence of the request that waits longest, and fills the
//! batch with further sentences for the same voice, at most one of each other request first. A
//! request with sentences left goes to the end, so that a long text does not hold up short ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engine::run::stage_worker::Results;
use stage_core::{Item, Reject, StageError};

use super::metrics::Metrics;
use crate::voices::voice::{Sound, Voices, sound};

pub struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// The number of requests that may wait.
    most: usize,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Ticket>,
    is_closed: bool,
}

/// A request: the sentences that are left.
struct Ticket {
    voice: usize,
    left: VecDeque<Item>,
    sounds: Sender<Spoken>,
    is_gone: Arc<AtomicBool>,
}

/// The sound of a sentence, or the reason why there is none.
pub type Spoken = Result<Sound, Silence>;

#[derive(Clone, Debug)]
pub enum Silence {
    /// The text is to blame.
    Text(String),
    /// The server is.
    Server(String),
}

/// The caller's side of a request. Dropping it gives up the place in the queue.
pub struct PendingRequest {
    pub sounds: Receiver<Spoken>,
    is_gone: Arc<AtomicBool>,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

impl Queue {
    pub fn new(most: usize, metrics: Arc<Metrics>) -> Queue {
        Queue { state: Mutex::default(), changed: Condvar::new(), most, metrics }
    }

    /// Takes a place for sentences of a voice; None if too many requests wait.
    pub fn enter(&self, voice: usize, sentences: Vec<Item>) -> Option<PendingRequest> {
        let (sender, sounds) = channel();
        let is_gone = Arc::new(AtomicBool::new(false));
        let ticket =
            Ticket { voice, left: sentences.into(), sounds: sender, is_gone: is_gone.clone() };
        let mut state = self.state();
        state.waiting.retain(Ticket::is_wanted);
        if state.waiting.len() >= self.most || state.is_closed {
            self.metrics.refused();
            return None;
        }
        state.waiting.push_back(ticket);
        drop(state);
        self.changed.notify_one();
        Some(PendingRequest { sounds, is_gone })
    }

    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Lets [`Queue::work`] return.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Speaks until the queue is closed.
    pub fn work(&self, voices: &mut Voices) {
        let sizes: Vec<usize> = voices.voices.iter().map(|voice| voice.batch).collect();
        while let Some(batch) = self.next(&sizes) {
            let began = Instant::now();
            let results = voices.speak(batch.voice, &batch.items);
            let sounds = sounds(results);
            let seconds = sounds.iter().flatten().map(Sound::seconds).sum();
            self.metrics.spoken(sounds.len(), seconds, began.elapsed());
            self.return_all(batch.tickets, sounds);
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next sentences; None if the queue is closed.
    fn next(&self, sizes: &[usize]) -> Option<Batch> {
        let mut state = self.state();
        loop {
            state.waiting.retain(Ticket::is_wanted);
            if state.is_closed {
                return None;
            }
            if let Some(batch) = state.batch(sizes) {
                return Some(batch);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends the sounds to the requests of a batch, and lets those with sentences left wait again.
    fn return_all(&self, tickets: Vec<Ticket>, sounds: Vec<Spoken>) {
        let mut failed = Vec::with_capacity(tickets.len());
        for (ticket, sound) in tickets.iter().zip(sounds) {
            failed.push(sound.is_err());
            // A client that is gone needs no sound.
            let _ = ticket.sounds.send(sound);
        }
        let mut state = self.state();
        let again = tickets.into_iter().zip(failed).filter(|(_, failed)| !failed);
        state.waiting.extend(again.map(|(ticket, _)| ticket).filter(Ticket::is_wanted));
    }
}

/// Sentences that are spoken together, one of each request.
struct Batch {
    voice: usize,
    items: Vec<Item>,
    tickets: Vec<Ticket>,
}

impl QueueState {
    fn batch(&mut self, sizes: &[usize]) -> Option<Batch> {
        let first = self.waiting.front()?;
        let (voice, mut batch) =
            (first.voice, Batch { voice: first.voice, items: Vec::new(), tickets: Vec::new() });
        let size = sizes.get(voice).copied().unwrap_or(1);
        let mut others = VecDeque::with_capacity(self.waiting.len());
        while let Some(mut ticket) = self.waiting.pop_front() {
            let fits = ticket.voice == voice && batch.items.len() < size;
            match fits.then(|| ticket.left.pop_front()).flatten() {
                Some(item) => {
                    batch.items.push(item);
                    batch.tickets.push(ticket);
                }
                None => others.push_back(ticket),
            }
        }
        self.waiting = others;
        Some(batch)
    }
}

impl Ticket {
    fn is_wanted(&self) -> bool {
        !self.left.is_empty() && !self.is_gone.load(Ordering::SeqCst)
    }
}

fn sounds(results: Results) -> Vec<Spoken> {
    let spoken = |result| match result {
        // Without a sound the request learns that the server is ending.
        Err(StageError::Stopped) => None,
        Err(error) => Some(Err(Silence::Server(error.to_string()))),
        Ok(Err(Reject { reason, .. })) => Some(Err(Silence::Text(reason))),
        Ok(Ok(output)) => Some(sound(&output).map_err(Silence::Server)),
    };
    results.into_iter().map_while(spoken).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::{Fields, Value};

    use super::*;

    fn queue(most: usize) -> Queue {
        Queue::new(most, Arc::default())
    }

    fn items(texts: &[&str]) -> Vec<Item> {
        let item = |text: &&str| {
            let fields: Fields = [("text", Value::text(*text))].into_iter().collect();
            Item::new("", fields)
        };
        texts.iter().map(item).collect()
    }

    fn texts(batch: &Batch) -> Vec<&str> {
        batch.items.iter().filter_map(|item| item.fields.text("text")).collect()
    }

    /// Speaks the next batch, as silence.
    fn step(queue: &Queue, sizes: &[usize]) -> Vec<String> {
        let batch = queue.next(sizes).unwrap();
        let said = texts(&batch).into_iter().map(str::to_owned).collect();
        let sounds = batch.items.iter().map(|_| Ok(Sound::default())).collect();
        queue.return_all(batch.tickets, sounds);
        said
    }

    #[test]
    fn a_long_text_does_not_hold_up_a_short_one() {
        let queue = queue(16);
        let _long = queue.enter(0, items(&["a1", "a2", "a3"])).unwrap();
        let _short = queue.enter(0, items(&["b1"])).unwrap();
        let said: Vec<_> = (0..4).flat_map(|_| step(&queue, &[1])).collect();
        assert_eq!(said, ["a1", "b1", "a2", "a3"]);
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn what_waits_for_one_voice_is_spoken_together() {
        let queue = queue(16);
        let places: Vec<_> = [(0, "a"), (1, "b"), (0, "c"), (0, "d")]
            .iter()
            .map(|(voice, text)| queue.enter(*voice, items(&[text])).unwrap())
            .collect();
        assert_eq!(step(&queue, &[2, 2]), ["a", "c"]);
        assert_eq!(step(&queue, &[2, 2]), ["b"]);
        assert_eq!(step(&queue, &[2, 2]), ["d"]);
        assert!(places.iter().all(|place| place.sounds.try_recv().is_ok()));
    }

    #[test]
    fn too_many_are_refused_and_who_leaves_frees_a_place() {
        let queue = queue(2);
        let first = queue.enter(0, items(&["a"])).unwrap();
        let _second = queue.enter(0, items(&["b"])).unwrap();
        assert!(queue.enter(0, items(&["c"])).is_none());
        drop(first);
        let _third = queue.enter(0, items(&["c"])).unwrap();
        assert_eq!(step(&queue, &[8]), ["b", "c"]);
    }

    #[test]
    fn a_text_that_cannot_be_spoken_ends_its_request_alone() {
        let queue = queue(16);
        let bad = queue.enter(0, items(&["a1", "a2"])).unwrap();
        let _good = queue.enter(0, items(&["b1", "b2"])).unwrap();
        let batch = queue.next(&[2]).unwrap();
        assert_eq!(texts(&batch), ["a1", "b1"]);
        let refused = Err(Silence::Text("unknown letters".into()));
        queue.return_all(batch.tickets, vec![refused, Ok(Sound::default())]);
        assert!(matches!(bad.sounds.recv().unwrap(), Err(Silence::Text(_))));
        assert!(bad.sounds.recv().is_err(), "nothing more comes");
        assert_eq!(step(&queue, &[2]), ["b2"]);
    }

    #[test]
    fn a_closed_queue_takes_and_gives_nothing() {
        let queue = queue(16);
        let _place = queue.enter(0, items(&["a"])).unwrap();
        queue.close();
        assert!(queue.next(&[1]).is_none());
        assert!(queue.enter(0, items(&["a"])).is_none());
    }
}
