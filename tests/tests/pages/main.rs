//! What a person looks at: the display of a run on a terminal, and pages in a real browser.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

mod rating;
mod report;
mod review;
mod view;
