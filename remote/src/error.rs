//! The ways in which a remote can fail.

use cache::CacheError;
use cache::fs::MachineFault;

/// The reason why a remote cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It cannot be reached, refuses the request, or does not answer in time.
    #[error("the remote `{url}` cannot be used: {why}")]
    Away {
        /// The address of the remote.
        url: String,
        /// The answer, or what was missing.
        why: String,
    },
    /// A file in it is damaged, and is not used.
    #[error("the remote `{url}` has an unusable file `{name}`: {why}")]
    Wrong {
        /// The address of the remote.
        url: String,
        /// The name of the file in the remote.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// This program was built without the client of such places.
    #[error("the remote `{url}` needs a program that was built with `--features cloud`")]
    NotBuilt {
        /// The address of the remote.
        url: String,
    },
    /// The cache of this machine.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl RemoteError {
    /// The fault of a machine, such as a full disk, if it is the cause: trying again later helps.
    pub fn machine_fault(&self) -> Option<String> {
        let is_of_machine = match self {
            RemoteError::Away { why, .. } => MachineFault::of_message(why).is_some(),
            RemoteError::Cache(error) => error.machine_fault().is_some(),
            RemoteError::Wrong { .. } | RemoteError::NotBuilt { .. } => false,
        };
        is_of_machine.then(|| self.to_string())
    }
}
