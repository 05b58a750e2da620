//! Statistics of measured sentences of candidates and a base: one number for each sentence and
//! measure, and intervals for their differences.
//!
//! All candidates speak the same sentences. Resampling draws whole sentences, the same for all
//! candidates, so that every difference compares the same sentences. Everything here is a function
//! of numbers and a seed.

pub mod aggregate;
pub mod bootstrap;
pub mod bradley_terry;
pub(crate) mod random;
pub mod simultaneous;
pub mod table;
