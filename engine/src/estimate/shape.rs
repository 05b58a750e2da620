//! The sizes of the models that flow through a pipeline, from their configurations alone.

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Parameters, PortType};
use stage_families::model::{Codec, Model};
use stage_families::{FAMILIES, Family, USUAL_CODEC, USUAL_MODEL, find};

use super::Estimator;
use crate::pipeline::{Reference, StageId, StageSpec};
use crate::plan::PlannedValue;

/// The ports that take models, the one most similar to the output first.
const MODELS: [&str; 3] = ["base", "model", "asset"];
/// The port on which a codec arrives.
const CODEC: &str = "codec";
const CONFIG: &str = "config";
/// The extensions of weight files.
const WEIGHTS: [&str; 5] = ["safetensors", "pth", "pt", "ckpt", "bin"];

impl Estimator<'_> {
    /// The model of this family that a stage takes or makes; the default model of the family if
    /// there is none yet.
    pub fn model(&self, spec: &StageSpec, family: &dyn Family) -> Option<Box<dyn Model>> {
        self.find_model(spec, family).or_else(|| {
            let assumed = family.assumed()?;
            self.assumed.add(assumed.told);
            Some(assumed.model)
        })
    }

    fn find_model(&self, spec: &StageSpec, family: &dyn Family) -> Option<Box<dyn Model>> {
        let known = self.known_config(spec.id).and_then(|bytes| family.read(&bytes));
        let fresh = || family.fresh(spec.kind, &spec.parameters, self.codec_parameters(spec));
        if let Some(model) = known.or_else(fresh) {
            return Some(model);
        }
        let input = MODELS.iter().find_map(|port| spec.inputs.get(port))?;
        match input.references.first()? {
            Reference::Stage { stage, .. } => self.find_model(self.pipeline.stage(*stage), family),
            Reference::Asset(name) => {
                let path = self.asset_path(name)?.join(family.config_file());
                family.read(&self.flows.store.cache().fs().read(&path).ok()?)
            }
        }
    }

    /// The configuration of an existing model.
    fn known_config(&self, id: StageId) -> Option<Bytes> {
        let port = self.pipeline.stage(id).kind.outputs.first()?.name;
        let Some(PlannedValue::Artifact(fields)) = self.plan.stage(id).known.outputs.get(port)
        else {
            return None;
        };
        self.flows.store.read(&fields.blob(CONFIG)?.digest).ok()
    }

    fn asset_path(&self, name: &str) -> Option<Utf8PathBuf> {
        Some(self.pipeline.base.join(&self.pipeline.assets.get(name)?.path))
    }

    /// The family of the weights that a stage outputs: from its parameters, else from their
    /// configuration, else from the stages that use them.
    fn family(&self, spec: &StageSpec) -> &'static dyn Family {
        let told = spec.parameters.text("family").ok().and_then(find);
        let known = || FAMILIES.iter().copied().find(|own| self.find_model(spec, *own).is_some());
        let above = || spec.upstream().find_map(|above| self.pipeline.stage(above).family());
        let below = || self.pipeline.stages.iter().find_map(|below| read_as(below, spec.id));
        let family = told.or_else(|| spec.family()).or_else(known);
        family.or_else(above).or_else(below).unwrap_or(USUAL_MODEL)
    }

    /// The model that a stage converts, or the usual one.
    pub fn converted(&self, spec: &StageSpec) -> Option<Box<dyn Model>> {
        self.model(spec, self.family(spec))
    }

    /// The size of the weights that a stage converts.
    pub fn weight_bytes(&self, spec: &StageSpec) -> f64 {
        let family = self.family(spec);
        let model = || Some(self.model(spec, family)?.bytes(&spec.parameters));
        self.asset_bytes(spec, family).or_else(model).unwrap_or(0.0)
    }

    /// The size of the weight file that a stage imports, if it exists.
    fn asset_bytes(&self, spec: &StageSpec, family: &dyn Family) -> Option<f64> {
        let Reference::Asset(name) = spec.inputs.get("asset")?.references.first()? else {
            return None;
        };
        let (fs, path) = (self.flows.store.cache().fs(), self.asset_path(name)?);
        if let Ok(file) = fs.metadata(&path)
            && file.is_file()
        {
            return Some(file.size as f64);
        }
        let is_weights = |file: &str| {
            let extension = Utf8Path::new(file).extension().unwrap_or_default();
            WEIGHTS.contains(&extension) && file_stem(file) == stem(family)
        };
        let files = fs.read_dir(&path).ok()?.into_iter().filter(|entry| is_weights(&entry.name));
        // Of several formats of the same weights, one is imported.
        let sizes = files.filter_map(|entry| Some(fs.metadata(&path.join(&entry.name)).ok()?.size));
        sizes.max().map(|size| size as f64)
    }

    fn codec_stage(&self, spec: &StageSpec) -> Option<&StageSpec> {
        match spec.inputs.get(CODEC)?.references.first()? {
            Reference::Stage { stage, .. } => Some(self.pipeline.stage(*stage)),
            Reference::Asset(_) => None,
        }
    }

    fn codec_parameters(&self, spec: &StageSpec) -> Option<&Parameters> {
        self.codec_stage(spec).map(|codec| &codec.parameters)
    }

    /// The codec of a stage, if it uses one; the default codec if nothing names another.
    pub fn codec(&self, spec: &StageSpec) -> Option<Codec> {
        if !spec.inputs.contains_key(CODEC) {
            return None;
        }
        let given = self.codec_stage(spec).and_then(|codec| {
            let port =
                codec.kind.outputs.iter().find(|port| port.port_type == PortType::Artifact)?;
            match port.given(&codec.parameters) {
                [one] => find(one)?.codec(),
                // An import names many families: its files say which one it is.
                _ => self.family(codec).codec(),
            }
        });
        given.or_else(|| USUAL_CODEC.codec())
    }
}

/// The family that a stage takes the model of another stage for: its own, or the only one that the
/// port takes.
fn read_as(reader: &StageSpec, read: StageId) -> Option<&'static dyn Family> {
    let (port, _) = reader.inputs.iter().find(|(_, input)| {
        let is_it = |reference: &Reference| {
            matches!(reference, Reference::Stage { stage, .. } if *stage == read)
        };
        input.references.iter().any(is_it)
    })?;
    let only = || match reader.kind.input(port)?.takes {
        [one] => find(one),
        _ => None,
    };
    reader.family().or_else(only)
}

/// The published weight file of a family, without its extension.
fn stem(family: &dyn Family) -> &'static str {
    let usual = USUAL_MODEL.importer();
    family.importer().or(usual).map_or("", |importer| importer.file_stem())
}

/// The file name without its weight extension; a default name if it has none.
fn file_stem(file: &str) -> &'static str {
    let stems = FAMILIES.iter().map(|family| stem(*family));
    stems
        .filter(|stem| file.starts_with(stem))
        .max_by_key(|stem| stem.len())
        .unwrap_or(stem(USUAL_MODEL))
}
