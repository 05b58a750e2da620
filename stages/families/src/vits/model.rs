//! The cost of a VITS model, from its configuration.

use cache::Digest;
use stage_core::{Fields, Kind, Parameters};

use super::{VitsConfig, clip, fresh_config, kinds, training_memory, training_share};
use crate::model::{AssumedModel, Model, sizes};
use crate::training::{Effort, F32, Memory, Rows, SHARED_FROM, Setting, Trainable};
use crate::working::Working;

/// Published weights are in f32.
const WEIGHT_BYTES: f64 = 4.0;
/// Steps in f32: 1.13 per second for 2 x 16 clips on two T4; an A100 is as fast as six T4.
const SECONDS_PER_CLIP: f64 = 1.0 / 1.13 / 16.0 / 6.0;
/// The time of a step on a CPU core, as a multiple of that on an A100: three steps of three clips
/// took 350 times as long beside other work, and 310 times as much processor time.
const CORE_SLOWNESS: f64 = 300.0;
/// A sample makes the sound of a whole clip and learns nothing: of clips of 3 s it took 0.1 to 0.2
/// rows.
const ROWS_PER_SECOND: f64 = 0.05;
/// Activations of the decoder's widest level that are in memory at once, including the copies of
/// its convolutions and freed ones that the C library keeps: a sentence of 7.7 s took 0.30 GB.
const DECODED_AT_ONCE: f64 = 18.0;
const SPEED: &str = "VITS trains at 1.13 steps per second with 16 clips of up to 6 s on a T4 \
                     (reported by users), an A100 is six times as fast, and a CPU core takes 300 \
                     times as long as an A100";

impl Model for VitsConfig {
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

    fn sizes(&self) -> Vec<i64> {
        sizes(&[self.generator(), self.discriminator()].concat())
    }

    /// One sentence is decoded at a time. Before the first one the weights are there twice for a
    /// moment: with their norms, and folded.
    fn working_bytes(&self, working: &Working<'_>) -> f64 {
        if working.kind.name != kinds::SYNTHESIZE.name {
            return 0.0;
        }
        let frames = working.seconds * self.sampling_rate as f64 / self.hop().max(1) as f64;
        let decoded = frames * self.widest_level() * DECODED_AT_ONCE * F32;
        decoded.max(self.bytes(working.parameters))
    }

    fn share(&self) -> f64 {
        self.speaking_parameters() as f64 / VitsConfig::mms().speaking_parameters() as f64
    }

    fn speakers(&self) -> Option<u64> {
        u64::try_from(self.num_speakers).ok()
    }

    fn trainable(&self) -> Option<&dyn Trainable> {
        Some(self)
    }
}

impl VitsConfig {
    /// Numbers of the decoder's widest level for each frame.
    fn widest_level(&self) -> f64 {
        let (mut channels, mut samples, mut widest) =
            (self.upsample_initial_channel as f64, 1.0, 0.0);
        for rate in &self.upsample_rates {
            (channels, samples) = (channels / 2.0, samples * *rate as f64);
            widest = f64::max(widest, channels * samples);
        }
        widest
    }
}

impl Trainable for VitsConfig {
    fn rows(&self, _: &Parameters) -> Rows {
        Rows::Clips
    }

    fn memory(&self, setting: &Setting) -> Memory {
        training_memory(self, setting)
    }

    fn effort(&self, setting: &Setting) -> Effort {
        let seconds = setting.rows as f64 * SECONDS_PER_CLIP * training_share(self);
        Effort::Seconds { seconds, on_core: seconds * CORE_SLOWNESS, told: SPEED }
    }

    fn clip(&self, _: &Parameters, fields: &Fields) -> Option<Digest> {
        clip::of_fields(self, fields)
    }

    fn clip_salt(&self) -> &'static str {
        clip::CLIP_SALT
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

pub fn assumed() -> AssumedModel {
    let told = "a VITS model of unknown size has the size of one of MMS: 36 million parameters, \
                kept in f32";
    AssumedModel { model: Box::new(VitsConfig::mms()), told }
}

#[cfg(test)]
mod tests {
    use crate::working::tests::written_over_usual;

    use super::*;

    #[test]
    fn a_sentence_takes_memory_by_its_length() {
        let parameters = written_over_usual(&[]);
        let bytes = |kind: &Kind, seconds| {
            let (items, threads, is_gpu) = (8.0, 1.0, false);
            let working =
                Working { kind, parameters: &parameters, items, seconds, threads, is_gpu };
            let config = VitsConfig::mms();
            config.held_bytes(&working) + config.working_bytes(&working)
        };
        let weights = VitsConfig::mms().bytes(&parameters);
        assert_eq!(bytes(&kinds::SPECTROGRAM, 10.0), weights);
        // 16,000 samples a second; 8,192 numbers for each frame of 256 samples.
        let second = 62.5 * 8192.0 * 18.0 * 4.0;
        assert_eq!(bytes(&kinds::SYNTHESIZE, 10.0), weights + 10.0 * second);
        assert_eq!(bytes(&kinds::SYNTHESIZE, 1.0), 2.0 * weights, "while they are loaded");
    }
}
