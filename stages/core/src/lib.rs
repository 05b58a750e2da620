//! The interface of stages, for authors of stages and for the engine.
//!
//! [`Stage`] is the trait, [`Kind`] its description, [`Item`] and [`Dataset`] the data that flows
//! between stages, [`key`] the identity of work. The catalogue has the descriptions of the built-in
//! kinds, so that planning needs no implementation; [`wire`] and [`worker`] carry the same trait
//! over a pipe to another process.

pub mod artifact;
pub mod catalogue;
mod children;
pub mod cost;
pub mod course;
mod dataset;
mod detached;
pub mod device;
mod error;
pub mod escape;
pub mod estimate;
pub mod event;
pub mod expression;
mod item;
pub mod key;
mod kind;
pub mod line;
mod parameter;
pub mod programs;
mod stage;
pub mod wire;
pub mod worker;

pub use cache::Digest;
pub use catalogue::Catalogue;
pub use children::{children, with_parents};
pub use dataset::{Bucket, Chunk, Dataset, DatasetError, DatasetParts, bucket_of};
pub use detached::Detached;
pub use error::{Reject, SAID, StageError};
pub use item::{Blob, Fields, Item, Value};
pub use kind::{
    Batching, Cause, Derived, Expands, FieldType, Fields as FieldSet, InputPort, Kind, Mistake,
    OutputPort, ParentNeeds, Place, PortType, Share, Verdicts, Work,
};
pub use parameter::{Default, Parameter, ParameterType, ParameterValue, Parameters, Role, Unit};
pub use stage::{
    Context, EachItem, FileFact, FileParts, GatherInput, GatherJob, GatherOutput, ItemJob, Job,
    Listing, NewItem, NewValue, Output, PortInput, PortOutput, Setup, SourceJob, SourceOutput,
    Stage, Take, World,
};
