//! The ways in which a remote can fail.

use cache::CacheError;

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It cannot be reached, refuses the request, or does not answer in time.
    #[error("the remote `{url}` cannot be used: {why}")]
    Away { url: String, why: String },
    /// A file in it is damaged, and is not used.
    #[error("the remote `{url}` has a wrong `{name}`: {why}")]
    Wrong { url: String, name: String, why: String },
    #[error("the remote `{url}` needs a program that was built with `--features cloud`")]
    NotBuilt { url: String },
    /// The cache of this machine.
    #[error(transparent)]
    Cache(#[from] CacheError),
}
