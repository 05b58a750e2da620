//! `command`: the user's own programs, once or for every item.
//!
//! The program runs in a private folder with a clean environment. It gets the declared inputs, as
//! files or as words of its command line, and writes the declared outputs.

pub(crate) mod answers;
pub(crate) mod artifact;
pub(crate) mod direct;
mod folder;
pub(crate) mod gathered;
pub(crate) mod inputs;
mod items;
pub mod kinds;
pub mod line;
mod once;
pub(crate) mod private;
pub(crate) mod room;
pub mod run;
pub(crate) mod stage;
pub(crate) mod tail;
pub mod template;

pub use stage::stages;
