//! `report`: the page about a run, as text and in a real browser.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

mod browser;
mod compared;
mod page;
mod written;
