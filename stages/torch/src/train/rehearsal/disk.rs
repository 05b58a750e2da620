//! A host for rehearsals: tensors are in files of a folder, and it stops after a chosen step.

use std::collections::BTreeSet;

use cache::Digest;
use cache::fs::{Fs, FsError, Open, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Blob, StageError};
use stage_families::artifact::TENSOR_KIND;
use tch::Tensor;

use super::{not_kept, not_resumed};
use crate::stored;
use crate::train::{Checkpoint, Host};

/// The treatment of a stored tensor.
#[derive(Clone, Copy, PartialEq)]
pub enum Keeps {
    File,
    Digest,
    Nothing,
}

/// Keeps tensors in files of a folder, named by their content.
pub struct Disk {
    pub folder: Utf8PathBuf,
    /// For all tensors from now on.
    pub keeps: Keeps,
    files: BTreeSet<Digest>,
    last: Option<Checkpoint>,
    /// The step after which it requests a stop.
    pub stop_after: Option<u64>,
    step: u64,
    /// The loss of the last reported step.
    pub loss: f64,
}

impl Disk {
    pub fn new(folder: &Utf8Path) -> Disk {
        Disk {
            folder: folder.to_owned(),
            keeps: Keeps::File,
            files: BTreeSet::new(),
            last: None,
            stop_after: None,
            step: 0,
            loss: f64::NAN,
        }
    }

    /// The last checkpoint.
    pub fn saved(&self) -> Result<Checkpoint, StageError> {
        self.last.clone().ok_or_else(|| not_resumed("it saved nothing"))
    }

    fn path(&self, digest: &Digest) -> Utf8PathBuf {
        self.folder.join(digest.to_string())
    }
}

impl Host for Disk {
    fn keep(&mut self, tensor: &Tensor) -> Result<Blob, StageError> {
        if self.keeps == Keeps::Nothing {
            return Ok(blob(Digest::of(b""), 0));
        }
        let bytes = stored::encode(tensor)?;
        let digest = Digest::of(&bytes);
        if self.keeps == Keeps::File && self.files.insert(digest) {
            let file = RealFs.open(&self.path(&digest), Open::CreateNew);
            file.and_then(|file| file.write_all_at(&bytes, 0)).map_err(not_kept)?;
        }
        Ok(blob(digest, bytes.len() as u64))
    }

    fn recall(&mut self, kept: &Blob) -> Result<Tensor, StageError> {
        let unread = |error: FsError| match error.machine_fault() {
            Some(_) => StageError::of_file(error),
            None => not_resumed(&format!("{error}: {}", error.source)),
        };
        let bytes = RealFs.map(&self.path(&kept.digest)).map_err(unread)?;
        if Digest::of(&bytes) == kept.digest {
            Ok(stored::decode(bytes)?)
        } else {
            Err(not_resumed("a file does not read back as it was written"))
        }
    }

    fn commit(&mut self, _: u64, checkpoint: &Checkpoint) -> Result<(), StageError> {
        self.last = Some(checkpoint.clone());
        Ok(())
    }

    fn last(&mut self) -> Result<Option<Checkpoint>, StageError> {
        Ok(self.last.clone())
    }

    fn stopping(&mut self) -> bool {
        self.stop_after.is_some_and(|step| self.step >= step)
    }

    fn report(&mut self, step: u64, values: &[(&str, f64)]) {
        self.step = step;
        let loss = values.iter().find(|(name, _)| *name == "loss");
        self.loss = loss.map_or(self.loss, |(_, loss)| *loss);
    }

    fn seconds(&mut self) -> f64 {
        0.0
    }
}

fn blob(digest: Digest, size: u64) -> Blob {
    Blob { digest, size, kind: TENSOR_KIND.into() }
}
