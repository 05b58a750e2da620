//! The memory and the arithmetic of training the text model, by counting the tensors that are
//! alive: slow blocks run in a chain that keeps the input of each block, or all; logits and the
//! fast layers exist for a piece of the positions at a time.

use super::{Config, Stack};
use crate::pattern::is_match;
use crate::training::{F32, Memory, Setting};

/// Positions that have logits, and frames that are in the fast layers, at a time.
const PIECE: f64 = 1024.0;
/// Tensors of logits beside those in what is computed in: the same in f32, the logarithms of the
/// odds, and the gradient.
const LOGITS_F32: f64 = 3.0;
/// Logits and their gradient in what is computed in.
const LOGITS: f64 = 2.0;
/// A multiplication and an addition.
const OPERATIONS: f64 = 2.0;

impl Config {
    /// What a step takes at its worst moment.
    pub fn training_memory(&self, setting: &Setting) -> Memory {
        let parameters = self.parameters() as f64;
        let memory = match &setting.adapters {
            None => Memory::of_values(0.0, parameters, setting),
            Some(_) => Memory::of_values(parameters, self.adapter_values(setting), setting),
        };
        let tokens = (setting.rows * setting.length) as f64;
        let piece = tokens.min(PIECE);
        let width = setting.width();
        let logits = |positions: f64, entries: i64| {
            positions * entries as f64 * (LOGITS * width + LOGITS_F32 * F32)
        };
        let codes = piece * self.num_codebooks as f64;
        let (slow_kept, slow_block) = self.slow.activations(tokens, setting);
        let (fast_kept, fast_block) = self.fast.activations(codes, setting);
        let fast = fast_kept + fast_block.max(logits(codes, self.codebook_size));
        let words = logits(piece, self.vocab_size);
        // The losses are derived while the slow layers wait, and a slow block after them.
        let (activations, logits) = match words > fast.max(slow_block) {
            true => (slow_kept, words),
            false => (slow_kept + fast.max(slow_block), 0.0),
        };
        Memory { activations, logits, ..memory }
    }

    /// Floating-point operations of one batch, there and back.
    pub fn training_operations(&self, setting: &Setting) -> f64 {
        let tokens = (setting.rows * setting.length) as f64;
        let slow = self.slow.weights() * tokens;
        let fast = self.fast.weights() * tokens * self.num_codebooks as f64;
        let words = (self.vocab_size * self.slow.dim) as f64 * tokens;
        // Once there, once for the gradients of what went in, once for those of the weights.
        let passes = if setting.adapters.is_some() { 2.0 } else { 3.0 };
        let again = if setting.checkpointing { 1.0 } else { 0.0 };
        OPERATIONS * ((slow + fast) * (passes + again) + words * passes)
    }

    /// How many values the adapters have.
    fn adapter_values(&self, setting: &Setting) -> f64 {
        let Some(adapters) = &setting.adapters else { return 0.0 };
        let named = |tensor: &str| {
            let module = tensor.strip_suffix(".weight").unwrap_or(tensor);
            adapters.patterns.iter().any(|pattern| is_match(pattern, module))
        };
        let tensors = self.tensors();
        let sides = tensors.iter().filter(|(name, shape)| shape.len() == 2 && named(name));
        sides.map(|(_, shape)| (adapters.rank * (shape[0] + shape[1])) as f64).sum()
    }
}

impl Stack {
    /// Values of the matrices of all blocks.
    fn weights(&self) -> f64 {
        let attention = self.qkv() * self.dim + self.heads * self.head_dim * self.dim;
        (self.layers * (attention + 3 * self.dim * self.intermediate_size)) as f64
    }

    /// Bytes that are kept of all blocks, and that the block takes which is derived.
    fn activations(&self, tokens: f64, setting: &Setting) -> (f64, f64) {
        let layers = self.layers as f64;
        let block = tokens * self.bytes_per_token(setting);
        match setting.checkpointing {
            true => ((layers + 1.0) * tokens * self.dim as f64 * setting.width(), block),
            false => (layers * block, 0.0),
        }
    }

