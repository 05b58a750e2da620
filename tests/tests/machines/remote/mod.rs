//! The remote store, with the program: a machine is a folder of its own here.

mod hostile;
mod lost;
pub mod machines;
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
