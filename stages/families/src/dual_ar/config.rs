//! The `config.json` of the text model of Fish Speech: its sizes, with the defaults of the original
//! loader, and the names and shapes of all weights.

use serde::Deserialize;

use crate::scope::parameters;
use crate::sizes::{LARGEST, in_range, refused};
use stage_formats::FormatError;
use stage_formats::shapes::Expected;

/// A checked and complete configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct DualArConfig {
    pub vocab_size: i64,
    pub codebook_size: i64,
    pub num_codebooks: i64,
    pub max_seq_len: i64,
    pub slow: Stack,
    pub fast: Stack,
    pub rope_base: f64,
    pub norm_eps: f64,
    pub tie_word_embeddings: bool,
    pub scale_codebook_embeddings: bool,
    /// The fast layers start from the normed hidden state instead of the raw one.
    pub norm_fastlayer_input: bool,
    pub initializer_range: f64,
    /// Dropout of attention weights; the published models have none.
    pub dropout: f64,
}

/// The sizes of a stack of equal blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stack {
    pub layers: i64,
    pub dim: i64,
    pub heads: i64,
    /// Heads of keys and values.
    pub kv_heads: i64,
    pub head_dim: i64,
    pub intermediate_size: i64,
    pub qk_norm: bool,
    pub qkv_bias: bool,
    pub o_bias: bool,
}

/// The file as written. Settings that training overrides or no longer uses are not listed: unknown
/// fields are ignored, since releases differ in them.
#[derive(Debug, Deserialize)]
struct PublishedConfig {
    model_type: String,
    vocab_size: i64,
    n_layer: i64,
    n_head: i64,
    dim: i64,
    intermediate_size: Option<i64>,
    n_local_heads: Option<i64>,
    #[serde(default = "default_head_dim")]
    head_dim: Option<i64>,
    rope_base: Option<f64>,
    norm_eps: Option<f64>,
    max_seq_len: Option<i64>,
    dropout: Option<f64>,
    tie_word_embeddings: Option<bool>,
    attention_qkv_bias: Option<bool>,
    attention_o_bias: Option<bool>,
    attention_qk_norm: Option<bool>,
    codebook_size: i64,
    num_codebooks: i64,
    initializer_range: Option<f64>,
    is_reward_model: Option<bool>,
    scale_codebook_embeddings: Option<bool>,
    norm_fastlayer_input: Option<bool>,
    n_fast_layer: Option<i64>,
    fast_dim: Option<i64>,
    fast_n_head: Option<i64>,
    fast_n_local_heads: Option<i64>,
    fast_head_dim: Option<i64>,
    fast_intermediate_size: Option<i64>,
    fast_attention_qkv_bias: Option<bool>,
    fast_attention_qk_norm: Option<bool>,
    fast_attention_o_bias: Option<bool>,
}

/// All fields of the original.
pub(super) const FIELDS: &str = "\
    model_type vocab_size n_layer n_head dim intermediate_size n_local_heads head_dim rope_base \
    norm_eps max_seq_len dropout tie_word_embeddings attention_qkv_bias attention_o_bias \
    attention_qk_norm codebook_size num_codebooks use_gradient_checkpointing initializer_range \
    is_reward_model scale_codebook_embeddings n_fast_layer fast_dim fast_n_head \
    fast_n_local_heads fast_head_dim fast_intermediate_size fast_attention_qkv_bias \
    fast_attention_qk_norm fast_attention_o_bias norm_fastlayer_input";

/// The default of an absent field; if it is null, the width is divided among the heads.
fn default_head_dim() -> Option<i64> {
    Some(64)
}

impl DualArConfig {
    pub fn parse(json: &[u8]) -> Result<DualArConfig, FormatError> {
        let published: PublishedConfig =
            serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        DualArConfig::resolve(published)
    }

