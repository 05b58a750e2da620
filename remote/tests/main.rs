//! Remotes through their public interface, in folders and on servers.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[cfg(feature = "cloud")]
mod cloud;
mod damaged;
#[cfg(feature = "cloud")]
mod emulators;
