//! Transcripts: one spelling for each pronunciation, numbers as words, and the check that a
//! tokenizer knows every character.

pub mod audit;
pub mod case;
mod characters;
mod clauses;
pub mod kinds;
pub mod lost_letters;
pub mod normalize;
pub mod number;
mod phonemise;
pub mod reader;
mod sentence_ends;
pub mod sentences;
mod split;
mod stage;
pub mod vocabulary;
pub(crate) mod written;

pub use stage::stages;
