//! Statistics of measured sentences: what candidates and a base have said, one number for each
//! sentence and measure, and what follows from them with which certainty.
//!
//! All candidates speak the same sentences. Resampling draws whole sentences, for all candidates
//! together, so that a difference between two is of the same sentences in every draw. Everything
//! here is a function of numbers and a seed.

pub mod aggregate;
pub mod bootstrap;
pub mod bradley_terry;
pub(crate) mod random;
pub mod simultaneous;
pub mod table;
