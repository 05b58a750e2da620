//! The first steps of a new user: the templates, the README, the guides and the notebook, with the
//! real programs and models so small that everything is quick.

mod guides;
mod long;
mod models;
mod notebook;
mod readme;
mod recogniser;
mod recordings;
mod templates;
mod torchscript;
