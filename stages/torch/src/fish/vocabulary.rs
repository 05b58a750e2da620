//! The tokens of a text model: pieces of text, marks, and one for each entry of the semantic
//! codebook.

use serde_json::Value;
use stage_formats::artifact;

use crate::codec::Codes;
use crate::error::TorchError;

/// The marks that come before the semantic tokens, in the order of their numbers.
pub const MARKS: [&str; 15] = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|phoneme_start|>",
    "<|phoneme_end|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|text|>",
    "<|voice|>",
    "<|interleave|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio|>",
];

/// The token of an entry of the semantic codebook.
pub fn semantic_name(entry: i64) -> String {
    format!("<|semantic:{entry}|>")
}
