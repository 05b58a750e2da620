//! The remote store, with the program: a machine is a folder of its own here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod hostile;
mod lost;
mod machines;
mod places;
mod processes;
mod repair;
mod sharing;
mod stopped;
mod store;
mod trainings;
mod unreadable;
mod upkeep;
mod verdicts;
