//! Import of published files as models, for all families.

mod fields;
mod files;
mod layout;

use bytes::Bytes;
use stage_core::{Context, NewValue, StageError};
use stage_formats::WeightFile;

pub use fields::{TRANSFORMERS_FIELDS, unknown_fields};
pub use files::{AssetFiles, WeightSource, description};
pub use layout::TensorLayout;

/// The configuration of most published models.
pub const CONFIG_FILE: &str = "config.json";

/// A family that `model.import` supports.
pub trait Importer: Sync {
    /// Prefixes that training tools add to the names of the tensors.
    fn prefixes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The name of the published weight file, without its extension.
    fn file_stem(&self) -> &'static str {
        "model"
    }

    /// The names of files with weights that belong beside the model and are none by themselves.
    fn companions(&self) -> &'static [&'static str] {
        &[]
    }

    /// The names of the states in the folder of a trainer, without step and extension, such as
    /// `checkpoint` of `checkpoint_500.pth`; the better ones first.
    fn states(&self) -> &'static [&'static str] {
        &[]
    }

    /// Prefixes of tensor names in every file of the family, without tool prefixes: all prefixes of
    /// one of these lists.
    fn marks(&self) -> &'static [&'static [&'static str]];

    /// The model in the weight file and the files beside it, after checking that they fit together.
    ///
    /// # Errors
    ///
    /// If a file is missing, damaged, or does not fit the others.
    fn import(
        &self,
        weights: WeightSource,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<ImportedModel, StageError>;
}

impl dyn Importer + '_ {
    /// Tests if a file is one of this family.
    pub fn recognises(&self, file: &WeightFile) -> bool {
        let names = file.plain_names(self.prefixes()).names;
        let has = |start: &&str| names.keys().any(|name| name.starts_with(*start));
        self.marks().iter().any(|starts| starts.iter().all(has))
    }
}

/// The request of an import.
pub struct Request<'a> {
    pub files: AssetFiles<'a>,
    /// The parameters of this name: paths in the asset.
    pub config: Option<String>,
    pub discriminator: Option<String>,
}

impl Request<'_> {
    /// The requested configuration, if there is one.
    pub fn chosen_config(&self, context: &mut dyn Context) -> Result<Option<Bytes>, StageError> {
        let read = |path: &String| description(path, &*self.files.exactly(path)?, context);
        self.config.as_ref().map(read).transpose()
    }

    /// The requested configuration, or the published one beside the weights.
    pub fn config(&self, context: &mut dyn Context) -> Result<Bytes, StageError> {
        match self.chosen_config(context)? {
            Some(config) => Ok(config),
            None => self.files.needed(CONFIG_FILE, "what the model is", context),
        }
    }
}

/// A weight file, and the selection of its tensors.
pub struct Part {
    pub weights: WeightSource,
    pub layout: TensorLayout,
}

/// The tensors of a model, and its fields except these, the family and the licence.
pub struct ImportedModel {
    pub parts: Vec<Part>,
    pub values: Vec<(String, NewValue)>,
    pub notes: Vec<(String, u64)>,
}
