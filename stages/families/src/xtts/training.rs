//! The memory and the arithmetic of training the GPT, by counting the activations of a step. Blocks
//! run in a chain that keeps the input of each block, or everything; logits exist for a chunk of
//! the positions at a time.

use stage_core::Parameters;
use stage_formats::pattern::is_match;

use super::config::{Config, GptConfig};
use crate::training::{Effort, Memory, Rows, Setting, Trainable};

const F32: f64 = 4.0;
/// Frames of the spectrogram of a conditioning crop.
const CROP_FRAMES: f64 = 517.0;
/// Positions with logits at a time.
const PIECE: f64 = 1024.0;
/// Copies of logits: the logits, in f32, log-softmax, and two gradients.
const LOGITS: f64 = 5.0;
/// Values per position that a block keeps, in channels: its input and both norms of it; queries,
/// keys and values; the output of attention; the wide layer before and after its activation; and
/// input and output of two dropouts.
const BLOCK: f64 = 3.0 + 1.0 + 3.0 + 8.0 + 4.0;
/// Attention weights: the softmax, its dropout mask, and the masked weights.
const ATTENTION: f64 = 3.0;
/// The block in the backward pass: gradients of its widest layer and of the attention weights.
const BLOCK_GRADIENTS: f64 = 5.0;
const ATTENTION_GRADIENTS: f64 = 2.0;
/// Values per frame that a block of the conditioning encoder keeps, in channels: its input, normed,
/// in f32; queries, keys and values, and the first two scaled; and the output of attention.
const CONDITIONING: f64 = 3.0 + 3.0 + 2.0 + 2.0;
const CONDITIONING_ATTENTION: f64 = 2.0;
/// Numbers that an adapter keeps for each input value: its dropout mask and the masked value.
const ADAPTED: f64 = 2.0;
/// A multiplication and an addition.
const OPERATIONS: f64 = 2.0;

/// Text tokens per second of speech.
const TEXT_PER_SECOND: f64 = 6.0;
/// START of text and of codes, and the silence after the codes.
const MARKS: i64 = 5;

impl Trainable for Config {
    fn rows(&self, _: &Parameters) -> Rows {
        Rows::Clips
    }

    fn memory(&self, setting: &Setting) -> Memory {
        training_memory(&self.gpt, &self.of_clips(setting))
    }

    fn effort(&self, setting: &Setting) -> Effort {
        Effort::Operations(training_operations(&self.gpt, &self.of_clips(setting)))
    }
}

impl Config {
    /// The same with the columns of a row.
    fn of_clips(&self, setting: &Setting) -> Setting {
        Setting { length: columns(&self.gpt, setting.clip_seconds), ..setting.clone() }
    }
}

/// Columns of the row of a clip of this duration.
fn columns(config: &GptConfig, seconds: f64) -> i64 {
    let codes = (seconds * config.sample_rate as f64 / config.code_stride as f64).ceil();
    let text = (seconds * TEXT_PER_SECOND).ceil();
    config.latents + MARKS + (codes + text) as i64
}

/// Peak memory of a step; `length`: columns of a row.
pub fn training_memory(config: &GptConfig, setting: &Setting) -> Memory {
    let values = values(config);
    let memory = match &setting.adapters {
        None => Memory::of_values(0.0, values, setting),
        Some(_) => Memory::of_values(values, adapter_values(config, setting), setting),
    };
    let Shape { block, block_gradients, input, conditioning } = Shape::of(config, setting);
    let layers = config.layers as f64;
    let activations = match setting.checkpointing {
        true => (layers + 1.0) * input + (block + block_gradients).max(conditioning),
        false => {
            layers * block + config.conditioning_layers as f64 * conditioning + block_gradients
        }
    };
    let labels = (setting.rows * setting.length) as f64;
    let logits = labels.min(PIECE) * config.text_tokens.max(config.audio_tokens) as f64;
    // The backward pass of the output layers runs while the blocks wait, and that of a block after
    // them.
    let heads = (logits * LOGITS * F32 - block_gradients).max(0.0);
    Memory { activations, logits: heads, ..memory }
}

/// Floating-point operations of one batch, forward and backward.
pub fn training_operations(config: &GptConfig, setting: &Setting) -> f64 {
    let (rows, length) = (setting.rows as f64, setting.length as f64);
    let (layers, width) = (config.layers as f64, config.width as f64);
    let block = 12.0 * width * width + 2.0 * length * width;
    let frames = CROP_FRAMES * (4.0 * width * width + 2.0 * CROP_FRAMES * width);
    let conditioning = config.conditioning_layers as f64 * frames;
    let heads = length * width * (config.text_tokens + config.audio_tokens) as f64;
    // Forward, gradients of the inputs, and gradients of the weights.
    let passes = if setting.adapters.is_some() { 2.0 } else { 3.0 };
    let again = if setting.checkpointing { 1.0 } else { 0.0 };
    let chained = layers * length * block + conditioning;
    OPERATIONS * rows * (chained * (passes + again) + heads * passes)
}

