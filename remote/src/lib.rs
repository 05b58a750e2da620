//! The remote store: objects and outcomes of stages that several machines share.
//!
//! It knows nothing of stages and pipelines. Small objects travel in the volumes of `pack-cache`
//! archives, each with an index; outcomes are written once. The layout is described in
//! `docs/remote.md`. Nothing that a remote says is trusted: every object is compared with its
//! digest, and names are never taken from it.

mod address;
mod archive;
mod bring;
mod care;
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
