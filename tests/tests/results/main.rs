//! The results of runs: those of a change are those of a run from scratch, and only the affected work is
//! repeated.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod artifacts;
mod expanding;
mod exports;
mod incremental;
mod licences;
mod quarantine;
mod random_edits;
mod random_files;
mod recordings;
mod speech;
