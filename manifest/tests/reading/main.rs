//! From the text of a manifest to a pipeline, with every message on the way.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod built_in;
mod cases;
mod catalogue;
mod diagnostics;
mod documents;
mod executors;
mod hostile;
mod pipelines;
mod support;
mod surroundings;
mod sweeps;