    fn resolve(file: PublishedConfig) -> Result<DualArConfig, FormatError> {
        if file.model_type != "dual_ar" {
            return Err(refused(format!(
                "`model_type` is `{}`, expected `dual_ar`",
                file.model_type
            )));
        }
        if file.is_reward_model == Some(true) {
            return Err(refused("it is a reward model, which does not make speech"));
        }
        let slow = file.slow()?;
        let config = DualArConfig {
            vocab_size: file.vocab_size,
            codebook_size: file.codebook_size,
            num_codebooks: file.num_codebooks,
            max_seq_len: file.max_seq_len.unwrap_or(2048),
            slow,
            fast: file.fast(&slow),
            rope_base: file.rope_base.unwrap_or(10_000.0),
            norm_eps: file.norm_eps.unwrap_or(1e-5),
            tie_word_embeddings: file.tie_word_embeddings.unwrap_or(true),
            scale_codebook_embeddings: file.scale_codebook_embeddings.unwrap_or(false),
            norm_fastlayer_input: file.norm_fastlayer_input.unwrap_or(false),
            initializer_range: file.initializer_range.unwrap_or(0.02),
            dropout: file.dropout.unwrap_or(0.0),
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), FormatError> {
        for (name, size) in [
            ("vocab_size", self.vocab_size),
            ("codebook_size", self.codebook_size),
            ("max_seq_len", self.max_seq_len),
        ] {
            in_range(name, size, 1, LARGEST)?;
        }
        in_range("num_codebooks", self.num_codebooks, 1, 256)?;
        self.slow.check("")?;
        self.fast.check("fast_")?;
        for (name, value) in [
            ("rope_base", self.rope_base),
            ("norm_eps", self.norm_eps),
            ("initializer_range", self.initializer_range),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(refused(format!("`{name}` is {value}, expected more than 0")));
            }
        }
        match (0.0..1.0).contains(&self.dropout) {
            true => Ok(()),
            false => Err(refused(format!("`dropout` is {}, expected 0 to 1", self.dropout))),
        }
    }

    /// Every tensor of a model with this configuration, in the order of the layers.
    pub fn tensors(&self) -> Vec<Expected> {
        let mut tensors: Vec<Expected> = Vec::new();
        let mut add = |name: &str, shape: &[i64]| tensors.push((name.to_owned(), shape.to_vec()));
        let (dim, fast_dim) = (self.slow.dim, self.fast.dim);
        add("embeddings.weight", &[self.vocab_size, dim]);
        add("codebook_embeddings.weight", &[self.codebook_size * self.num_codebooks, dim]);
        self.slow.tensors("layers", &mut add);
        add("norm.weight", &[dim]);
        if !self.tie_word_embeddings {
            add("output.weight", &[self.vocab_size, dim]);
        }
        if self.projects() {
            add("fast_project_in.weight", &[fast_dim, dim]);
            add("fast_project_in.bias", &[fast_dim]);
        }
        add("fast_embeddings.weight", &[self.codebook_size, fast_dim]);
        self.fast.tensors("fast_layers", &mut add);
        add("fast_norm.weight", &[fast_dim]);
        add("fast_output.weight", &[self.codebook_size, fast_dim]);
        tensors
    }

    pub fn parameters(&self) -> i64 {
        parameters(&self.tensors())
    }

    /// Tests if there is a projection between the slow and the fast layers.
    pub fn projects(&self) -> bool {
        self.slow.dim != self.fast.dim
    }
}

impl PublishedConfig {
    fn slow(&self) -> Result<Stack, FormatError> {
        in_range("dim", self.dim, 1, LARGEST)?;
        in_range("n_head", self.n_head, 1, LARGEST)?;
        // Two thirds of four times the width, rounded up to a multiple of 256.
        let inner = (8 * self.dim / 3 + 255) / 256 * 256;
        Ok(Stack {
            layers: self.n_layer,
            dim: self.dim,
            heads: self.n_head,
            kv_heads: given(self.n_local_heads).unwrap_or(self.n_head),
            head_dim: self.head_dim.unwrap_or(self.dim / self.n_head),
            intermediate_size: self.intermediate_size.unwrap_or(inner),
            qk_norm: self.attention_qk_norm.unwrap_or(false),
            qkv_bias: self.attention_qkv_bias.unwrap_or(false),
            o_bias: self.attention_o_bias.unwrap_or(false),
        })
    }

