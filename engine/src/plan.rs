//! The plan: the work of a run and its reasons, as a value.
//!
//! `plan` prints it, `run` executes the same value, `why` explains it.

mod absent;
mod diff;
mod earlier;
pub mod inputs;
pub mod items;
pub mod names;
mod parent;
pub mod parts;
pub mod planner;
pub mod reasons;
mod source;
mod stage;
pub mod sweep;
mod value;
mod work;

pub use diff::{DatasetDiff, compare_datasets, compare_keys};
pub use stage::{Plan, StageKnowledge, StagePlan, main_output};
pub use value::{ExpectedItem, PartialBucket, PartialDataset, PartialItem, PlannedValue, planned};
pub use work::{ItemPlan, ItemWork, OpenBucket, StageIdentity, Work};
