//! The lineage of a model or a set of adapters, stored in its artifact.

use cache::Digest;
use serde::{Deserialize, Serialize};
use stage_core::key::{HashSink, Sink};
use stage_core::{Fields, StageError};
use stage_families::artifact;

/// The lineage of a model. Unknown fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLineage {
    /// The stage kind that made it.
    #[serde(default)]
    pub made_by: String,
    /// The digest of the model that it was derived from.
    #[serde(default)]
    pub base: Option<String>,
    /// The digest of the parent that training on other data continued from, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// True if all weights began at random, so that the model may be unable to speak.
    #[serde(default)]
    pub random: bool,
    /// The digests of the adapters that were merged into it, oldest first.
    #[serde(default)]
    pub adapters: Vec<String>,
}

/// The lineage of adapters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterLineage {
    /// The digest of the model that they were trained on, the only one that they fit.
    pub base: String,
    pub rank: i64,
    pub alpha: f64,
    pub modules: Vec<String>,
    /// The digest of the adapters that training continued from.
    pub parent: Option<String>,
}

impl ModelLineage {
    pub fn of(model: &Fields) -> ModelLineage {
        let text = model.text(artifact::LINEAGE).unwrap_or_default();
        // A model without a lineage has an unknown past.
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The lineage of a derived model.
    pub fn from(base: &Fields, made_by: &str) -> ModelLineage {
        let before = ModelLineage::of(base);
        let base = Some(digest(base).to_string());
        ModelLineage { made_by: made_by.into(), base, parent: None, ..before }
    }
}

impl AdapterLineage {
    /// The lineage of adapters of a family, from stages of this kind.
    pub fn read(
        adapters: &Fields,
        family: &str,
        maker: &str,
    ) -> Result<AdapterLineage, StageError> {
        let not_adapters = |why: String| {
            StageError::with_help(
                format!("the artifact on port `adapters` is not a set of adapters: {why}"),
                format!("set `adapters` to a `{maker}` stage"),
            )
        };
        if adapters.text(artifact::FAMILY) != Some(family) {
            let family = adapters.text(artifact::FAMILY).unwrap_or("unknown");
            return Err(not_adapters(format!("it is `{family}`")));
        }
        let text = adapters.text(artifact::LINEAGE).unwrap_or_default();
        serde_json::from_str(text).map_err(|error| not_adapters(error.to_string()))
    }

    /// Refuses another base than the one they were trained on.
    pub fn check_base(&self, base: &Fields) -> Result<(), StageError> {
        let base = digest(base);
        if self.base == base.to_string() {
            Ok(())
        } else {
            Err(StageError::with_help(
                format!(
                    "the adapters were trained on the model {}, not on {}",
                    self.base.get(..12).unwrap_or(&self.base),
                    base.short()
                ),
                "use the same model in both stages: adapters only fit the weights that they were \
                 trained on",
            ))
        }
    }
}

/// The digest of the content of a model or of adapters: configuration and tensors, without other
/// fields of the artifact.
pub fn digest(fields: &Fields) -> Digest {
    let mut sink = HashSink::default();
    if let Some(config) = fields.blob(artifact::CONFIG) {
        sink.digest(artifact::CONFIG, &config.digest);
    }
    for (name, blob) in artifact::tensors(fields) {
        sink.digest(name, &blob.digest);
    }
    sink.finish()
}

pub fn to_text(lineage: &impl Serialize) -> String {
    // Plain structs of texts and numbers.
    serde_json::to_string(lineage).unwrap_or_default()
}
