//! The tensors of the GPT with its conditioning encoder and perceiver: names as in the published
//! checkpoint, and shapes, from the configuration alone.

use stage_formats::shapes::Expected;

use super::config::GptConfig;

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
        let mut list = List(Vec::new());
        self.list_embeddings(&mut list);
        (0..self.layers).for_each(|at| self.list_block(&mut list, &format!("gpt.h.{at}")));
        list.pair("gpt.ln_f", &[self.width]);
        list.pair("final_norm", &[self.width]);
        list.pair("text_head", &[self.text_tokens, self.width]);
        list.pair("mel_head", &[self.audio_tokens, self.width]);
        self.list_conditioning_encoder(&mut list);
        self.list_perceiver(&mut list);
        list.0
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

    fn list_embeddings(&self, list: &mut List) {
        let width = self.width;
        list.one("text_embedding.weight", &[self.text_tokens, width]);
        list.one("mel_embedding.weight", &[self.audio_tokens, width]);
        list.one("text_pos_embedding.emb.weight", &[self.text_positions(), width]);
        list.one("mel_pos_embedding.emb.weight", &[self.audio_positions(), width]);
    }

    fn list_block(&self, list: &mut List, block: &str) {
        let width = self.width;
        for (name, inputs, outputs) in [
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width),
            ("mlp.c_proj", 4 * width, width),
        ] {
            list.one(&format!("{block}.{name}.weight"), &[inputs, outputs]);
            list.one(&format!("{block}.{name}.bias"), &[outputs]);
        }
        list.pair(&format!("{block}.ln_1"), &[width]);
        list.pair(&format!("{block}.ln_2"), &[width]);
    }

    fn list_conditioning_encoder(&self, list: &mut List) {
        let width = self.width;
        list.pair("conditioning_encoder.init", &[width, self.mels, 1]);
        for at in 0..self.conditioning_layers {
            let block = format!("conditioning_encoder.attn.{at}");
            list.pair(&format!("{block}.norm"), &[width]);
            list.pair(&format!("{block}.qkv"), &[3 * width, width, 1]);
            list.pair(&format!("{block}.proj_out"), &[width, width, 1]);
        }
    }

    fn list_perceiver(&self, list: &mut List) {
        let (width, inner) = (self.width, self.perceiver_inner_width());
        let heads = self.perceiver_heads * self.perceiver_head_width;
        list.one("conditioning_perceiver.latents", &[self.latents, width]);
        for at in 0..self.perceiver_layers {
            let layer = format!("conditioning_perceiver.layers.{at}");
            list.one(&format!("{layer}.0.to_q.weight"), &[heads, width]);
            list.one(&format!("{layer}.0.to_kv.weight"), &[2 * heads, width]);
            list.one(&format!("{layer}.0.to_out.weight"), &[width, heads]);
            list.pair(&format!("{layer}.1.0"), &[2 * inner, width]);
            list.pair(&format!("{layer}.1.2"), &[width, inner]);
        }
        list.one("conditioning_perceiver.norm.gamma", &[width]);
    }
}

/// Collects names with the prefix of the GPT.
struct List(Vec<Expected>);

impl List {
    fn one(&mut self, name: &str, shape: &[i64]) {
        self.0.push((format!("{GPT_PREFIX}{name}"), shape.to_vec()));
    }

    /// A weight, and a bias of the size of its first axis.
    fn pair(&mut self, name: &str, shape: &[i64]) {
        self.one(&format!("{name}.weight"), shape);
        self.one(&format!("{name}.bias"), &shape[..1]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn the_published_gpt_has_as_many_parameters_as_the_original_counts() {
        let tensors = Config::published().gpt.tensors();
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
        let tensors = Config::published().gpt.tensors();
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
        let tensors = Config::published().gpt.tensors();
        assert!(!tensors.iter().any(|(name, _)| is_duplicate(name)));
    }
}
