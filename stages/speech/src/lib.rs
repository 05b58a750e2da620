//! placeholder

pub mod audio;
