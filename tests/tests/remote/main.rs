//! The remote store, with the program: a machine is a folder of its own here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod hostile;
mod machines;
mod places;
mod processes;
mod repair;
mod sharing;
mod store;
mod trainings;
mod upkeep;
mod verdicts;
