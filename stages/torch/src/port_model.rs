//! The common checks of all model readers: an artifact arrived on a port, belongs to the right
//! family, and has the required files.

use std::sync::Arc;

use bytes::Bytes;
use stage_core::{Blob, Context, Fields, StageError};
use stage_families::artifact;

/// The models that a reader accepts.
pub struct Family {
    /// The word in the artifact.
    pub name: &'static str,
    /// The words in error messages.
    pub title: &'static str,
    /// The way to get such a model.
    pub advice: &'static str,
}

/// A model of the right family on a port.
pub struct PortModel<'a> {
    port: &'a str,
    family: &'static Family,
    pub fields: &'a Fields,
}

impl<'a> PortModel<'a> {
    /// # Errors
    ///
    /// If nothing or a wrong artifact arrived.
    pub fn on(
        port: &'a str,
        fields: Option<&'a Fields>,
        family: &'static Family,
    ) -> Result<PortModel<'a>, StageError> {
        let fields = fields
            .ok_or_else(|| StageError::failed(format!("no model arrived on port `{port}`")))?;
        match fields.text(artifact::FAMILY) {
            Some(name) if name == family.name => Ok(PortModel { port, family, fields }),
            Some(artifact::DAC) => Err(family.refusal(port, "it is a codec")),
            Some(artifact::LORA) => {
                Err(family.refusal(port, "these are adapters, without their base"))
            }
            Some(other) => Err(family.refusal(port, &format!("it is `{other}`"))),
            None => Err(family.refusal(port, "its family is unknown")),
        }
    }

    pub fn blob(&self, name: &str) -> Result<&'a Arc<Blob>, StageError> {
        self.fields.blob(name).ok_or_else(|| self.refused(&format!("it has no `{name}`")))
    }

    pub fn file(&self, name: &str, context: &mut dyn Context) -> Result<Bytes, StageError> {
        context.read(self.blob(name)?)
    }

    /// The error for an unusable artifact, with the reason.
    pub fn refused(&self, why: &str) -> StageError {
        self.family.refusal(self.port, why)
    }
}

impl Family {
    pub fn refusal(&self, port: &str, why: &str) -> StageError {
        let message = format!("the artifact on port `{port}` is no {}: {why}", self.title);
        StageError::with_help(message, self.advice)
    }
}
