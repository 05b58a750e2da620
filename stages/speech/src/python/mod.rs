//! `python`: the user's own Python functions, in processes that are kept for the run.
//!
//! The engine and the processes exchange JSON lines (module `messages`). The Python side is the package
//! `throstle`, which every process finds beside its script. A process is trusted like the script
//! itself; its answers are not.

mod declared;
mod failures;
mod inputs;
pub mod kinds;
mod messages;
mod process;
mod stage;
mod workers;

pub use stage::stages;
