//! The program `throstle` for people and scripts: arguments, exit codes, outputs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod archives;
mod beginning;
mod escapes;
mod estimates;
mod hub;
mod killed;
mod leftovers;
mod lengths;
mod moved;
mod narrow;
mod odd_files;
mod reading;
mod reasons;
mod runs;
mod schedules;
mod signals;
mod small;
mod starved;
mod storage;
mod tables;
mod texts;
mod typing;
mod values;
