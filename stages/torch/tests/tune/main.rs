//! Training of the text model with the real programs: stopped and killed at any moment, gone on
//! with on other data, on several devices, and refused where it would be in vain.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod project;
mod resume;
