//! `command`: the user's own programs, once or for every item.
//!
//! The program runs in a private folder with a clean environment. It gets the declared inputs, as
//! files or as words of its command line, and writes the declared outputs.

mod direct;
mod private;
mod room;
pub mod run;
mod stage;
mod tail;
pub mod template;

pub use stage::stages;
