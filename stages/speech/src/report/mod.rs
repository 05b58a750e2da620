//! Reports on what a pipeline has made.

pub mod summary;
