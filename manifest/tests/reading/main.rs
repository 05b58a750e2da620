//! From the text of a manifest to a pipeline, with every message on the way.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod all_at_once;
mod built_in;
mod catalogue;
mod diagnostics;
mod documents;
mod executors;
mod expressions;
mod hostile;
mod pipelines;
mod support;
mod sweeps;
