//! The cost of a VITS model, from its configuration.

use stage_core::{Kind, Parameters};

use super::{Config, fresh_config, kinds, training_memory, training_share};
use crate::model::{Assumed, Model, largest};
use crate::training::{Effort, Memory, Rows, SHARED_FROM, Setting, Trainable};

/// Published weights are in f32.
const WEIGHT_BYTES: f64 = 4.0;
/// Steps in f32: 1.13 per second for 2 x 16 clips on two T4; an A100 is as fast as six T4.
const SECONDS_PER_CLIP: f64 = 1.0 / 1.13 / 16.0 / 6.0;
/// A sample makes the sound of a whole clip and learns nothing: of clips of 3 s it took 0.1 to 0.2
/// rows.
const ROWS_PER_SECOND: f64 = 0.05;
const SPEED: &str = "VITS makes 1.13 steps a second with 16 clips of up to 6 s on a T4, as users report, and an \
     A100 is taken for six times as fast";

impl Model for Config {
    fn parameters(&self) -> i64 {
        self.speaking_parameters()
    }

    /// Sizes of the generator, and of the discriminator if there is one.
    fn bytes(&self, stage: &Parameters) -> f64 {
        let judge = match stage.flag("discriminator") {
            Ok(true) => self.judging_parameters(),
            _ => 0,
        };
        (self.speaking_parameters() + judge) as f64 * WEIGHT_BYTES
    }

    fn largest_tensor(&self) -> i64 {
        largest(&[self.generator(), self.discriminator()].concat())
    }

    fn share(&self) -> f64 {
        self.speaking_parameters() as f64 / Config::mms().speaking_parameters() as f64
    }

    fn trainable(&self) -> Option<&dyn Trainable> {
        Some(self)
    }
}

impl Trainable for Config {
    fn rows(&self, _: &Parameters) -> Rows {
        Rows::Clips
    }

    fn memory(&self, setting: &Setting) -> Memory {
        training_memory(self, setting)
    }

    fn effort(&self, setting: &Setting) -> Effort {
        let seconds = setting.rows as f64 * SECONDS_PER_CLIP * training_share(self);
        Effort::Seconds { seconds, told: SPEED }
    }

    fn is_small(&self) -> bool {
        self.speaking_parameters() + self.judging_parameters() < SHARED_FROM
    }

    fn rows_of_sample(&self, setting: &Setting) -> f64 {
        setting.clip_seconds * ROWS_PER_SECOND
    }
}

/// The model that `vits.init` makes.
pub fn fresh(kind: &Kind, parameters: &Parameters) -> Option<Box<dyn Model>> {
    if kind.name != kinds::INIT.name {
        return None;
    }
    let symbols = parameters.text("characters").ok()?.chars().count();
    Some(Box::new(fresh_config(parameters, symbols as i64).ok()?))
}

pub fn assumed() -> Assumed {
    let told = "a VITS model that is not there is taken for one of MMS: 36 million parameters, \
                kept in f32";
    Assumed { model: Box::new(Config::mms()), told }
}
