//! The state of the display, from events alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::event::Event;

use super::super::pace::{Pace, Rate};
use super::curve::LossCurve;

/// The names of the shown figures of trainings.
const LOSS: &str = "loss";
const LEARNING_RATE: &str = "rate";
const HELD_OUT: &str = "held_out";

pub struct LiveState {
    pub begun: Instant,
    /// The current activity while no stage runs, and its start.
    pub waiting: (String, Instant),
    pub stages: usize,
    /// The finished stages, each with its number of quarantined items.
    pub ended: BTreeMap<String, u64>,
    pub running: Vec<RunningStage>,
    pub expected_seconds: Option<f64>,
    pub session: Option<Session>,
    pub is_stopping: bool,
}

/// The limits of the run, and its cost.
pub struct Session {
    pub told: Instant,
    pub seconds_left: Option<f64>,
    pub price_per_hour: Option<f64>,
    pub spent: Option<f64>,
    pub budget: Option<f64>,
}

pub struct RunningStage {
    pub stage: String,
    pace: Pace,
    pub done: u64,
    pub total: u64,
    pub quarantined: u64,
    pub training: Option<TrainingProgress>,
}

#[derive(Default)]
pub struct TrainingProgress {
    pub step: u64,
    pub loss: Option<f64>,
    pub learning_rate: Option<f64>,
    /// The last loss on held-out clips.
    pub held_out: Option<f64>,
    pub curve: LossCurve,
    /// The step of the last checkpoint, and its time.
    pub checkpoint: Option<(u64, Instant)>,
}

impl LiveState {
    pub fn new(now: Instant) -> LiveState {
        LiveState {
            begun: now,
            waiting: ("checking for changes".into(), now),
            stages: 0,
            ended: BTreeMap::new(),
            running: Vec::new(),
            expected_seconds: None,
            session: None,
            is_stopping: false,
        }
    }

    pub fn observe(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Started { stages, .. } => self.stages = stages.len(),
            Event::Estimated { stages, seconds } => {
                let is_known = stages.values().all(|stage| stage.seconds.is_some());
                self.expected_seconds = is_known.then_some(seconds.likely);
            }
            Event::Session { seconds_left, price_per_hour, spent, budget } => {
                self.session = Some(Session {
                    told: now,
                    seconds_left: *seconds_left,
                    price_per_hour: *price_per_hour,
                    spent: *spent,
                    budget: *budget,
                });
            }
            Event::Waiting { what } => self.wait(format!("waiting for {what}"), now),
            Event::StageStarted { stage, total, .. } => self.start(stage, *total, now),
            Event::Progress { stage, done, total, counts } => {
                if let Some(running) = self.find(stage) {
                    (running.done, running.total) = (*done, *total);
                    running.pace.observe((*done, *total), counts.executed, now);
                }
            }
            Event::Metrics { stage, step, values } => {
                if let Some(running) = self.find(stage) {
                    running.training.get_or_insert_default().tell(*step, values);
                }
            }
            Event::CheckpointKept { stage, .. } => {
                if let Some(running) = self.find(stage) {
                    let training = running.training.get_or_insert_default();
                    training.checkpoint = Some((training.step, now));
                }
            }
            Event::ItemQuarantined { stage, .. } => {
                if let Some(running) = self.find(stage) {
                    running.quarantined += 1;
                }
            }
            Event::StageFinished { stage, counts, .. } => {
                self.ended.insert(stage.clone(), counts.quarantined);
                self.end(stage, now);
            }
            Event::StageFailed { stage, .. } => self.end(stage, now),
            Event::Stopping { .. } => self.is_stopping = true,
            _ => {}
        }
    }

    pub fn quarantined(&self) -> u64 {
        let running = self.running.iter().map(|running| running.quarantined);
        self.ended.values().sum::<u64>() + running.sum::<u64>()
    }

    fn find(&mut self, stage: &str) -> Option<&mut RunningStage> {
        self.running.iter_mut().find(|running| running.stage == stage)
    }

    fn start(&mut self, stage: &str, total: u64, now: Instant) {
        self.running.retain(|running| running.stage != stage);
        self.running.push(RunningStage {
            stage: stage.to_owned(),
            pace: Pace::since(now),
            done: 0,
            total,
            quarantined: 0,
            training: None,
        });
    }

    fn end(&mut self, stage: &str, now: Instant) {
        self.running.retain(|running| running.stage != stage);
        if self.running.is_empty() {
            self.wait("finishing".into(), now);
        }
    }

    fn wait(&mut self, what: String, now: Instant) {
        if self.waiting.0 != what {
            self.waiting = (what, now);
        }
    }
}

impl RunningStage {
    pub fn rate(&self, now: Instant) -> Rate {
        self.pace.rate(now)
    }

    pub fn elapsed(&self, now: Instant) -> Duration {
        self.pace.elapsed(now)
    }
}

impl TrainingProgress {
    fn tell(&mut self, step: u64, values: &BTreeMap<String, f64>) {
        let value = |name: &str| values.get(name).copied();
        self.step = step;
        // Before the first step, some stages report figures of their preparation.
        if let (Some(loss), true) = (value(LOSS), step > 0) {
            self.loss = Some(loss);
            self.curve.push(loss);
        }
        self.learning_rate = value(LEARNING_RATE).or(self.learning_rate);
        self.held_out = value(HELD_OUT).or(self.held_out);
    }
}

impl Session {
    /// The cost of the run so far.
    pub fn cost(&self, elapsed: Duration) -> Option<f64> {
        let own = self.price_per_hour? * elapsed.as_secs_f64() / 3600.0;
        Some(self.spent.unwrap_or(0.0) + own)
    }

    pub fn left(&self, now: Instant) -> Option<f64> {
        let since = now.saturating_duration_since(self.told).as_secs_f64();
        Some((self.seconds_left? - since).max(0.0))
    }
}