    fn fast(&self, slow: &Stack) -> Stack {
        Stack {
            layers: self.n_fast_layer.unwrap_or(4),
            dim: given(self.fast_dim).unwrap_or(slow.dim),
            heads: given(self.fast_n_head).unwrap_or(slow.heads),
            kv_heads: given(self.fast_n_local_heads).unwrap_or(slow.kv_heads),
            head_dim: given(self.fast_head_dim).unwrap_or(slow.head_dim),
            intermediate_size: given(self.fast_intermediate_size).unwrap_or(slow.intermediate_size),
            qk_norm: self.fast_attention_qk_norm.unwrap_or(slow.qk_norm),
            qkv_bias: self.fast_attention_qkv_bias.unwrap_or(slow.qkv_bias),
            o_bias: self.fast_attention_o_bias.unwrap_or(slow.o_bias),
        }
    }
}

impl Stack {
    fn check(&self, prefix: &str) -> Result<(), FormatError> {
        let Stack { layers, dim, heads, kv_heads, head_dim, intermediate_size, .. } = *self;
        let sizes = [("dim", dim), ("n_head", heads), ("n_local_heads", kv_heads)];
        let inner = [("head_dim", head_dim), ("intermediate_size", intermediate_size)];
        for (name, size) in sizes.into_iter().chain(inner) {
            in_range(&format!("{prefix}{name}"), size, 1, LARGEST)?;
        }
        in_range(&format!("number of {prefix}layers"), layers, 1, 4096)?;
        if heads % kv_heads != 0 {
            return Err(refused(format!(
                "{heads} {prefix}heads cannot share {kv_heads} heads of keys and values evenly"
            )));
        }
        match head_dim % 2 {
            0 => Ok(()),
            _ => Err(refused(format!("`{prefix}head_dim` is {head_dim}, expected an even number"))),
        }
    }

    /// The rows of the fused projection: queries, keys, values.
    pub fn qkv(&self) -> i64 {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    fn tensors(&self, stack: &str, add: &mut impl FnMut(&str, &[i64])) {
        let Stack { dim, heads, head_dim, intermediate_size, .. } = *self;
        for layer in 0..self.layers {
            let mut add =
                |name: &str, shape: &[i64]| add(&format!("{stack}.{layer}.{name}"), shape);
            add("attention.wqkv.weight", &[self.qkv(), dim]);
            if self.qkv_bias {
                add("attention.wqkv.bias", &[self.qkv()]);
            }
            add("attention.wo.weight", &[dim, heads * head_dim]);
            if self.o_bias {
                add("attention.wo.bias", &[dim]);
            }
            if self.qk_norm {
                add("attention.q_norm.weight", &[head_dim]);
                add("attention.k_norm.weight", &[head_dim]);
            }
            add("feed_forward.w1.weight", &[intermediate_size, dim]);
            add("feed_forward.w2.weight", &[dim, intermediate_size]);
            add("feed_forward.w3.weight", &[intermediate_size, dim]);
            add("ffn_norm.weight", &[dim]);
            add("attention_norm.weight", &[dim]);
        }
    }
}

/// The original treats zero and negative values as "not given".
fn given(size: Option<i64>) -> Option<i64> {
    size.filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The values of the released small model.
    const S1_MINI: &str = r#"{
        "model_type": "dual_ar", "vocab_size": 155776, "n_layer": 28, "dim": 1024, "n_head": 16,
        "n_local_heads": 8, "head_dim": 128, "intermediate_size": 3072, "attention_qk_norm": true,
        "attention_qkv_bias": false, "attention_o_bias": false, "rope_base": 1000000,
        "norm_eps": 1e-6, "max_seq_len": 8192, "dropout": 0.0, "tie_word_embeddings": false,
        "codebook_size": 4096, "num_codebooks": 10, "n_fast_layer": 4, "fast_dim": 1024,
        "fast_n_head": 16, "fast_n_local_heads": 8, "fast_head_dim": 64,
        "fast_intermediate_size": 3072, "fast_attention_qk_norm": false,
        "fast_attention_qkv_bias": false, "fast_attention_o_bias": false,
        "scale_codebook_embeddings": true, "use_gradient_checkpointing": true,
        "initializer_range": 0.03125, "is_reward_model": false, "share_codebook_embeddings": true
    }"#;

