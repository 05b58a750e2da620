//! Training of the model families with the real programs: stopped and killed at any moment,
//! continued on other data, on several devices, refused if it would fail; and synthesis.

mod codec;
mod continuing;
mod project;
mod refusals;
mod resume;
