//! The memory and the arithmetic of training the text model, by counting live tensors: slow blocks
//! run in a chain that keeps the input of each block, or all activations; logits and the fast
//! layers exist for a chunk of the positions at a time.

use super::{DualArConfig, Stack};
use crate::training::{F32, Memory, Setting};

/// The size of a chunk: positions with logits, and frames in the fast layers.
const PIECE: f64 = 1024.0;
/// Tensors as large as the logits at the same time, in f32: their log-softmax, its gradient, and
/// that of the logits.
const LOGITS: f64 = 3.0;
/// The share of the activations that the C library keeps as freed memory on a CPU while adapters
/// are trained. All live blocks of a step at the published size were 5.5 GB, and the process had
/// 6.9 to 7.2 GB; masks of dropout were among them then.
const KEPT: f64 = 0.5;
/// A multiplication and an addition.
const OPERATIONS: f64 = 2.0;

impl DualArConfig {
    /// The peak memory of a step.
    pub fn training_memory(&self, setting: &Setting) -> Memory {
        let tensors = self.tensors();
        let tokens = (setting.rows * setting.length) as f64;
        let piece = tokens.min(PIECE);
        let is_whole = setting.adapters.is_none();
        let logits = |positions: f64, entries: i64| LOGITS * positions * entries as f64 * F32;
        // The gradient of the output layer exists from then on.
        let output = if is_whole { (self.vocab_size * self.slow.dim) as f64 * F32 } else { 0.0 };
        let codes = piece * self.num_codebooks as f64;
        let inputs = |block: &str| setting.sum_of_adapted(&tensors, block, |shape| shape[1]);
        let (slow_kept, slow_block) = self.slow.activations(tokens, inputs("layers.0."), setting);
        let (fast_kept, fast_block) =
            self.fast.activations(codes, inputs("fast_layers.0."), setting);
        let fast = fast_kept + fast_block.max(logits(codes, self.codebook_size));
        let words = logits(piece, self.vocab_size);
        // The backward pass of the losses runs while the slow layers wait, and that of a slow block
        // after them.
        let waits = fast.max(slow_block) + output;
        let (activations, logits) = match words > waits {
            true => (slow_kept, words),
            false => (slow_kept + waits, 0.0),
        };
        let kept = if is_whole { 0.0 } else { KEPT * activations };
        Memory { activations, logits, block: slow_block, kept, ..Memory::of(&tensors, setting) }
    }

    /// Floating-point operations of one batch, forward and backward.
    pub fn training_operations(&self, setting: &Setting) -> f64 {
        let tokens = (setting.rows * setting.length) as f64;
        let slow = self.slow.weights() * tokens;
        let fast = self.fast.weights() * tokens * self.num_codebooks as f64;
        let words = (self.vocab_size * self.slow.dim) as f64 * tokens;
        // Forward, gradients of the inputs, and gradients of the weights.
        let passes = if setting.adapters.is_some() { 2.0 } else { 3.0 };
        let again = if setting.checkpointing { 1.0 } else { 0.0 };
        OPERATIONS * ((slow + fast) * (passes + again) + words * passes)
    }
}

impl Stack {
    /// Values of the matrices of all blocks.
    fn weights(&self) -> f64 {
        let attention = self.qkv() * self.dim + self.heads * self.head_dim * self.dim;
        (self.layers * (attention + 3 * self.dim * self.intermediate_size)) as f64
    }

    /// Bytes that all blocks keep, and that the block in the backward pass uses. `adapted` values
    /// per token go into the adapters of a block.
    fn activations(&self, tokens: f64, adapted: f64, setting: &Setting) -> (f64, f64) {
        let layers = self.layers as f64;
        // The values after dropout, in the precision of the adapter.
        let adapters = adapted * F32;
        let block = tokens * (self.bytes_per_token(setting) + adapters);
        match setting.checkpointing {
            true => ((layers + 1.0) * tokens * self.dim as f64 * setting.width(), block),
            false => (layers * block, 0.0),
        }
    }

