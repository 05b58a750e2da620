//! The interface of a model family to code that must not name one.

use stage_core::{Kind, Parameters};

use crate::export::Exporter;
use crate::import::{CONFIG_FILE, Importer};
use crate::model::{AssumedModel, Codec, Model};
use crate::speech::{PublishedFiles, SpeechGap};

/// A family of models, adapters or codecs: all artifacts with one word in their field `family`.
pub trait Family: Sync {
    /// The word in that field.
    fn name(&self) -> &'static str;

    /// A description for the documentation, such as "a speech recogniser".
    fn title(&self) -> &'static str;

    /// The stage kinds for this family alone.
    fn kinds(&self) -> &'static [&'static Kind] {
        &[]
    }

    /// The file of its configuration beside published weights.
    fn config_file(&self) -> &'static str {
        CONFIG_FILE
    }

    /// The model in a configuration, if it is one of this family.
    fn read(&self, _config: &[u8]) -> Option<Box<dyn Model>> {
        None
    }

    /// The model that a stage with random weights makes, if it does; `codec` are the parameters of
    /// the stage that outputs its codec.
    fn fresh(
        &self,
        _kind: &Kind,
        _parameters: &Parameters,
        _codec: Option<&Parameters>,
    ) -> Option<Box<dyn Model>> {
        None
    }

    /// The assumed model if none exists yet.
    fn assumed(&self) -> Option<AssumedModel> {
        None
    }

    /// Tests if measures of a model apply only to models of its size.
    fn is_measured_by_size(&self) -> bool {
        false
    }

    /// The cost as a codec, if it is one.
    fn codec(&self) -> Option<Codec> {
        None
    }

    /// The importer of published files, if there is one.
    fn importer(&self) -> Option<&dyn Importer> {
        None
    }

    /// The exporter to files of the original project, if there is one.
    fn exporter(&self) -> Option<&dyn Exporter> {
        None
    }

    /// The library that loads its exported files, as hubs call it.
    fn library(&self) -> Option<&'static str> {
        None
    }

    /// The manifest of a pipeline that speaks with published files, in its stage
    /// [`SPEECH`](crate::speech::SPEECH).
    ///
    /// # Errors
    ///
    /// The reason why they cannot speak, such as a missing reference.
    fn speech(&self, _files: &PublishedFiles) -> Result<String, SpeechGap> {
        Err(SpeechGap { reason: format!("{} does not speak", self.title()), needs: Vec::new() })
    }
}
