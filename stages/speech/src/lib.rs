//! placeholder

pub mod audio;
pub mod corpus;
pub mod dataset;
pub mod npy;
pub mod speaker;
pub mod text;
