//! The memory and the arithmetic of training the GPT, by counting the activations of a step. Blocks
//! run in a chain that keeps the input of each block, or everything; logits exist for a chunk of
//! the positions at a time.

use cache::Digest;
use stage_core::{Fields, Parameters};

use super::clip;
use super::config::{GptConfig, XttsConfig};
use super::gpt_tensors::GPT_PREFIX;
use crate::training::{Effort, F32, Memory, Rows, Setting, Trainable};

/// Frames of the spectrogram of a conditioning crop.
const CROP_FRAMES: f64 = 517.0;
/// Positions with logits at a time.
const PIECE: f64 = 1024.0;
/// Tensors as large as the logits at the same time: their log-softmax, its gradient, and that of
/// the logits.
const LOGITS: f64 = 3.0;
/// Values per position that a block keeps, in channels: the inputs of both norms; queries, keys and
/// values; and the wide layer before its activation.
const BLOCK: f64 = 2.0 + 3.0 + 4.0;
/// The same for the weights of a block that are trained: both normed inputs, the output of
/// attention, and the wide layer after its activation.
const MULTIPLIED: f64 = 2.0 + 1.0 + 4.0;
/// Attention weights: the softmax, in f32, and the weights after dropout.
const ATTENTION: f64 = 2.0;
/// The block in the backward pass: gradients of its widest layer and of the attention weights.
const BLOCK_GRADIENTS: f64 = 5.0;
const ATTENTION_GRADIENTS: f64 = 2.0;
/// Values per frame that a block of the conditioning encoder keeps, in channels: its input, normed,
/// in f32; queries, keys and values, and the first two scaled; and the output of attention.
const CONDITIONING: f64 = 3.0 + 3.0 + 2.0 + 2.0;
const CONDITIONING_ATTENTION: f64 = 2.0;
/// Of these, values that exist at a time without gradients: the output, queries, keys and values,
/// and two of them scaled.
const CONDITIONING_ALONE: f64 = 1.0 + 3.0 + 2.0;
/// A multiplication and an addition.
const OPERATIONS: f64 = 2.0;

/// Text tokens per second of speech.
const TEXT_PER_SECOND: f64 = 6.0;
/// START of text and of codes, and the silence after the codes.
const MARKS: i64 = 5;

impl Trainable for XttsConfig {
    fn rows(&self, _: &Parameters) -> Rows {
        Rows::Clips
    }

    fn memory(&self, setting: &Setting) -> Memory {
        training_memory(&self.gpt, &self.of_clips(setting))
    }

    fn effort(&self, setting: &Setting) -> Effort {
        Effort::Operations(training_operations(&self.gpt, &self.of_clips(setting)))
    }

    fn clip(&self, parameters: &Parameters, fields: &Fields) -> Option<Digest> {
        clip::of_fields(parameters, fields)
    }

    fn clip_salt(&self) -> &'static str {
        clip::CLIP_SALT
    }
}

impl XttsConfig {
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
    let Shape { block, block_gradients, input, conditioning, conditioning_alone } =
        Shape::of(config, setting);
    let GradientReach { blocks, conditioning_blocks, .. } = GradientReach::of(config, setting);
    let block_gradients = if blocks > 0.0 { block_gradients } else { 0.0 };
    // The parts without gradients need this memory while they are computed.
    let alone = if conditioning_blocks > 0.0 { conditioning } else { conditioning_alone };
    let at_once = (block + block_gradients).max(alone);
    let activations = match setting.checkpointing {
        true => (blocks + 1.0) * input + at_once,
        false => {
            let kept = blocks * block + conditioning_blocks * conditioning;
            (kept + block_gradients).max(at_once)
        }
    };
    let labels = (setting.rows * setting.length) as f64;
    let logits = labels.min(PIECE) * config.text_tokens.max(config.audio_tokens) as f64;
    // The backward pass of the output layers runs while the blocks wait, and that of a block after
    // them.
    let heads = (logits * LOGITS * F32 - block_gradients).max(0.0);
    Memory { activations, logits: heads, block: at_once, ..Memory::of(&config.tensors(), setting) }
}

/// Floating-point operations of one batch, forward and backward.
pub fn training_operations(config: &GptConfig, setting: &Setting) -> f64 {
    let (rows, length) = (setting.rows as f64, setting.length as f64);
    let (layers, width) = (config.layers as f64, config.width as f64);
    let block = length * (12.0 * width * width + 2.0 * length * width);
    let frames = CROP_FRAMES * (4.0 * width * width + 2.0 * CROP_FRAMES * width);
    let heads = length * width * (config.text_tokens + config.audio_tokens) as f64;
    let reached = GradientReach::of(config, setting);
    // Forward, gradients of the inputs, and gradients of the weights.
    let back = |reached: f64, trained: f64| {
        let again = if setting.checkpointing { reached } else { 0.0 };
        let weights = if setting.adapters.is_some() { 0.0 } else { trained };
        again + reached + weights
    };
    let blocks = block * (layers + back(reached.blocks, reached.trained_blocks));
    let conditioning = config.conditioning_layers as f64
        + back(reached.conditioning_blocks, reached.trained_conditioning_blocks);
    let is_whole = setting.adapters.is_none() && setting.is_trained("gpt.mel_head.weight");
    let heads = heads * if is_whole { 3.0 } else { 2.0 };
    OPERATIONS * rows * (blocks + frames * conditioning + heads)
}