    const SMALL: &str = r#"{"model_type": "dual_ar", "vocab_size": 100, "n_layer": 1,
        "dim": 300, "n_head": 4, "codebook_size": 8, "num_codebooks": 2"#;

    fn small(more: &str) -> Result<DualArConfig, FormatError> {
        DualArConfig::parse(format!("{SMALL}{more}}}").as_bytes())
    }

    #[test]
    fn the_released_model_has_its_published_size() {
        let config = DualArConfig::parse(S1_MINI.as_bytes()).unwrap();
        assert_eq!(config.parameters(), 860_169_216);
        let tensors = config.tensors();
        let shape = |name: &str| tensors.iter().find(|(own, _)| own == name).unwrap().1.clone();
        assert_eq!(shape("layers.27.attention.wqkv.weight"), [4096, 1024]);
        assert_eq!(shape("fast_layers.3.attention.wo.weight"), [1024, 1024]);
        assert!(!config.projects());
    }

    #[test]
    fn absent_fields_have_the_defaults_of_the_original_loader() {
        let config = small("").unwrap();
        let stack = Stack {
            layers: 1,
            dim: 300,
            heads: 4,
            kv_heads: 4,
            head_dim: 64,
            intermediate_size: 1024,
            qk_norm: false,
            qkv_bias: false,
            o_bias: false,
        };
        assert_eq!((config.slow, config.fast), (stack, Stack { layers: 4, ..stack }));
        assert_eq!((config.rope_base, config.norm_eps), (1e4, 1e-5));
        assert_eq!((config.tie_word_embeddings, config.scale_codebook_embeddings), (true, false));
        let odd = small(r#", "head_dim": null"#).unwrap_err().to_string();
        assert!(odd.contains("`head_dim` is 75"), "{odd}");
    }

    #[test]
    fn fast_fields_fall_back_to_the_slow_ones() {
        let more = r#", "head_dim": 32, "attention_qk_norm": true, "n_local_heads": 2,
            "fast_dim": 64, "fast_n_local_heads": null"#;
        let fast = small(more).unwrap().fast;
        assert_eq!((fast.dim, fast.head_dim, fast.kv_heads, fast.qk_norm), (64, 32, 2, true));
    }

    #[test]
    fn what_cannot_be_a_model_is_refused_with_the_field() {
        for (more, told) in [
            (r#", "head_dim": 33"#, "`head_dim` is 33, expected an even number"),
            (r#", "n_local_heads": 3"#, "4 heads cannot share 3 heads"),
            (r#", "fast_dim": 99999999999"#, "`fast_dim` is 99999999999, expected 1 to"),
            (r#", "rope_base": 0"#, "`rope_base` is 0, expected more than 0"),
            (r#", "is_reward_model": true"#, "it is a reward model"),
            (r#", "n_fast_layer": -1"#, "`number of fast_layers` is -1"),
            (r#", "n_fast_layer": 99999999999"#, "`number of fast_layers` is 99999999999"),
            (r#", "intermediate_size": 0"#, "`intermediate_size` is 0, expected 1 to"),
        ] {
            let error = small(more).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        let error = DualArConfig::parse(br#"{"model_type": "naive"}"#).unwrap_err().to_string();
        assert!(error.contains("missing field"), "{error}");
    }
}
