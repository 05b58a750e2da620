//! The stage `model.import`. It reads the directory of a file first; then one tensor is in memory
//! at a time, and each is a remembered part, so that a stopped import continues.

use std::collections::BTreeMap;
use std::sync::Arc;

use stage_core::escape::clean;
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, NewValue, Output, Parameters, PortOutput,
    Setup, Stage, StageError, Value,
};
use stage_families::artifact::{self, LICENSE};
use stage_families::import::{AssetFiles, ImportedModel, Part, Request, WeightSource};
use stage_families::kinds::model as kinds;
use stage_families::{Family, find};
use stage_formats::shapes::listed;
use stage_formats::{Dtype, FormatError};

use super::card;
use super::family::{family_of, is_state, weight_file};
use crate::plain::{self, unknown_choice};

pub fn stage() -> Arc<dyn Stage> {
    plain::stage(&kinds::IMPORT, open)
}

struct Import {
    family: Option<&'static dyn Family>,
    file: Option<String>,
    config: Option<String>,
    discriminator: Option<String>,
    dtype: Option<Dtype>,
    license: Option<String>,
}

fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let family = parameters.text("family")?;
    let import = Import {
        family: match (find(family), family) {
            (None, other) if other != "auto" => return Err(unknown_choice("family", other)),
            (family, _) => family,
        },
        dtype: super::dtype(parameters)?,
        file: optional(parameters, "file")?,
        config: optional(parameters, "config")?,
        discriminator: optional(parameters, "discriminator")?,
        license: optional(parameters, "license")?,
    };
    Ok(Job::Gather(Box::new(import)))
}

fn optional(parameters: &Parameters, name: &str) -> Result<Option<String>, StageError> {
    if parameters.is_set(name) { Ok(Some(parameters.text(name)?.to_owned())) } else { Ok(None) }
}

impl GatherJob for Import {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let asset = input
            .artifact("asset")
            .ok_or_else(|| StageError::failed("no files arrived on port `asset`"))?;
        let path = weight_file(asset, self.file.as_deref(), self.family)?;
        let request = Request {
            files: AssetFiles::new(asset, path),
            config: self.config.clone(),
            discriminator: self.discriminator.clone(),
        };
        let weights = request.files.weights(path, context)?;
        let family = match self.family {
            Some(family) => family,
            None => family_of(&weights.file, path)?,
        };
        let Some(importer) = family.importer() else {
            return Err(unknown_choice("family", family.name()));
        };
        let mut values = vec![(artifact::FAMILY.to_owned(), NewValue::Text(family.name().into()))];
        let ImportedModel { parts, values: described, notes: told } =
            importer.import(weights, &request, context)?;
        values.extend(described);
        let license = match &self.license {
            Some(license) => Some(license.clone()),
            None => card::license(&request.files, context)?,
        };
        values.extend(license.map(|text| (LICENSE.to_owned(), NewValue::Text(text))));
        parts.iter().try_for_each(|part| part.weights.verify())?;
        let names = parts.iter().flat_map(|part| part.layout.names().map(move |name| (part, name)));
        let total: u64 = parts.iter().map(|part| part.layout.names().len() as u64).sum();
        for (done, (part, name)) in names.enumerate() {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            context.progress(done as u64, total);
            let value = self.tensor(part, name, context)?;
            values.push((artifact::tensor_field(name), NewValue::Kept(value)));
        }
        context.progress(total, total);
        let mut notes = notes_of(&parts, total);
        notes.extend(unwrapped(&parts, importer.prefixes()));
        notes.extend(told);
        if self.file.is_none() && is_state(path) {
            notes.push((format!("taken: `{path}`"), 1));
        }
        let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
        Ok(GatherOutput { notes, ..output })
    }
}

/// The number of tensors, and of those that were left out.
fn notes_of(parts: &[Part], total: u64) -> Vec<(String, u64)> {
    let dropped = parts.iter().map(|part| part.layout.dropped).sum();
    let mut notes = vec![("tensors".to_owned(), total), ("tensors left out".to_owned(), dropped)];
    let unknown: Vec<&str> =
        parts.iter().flat_map(|part| &part.layout.unknown).map(String::as_str).collect();
    if !unknown.is_empty() {
        let names = listed(unknown.iter().copied());
        let note = format!("tensors left out that the model does not have: {}", clean(&names));
        notes.push((note, unknown.len() as u64));
    }
    notes
}

/// The prefixes of wrapped models that were removed from the names of tensors.
fn unwrapped(parts: &[Part], prefixes: &[&str]) -> BTreeMap<String, u64> {
    let mut notes = BTreeMap::new();
    for part in parts {
        let plain = part.weights.file.plain_names(prefixes);
        if !plain.unwrapped.is_empty() {
            let note = format!("names without their prefix `{}`", plain.unwrapped);
            *notes.entry(note).or_default() += plain.names.len() as u64;
        }
    }
    notes
}

impl Import {
    fn tensor(
        &self,
        part: &Part,
        name: &str,
        context: &mut dyn Context,
    ) -> Result<Value, StageError> {
        let Part { weights: WeightSource { digest, file, .. }, layout } = part;
        let mut sink = HashSink::default();
        sink.digest("file", digest);
        sink.text("dtype", self.dtype.map_or("keep", Dtype::name));
        let stored = layout.stored(name);
        sink.group("parts", stored.len());
        stored.iter().for_each(|part| sink.text("name", part));
        let key = sink.finish();
        let kept = match context.recall(&key)? {
            Some(fields) => fields,
            None => {
                let failed = |error: FormatError| error.of(name);
                let mut tensor = layout.tensor(file, name).map_err(failed)?;
                if let Some(dtype) = self.dtype.filter(|_| tensor.dtype().is_float()) {
                    tensor = tensor.to_float(dtype).map_err(failed)?;
                }
                let value = artifact::tensor_value(&tensor).map_err(failed)?;
                context.remember(&key, Output::default().with("tensor", value))?
            }
        };
        let lost = || StageError::failed(format!("`{name}` was not kept"));
        kept.get("tensor").cloned().ok_or_else(lost)
    }
}
