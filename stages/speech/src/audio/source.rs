//! The recording in a field of an item, for stages.

use super::decode::{DecodeOptions, DecodedClip, decode};
use super::fault::Fault;
use bytes::Bytes;
use stage_core::{Blob, Context, Item, Reject, StageError};
use std::sync::Arc;

/// The source of a clip.
pub(crate) struct ClipSource {
    pub blob: Arc<Blob>,
    pub bytes: Bytes,
}

impl ClipSource {
    /// The bytes in the field of this name; without it the item is quarantined.
    pub fn of(
        item: &Item,
        field: &str,
        context: &mut dyn Context,
    ) -> Result<Result<ClipSource, Reject>, StageError> {
        let Some(blob) = item.fields.blob(field) else {
            let reason = format!("the item has no field `{field}` that holds a recording");
            return Ok(Err(Reject::new("no-audio", reason)));
        };
        let bytes = context.read(blob)?;
        Ok(Ok(ClipSource { blob: blob.clone(), bytes }))
    }

    pub fn decode(&self, options: &DecodeOptions) -> Result<DecodedClip, Reject> {
        let decoded = decode(&self.bytes, options);
        decoded.map_err(|fault| fault.reject(options.has_allow_truncated))
    }
}

impl From<Fault> for Reject {
    fn from(fault: Fault) -> Reject {
        Reject::new(fault.code(), fault.to_string())
    }
}
