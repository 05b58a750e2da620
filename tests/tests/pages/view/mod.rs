//! The display of a run on a terminal, through an emulator; and pictures of it.

mod drawn;
mod ended;
mod long_run;
mod pictures;
