//! The error of an operation that met a symbolic link where none is followed.

use std::io;

/// The reason why nothing is done at a path; continues "cannot open `x`:".
#[derive(Debug, thiserror::Error)]
#[error("a symbolic link is in its place or on its path")]
struct LinkOnPath;

pub fn link_on_path() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, LinkOnPath)
}

/// Tests if an operation failed because of a symbolic link that is not followed.
pub fn is_link_on_path(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<LinkOnPath>())
}
