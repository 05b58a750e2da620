//! The sizes of the models that flow through a pipeline, from their configurations alone.

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use stage_families::dual_ar::kinds as fish;
use stage_families::dual_ar::{Config, fresh};

use super::Estimator;
use crate::pipeline::{Input, Reference, StageId, StageSpec};
use crate::plan::Planned;

/// The ports on which models arrive, the nearest to what comes out first.
const MODELS: [&str; 3] = ["base", "model", "asset"];
const CONFIG: &str = "config";
const CONFIG_FILE: &str = "config.json";
/// How the names of files of weights end.
const WEIGHTS: [&str; 5] = ["safetensors", "pth", "pt", "ckpt", "bin"];
/// Words of the tokenizer of `fish.init` beside the codes, to the nearest multiple of the table.
const WORDS: i64 = 271;
/// The published codec, as one file of f32.
pub const CODEC_BYTES: f64 = 1.87e9;
/// Published weights are in bf16.
const WEIGHT_BYTES: f64 = 2.0;

/// How the configuration of a family of models is read, and found in the parameters of a stage that
/// makes such a model anew.
pub struct Family<T> {
    pub parse: fn(&[u8]) -> Option<T>,
    pub made: fn(&Estimator<'_>, &StageSpec) -> Option<T>,
}

const TEXT: Family<Config> = Family { parse: |bytes| Config::parse(bytes).ok(), made: drawn };

fn drawn(estimator: &Estimator<'_>, spec: &StageSpec) -> Option<Config> {
    if spec.kind.name != fish::INIT.name {
        return None;
    }
    let published = fresh::published(&spec.parameters, estimator.codes(spec), WORDS).ok()?;
    Config::parse(published.to_string().as_bytes()).ok()
}

impl Estimator<'_> {
    /// The text model that arrives at a stage, or that it makes.
    pub fn text_model(&self, spec: &StageSpec) -> Option<Config> {
        self.find_model(spec, &TEXT).or_else(|| {
            self.assumed.add(
                "a text model that is not there is taken for openaudio-s1-mini: 860 million \
                 parameters, 28 layers of 1,024, kept in bf16",
            );
            Config::s1_mini().ok()
        })
    }

    /// The model of this family that arrives at a stage, or that it makes.
    pub fn find_model<T>(&self, spec: &StageSpec, family: &Family<T>) -> Option<T> {
        let known = self.known_config(spec.id).and_then(|bytes| (family.parse)(&bytes));
        if let Some(config) = known.or_else(|| (family.made)(self, spec)) {
            return Some(config);
        }
        let input = MODELS.iter().find_map(|port| spec.inputs.get(port))?;
        match input.references.first()? {
            Reference::Stage { stage, .. } => self.find_model(self.pipeline.stage(*stage), family),
            Reference::Asset(name) => {
                let path = self.asset_path(name)?.join(CONFIG_FILE);
                (family.parse)(&self.flows.store.cache().fs().read(&path).ok()?)
            }
        }
    }

    /// The configuration of a model that is there.
    fn known_config(&self, id: StageId) -> Option<Bytes> {
        let port = self.pipeline.stage(id).kind.outputs.first()?.name;
        let Some(Planned::Artifact(fields)) = self.plan.stage(id).outputs.get(port) else {
            return None;
        };
        self.flows.store.read(&fields.blob(CONFIG)?.digest).ok()
    }

    fn asset_path(&self, name: &str) -> Option<Utf8PathBuf> {
        Some(self.pipeline.base.join(&self.pipeline.assets.get(name)?.path))
    }

    /// The size of the file of weights that a stage imports, where it is there.
    fn asset_bytes(&self, spec: &StageSpec, is_codec: bool) -> Option<f64> {
        let Reference::Asset(name) = spec.inputs.get("asset")?.references.first()? else {
            return None;
        };
        let (fs, path) = (self.flows.store.cache().fs(), self.asset_path(name)?);
        let is_weights = |file: &str| {
            let extension = Utf8Path::new(file).extension().unwrap_or_default();
            WEIGHTS.contains(&extension) && file.starts_with("codec") == is_codec
        };
        let files = fs.read_dir(&path).ok()?.into_iter().filter(|entry| is_weights(&entry.name));
        // Of several forms of the same weights one is imported.
        let sizes = files.filter_map(|entry| Some(fs.metadata(&path.join(&entry.name)).ok()?.size));
        sizes.max().map(|size| size as f64)
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
        let is_codec = spec.parameters.text("family") == Ok("fish-dac");
        if let Some(bytes) = self.asset_bytes(spec, is_codec) {
            return bytes;
        }
        if is_codec {
            self.assumed.add("a codec is taken for the published one of Fish Speech: 1.87 GB");
            return CODEC_BYTES;
        }
        if self.is_vits(spec) {
            return self.vits_bytes(spec);
        }
        let model = self.text_model(spec);
        let each = match spec.parameters.text("dtype") {
            Ok("f32") => 2.0 * WEIGHT_BYTES,
            _ => WEIGHT_BYTES,
        };
        model.map_or(0.0, |config| config.parameters() as f64 * each)
    }
}