    /// What a block keeps for its way back: its input and what both norms make of theirs;
    /// queries, keys and values, normed, turned and repeated; what attention gives; and the four
    /// states of the gated layer. Norms keep f32 copies of what they get in half precision.
    fn bytes_per_token(&self, setting: &Setting) -> f64 {
        let (dim, inner) = (self.dim as f64, self.intermediate_size as f64);
        let queries = (self.heads * self.head_dim) as f64;
        let keys = (self.kv_heads * self.head_dim) as f64;
        let values = 4.0 * dim + 6.0 * queries + 4.0 * keys + 4.0 * inner;
        let copies = if setting.is_half { 2.0 * dim + queries + keys } else { 0.0 };
        values * setting.width() + copies * F32
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::training::Adapters;

    fn full() -> Setting {
        Setting { rows: 4, length: 4096, is_half: true, checkpointing: true, adapters: None }
    }

    fn adapters(rank: i64) -> Setting {
        let patterns = ["layers.*.attention.w*", "layers.*.feed_forward.w*"];
        let patterns = patterns.map(str::to_owned).to_vec();
        Setting { adapters: Some(Adapters { rank, patterns }), ..full() }
    }

    fn memory(setting: &Setting) -> Memory {
        Config::s1_mini().unwrap().training_memory(setting)
    }

    /// The figures were derived by hand from the published sizes: 860.2 million parameters, at 2
    /// bytes for weights and gradients, 4 for copies and 8 for the moments, are 13.8 GB.
    #[test]
    fn weights_gradients_and_the_optimiser_of_the_published_model_are_as_derived_by_hand() {
        let Memory { weights, gradients, optimizer, .. } = memory(&full());
        let gigabytes = |bytes: f64| (bytes / 1e7).round() / 100.0;
        assert_eq!(gigabytes(weights), 1.72);
        assert_eq!(gigabytes(gradients), 1.72);
        assert_eq!(gigabytes(weights + gradients + optimizer), 13.76);
    }

    /// 28 layers at 4 rows of 4096 tokens of 1024 values of 2 bytes: 0.94 GB, and one state more.
    #[test]
    fn checkpointed_states_are_those_between_the_blocks() {
        let (kept, _) = Config::s1_mini().unwrap().slow.activations(4.0 * 4096.0, &full());
        assert_eq!(kept, 29.0 * 4.0 * 4096.0 * 1024.0 * 2.0);
    }

    #[test]
    fn what_saves_memory_does() {
        let whole = memory(&full()).total();
        assert!(memory(&Setting { rows: 2, ..full() }).total() < whole);
        assert!(memory(&Setting { length: 2048, ..full() }).total() < whole);
        assert!(memory(&Setting { is_half: false, ..full() }).total() > whole);
        assert!(memory(&Setting { checkpointing: false, ..full() }).total() > 2.0 * whole);
        assert!(memory(&adapters(8)).total() < whole - 10e9);
        assert!(memory(&adapters(64)).total() > memory(&adapters(8)).total());
    }

    #[test]
    fn recomputing_and_training_all_weights_take_more_time() {
        let operations =
            |setting: &Setting| Config::s1_mini().unwrap().training_operations(setting);
        assert!(operations(&Setting { checkpointing: false, ..full() }) < operations(&full()));
        assert!(operations(&adapters(8)) < operations(&full()));
        let double = Setting { rows: 8, ..full() };
        assert_eq!(operations(&double), 2.0 * operations(&full()));
    }

    #[test]
    fn only_named_modules_have_adapters() {
        let config = Config::s1_mini().unwrap();
        let values = |pattern: &str| {
            let one = Adapters { rank: 8, patterns: vec![pattern.to_owned()] };
            config.adapter_values(&Setting { adapters: Some(one), ..full() })
        };
        assert_eq!(values("layers.0.attention.wo"), 8.0 * (1024.0 + 2048.0));
        assert_eq!(values("layers.*.attention.wo"), 28.0 * values("layers.0.attention.wo"));
        assert_eq!(values("nothing"), 0.0);
    }
}
