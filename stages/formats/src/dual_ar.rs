//! What the weights of a Fish Speech text model are called and how large they are, from the
//! configuration that lies beside them; and what published files hold besides.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::FormatError;

/// The fields of `config.json` that decide about shapes. Absent ones have the values that the
/// original loader gives them.
#[derive(Clone, Debug, Deserialize)]
struct Config {
    model_type: String,
    #[serde(default = "vocab_size")]
    vocab_size: usize,
    #[serde(default = "n_layer")]
    n_layer: usize,
    #[serde(default = "n_head")]
    n_head: usize,
    #[serde(default = "dim")]
    dim: usize,
    intermediate_size: Option<i64>,
    n_local_heads: Option<i64>,
    head_dim: Option<usize>,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_qkv_bias: bool,
    #[serde(default)]
    attention_o_bias: bool,
    #[serde(default)]
    attention_qk_norm: bool,
    #[serde(default = "codebook_size")]
    codebook_size: usize,
    #[serde(default = "codebooks")]
    num_codebooks: usize,
    #[serde(default = "fast_layers")]
    n_fast_layer: usize,
    fast_dim: Option<usize>,
    fast_n_head: Option<usize>,
    fast_n_local_heads: Option<i64>,
    fast_head_dim: Option<usize>,
    fast_intermediate_size: Option<i64>,
    fast_attention_qkv_bias: Option<bool>,
    fast_attention_qk_norm: Option<bool>,
    fast_attention_o_bias: Option<bool>,
}

fn vocab_size() -> usize {
    32_000
}

fn n_layer() -> usize {
    32
}

fn n_head() -> usize {
    32
}

fn dim() -> usize {
    4096
}

fn yes() -> bool {
    true
}

fn codebook_size() -> usize {
    160
}

fn codebooks() -> usize {
    4
}

fn fast_layers() -> usize {
    4
}

/// The largest number that a configuration may have; beyond it shapes are nonsense.
const LARGEST: usize = 1 << 24;
const MOST_LAYERS: usize = 1 << 12;

/// The sizes of a stack of layers.
struct Stack {
    prefix: &'static str,
    layers: usize,
    dim: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    inner: usize,
    qkv_bias: bool,
    o_bias: bool,
    qk_norm: bool,
}

pub type Shapes = BTreeMap<String, Vec<usize>>;

/// Names and shapes of all weights that a `config.json` asks for.
pub fn expected(config: &[u8]) -> Result<Shapes, FormatError> {
    let damaged = |message: String| FormatError::damaged("config.json", message);
    let config: Config =
        serde_json::from_slice(config).map_err(|error| damaged(error.to_string()))?;
    if config.model_type != "dual_ar" {
        return Err(damaged(format!("its model is a `{}`, not a `dual_ar`", config.model_type)));
    }
    let (slow, fast) = (config.slow(), config.fast());
    for stack in [&slow, &fast] {
        let sizes = [stack.dim, stack.heads, stack.kv_heads, stack.head_dim, stack.inner];
        if stack.layers > MOST_LAYERS || sizes.iter().any(|size| *size == 0 || *size > LARGEST) {
            return Err(damaged("its sizes are those of no model".to_owned()));
        }
    }
    let rows = config.codebook_size.checked_mul(config.num_codebooks);
    let rows = rows.filter(|rows| *rows <= LARGEST && config.vocab_size <= LARGEST);
    let rows = rows.ok_or_else(|| damaged("its codebooks are too large".to_owned()))?;
    let mut shapes = Shapes::new();
    let mut add = |name: &str, shape: &[usize]| {
        shapes.insert(name.to_owned(), shape.to_vec());
    };
    add("embeddings.weight", &[config.vocab_size, slow.dim]);
    add("codebook_embeddings.weight", &[rows, slow.dim]);
    add("norm.weight", &[slow.dim]);
    if !config.tie_word_embeddings {
        add("output.weight", &[config.vocab_size, slow.dim]);
    }
    if fast.dim != slow.dim {
        add("fast_project_in.weight", &[fast.dim, slow.dim]);
        add("fast_project_in.bias", &[fast.dim]);
    }
    add("fast_embeddings.weight", &[config.codebook_size, fast.dim]);
    add("fast_norm.weight", &[fast.dim]);
    add("fast_output.weight", &[config.codebook_size, fast.dim]);
    slow.add(&mut shapes);
    fast.add(&mut shapes);
    Ok(shapes)
}

/// The original loader takes both nothing and -1 for "not said".
fn said(number: Option<i64>) -> Option<usize> {
    number.and_then(|number| usize::try_from(number).ok())
}

