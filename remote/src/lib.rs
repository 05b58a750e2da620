//! The remote store: objects and outcomes of stages that several machines share.
//!
//! This crate knows neither stages nor pipelines. Small objects travel in the volumes of
//! `pack-cache` archives, each with an index; outcomes are written once. `docs/remote.md` describes
//! the layout. Contents are not trusted: every object is compared with its digest, and no name in a
//! remote becomes a path.

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc)]

mod address;
mod archive;
mod checkpoint;
#[cfg(feature = "cloud")]
mod cloud;
mod contents;
mod error;
mod fetch;
mod figures;
mod folder;
mod garbage;
mod index;
mod known;
mod layout;
mod outcome;
mod present;
mod push;
mod remote;
mod repair;
mod storage;
mod timed;
mod verify;
mod workers;

pub use address::{Address, AddressError};
pub use checkpoint::{CheckpointWrite, RemoteCheckpoint};
pub use contents::Contents;
pub use error::RemoteError;
pub use fetch::remove_unfinished;
pub use figures::Figures;
pub use garbage::UnusedFiles;
pub use known::{IGNORED, KNOWN, ignore, lacks_objects};
pub use outcome::{Fresh, Outcome};
pub use push::{Push, PushCounts};
pub use remote::{Pushing, Remote, Rules, Settings};
pub use repair::{DamagedFiles, Salvage};
pub use storage::{ListedFile, Refusal, Storage};
pub use timed::Requests;
pub use verify::VerifyReport;
