//! The files of an asset, and the folder of the weights in it.

use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use stage_core::key::{HashSink, Sink};
use stage_core::{Blob, Context, Fields, FileParts, StageError};
use stage_formats::mark::unmarked;
use stage_formats::shapes::listed;
use stage_formats::shards::{Index, is_index};
use stage_formats::{FormatError, Parts, Stranger, WeightFile};

use crate::artifact::{TOKENIZER, VOCABULARY};

/// Limit on the bytes of a file that describes a model: configurations have a few kilobytes.
const MAX_DESCRIPTION: u64 = 1 << 20;
/// The largest tokenizers have seven megabytes.
const MAX_TOKENIZER: u64 = 16 << 20;

/// A weight file, or the shards of one; only the directories have been read.
pub struct WeightSource {
    /// Of all contents together.
    pub digest: Digest,
    pub file: WeightFile,
    sources: Vec<Source>,
}

struct Source {
    path: String,
    digest: Digest,
    parts: Arc<dyn FileParts>,
}

impl WeightSource {
    /// Verifies the contents, before any result is made from them.
    pub fn verify(&self) -> Result<(), StageError> {
        self.sources.iter().try_for_each(|Source { path, parts, .. }| {
            let verified = parts.verify();
            verified.map_err(|error| StageError::of_io(format!("`{path}`: {error}"), &error))
        })
    }
}

pub struct AssetFiles<'a> {
    asset: &'a Fields,
    weights: &'a str,
    folder: &'a str,
}

impl<'a> AssetFiles<'a> {
    /// The files beside the weight file at this path.
    pub fn new(asset: &'a Fields, weights: &'a str) -> AssetFiles<'a> {
        AssetFiles { asset, weights, folder: weights.rfind('/').map_or("", |at| &weights[..=at]) }
    }

    pub fn exactly(&self, path: &str) -> Result<Arc<Blob>, StageError> {
        self.at(path)?.ok_or_else(|| {
            let names = listed(self.asset.iter().map(|(name, _)| &**name));
            StageError::failed(format!("the asset has no file `{path}`; it has {names}"))
        })
    }

    pub fn beside(&self, name: &str) -> Result<Option<Arc<Blob>>, StageError> {
        self.at(&format!("{}{name}", self.folder))
    }

    /// The bytes of the file with the whole name of the weights and this ending, which the weights
    /// cannot be used without; `why` names the purpose.
    pub fn behind(
        &self,
        suffix: &str,
        why: &str,
        context: &mut dyn Context,
    ) -> Result<Bytes, StageError> {
        let name = self.weights.rsplit('/').next().unwrap_or_default();
        let wanted = format!("{name}{suffix}");
        if self.beside(&wanted)?.is_none() {
            let message = format!("there is no `{wanted}` beside `{name}`, which says {why}");
            return Err(StageError::with_help(message, "put the file there"));
        }
        self.needed(&wanted, why, context)
    }

    /// The path in the asset of a neighbouring file, if there is one.
    pub fn path_beside(&self, name: &str) -> Result<Option<String>, StageError> {
        Ok(self.beside(name)?.map(|_| format!("{}{name}", self.folder)))
    }

    /// The file at a path. Anything else in its place is an error, not a missing file.
    fn at(&self, path: &str) -> Result<Option<Arc<Blob>>, StageError> {
        if let Some(blob) = self.asset.blob(path) {
            return Ok(Some(blob.clone()));
        }
        let inside = format!("{path}/");
        let what = match self.asset.text(path) {
            Some(what) => what,
            None if self.asset.iter().any(|(name, _)| name.starts_with(&inside)) => "a folder",
            None => return Ok(None),
        };
        let help = "put the file in its place, or remove it";
        Err(StageError::with_help(format!("`{path}` of the asset is {what}, not a file"), help))
    }

    /// A weight file, which is read one tensor at a time. An index gives the shards beside it.
    pub fn weights(
        &self,
        path: &str,
        context: &mut dyn Context,
    ) -> Result<WeightSource, StageError> {
        let source = Source::open(path, &*self.exactly(path)?, context)?;
        if !is_index(path) {
            let file = WeightFile::read(source.parts.clone()).map_err(|error| error.of(path))?;
            return Ok(WeightSource { digest: source.digest, file, sources: vec![source] });
        }
        let index = Index::read(source.parts.clone()).map_err(|error| error.of(path))?;
        let beside = AssetFiles::new(self.asset, path);
        let mut sources = vec![source];
        let file = index.open(|name| -> Result<Option<WeightFile>, ShardError> {
            let Some(blob) = beside.beside(name)? else { return Ok(None) };
            let shard = Source::open(&format!("{}{name}", beside.folder), &blob, context)?;
            let file = WeightFile::read(shard.parts.clone()).map_err(|error| error.of(name))?;
            sources.push(shard);
            Ok(Some(file))
        });
        let file = file.map_err(|error| match error {
            ShardError::Index(error) => error.of(path),
            ShardError::Stage(error) => error,
        })?;
        let mut sink = HashSink::default();
        sink.group("shards", sources.len());
        sources.iter().for_each(|source| sink.digest("file", &source.digest));
        Ok(WeightSource { digest: sink.finish(), file, sources })
    }

    /// The start of a neighbouring file, if there is one.
    pub fn head(
        &self,
        name: &str,
        length: usize,
        context: &mut dyn Context,
    ) -> Result<Option<Bytes>, StageError> {
        let Some(blob) = self.asset.blob(&format!("{}{name}", self.folder)) else {
            return Ok(None);
        };
        Ok(Some(Parts::from(context.open(blob)?).up_to("text", 0, length)?))
    }

    /// The bytes of a file that the weights cannot be used without; `why` names the purpose.
    pub fn needed(
        &self,
        name: &str,
        why: &str,
        context: &mut dyn Context,
    ) -> Result<Bytes, StageError> {
        match self.beside(name)? {
            Some(blob) => description(name, &blob, context),
            None => {
                let place = self.folder;
                let message = format!("the asset has no `{place}{name}`, which says {why}");
                Err(StageError::failed(message))
            }
        }
    }
}

/// The reason why shards cannot be opened.
enum ShardError {
    Index(FormatError),
    Stage(StageError),
}

impl From<FormatError> for ShardError {
    fn from(error: FormatError) -> ShardError {
        ShardError::Index(error)
    }
}

impl From<StageError> for ShardError {
    fn from(error: StageError) -> ShardError {
        ShardError::Stage(error)
    }
}

impl Source {
    fn open(path: &str, blob: &Blob, context: &mut dyn Context) -> Result<Source, StageError> {
        let parts = context.open(blob)?;
        Ok(Source { path: path.to_owned(), digest: blob.digest, parts })
    }
}

/// The bytes of a file that describes the model, without a byte order mark. A far too large one is refused unread.
pub fn description(
    name: &str,
    blob: &Blob,
    context: &mut dyn Context,
) -> Result<Bytes, StageError> {
    let most =
        if [TOKENIZER, VOCABULARY].contains(&name) { MAX_TOKENIZER } else { MAX_DESCRIPTION };
    if blob.size > most {
        let message = format!("`{name}` has {} bytes, more than the limit of {most}", blob.size);
        return Err(StageError::failed(message));
    }
    let bytes = context.read(blob)?;
    match Stranger::as_text(&bytes) {
        None => Ok(bytes.slice_ref(unmarked(&bytes))),
        Some(stranger) => {
            Err(FormatError::Stranger { format: "the description of a model", stranger }.of(name))
        }
    }
}
