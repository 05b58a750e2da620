//! Training of both families of models with the real programs: stopped and killed at any moment, gone on
//! with on other data, on several devices, refused where it would be in vain; and speaking.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod codec;
mod continuing;
mod project;
mod refusals;
mod resume;
