//! The display of a run on a terminal, through an emulator; and pictures of it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod drawn;
mod ended;
mod long_run;
mod pictures;