/// The blocks that gradients reach: those from the first trained tensor on, in the order of a
/// forward pass.
struct GradientReach {
    blocks: f64,
    conditioning_blocks: f64,
    /// Of these, the ones with trained tensors.
    trained_blocks: f64,
    trained_conditioning_blocks: f64,
}

impl GradientReach {
    fn of(config: &GptConfig, setting: &Setting) -> GradientReach {
        let tensors = config.tensors();
        let trained: Vec<&str> = tensors
            .iter()
            .filter(|(name, _)| setting.is_trained(name))
            .filter_map(|(name, _)| name.strip_prefix(GPT_PREFIX))
            .collect();
        let has = |prefix: &str| trained.iter().any(|name| name.starts_with(prefix));
        // The trained ones, and those from the first of them, or from the first of all, on.
        let count = |prefix: &str, blocks: i64, reaches_all: bool| {
            let trained: Vec<i64> =
                (0..blocks).filter(|at| has(&format!("{prefix}.{at}."))).collect();
            let first = match reaches_all {
                true => 0,
                false => trained.first().copied().unwrap_or(blocks),
            };
            (trained.len() as f64, (blocks - first) as f64)
        };
        let (trained_conditioning_blocks, conditioning_blocks) = count(
            "conditioning_encoder.attn",
            config.conditioning_layers,
            has("conditioning_encoder.init."),
        );
        let inputs = ["conditioning_", "text_embedding", "mel_embedding", "text_pos_", "mel_pos_"];
        let (trained_blocks, blocks) =
            count("gpt.h", config.layers, inputs.iter().any(|prefix| has(prefix)));
        GradientReach { blocks, conditioning_blocks, trained_blocks, trained_conditioning_blocks }
    }
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
    /// The same while it is computed without gradients.
    conditioning_alone: f64,
}

impl Shape {
    fn of(config: &GptConfig, setting: &Setting) -> Shape {
        let (rows, length, width) = (setting.rows as f64, setting.length as f64, setting.width());
        let input = rows * length * config.width as f64 * width;
        let weights = |positions: f64, heads: i64| rows * heads as f64 * positions * positions;
        let attention = if setting.keeps_attention { weights(length, config.heads) } else { 0.0 };
        let adapted = rows * length * adapted_inputs(config, setting) * F32;
        let kept = BLOCK + if setting.adapters.is_none() { MULTIPLIED } else { 0.0 };
        let frames = rows * CROP_FRAMES * config.width as f64 * width;
        let conditioning_attention =
            CONDITIONING_ATTENTION * weights(CROP_FRAMES, config.conditioning_heads) * F32;
        Shape {
            block: kept * input + attention * ((ATTENTION - 1.0) * width + F32) + adapted,
            block_gradients: BLOCK_GRADIENTS * input + ATTENTION_GRADIENTS * attention * F32,
            input,
            conditioning: CONDITIONING * frames + conditioning_attention,
            conditioning_alone: CONDITIONING_ALONE * frames + conditioning_attention,
        }
    }
}