/// Bytes of a step.
struct Shape {
    /// Kept by one block.
    block: f64,
    block_gradients: f64,
    /// The input of one block.
    input: f64,
    /// Kept by one block of the conditioning encoder.
    conditioning: f64,
}

impl Shape {
    fn of(config: &GptConfig, setting: &Setting) -> Shape {
        let (rows, length, width) = (setting.rows as f64, setting.length as f64, setting.width());
        let input = rows * length * config.width as f64 * width;
        let weights = |positions: f64, heads: i64| rows * heads as f64 * positions * positions;
        let attention = weights(length, config.heads);
        let adapted = rows * length * adapted_inputs(config, setting) * ADAPTED * width;
        let frames = rows * CROP_FRAMES * config.width as f64 * width;
        Shape {
            block: BLOCK * input + attention * ((ATTENTION - 1.0) * width + F32) + adapted,
            block_gradients: BLOCK_GRADIENTS * input + ATTENTION_GRADIENTS * attention * F32,
            input,
            conditioning: CONDITIONING * frames
                + CONDITIONING_ATTENTION * weights(CROP_FRAMES, config.conditioning_heads) * F32,
        }
    }
}

fn values(config: &GptConfig) -> f64 {
    config.tensors().iter().map(|(_, shape)| shape.iter().product::<i64>() as f64).sum()
}

fn is_adapted(name: &str, setting: &Setting) -> bool {
    let patterns = setting.adapters.iter().flat_map(|adapters| &adapters.patterns);
    let module = name.strip_suffix(".weight").unwrap_or(name);
    patterns.into_iter().any(|pattern| is_match(pattern, module))
}

fn sum_of_adapted(
    config: &GptConfig,
    prefix: &str,
    setting: &Setting,
    of: impl Fn(&[i64]) -> i64,
) -> f64 {
    let tensors = config.tensors();
    let adapted = tensors.iter().filter(|(name, shape)| {
        shape.len() == 2 && name.starts_with(prefix) && is_adapted(name, setting)
    });
    adapted.map(|(_, shape)| of(shape) as f64).sum()
}

fn adapter_values(config: &GptConfig, setting: &Setting) -> f64 {
    let rank = setting.adapters.as_ref().map_or(0, |adapters| adapters.rank);
    sum_of_adapted(config, "", setting, |shape| rank * (shape[0] + shape[1]))
}

/// Values per position that go into the adapters of a block. Weights of a block are [inputs,
/// outputs].
fn adapted_inputs(config: &GptConfig, setting: &Setting) -> f64 {
    sum_of_adapted(config, "gpt.gpt.h.0.", setting, |shape| shape[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::Adapters;

    fn config() -> GptConfig {
        Config::published().gpt
    }

    fn setting() -> Setting {
        Setting {
            rows: 3,
            length: 490,
            clip_seconds: 0.0,
            is_half: false,
            checkpointing: true,
            adapters: None,
        }
    }

    fn total(setting: &Setting) -> f64 {
        training_memory(&config(), setting).total()
    }

    /// 441,018,563 values at 4 bytes each for weight, gradient and two moments: 7.06 GB.
    #[test]
    fn weights_gradients_and_moments_are_those_of_the_published_size() {
        assert_eq!(values(&config()), 441_018_563.0);
        let Memory { weights, gradients, optimizer, .. } = training_memory(&config(), &setting());
        assert_eq!(weights + gradients + optimizer, 441_018_563.0 * 16.0);
    }

    /// 34sbh + 5as²b bytes for a block in fp16 with dropout (Korthikanti et al. 2022): 36 MB for a
    /// row. Dropout masks take one byte there and two here, and the softmax is in f32 here.
    #[test]
    fn a_block_keeps_about_what_the_literature_counts() {
        let half = Setting { rows: 1, is_half: true, ..setting() };
        let (length, width, heads) = (490.0, 1024.0, 16.0);
        let published = 34.0 * length * width + 5.0 * heads * length * length;
        let own = Shape::of(&config(), &half).block;
        assert!((0.9..1.6).contains(&(own / published)), "{own} {published}");
    }

    #[test]
    fn what_saves_memory_does() {
        let usual = total(&setting());
        assert!(total(&Setting { rows: 2, ..setting() }) < usual);
        assert!(total(&Setting { length: 245, ..setting() }) < usual);
        assert!(total(&Setting { checkpointing: false, ..setting() }) > usual + 5e9);
        let kept = |is_half| {
            let setting = Setting { is_half, checkpointing: false, ..setting() };
            training_memory(&config(), &setting).activations
        };
        assert!(kept(true) < 0.7 * kept(false));
        let adapters = Adapters { rank: 16, patterns: vec!["gpt.gpt.h.*".to_owned()] };
        let adapters = Setting { adapters: Some(adapters), ..setting() };
        assert!(total(&adapters) < 0.5 * usual);
    }

    #[test]
    fn recomputing_takes_a_third_more_work() {
        let with = training_operations(&config(), &setting());
        let without =
            training_operations(&config(), &Setting { checkpointing: false, ..setting() });
        assert!((1.25..1.34).contains(&(with / without)), "{with} {without}");
    }
}
