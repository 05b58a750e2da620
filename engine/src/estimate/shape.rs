//! The sizes of the models that flow through a pipeline, from their configurations alone.

use camino::Utf8PathBuf;
use stage_core::cost::Cost;
use stage_formats::dual_ar::{Config, fresh};

use super::Estimator;
use crate::pipeline::{Input, Reference, StageId, StageSpec};
use crate::plan::Planned;

/// The ports on which models arrive, the nearest to what comes out first.
const MODELS: [&str; 3] = ["base", "model", "asset"];
const CONFIG: &str = "config";
const CONFIG_FILE: &str = "config.json";
/// Words of the tokenizer of `fish.init` beside the codes, to the nearest multiple of the table.
const WORDS: i64 = 271;
/// The published codec, as one file of f32.
pub const CODEC_BYTES: f64 = 1.87e9;
/// Published weights are in bf16.
const WEIGHT_BYTES: f64 = 2.0;

impl Estimator<'_> {
    /// The text model that arrives at a stage, or that it makes.
    pub fn text_model(&self, spec: &StageSpec) -> Option<Config> {
        self.find_model(spec).or_else(|| {
            self.assumed.add(
                "a text model that is not there is taken for openaudio-s1-mini: 860 million \
                 parameters, 28 layers of 1,024, kept in bf16",
            );
            Config::s1_mini().ok()
        })
    }

    fn find_model(&self, spec: &StageSpec) -> Option<Config> {
        if let Some(config) = self.known_config(spec.id) {
            return Some(config);
        }
        if spec.parameters.is_set("shape") && matches!(spec.kind.cost, Cost::Weights(_)) {
            let published = fresh::published(&spec.parameters, self.codes(spec), WORDS).ok()?;
            return Config::parse(published.to_string().as_bytes()).ok();
        }
        let input = MODELS.iter().find_map(|port| spec.inputs.get(port))?;
        match input.references.first()? {
            Reference::Stage { stage, .. } => self.find_model(self.pipeline.stage(*stage)),
            Reference::Asset(name) => self.asset_config(name),
        }
    }

    /// The configuration of a model that is there.
    fn known_config(&self, id: StageId) -> Option<Config> {
        let port = self.pipeline.stage(id).kind.outputs.first()?.name;
        let Some(Planned::Artifact(fields)) = self.plan.stage(id).outputs.get(port) else {
            return None;
        };
        let bytes = self.flows.store.read(&fields.blob(CONFIG)?.digest).ok()?;
        Config::parse(&bytes).ok()
    }

    fn asset_config(&self, name: &str) -> Option<Config> {
        let path = self.asset_path(name)?.join(CONFIG_FILE);
        Config::parse(&self.flows.store.cache().fs().read(&path).ok()?).ok()
    }

    fn asset_path(&self, name: &str) -> Option<Utf8PathBuf> {
        Some(self.pipeline.base.join(&self.pipeline.assets.get(name)?.path))
    }

    /// Codebooks and entries of the codec that a new model is for.
    fn codes(&self, spec: &StageSpec) -> (i64, i64) {
        let of = |spec: &StageSpec| {
            let figure = |name: &str| spec.parameters.integer(name).ok();
            Some((figure("codebooks")?, figure("entries")?))
        };
        let codec = |input: &Input| match input.references.first()? {
            Reference::Stage { stage, .. } => of(self.pipeline.stage(*stage)),
            Reference::Asset(_) => None,
        };
        let codes = of(spec).or_else(|| spec.inputs.get("codec").and_then(codec));
        codes.unwrap_or(fresh::PUBLISHED_CODES)
    }

    /// The bytes of the weights that a stage carries from one form to another.
    pub fn weight_bytes(&self, spec: &StageSpec) -> f64 {
        let family = spec.parameters.text("family").unwrap_or_default();
        if family == "fish-dac" {
            self.assumed.add("a codec is taken for the published one of Fish Speech: 1.87 GB");
            return CODEC_BYTES;
        }
        let model = self.text_model(spec);
        let each = match spec.parameters.text("dtype") {
            Ok("f32") => 2.0 * WEIGHT_BYTES,
            _ => WEIGHT_BYTES,
        };
        model.map_or(0.0, |config| config.parameters() as f64 * each)
    }
}
