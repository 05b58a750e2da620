//! PyTorch files: those of PyTorch itself, our own, and hostile ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod hostile;
mod real;
mod support;
mod written;
