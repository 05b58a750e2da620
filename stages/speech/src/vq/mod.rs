//! Tokens from other tools: checks that need no codec.

pub mod adopt;
mod stage;

pub use stage::stages;
