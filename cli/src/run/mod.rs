//! Commands that do the work of a pipeline, and what stops or watches them.

pub mod command;
pub mod count_lines;
pub mod digits;
pub mod guard;
pub mod interrupt;
pub mod missing_gpus;
pub mod replay;
pub mod retry;
pub mod submit;
pub mod sweep;
pub mod text_chains;
pub mod watch;
pub mod work;
