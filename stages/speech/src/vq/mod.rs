//! Tokens that other tools have made: what can be known of them without the codec.

pub mod adopt;
mod stage;

pub use stage::stages;
