//! `report`: the page about a run, as text and in a real browser.

mod browser;
mod compared;
mod page;
mod written;
