//! One step of any trainee, as in the training loop, and the answers to `turns.py`.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};
use stage_torch::train::adamw::AdamWSettings;
use stage_torch::train::gradients;
use stage_torch::train::optimisers::{Optimisers, of_phase};
use stage_torch::train::precision::Scaler;
use stage_torch::train::{Phase, Trainee};
use tch::Cuda;

use crate::memory::Memory;
use crate::{Options, Spec};

pub struct Bench<'a, T: Trainee> {
    trainee: T,
    batch: T::Batch,
    optimisers: Optimisers,
    scaler: Scaler,
    spec: &'a Spec,
    options: &'a Options,
    steps: u64,
}

impl<'a, T: Trainee> Bench<'a, T> {
    pub fn new(trainee: T, batch: T::Batch, spec: &'a Spec, options: &'a Options) -> Self {
        let settings = AdamWSettings {
            beta1: spec.betas[0],
            beta2: spec.betas[1],
            epsilon: spec.epsilon,
            weight_decay: spec.weight_decay,
            decays_all: spec.decays_all,
            fused: options.fused,
        };
        let optimisers = Optimisers::new(settings, &trainee);
        let scaler = Scaler::new(options.precision);
        gradients::sum_in_f32(&trainee.parameters());
        Bench { trainee, batch, optimisers, scaler, spec, options, steps: 0 }
    }

    /// Answers line by line; `more` handles the commands of this family.
    pub fn serve(mut self, memory: Memory, more: impl Fn(&T, &str) -> Value) {
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let (wall, user) = (Instant::now(), user_seconds());
            let mut answer = match line.as_str() {
                "step" => json!({"loss": self.step()}),
                "reset" => {
                    memory.reset();
                    json!({})
                }
                "peak" => json!({"bytes": memory.peak()}),
                other => more(&self.trainee, other),
            };
            self.wait();
            answer["seconds"] = Value::from(wall.elapsed().as_secs_f64());
            answer["user"] = Value::from(user_seconds() - user);
            println!("{answer}");
        }
    }

    fn wait(&self) {
        if let Some(number) = self.options.gpu {
            Cuda::synchronize(number as i64);
        }
    }

    /// All phases of a step; returns its loss.
    fn step(&mut self) -> f64 {
        self.steps += 1;
        let mut loss = f64::NAN;
        for number in 0..T::PHASES.len() {
            let totals = T::count(&self.batch).scaled(self.scaler.scale());
            // Results of a phase that are not kept are computed again in the next one.
            let is_followed = number + 1 < T::PHASES.len() && !self.options.checkpointing;
            let phase = Phase { number, is_followed, ..Phase::only(&totals, self.steps) };
            let losses = self.trainee.accumulate(&self.batch, &phase).unwrap();
            let parameters = of_phase(&self.trainee, number);
            let found = gradients::of(&parameters);
            let norm = gradients::norm(&found) / self.scaler.scale();
            self.scaler.update(norm.is_finite());
            if norm.is_finite() {
                let limit = (self.spec.clip > 0.0).then_some(self.spec.clip);
                let factor = gradients::clip_factor(norm, limit) / self.scaler.scale();
                self.optimisers.step(number, &found, self.spec.learning_rate, factor).unwrap();
            }
            loss = self.trainee.total(&losses.means(&totals));
            drop(found);
            gradients::clear(&self.trainee.parameters());
        }
        loss
    }
}

fn user_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).unwrap().user_time().num_microseconds() as f64 * 1e-6
}
