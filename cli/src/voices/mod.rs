//! Commands for people who listen: voices, listening tests and corrections.

pub mod local;
pub mod rate;
pub mod review;
pub mod say;
pub mod serve;
pub mod voice;
