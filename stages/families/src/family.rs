//! The interface of a family of models to all that must not name one.

use stage_core::Kind;

use crate::export::Exporter;
use crate::import::Importer;

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

    /// How published files become models of the family, if they do.
    fn importer(&self) -> Option<&dyn Importer> {
        None
    }

    /// How models of the family become files of the original project, if they do.
    fn exporter(&self) -> Option<&dyn Exporter> {
        None
    }
}
