//! Configurations of new models, from the parameters of `fish.init`.

use serde_json::{Value, json};
use stage_core::{ParameterValue, Parameters, StageError};

use super::DualArConfig;
use stage_formats::FormatError;

/// Embedding tables have a multiple of this number of rows.
const ROWS: i64 = 8;
/// The vocabulary of the published model; it never uses most of it.
const PUBLISHED_WORDS: i64 = 155_776;
/// Codebooks of the published codec, and entries of each.
pub const PUBLISHED_CODES: (i64, i64) = (10, 4096);

/// Tests if the sizes start from those of the published model.
pub fn is_s1_mini(parameters: &Parameters) -> Result<bool, StageError> {
    Ok(parameters.text("shape")? == "s1-mini")
}

/// The configuration in the format of the original project, for codes of `(codebooks, entries)` and
/// a tokenizer with this number of words.
pub fn published(
    parameters: &Parameters,
    codes: (i64, i64),
    words: i64,
) -> Result<Value, StageError> {
    let is_s1_mini = is_s1_mini(parameters)?;
    let preset = |small: i64, large: i64| if is_s1_mini { large } else { small };
    let dim = parameters.integer_or("dim", preset(128, 1024))?;
    let heads = parameters.integer_or("heads", preset(4, 16))?;
    let own_width = rounded_up(dim / heads.max(1), 2);
    Ok(json!({
        "model_type": "dual_ar",
        "vocab_size": rounded_up(words + codes.1, ROWS).max(preset(0, PUBLISHED_WORDS)),
        "n_layer": parameters.integer_or("layers", preset(3, 28))?,
        "dim": dim,
        "n_head": heads,
        "n_local_heads": parameters.integer_or("key_heads", preset(2, 8))?,
        "head_dim": parameters.integer_or("head_dim", preset(own_width, 128))?,
        "intermediate_size": parameters.integer_or("intermediate", 3 * dim)?,
        "attention_qk_norm": true,
        "attention_qkv_bias": false,
        "attention_o_bias": false,
        "rope_base": 1_000_000,
        "norm_eps": 1e-6,
        "max_seq_len": parameters.integer_or("max_length", preset(1024, 8192))?,
        "dropout": 0.0,
        "tie_word_embeddings": false,
        "codebook_size": codes.1,
        "num_codebooks": codes.0,
        "n_fast_layer": parameters.integer_or("fast_layers", preset(1, 4))?,
        "fast_head_dim": preset(own_width, 64),
        "fast_attention_qk_norm": false,
        "scale_codebook_embeddings": true,
        "initializer_range": 0.03125,
        "is_reward_model": false,
    }))
}

impl DualArConfig {
    /// The published small model of 860 million parameters.
    pub fn s1_mini() -> Result<DualArConfig, FormatError> {
        let shape = ("shape".to_owned(), ParameterValue::Text("s1-mini".to_owned()));
        let parameters = Parameters([shape].into());
        let published = published(&parameters, PUBLISHED_CODES, 0)
            .map_err(|error| crate::sizes::refused(error.to_string()))?;
        DualArConfig::parse(published.to_string().as_bytes())
    }
}

fn rounded_up(number: i64, step: i64) -> i64 {
    (number + step - 1) / step * step
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_preset_is_the_published_model() {
        let config = DualArConfig::s1_mini().unwrap();
        assert_eq!(config.parameters(), 860_169_216);
        assert_eq!((config.fast.head_dim, config.max_seq_len), (64, 8192));
    }
}