    /// The activations that a block keeps for the backward pass: the inputs of both norms, in f32;
    /// those of the norms of queries and keys; rotated queries, and keys and values repeated for
    /// each of their heads; the output of attention; and the states of the gated feed-forward
    /// layer. A trained weight also keeps what it is multiplied by.
    fn bytes_per_token(&self, setting: &Setting) -> f64 {
        let (dim, inner) = (self.dim as f64, self.intermediate_size as f64);
        let queries = (self.heads * self.head_dim) as f64;
        let keys = (self.kv_heads * self.head_dim) as f64;
        let mut values = 4.0 * queries + 3.0 * inner;
        let mut wide = 2.0 * dim;
        if self.qk_norm {
            // In f32 they are parts of the fused projection, which stays as a whole.
            wide += queries + keys + if setting.is_half { 0.0 } else { keys };
        }
        if setting.adapters.is_none() {
            values += 4.0 * dim + queries + inner;
            wide += if self.qk_norm { queries + keys } else { 0.0 };
        }
        values * setting.width() + wide * F32
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::training::Adapters;

    fn full() -> Setting {
        Setting {
            rows: 4,
            length: 4096,
            clip_seconds: 0.0,
            is_half: true,
            checkpointing: true,
            adapters: None,
            frozen: Vec::new(),
            keeps_attention: false,
        }
    }

    fn adapters(rank: i64) -> Setting {
        let patterns = ["layers.*.attention.w*", "layers.*.feed_forward.w*"];
        let patterns = patterns.map(str::to_owned).to_vec();
        Setting { adapters: Some(Adapters { rank, patterns }), ..full() }
    }

    fn memory(setting: &Setting) -> Memory {
        DualArConfig::s1_mini().unwrap().training_memory(setting)
    }

    /// The figures were derived by hand from the published sizes: 860.2 million parameters, at 2
    /// bytes for weights, 4 for gradients, 4 for copies and 8 for the moments, are 15.5 GB.
    #[test]
    fn weights_gradients_and_the_optimiser_of_the_published_model_are_as_derived_by_hand() {
        let Memory { weights, gradients, optimizer, .. } = memory(&full());
        let gigabytes = |bytes: f64| (bytes / 1e7).round() / 100.0;
        assert_eq!(gigabytes(weights), 1.72);
        // In f32, whatever the weights are.
        assert_eq!(gigabytes(gradients), 3.44);
        assert_eq!(gigabytes(weights + optimizer), 12.04);
    }

    /// 28 layers at 4 rows of 4096 tokens of 1024 values of 2 bytes: 0.94 GB, and one state more.
    #[test]
    fn checkpointed_states_are_those_between_the_blocks() {
        let (kept, _) =
            DualArConfig::s1_mini().unwrap().slow.activations(4.0 * 4096.0, 0.0, &full());
        assert_eq!(kept, 29.0 * 4.0 * 4096.0 * 1024.0 * 2.0);
    }

    #[test]
    fn what_saves_memory_does() {
        let whole = memory(&full()).total();
        assert!(memory(&Setting { rows: 2, ..full() }).total() < whole);
        assert!(memory(&Setting { length: 2048, ..full() }).total() < whole);
        // Half precision saves activations, which a large batch has more of than weights.
        let large = Setting { rows: 16, ..full() };
        let single = Setting { is_half: false, ..large.clone() };
        assert!(memory(&single).total() > memory(&large).total());
        assert!(memory(&Setting { checkpointing: false, ..full() }).total() > 2.0 * whole);
        assert!(memory(&adapters(8)).total() < whole - 10e9);
        assert!(memory(&adapters(64)).total() > memory(&adapters(8)).total());
    }

    #[test]
    fn recomputing_and_training_all_weights_take_more_time() {
        let operations =
            |setting: &Setting| DualArConfig::s1_mini().unwrap().training_operations(setting);
        assert!(operations(&Setting { checkpointing: false, ..full() }) < operations(&full()));
        assert!(operations(&adapters(8)) < operations(&full()));
        let double = Setting { rows: 8, ..full() };
        assert_eq!(operations(&double), 2.0 * operations(&full()));
    }

    /// All modules that the original adapts, at the batch of a report: rows of 4096 tokens, 8 at a
    /// time, with rank 8.
    fn reported() -> Setting {
        let patterns =
            ["*embeddings", "*output", "*layers.*.attention.w*", "*layers.*.feed_forward.w*"];
        let patterns = patterns.map(str::to_owned).to_vec();
        Setting { rows: 8, adapters: Some(Adapters { rank: 8, patterns }), ..full() }
    }

    /// Users of the original report 55 GB. It has the logits of all positions at once, which exist
    /// four times at the peak, in the compute type: the logits, their softmax, its gradient, and
    /// the gradient scaled for the adapter. The same count gives the reported figure, and shows the
    /// saving of chunks.
    #[test]
    fn logits_of_all_positions_at_once_take_what_users_of_the_original_report() {
        const COPIES: f64 = 4.0;
        // A second of speech with its text has 27 tokens, 21.5 of them frames, and each clip has 20
        // more.
        const FRAMES: f64 = 0.72;
        let (config, setting) = (DualArConfig::s1_mini().unwrap(), reported());
        let own = config.training_memory(&setting);
        let tokens = (setting.rows * setting.length) as f64;
        let codes = FRAMES * tokens * config.num_codebooks as f64;
        let words = COPIES * tokens * config.vocab_size as f64 * setting.width();
        let entries = COPIES * codes * config.codebook_size as f64 * setting.width();
        let (slow, _) = config.slow.activations(tokens, 0.0, &setting);
        let (fast, _) = config.fast.activations(codes, 0.0, &setting);
        let states = own.weights + own.gradients + own.optimizer;
        let all = states + slow + fast + words + entries;
        assert!((all / 55e9 - 1.0).abs() < 0.1, "{all}");
        assert!(own.total() < 0.2 * all, "{own:?}");
    }

    #[test]
    fn what_goes_into_adapters_is_kept_for_their_way_back() {
        let (config, all) = (DualArConfig::s1_mini().unwrap(), reported());
        // Attention reads 1,024 and 2,048 values of a token, the gated feed-forward layer 1,024
        // twice and 3,072.
        let inputs = |setting: &Setting| {
            setting.sum_of_adapted(&config.tensors(), "layers.0.", |shape| shape[1])
        };
        assert_eq!((inputs(&all), inputs(&full())), (8192.0, 0.0));
        let few = Adapters { rank: 8, patterns: vec!["layers.*.attention.wo".to_owned()] };
        let few = Setting { adapters: Some(few), ..all.clone() };
        assert!(memory(&all).activations > memory(&few).activations);
    }

    /// A CPU was measured; the allocator of a GPU is another one, and `total` is for both.
    #[test]
    fn freed_memory_is_kept_between_what_adapters_keep_and_is_counted_apart() {
        let (whole, trained) = (memory(&full()), memory(&adapters(8)));
        assert_eq!((whole.kept, trained.kept), (0.0, KEPT * trained.activations));
        let without = Memory { kept: 0.0, ..trained };
        assert_eq!(without.total(), trained.total());
        assert_eq!(without.total_of_several(), trained.total_of_several());
    }

    #[test]
    fn only_named_modules_have_adapters() {
        let config = DualArConfig::s1_mini().unwrap();
        let values = |pattern: &str| {
            let one = Adapters { rank: 8, patterns: vec![pattern.to_owned()] };
            let one = Setting { adapters: Some(one), ..full() };
            Memory::of(&config.tensors(), &one).gradients / F32
        };
        assert_eq!(values("layers.0.attention.wo"), 8.0 * (1024.0 + 2048.0));
        assert_eq!(values("layers.*.attention.wo"), 28.0 * values("layers.0.attention.wo"));
        assert_eq!(values("nothing"), 0.0);
    }
}
