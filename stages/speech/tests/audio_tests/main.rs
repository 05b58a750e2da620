//! Tests of the audio functions; each test is one rule.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod check;
mod compressed;
mod demo;
mod ffmpeg;
mod hostile;
mod joined;
mod loudness;
mod random;
mod resample;
mod stage;
mod support;
mod trim;
mod wav;
