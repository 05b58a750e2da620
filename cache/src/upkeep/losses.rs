//! The mark for lost objects that records may refer to. While it exists, planning checks every
//! object before trusting a record; a complete run removes it.

use crate::cache::{Cache, Shared};
use crate::fs::Open;
use crate::{CacheError, Digest};

impl Cache {
    /// Tests if lost objects are known that records may still name.
    pub fn has_losses(&self) -> bool {
        let shared = &self.0;
        !shared.short.is_empty()
            || !shared.forgotten().is_empty()
            || shared.fs.exists(&shared.layout.losses).unwrap_or(true)
    }

    /// Sets the mark if records may name objects that are not stored yet, or could not be fetched.
    pub fn note_losses(&self) {
        self.0.note_losses();
    }

    /// Tests if this process has found the object damaged, or its file gone.
    pub fn was_damaged(&self, digest: &Digest) -> bool {
        self.0.damaged().contains(digest)
    }

    /// Records that everything lost has been made again or is not wanted.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if the mark cannot be removed. A missing mark is no error.
    pub fn clear_losses(&self) -> Result<(), CacheError> {
        match self.0.fs.remove_file(&self.0.layout.losses) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// True if every change fails with [`CacheError::ReadOnly`].
    pub fn is_read_only(&self) -> bool {
        self.0.require_writable().is_err()
    }
}

impl Shared {
    /// Sets the mark. It is best effort: the loss is detected again when the object is used.
    pub fn note_losses(&self) {
        if self.require_writable().is_ok() {
            let _ = self.fs.open(&self.layout.losses, Open::Create);
        }
    }
}
