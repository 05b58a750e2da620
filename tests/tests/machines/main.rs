//! Work and results on other machines: the remote store, in folders and buckets, and executors.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[cfg(feature = "cloud")]
mod cloud;
mod executors;
mod remote;
