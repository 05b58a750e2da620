//! Models: published files of weights as artifacts.

mod family;
mod layout;
mod stage;

pub use stage::stages;