/// Values per position that go into the adapters of a block, of the last one for all. Weights of a
/// block are [inputs, outputs].
fn adapted_inputs(config: &GptConfig, setting: &Setting) -> f64 {
    let last = format!("gpt.gpt.h.{}.", config.layers - 1);
    setting.sum_of_adapted(&config.tensors(), &last, |shape| shape[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::parameters;
    use crate::training::Adapters;

    fn config() -> GptConfig {
        XttsConfig::published().gpt
    }

    fn setting() -> Setting {
        Setting {
            rows: 3,
            length: 490,
            clip_seconds: 0.0,
            is_half: false,
            checkpointing: true,
            adapters: None,
            frozen: Vec::new(),
            keeps_attention: true,
        }
    }

    fn frozen(patterns: &[&str]) -> Setting {
        Setting { frozen: patterns.iter().map(|one| (*one).to_owned()).collect(), ..setting() }
    }

    fn total(setting: &Setting) -> f64 {
        training_memory(&config(), setting).total()
    }

    /// 441,018,563 values at 4 bytes each for weight, gradient and two moments: 7.06 GB.
    #[test]
    fn weights_gradients_and_moments_are_those_of_the_published_size() {
        assert_eq!(parameters(&config().tensors()), 441_018_563);
        let Memory { weights, gradients, optimizer, .. } = training_memory(&config(), &setting());
        assert_eq!(weights + gradients + optimizer, 441_018_563.0 * 16.0);
    }

    /// 34sbh + 5as²b bytes for a block in fp16 with dropout (Korthikanti et al. 2022): 36 MB for a
    /// row. There dropout masks are kept, which take one byte, and here the softmax is in f32.
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
        assert!(total(&Setting { checkpointing: false, ..setting() }) > usual + 4e9);
        assert!(
            total(&Setting { checkpointing: false, keeps_attention: false, ..setting() })
                < total(&Setting { checkpointing: false, ..setting() }) - 1e9
        );
        let kept = |is_half| {
            let setting = Setting { is_half, checkpointing: false, ..setting() };
            training_memory(&config(), &setting).activations
        };
        assert!(kept(true) < 0.7 * kept(false));
        let adapters = Adapters { rank: 16, patterns: vec!["gpt.gpt.h.*".to_owned()] };
        let adapters = Setting { adapters: Some(adapters), ..setting() };
        assert!(total(&adapters) < 0.5 * usual);
    }

    /// A block has 12.6 M values, conditioning encoder and perceiver have 46.3 M.
    #[test]
    fn frozen_tensors_have_neither_gradients_nor_moments() {
        let usual = training_memory(&config(), &setting());
        let without = |patterns: &[&str]| {
            let memory = training_memory(&config(), &frozen(patterns));
            assert_eq!(memory.weights, usual.weights);
            (usual.gradients + usual.optimizer - memory.gradients - memory.optimizer) / 12.0
        };
        assert_eq!(without(&["gpt.gpt.h.0.*"]), 12_596_224.0);
        assert_eq!(without(&["gpt.conditioning_*"]), 46_299_816.0);
    }

    /// Embeddings, conditioning and the first blocks are frozen.
    fn frozen_up_to(blocks: i64) -> Setting {
        let before = ["conditioning_", "text_embedding", "mel_embedding", "text_pos", "mel_pos"];
        let before = before.iter().map(|name| format!("gpt.{name}*"));
        let frozen = before.chain((0..blocks).map(|at| format!("gpt.gpt.h.{at}.*"))).collect();
        Setting { frozen, ..setting() }
    }

    #[test]
    fn only_blocks_from_the_first_trained_tensor_on_keep_something_for_their_way_back() {
        let reached = |setting: &Setting| {
            let reached = GradientReach::of(&config(), setting);
            (reached.conditioning_blocks, reached.blocks, reached.trained_blocks)
        };
        assert_eq!(reached(&setting()), (6.0, 30.0, 30.0));
        assert_eq!(reached(&frozen(&["gpt.gpt.h.1*"])), (6.0, 30.0, 19.0));
        assert_eq!(reached(&frozen(&["gpt.conditioning_encoder.*"])), (0.0, 30.0, 30.0));
        assert_eq!(reached(&frozen(&["gpt.gpt.h.*", "gpt.conditioning_*"])), (0.0, 30.0, 0.0));
        assert_eq!(reached(&frozen_up_to(5)), (0.0, 25.0, 25.0));
        assert_eq!(reached(&frozen_up_to(30)), (0.0, 0.0, 0.0));
        let patterns = vec!["gpt.gpt.h.2*".to_owned()];
        let adapters = Some(Adapters { rank: 8, patterns });
        assert_eq!(reached(&Setting { adapters, ..setting() }), (0.0, 28.0, 11.0));
    }

    #[test]
    fn a_frozen_beginning_takes_less_memory_and_less_work() {
        let of = |setting: Setting| {
            let kept = Setting { checkpointing: false, ..setting };
            let memory = training_memory(&config(), &kept).activations;
            (memory, training_operations(&config(), &kept))
        };
        let (all, rest) = (of(setting()), of(frozen_up_to(15)));
        assert!(rest.0 < 0.55 * all.0 && rest.1 < 0.75 * all.1, "{rest:?} {all:?}");
        // A gradient that goes through to an embedding needs all blocks.
        let mut through = frozen_up_to(15);
        through.frozen.retain(|pattern| pattern != "gpt.text_embedding*");
        let through = of(through);
        assert!(through.0 > 1.8 * rest.0, "{through:?} {rest:?}");
        assert!(rest.1 < through.1 && through.1 < all.1);
    }

    #[test]
    fn recomputing_takes_a_third_more_work() {
        let with = training_operations(&config(), &setting());
        let without =
            training_operations(&config(), &Setting { checkpointing: false, ..setting() });
        assert!((1.25..1.34).contains(&(with / without)), "{with} {without}");
    }
}
