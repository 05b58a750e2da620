//! The memory of training VITS. The figures were measured on a CPU as the activations that a step
//! keeps, in f32, for one clip of 3.2 s at the published sizes; for other sizes they are scaled by
//! the parameters and the widths.

use super::VitsConfig;
use crate::training::{F32, Memory, Setting};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// Normed copies of weights: posterior, flow, decoder, and the discriminators in both passes.
const ONCE: f64 = (26.0 + 26.0 + 52.0 + 2.0 * 178.0) * MEBIBYTE;
/// Text encoder, posterior, flow and duration predictor, which process the whole clip.
const WHOLE_CLIP: f64 = 55.0 * MEBIBYTE;
const CLIP_SECONDS: f64 = 3.2;
/// Decoder and discriminators, which process a segment of it.
const SLICE: f64 = 0.23 * 1024.0 * MEBIBYTE - WHOLE_CLIP;

/// The peak memory of a step.
pub fn training_memory(config: &VitsConfig, setting: &Setting) -> Memory {
    let parameters =
        |config: &VitsConfig| (config.speaking_parameters() + config.judging_parameters()) as f64;
    let (own, published) = (parameters(config), VitsConfig::mms());
    let beside = |own: i64, published: i64| own as f64 / published as f64;
    let clip = WHOLE_CLIP * beside(config.hidden_size, published.hidden_size);
    let channels = beside(config.upsample_initial_channel, published.upsample_initial_channel);
    let each = clip * setting.clip_seconds / CLIP_SECONDS + SLICE * channels;
    let once = ONCE * own / parameters(&published);
    let activations = (once + each * setting.rows as f64) * setting.width() / F32;
    Memory { activations, ..Memory::of_values(0.0, own, setting) }
}

/// Time of a step relative to the published model. Both parts have layers that run over all samples
/// of a segment, so the time of a narrow model follows its channels, the square root of its
/// parameters: a step of four clips with a fiftieth of the parameters took 0.7 s on two busy cores,
/// while a fiftieth of the time would be 0.04 s.
pub fn training_share(config: &VitsConfig) -> f64 {
    let parameters =
        |config: &VitsConfig| (config.speaking_parameters() + config.judging_parameters()) as f64;
    (parameters(config) / parameters(&VitsConfig::mms())).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{SHARED_FROM, Trainable};

    fn setting(rows: i64, clip_seconds: f64, is_half: bool) -> Setting {
        let (checkpointing, adapters, frozen) = (false, None, Vec::new());
        Setting {
            rows,
            length: 0,
            clip_seconds,
            is_half,
            checkpointing,
            adapters,
            frozen,
            keeps_attention: false,
        }
    }

    fn total(rows: i64, seconds: f64, is_half: bool) -> f64 {
        training_memory(&VitsConfig::mms(), &setting(rows, seconds, is_half)).total()
    }

    /// 16 clips of about 3 s in f32 were derived to take about 6 GB with the program itself.
    #[test]
    fn a_usual_batch_takes_what_was_derived_by_hand() {
        let bytes = total(16, 3.0, false);
        assert!((5.2e9..6.2e9).contains(&bytes), "{bytes}");
    }

    /// 1.33 GB of weights, gradients and moments in f32 for generator and discriminator.
    #[test]
    fn a_smaller_model_takes_less_of_everything() {
        let setting = setting(4, 3.0, false);
        let published = training_memory(&VitsConfig::mms(), &setting);
        let states = published.total_of_several() - published.activations;
        assert!((states / 1.33e9 - 1.0).abs() < 0.01, "{states}");
        let narrow =
            VitsConfig { upsample_initial_channel: 32, hidden_size: 48, ..VitsConfig::mms() };
        let small = training_memory(&narrow, &setting);
        assert!(small.activations < 0.75 * published.activations, "{small:?}");
        assert!(small.total() < published.total());
    }

    #[test]
    fn a_voice_of_a_quarter_of_the_parameters_takes_half_the_time() {
        let parameters = |config: &VitsConfig| {
            (config.speaking_parameters() + config.judging_parameters()) as f64
        };
        assert_eq!(training_share(&VitsConfig::mms()), 1.0);
        let narrow =
            VitsConfig { upsample_initial_channel: 32, hidden_size: 48, ..VitsConfig::mms() };
        let part = parameters(&narrow) / parameters(&VitsConfig::mms());
        assert!((training_share(&narrow).powi(2) / part - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_published_voice_is_trained_on_all_threads() {
        assert!(!VitsConfig::mms().is_small());
        assert!(VitsConfig::mms().speaking_parameters() < SHARED_FROM, "both nets count");
    }

    #[test]
    fn fewer_and_shorter_clips_and_half_precision_take_less() {
        let usual = total(16, 3.0, false);
        assert!(total(8, 3.0, false) < usual);
        assert!(total(16, 2.0, false) < usual);
        assert!(total(16, 3.0, true) < usual);
    }
}
