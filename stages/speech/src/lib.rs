//! placeholder
pub mod corpus;
