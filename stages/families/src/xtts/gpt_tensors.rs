//! The tensors of the GPT with its conditioning encoder and perceiver: names as in the published
//! checkpoint, and shapes, from the configuration alone.

use stage_formats::shapes::Expected;

use super::config::GptConfig;
use crate::scope::{Scope, collect};

/// The prefix of the GPT's tensors.
pub const GPT_PREFIX: &str = "gpt.";

/// The prefix of tensors that older files contain twice, for decoding.
const DUPLICATES: [&str; 2] = ["gpt.gpt.wte.", "gpt.gpt_inference."];

/// Tests if a tensor is a copy of another one in the same file. A model is loaded without it.
pub fn is_duplicate(name: &str) -> bool {
    DUPLICATES.iter().any(|prefix| name.starts_with(prefix))
}

impl GptConfig {
    /// All trained tensors. Weights of [`Self::is_input_first`] are [inputs, outputs].
    pub fn tensors(&self) -> Vec<Expected> {
        collect(GPT_PREFIX, |scope| {
            self.fill_embeddings(scope);
            for at in 0..self.layers {
                self.fill_block(&mut scope.under(format!("gpt.h.{at}")));
            }
            scope.norm("gpt.ln_f", self.width);
            scope.norm("final_norm", self.width);
            scope.layer("text_head", self.text_tokens, &[self.width]);
            scope.layer("mel_head", self.audio_tokens, &[self.width]);
            self.fill_conditioning_encoder(scope);
            self.fill_perceiver(scope);
        })
    }

    /// Tests if a weight is stored as [inputs, outputs] (`Conv1D` of GPT-2).
    pub fn is_input_first(name: &str) -> bool {
        name.contains(".gpt.h.") && name.ends_with(".weight") && !name.contains(".ln_")
    }

    /// The largest number of text positions, start and stop included.
    pub fn text_positions(&self) -> i64 {
        self.max_text_tokens + 2
    }

    /// The largest number of code positions, start and stop included.
    pub fn audio_positions(&self) -> i64 {
        self.max_audio_tokens + 3
    }

    /// The largest number of generated codes.
    pub fn max_generated_tokens(&self) -> i64 {
        self.max_audio_tokens - 3
    }

    /// Channels inside the gated feed-forward layer of the perceiver.
    pub fn perceiver_inner_width(&self) -> i64 {
        self.width * 4 * 2 / 3
    }

    fn fill_embeddings(&self, scope: &mut Scope) {
        let width = self.width;
        scope.add("text_embedding.weight", &[self.text_tokens, width]);
        scope.add("mel_embedding.weight", &[self.audio_tokens, width]);
        scope.add("text_pos_embedding.emb.weight", &[self.text_positions(), width]);
        scope.add("mel_pos_embedding.emb.weight", &[self.audio_positions(), width]);
    }

    fn fill_block(&self, block: &mut Scope) {
        let width = self.width;
        for (name, inputs, outputs) in [
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width),
            ("mlp.c_proj", 4 * width, width),
        ] {
            block.add(&format!("{name}.weight"), &[inputs, outputs]);
            block.add(&format!("{name}.bias"), &[outputs]);
        }
        block.norm("ln_1", width);
        block.norm("ln_2", width);
    }

    fn fill_conditioning_encoder(&self, scope: &mut Scope) {
        let width = self.width;
        scope.layer("conditioning_encoder.init", width, &[self.mels, 1]);
        for at in 0..self.conditioning_layers {
            let mut block = scope.under(format!("conditioning_encoder.attn.{at}"));
            block.norm("norm", width);
            block.layer("qkv", 3 * width, &[width, 1]);
            block.layer("proj_out", width, &[width, 1]);
        }
    }

    fn fill_perceiver(&self, scope: &mut Scope) {
        let (width, inner) = (self.width, self.perceiver_inner_width());
        let heads = self.perceiver_heads * self.perceiver_head_width;
        scope.add("conditioning_perceiver.latents", &[self.latents, width]);
        for at in 0..self.perceiver_layers {
            let mut layer = scope.under(format!("conditioning_perceiver.layers.{at}"));
            layer.add("0.to_q.weight", &[heads, width]);
            layer.add("0.to_kv.weight", &[2 * heads, width]);
            layer.add("0.to_out.weight", &[width, heads]);
            layer.layer("1.0", 2 * inner, &[width]);
            layer.layer("1.2", width, &[inner]);
        }
        scope.add("conditioning_perceiver.norm.gamma", &[width]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::XttsConfig;
    use super::*;

    #[test]
    fn the_published_gpt_has_as_many_parameters_as_the_original_counts() {
        let tensors = XttsConfig::published().gpt.tensors();
        let count = |prefix: &str| -> i64 {
            let named = tensors.iter().filter(|(name, _)| name.starts_with(prefix));
            named.map(|(_, shape)| shape.iter().product::<i64>()).sum()
        };
        assert_eq!(count("gpt."), 441_018_563);
        assert_eq!(count("gpt.gpt."), 377_888_768);
        assert_eq!(count("gpt.conditioning_encoder."), 25_285_632);
        assert_eq!(count("gpt.conditioning_perceiver."), 21_014_184);
        assert_eq!(count("gpt.final_norm."), 2_048);
    }

    #[test]
    fn only_matrices_of_the_blocks_are_stored_input_first() {
        let tensors = XttsConfig::published().gpt.tensors();
        let found = tensors.iter().filter(|(name, _)| GptConfig::is_input_first(name));
        let found: Vec<_> =
            found.take(2).map(|(name, shape)| (name.as_str(), &shape[..])).collect();
        let expected: [(&str, &[i64]); 2] = [
            ("gpt.gpt.h.0.attn.c_attn.weight", &[1024, 3072]),
            ("gpt.gpt.h.0.attn.c_proj.weight", &[1024, 1024]),
        ];
        assert_eq!(found, expected);
        let count = tensors.iter().filter(|(name, _)| GptConfig::is_input_first(name)).count();
        assert_eq!(count, 30 * 4);
    }

    #[test]
    fn copies_for_decoding_are_no_tensors_of_the_model() {
        assert!(is_duplicate("gpt.gpt.wte.weight"));
        assert!(is_duplicate("gpt.gpt_inference.transformer.h.0.ln_1.weight"));
        let tensors = XttsConfig::published().gpt.tensors();
        assert!(!tensors.iter().any(|(name, _)| is_duplicate(name)));
    }
}
