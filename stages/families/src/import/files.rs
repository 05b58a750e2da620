//! The files of an asset, and the folder of the weights in it.

use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use stage_core::{Blob, Context, Fields, FileParts, StageError};
use stage_formats::shapes::listed;
use stage_formats::{Parts, WeightFile};

use crate::artifact::{TOKENIZER, VOCABULARY};

/// Limit on the bytes of a file that describes a model: configurations have a few kilobytes.
const MAX_DESCRIPTION: u64 = 1 << 20;
/// The largest tokenizers have seven megabytes.
const MAX_TOKENIZER: u64 = 16 << 20;

/// A weight file; only its directory has been read.
pub struct Opened {
    path: String,
    pub digest: Digest,
    pub file: WeightFile,
    source: Arc<dyn FileParts>,
}

impl Opened {
    /// Verifies the content, before any result is made from it.
    pub fn verify(&self) -> Result<(), StageError> {
        self.source
            .verify()
            .map_err(|error| StageError::of_io(format!("`{}`: {error}", self.path), &error))
    }
}

pub struct Files<'a> {
    asset: &'a Fields,
    folder: &'a str,
}

impl<'a> Files<'a> {
    /// The files beside the weight file at this path.
    pub fn new(asset: &'a Fields, weights: &'a str) -> Files<'a> {
        Files { asset, folder: weights.rfind('/').map_or("", |at| &weights[..=at]) }
    }

    pub fn exactly(&self, path: &str) -> Result<Arc<Blob>, StageError> {
        self.asset.blob(path).cloned().ok_or_else(|| {
            let names = listed(self.asset.iter().map(|(name, _)| &**name));
            StageError::failed(format!("the asset has no file `{path}`, but {names}"))
        })
    }

    pub fn beside(&self, name: &str) -> Option<Arc<Blob>> {
        self.asset.blob(&format!("{}{name}", self.folder)).cloned()
    }

    /// The path in the asset of a neighbouring file, if there is one.
    pub fn path_beside(&self, name: &str) -> Option<String> {
        self.beside(name).map(|_| format!("{}{name}", self.folder))
    }

    /// A weight file, which is read one tensor at a time.
    pub fn weights(&self, path: &str, context: &mut dyn Context) -> Result<Opened, StageError> {
        let blob = self.exactly(path)?;
        let source = context.open(&blob)?;
        let file = WeightFile::read(source.clone()).map_err(|error| error.of(path))?;
        Ok(Opened { path: path.to_owned(), digest: blob.digest, file, source })
    }

    /// The start of a neighbouring file, if there is one.
    pub fn head(
        &self,
        name: &str,
        length: usize,
        context: &mut dyn Context,
    ) -> Result<Option<Bytes>, StageError> {
        let Some(blob) = self.beside(name) else { return Ok(None) };
        Ok(Some(Parts::from(context.open(&blob)?).up_to("text", 0, length)?))
    }

    /// The bytes of a file that the weights cannot be used without; `why` names the purpose.
    pub fn needed(
        &self,
        name: &str,
        why: &str,
        context: &mut dyn Context,
    ) -> Result<Bytes, StageError> {
        match self.beside(name) {
            Some(blob) => description(name, &blob, context),
            None => {
                let place = self.folder;
                let message = format!("the asset has no `{place}{name}`, which says {why}");
                Err(StageError::failed(message))
            }
        }
    }
}

/// The bytes of a file that describes the model. A far too large one is refused unread.
pub fn description(
    name: &str,
    blob: &Blob,
    context: &mut dyn Context,
) -> Result<Bytes, StageError> {
    let most =
        if [TOKENIZER, VOCABULARY].contains(&name) { MAX_TOKENIZER } else { MAX_DESCRIPTION };
    if blob.size > most {
        let message = format!(
            "`{name}` has {} bytes, more than the {most} that such a description of a model may have",
            blob.size
        );
        return Err(StageError::failed(message));
    }
    context.read(blob)
}
