//! A model small enough for tests to check all of it.
#![allow(clippy::unwrap_used)]

use stage_formats::bpe::Bpe;

use super::vocabulary::{Vocabulary, byte_level};
use crate::dual_ar::DualArConfig;
use crate::sound::codec::Codes;

/// 3 codebooks of 24 entries, 296 rows for 295 tokens.
pub fn config() -> DualArConfig {
    DualArConfig::parse(
        br#"{"model_type": "dual_ar", "vocab_size": 296, "n_layer": 2, "dim": 32, "n_head": 2,
        "n_local_heads": 1, "head_dim": 16, "intermediate_size": 48, "attention_qk_norm": true,
        "codebook_size": 24, "num_codebooks": 3, "n_fast_layer": 1, "max_seq_len": 128,
        "tie_word_embeddings": false, "scale_codebook_embeddings": true}"#,
    )
    .unwrap()
}

pub fn vocabulary() -> Vocabulary {
    let (ranks, marks) = byte_level(24, 0);
    Vocabulary::new(Bpe::read(ranks.as_bytes(), marks.as_bytes()).unwrap(), &config()).unwrap()
}

pub fn codes(rows: &[[u16; 2]]) -> Codes {
    Codes { codebooks: rows.len(), frames: 2, values: rows.concat() }
}
