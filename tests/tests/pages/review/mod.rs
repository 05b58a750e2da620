//! `review`: the page on which a person corrects clips, its table, and the run behind it.

mod keyboard;
mod requests;
mod server;
mod speech;
mod tables;
