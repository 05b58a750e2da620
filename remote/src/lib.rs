//! The remote store: objects and outcomes of stages that several machines share.
//!
//! This crate knows neither stages nor pipelines. Small objects travel in the volumes of
//! `pack-cache` archives, each with an index; outcomes are written once. `docs/remote.md` describes
//! the layout. Contents are not trusted: every object is compared with its digest, and no name in a
//! remote becomes a path.

mod address;
mod archive;
mod bring;
mod care;
#[cfg(feature = "cloud")]
mod cloud;
mod folder;
mod index;
mod known;
mod layout;
mod outcome;
mod patience;
mod place;
mod push;
mod remote;
mod trouble;
mod workers;

pub use address::{Address, AddressError};
pub use care::{Collected, Figures, Verified};
pub use known::KNOWN;
pub use outcome::{Fresh, Outcome};
pub use patience::Requests;
pub use place::{Listed, Place, Refusal};
pub use push::{Push, Pushed};
pub use remote::{Pushing, Remote, Rules, Settings};
pub use trouble::Trouble;
