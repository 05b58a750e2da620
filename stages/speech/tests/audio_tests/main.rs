//! The audio functions from outside: one test names one rule.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod check;
mod compressed;
mod hostile;
mod resample;
mod support;
mod wav;