impl Config {
    fn slow(&self) -> Stack {
        let rounded = (8 * self.dim.min(LARGEST) / 3).next_multiple_of(256);
        Stack {
            prefix: "layers",
            layers: self.n_layer,
            dim: self.dim,
            heads: self.n_head,
            kv_heads: said(self.n_local_heads).unwrap_or(self.n_head),
            head_dim: self.head_dim.unwrap_or(64),
            inner: said(self.intermediate_size).unwrap_or(rounded),
            qkv_bias: self.attention_qkv_bias,
            o_bias: self.attention_o_bias,
            qk_norm: self.attention_qk_norm,
        }
    }

    fn fast(&self) -> Stack {
        let slow = self.slow();
        Stack {
            prefix: "fast_layers",
            layers: self.n_fast_layer,
            dim: self.fast_dim.unwrap_or(slow.dim),
            heads: self.fast_n_head.unwrap_or(slow.heads),
            kv_heads: said(self.fast_n_local_heads).unwrap_or(slow.kv_heads),
            head_dim: self.fast_head_dim.unwrap_or(slow.head_dim),
            inner: said(self.fast_intermediate_size).unwrap_or(slow.inner),
            qkv_bias: self.fast_attention_qkv_bias.unwrap_or(slow.qkv_bias),
            o_bias: self.fast_attention_o_bias.unwrap_or(slow.o_bias),
            qk_norm: self.fast_attention_qk_norm.unwrap_or(slow.qk_norm),
        }
    }
}

impl Stack {
    fn add(&self, shapes: &mut Shapes) {
        let rows = (self.heads + 2 * self.kv_heads).saturating_mul(self.head_dim);
        let wide = self.heads.saturating_mul(self.head_dim);
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                shapes.insert(format!("{}.{layer}.{name}", self.prefix), shape.to_vec());
            };
            add("attention.wqkv.weight", &[rows, self.dim]);
            add("attention.wo.weight", &[self.dim, wide]);
            if self.qkv_bias {
                add("attention.wqkv.bias", &[rows]);
            }
            if self.o_bias {
                add("attention.wo.bias", &[self.dim]);
            }
            if self.qk_norm {
                add("attention.q_norm.weight", &[self.head_dim]);
                add("attention.k_norm.weight", &[self.head_dim]);
            }
            add("feed_forward.w1.weight", &[self.inner, self.dim]);
            add("feed_forward.w3.weight", &[self.inner, self.dim]);
            add("feed_forward.w2.weight", &[self.dim, self.inner]);
            add("ffn_norm.weight", &[self.dim]);
            add("attention_norm.weight", &[self.dim]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const S1_MINI: &str = r#"{
        "model_type": "dual_ar", "vocab_size": 155776, "n_layer": 28, "n_head": 16, "dim": 1024,
        "intermediate_size": 3072, "n_local_heads": 8, "head_dim": 128, "codebook_size": 4096,
        "num_codebooks": 10, "n_fast_layer": 4, "fast_dim": 1024, "fast_n_head": 16,
        "fast_n_local_heads": 8, "fast_head_dim": 64, "fast_intermediate_size": 3072,
        "attention_qk_norm": true, "fast_attention_qk_norm": false, "tie_word_embeddings": false,
        "attention_qkv_bias": false, "attention_o_bias": false, "rope_base": 1000000
    }"#;

    #[test]
    fn the_published_model_has_its_number_of_parameters() {
        let shapes = expected(S1_MINI.as_bytes()).unwrap();
        let count: usize = shapes.values().map(|shape| shape.iter().product::<usize>()).sum();
        assert_eq!(count, 860_169_216);
        assert_eq!(shapes["layers.27.attention.wqkv.weight"], [4096, 1024]);
        assert!(!shapes.contains_key("fast_layers.0.attention.q_norm.weight"));
    }

    #[test]
    fn what_is_not_said_follows_the_slow_part() {
        let config = r#"{"model_type": "dual_ar", "dim": 96, "n_head": 4, "n_layer": 1,
            "n_fast_layer": 1, "fast_dim": 32, "n_local_heads": -1, "attention_qkv_bias": true}"#;
        let shapes = expected(config.as_bytes()).unwrap();
        assert_eq!(shapes["layers.0.attention.wqkv.weight"], [768, 96]);
        assert_eq!(shapes["layers.0.feed_forward.w1.weight"], [256, 96]);
        assert_eq!(shapes["fast_layers.0.attention.wqkv.bias"], [768]);
        assert_eq!(shapes["fast_project_in.weight"], [32, 96]);
        assert!(!shapes.contains_key("output.weight"), "tied when nothing is said");
    }

    #[test]
    fn configurations_of_something_else_are_refused() {
        for config in [
            "",
            "{}",
            r#"{"model_type": "naive"}"#,
            r#"{"model_type": "dual_ar", "n_layer": 99999999999}"#,
            r#"{"model_type": "dual_ar", "dim": 18446744073709551615}"#,
            r#"{"model_type": "dual_ar", "n_head": 0}"#,
            r#"{"model_type": "dual_ar", "codebook_size": 18446744073709551615}"#,
        ] {
            assert!(expected(config.as_bytes()).is_err(), "{config}");
        }
    }
}
