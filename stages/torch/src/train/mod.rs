//! The trainer that all model families share: small parts and one plain loop over them.

pub mod adamw;
pub mod losses;
pub mod trainee;

pub use losses::{Losses, Means, Totals};
pub use trainee::Trainee;
