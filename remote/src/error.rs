//! The ways in which a remote can fail.

use cache::CacheError;
use cache::fs::MachineFault;

#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It cannot be reached, refuses the request, or does not answer in time.
    #[error("the remote `{url}` cannot be used: {why}")]
    Away { url: String, why: String },
    /// A file in it is damaged, and is not used.
    #[error("the remote `{url}` has an unusable file `{name}`: {why}")]
    Wrong { url: String, name: String, why: String },
    #[error("the remote `{url}` needs a program that was built with `--features cloud`")]
    NotBuilt { url: String },
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
