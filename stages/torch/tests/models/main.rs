//! Models against their reference implementations, and against themselves: changes that must not affect
//! their results.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod dual_ar;
mod fixtures;
mod mel_rvq;
mod vits;
