//! The interface of stages, for authors of stages and for the engine.
//!
//! A first stage needs few of these items: [`start`] names them, with a complete example.
//!
//! [`Stage`] is the trait, [`Kind`] its description, [`Item`] and [`Dataset`] the data that flows
//! between stages, [`key`] the identity of work.

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc)]

pub mod artifact;
mod catalogue;
mod children;
mod context;
pub mod cost;
pub mod course;
mod dataset;
mod detached;
pub mod device;
mod error;
pub mod escape;
mod gather;
mod item;
pub mod key;
mod kind;
mod output;
pub mod output_types;
mod parameter;
mod source;
mod stage;
pub mod start;

pub use cache::Digest;
pub use catalogue::Catalogue;
pub use children::{children, with_parents};
pub use context::{Context, Take};
pub use dataset::{Bucket, Chunk, Dataset, DatasetError, DatasetParts, bucket_of};
pub use detached::Detached;
pub use error::{Reject, SAID, StageError};
pub use gather::{GatherInput, GatherJob, GatherOutput, PortInput, PortOutput};
pub use item::{Blob, Fields, Item, Value};
pub use kind::{
    Batching, Cause, Derived, Expands, FieldType, Fields as FieldSet, InputPort, Kind, Mistake,
    OutputPort, ParentNeeds, Place, PortType, Share, Verdicts, Work,
};
pub use output::{NewItem, NewValue, Output};
pub use parameter::{
    Default, ExpressionForm, ON_CHANGE, Parameter, ParameterType, ParameterValue, Parameters, Role,
    Unit,
};
pub use source::{FileFact, FileParts, Listing, SourceJob, SourceOutput, World};
pub use stage::{EachItem, ItemJob, Job, Setup, Stage};

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
