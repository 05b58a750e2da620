//! The files of an asset, and the folder in it where the weights lie.

use std::sync::Arc;

use bytes::Bytes;
use stage_core::{Blob, Context, Fields, StageError};
use stage_formats::shapes::listed;

pub struct Files<'a> {
    asset: &'a Fields,
    folder: &'a str,
}

impl<'a> Files<'a> {
    /// Beside the file of weights at this path.
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

    /// The bytes of a file without which nothing can be made of the weights: `why` says what for.
    pub fn needed(
        &self,
        name: &str,
        why: &str,
        context: &mut dyn Context,
    ) -> Result<Bytes, StageError> {
        match self.beside(name) {
            Some(blob) => context.read(&blob),
            None => {
                let place = self.folder;
                let message = format!("the asset has no `{place}{name}`, which says {why}");
                Err(StageError::failed(message))
            }
        }
    }
}
