//! The trainer that all model families share: small parts and one plain loop.
//!
//! [`run::train`] is the loop. A model implements [`Trainee`], a data set [`run::Data`], and the
//! environment [`host::Host`].

pub mod adamw;
pub mod clips;
pub mod context_host;
pub mod early_stop;
mod exact;
pub mod frozen;
mod fused;
pub mod gradients;
pub mod host;
mod kept;
pub mod kernels;
pub mod log;
pub mod losses;
pub mod merge;
pub mod notes;
pub mod optimisers;
pub mod order;
pub mod outputs;
pub mod plan;
pub mod precision;
pub mod record;
pub mod rehearsal;
pub mod replicas;
pub mod run;
pub mod samples;
pub mod schedule;
pub mod settings;
pub mod state;
pub mod trainee;
mod vram;

pub use context_host::ContextHost;
pub use host::{Checkpoint, Host};
pub use losses::{Losses, Means, Totals};
pub use run::{Data, TrainingJob, TrainingResult, train};
pub use settings::Settings;
pub use trainee::{Phase, Trainee};

#[cfg(test)]
pub(crate) mod tests;
