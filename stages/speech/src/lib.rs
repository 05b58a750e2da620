//! placeholder
pub mod corpus;
pub mod dataset;
pub mod speaker;
pub mod text;
