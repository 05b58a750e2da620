//! `review`: the page on which a person corrects clips, its table, and the run behind it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

mod keyboard;
mod requests;
mod server;
mod speech;
mod tables;
