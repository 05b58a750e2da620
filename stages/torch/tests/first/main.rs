//! What somebody meets who comes to this for the first time: the templates, the README, the guides
//! and the notebook, with the real programs and models so small that nothing takes long.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod guides;
mod models;
mod notebook;
mod readme;
mod recordings;
mod templates;
