//! The texts of model families against their reference implementations: tokenizers, and numbers as words.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod numbers;
mod vits_tokenizer;
mod xtts_tokenizer;
