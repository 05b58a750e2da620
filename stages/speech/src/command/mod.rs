//! `command`: a program of the user's own, once or for every item.
//!
//! The program runs in a private folder with a clean environment. It sees the inputs that were
//! declared, as files or as words of its command line, and gives the outputs that were declared.

mod room;
pub mod run;
mod stage;
pub mod template;

pub use stage::stages;
