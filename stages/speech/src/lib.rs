//! placeholder
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod npy;
pub mod report;
pub mod speaker;
pub mod text;
