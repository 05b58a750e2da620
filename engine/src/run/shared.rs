//! The state that all threads of a run share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use crossbeam_channel::Sender;

use super::context::EngineContext;
use super::message::{Message, Outcome};
use super::scratch::Scratch;
use crate::engine::{Engine, StopFlag};
use crate::run::workers::worker::Spare;
use crate::store::Store;

const FIRST_TICKET: u64 = 1;

#[derive(Clone)]
pub struct SharedState {
    pub engine: Arc<Engine>,
    pub store: Store,
    pub messages: Sender<Message>,
    pub stop: StopFlag,
    /// Stops work on GPUs.
    pub gpu_stop: StopFlag,
    pub scratch: Scratch,
    pub spare: Spare,
    /// The folder for working folders of stages that are kept for inspection.
    pub kept: Option<Utf8PathBuf>,
}

impl SharedState {
    /// For the threads of a run.
    pub fn new(
        engine: &Engine,
        store: Store,
        messages: Sender<Message>,
        stop: &StopFlag,
    ) -> SharedState {
        SharedState {
            engine: Arc::new(engine.clone()),
            store,
            messages,
            stop: stop.clone(),
            gpu_stop: StopFlag::default(),
            scratch: Scratch::default(),
            spare: Spare::default(),
            kept: None,
        }
    }

    pub fn context(&self, ticket: u64, kind: &'static stage_core::Kind) -> EngineContext {
        EngineContext {
            store: self.store.clone(),
            kind,
            ticket,
            messages: self.messages.clone(),
            stop: self.stop.clone(),
            device_stop: None,
            finishes_batch: false,
            training: None,
            is_told: false,
            staging: None,
            scratch: self.scratch.clone(),
            inputs: None,
            kept: self.kept.clone(),
            aside: None,
            lost: Vec::new(),
            opened: Vec::new(),
            written: 0,
            begun: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// True if a task that has not begun stays for the next run, since this one was asked to stop. The
    /// first task begins even after a time limit: otherwise, runs that are shorter than the start of
    /// a worker would make no progress.
    pub fn is_late(&self, ticket: u64) -> bool {
        self.stop.is_requested() && (ticket > FIRST_TICKET || self.stop.is_pressing())
    }

    pub fn done(&self, outcome: Outcome, mut context: EngineContext) {
        let lost = context.all_lost();
        let EngineContext { ticket, written, begun, waited, .. } = context;
        let took = Some(begun.elapsed().saturating_sub(waited));
        // The schedule is gone only after the run.
        let _ = self.messages.send(Message::Done { ticket, outcome, lost, written, took });
    }
}
