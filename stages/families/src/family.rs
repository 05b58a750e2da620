//! The interface of a family of models to all that must not name one.

use stage_core::{Kind, Parameters};

use crate::export::Exporter;
use crate::import::Importer;
use crate::model::{Assumed, Codec, Model};

/// A family of models, adapters or codecs: all artifacts with one word in their field `family`.
pub trait Family: Sync {
    /// That word.
    fn name(&self) -> &'static str;

    /// What the models are, for the documentation, such as "a speech recogniser".
    fn title(&self) -> &'static str;

    /// The stage kinds that work with this family alone.
    fn kinds(&self) -> &'static [&'static Kind] {
        &[]
    }

    /// The model that a configuration describes, if it is one of this family.
    fn read(&self, _config: &[u8]) -> Option<Box<dyn Model>> {
        None
    }

    /// The model that a stage makes anew, if it does; `codec` are the parameters of the stage that
    /// gives its codec.
    fn fresh(
        &self,
        _kind: &Kind,
        _parameters: &Parameters,
        _codec: Option<&Parameters>,
    ) -> Option<Box<dyn Model>> {
        None
    }

    /// The model that one is taken for which is not there yet.
    fn assumed(&self) -> Option<Assumed> {
        None
    }

    /// Whether what was measured with a model holds for models of its size alone.
    fn is_measured_by_size(&self) -> bool {
        false
    }

    /// What it takes as a codec, if it is one.
    fn codec(&self) -> Option<Codec> {
        None
    }

    /// How published files become models of the family, if they do.
    fn importer(&self) -> Option<&dyn Importer> {
        None
    }

    /// How models of the family become files of the original project, if they do.
    fn exporter(&self) -> Option<&dyn Exporter> {
        None
    }
}
