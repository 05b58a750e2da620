//! The stage `model.import`. It looks at the directory of a file first; then one tensor is in
//! memory at a time, and each is a part that is kept, so that a stopped import goes on.

use std::sync::Arc;

use bytes::Bytes;
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, NewValue, Output, Parameters, PortOutput,
    Setup, Stage, StageError, Value,
};
use stage_families::artifact::{
    self, CONFIG, CONFIG_KIND, LICENSE, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_KIND,
};
use stage_families::dual_ar;
use stage_families::kinds::model as kinds;
use stage_formats::bpe::Bpe;
use stage_formats::{Dtype, FormatError};

use super::family::{Family, weight_file};
use super::files::{Files, Opened, description};
use super::layout::Layout;
use super::vits::Description;
use super::wav2vec2;
use crate::plain::{self, unknown_choice};

/// The configuration that stands for the published one.
pub const AS_PUBLISHED: &[u8] = b"{}\n";
pub const PUBLISHED_CONFIG: &str = "config.json";
/// Of a codec that is not the published one.
pub const CODEC_CONFIG: &str = "codec.json";
pub const MODEL_CARD: &str = "README.md";
/// Bytes of a model card that are looked at.
const CARD_HEAD: usize = 64 << 10;

pub fn stage() -> Arc<dyn Stage> {
    plain::stage(&kinds::IMPORT, open)
}

struct Import {
    family: Option<Family>,
    file: Option<String>,
    config: Option<String>,
    discriminator: Option<String>,
    dtype: Option<Dtype>,
    license: Option<String>,
}

/// A file of weights, and which of its tensors are taken.
pub struct Part {
    pub weights: Opened,
    pub layout: Layout,
}

/// The tensors, and what is told of them.
struct Described {
    parts: Vec<Part>,
    values: Vec<(String, NewValue)>,
    notes: Vec<(String, u64)>,
}

fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let family = parameters.text("family")?;
    let import = Import {
        family: match (Family::from_name(family), family) {
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
    match parameters.is_set(name) {
        true => Ok(Some(parameters.text(name)?.to_owned())),
        false => Ok(None),
    }
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
        let files = Files::new(asset, path);
        let weights = files.weights(path, context)?;
        let family = match self.family {
            Some(family) => family,
            None => Family::of(&weights.file, path)?,
        };
        let mut values = vec![(artifact::FAMILY.to_owned(), NewValue::Text(family.name().into()))];
        let Described { parts, values: described, notes: told } =
            self.described(family, weights, &files, context)?;
        values.extend(described);
        parts.iter().try_for_each(|part| part.weights.verify())?;
        let names = parts.iter().flat_map(|part| part.layout.names().map(move |name| (part, name)));
        let total: u64 = parts.iter().map(|part| part.layout.len() as u64).sum();
        for (done, (part, name)) in names.enumerate() {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            context.progress(done as u64, total);
            let value = self.tensor(part, name, context)?;
            values.push((artifact::tensor_field(name), NewValue::Kept(value)));
        }
        context.progress(total, total);
        let dropped = parts.iter().map(|part| part.layout.dropped).sum();
        let mut notes =
            vec![("tensors".to_owned(), total), ("tensors left out".to_owned(), dropped)];
        notes.extend(told);
        let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
        Ok(GatherOutput { notes, ..output })
    }
}

impl Import {
    /// The tensors, and all fields but these and the family; the two are checked against each
    /// other.
    fn described(
        &self,
        family: Family,
        weights: Opened,
        files: &Files,
        context: &mut dyn Context,
    ) -> Result<Described, StageError> {
        let config = self.config(family, files, context)?;
        let (mut values, mut notes) = (Vec::new(), Vec::new());
        let parts = if family == Family::Vits {
            let judge = match &self.discriminator {
                Some(path) => Some(files.weights(path, context)?),
                None => None,
            };
            let description = Description::read(&config, files, context)?;
            let parts = description.parts(weights, judge)?;
            values.extend(description.values);
            notes.extend(description.notes);
            parts
        } else if family == Family::Wav2Vec2 {
            values.extend(wav2vec2::described(&config, files, context)?);
            vec![wav2vec2::part(&config, weights)?]
        } else {
            let layout = Layout::new(&weights.file, family)?;
            if family == Family::DualAr {
                let published = dual_ar::Config::parse(&config)?;
                layout.check(&published.tensors())?;
                values.extend(tokenizer(files, published.vocab_size as usize, context)?);
            }
            values.push((CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config)));
            vec![Part { weights, layout }]
        };
        let license = match &self.license {
            Some(license) => Some(license.clone()),
            None => named_license(files, context)?,
        };
        values.extend(license.map(|text| (LICENSE.to_owned(), NewValue::Text(text))));
        Ok(Described { parts, values, notes })
    }

    fn config(
        &self,
        family: Family,
        files: &Files,
        context: &mut dyn Context,
    ) -> Result<Bytes, StageError> {
        match (&self.config, family) {
            (Some(config), _) => description(config, &*files.exactly(config)?, context),
            (None, Family::Dac) => match files.beside(CODEC_CONFIG) {
                Some(config) => description(CODEC_CONFIG, &config, context),
                None => Ok(AS_PUBLISHED.into()),
            },
            (None, _) => files.needed(PUBLISHED_CONFIG, "what the model is", context),
        }
    }

    fn tensor(
        &self,
        part: &Part,
        name: &str,
        context: &mut dyn Context,
    ) -> Result<Value, StageError> {
        let Part { weights: Opened { digest, file, .. }, layout } = part;
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

/// The files of the tokenizer, where there are any, once they have been found to fit the model.
fn tokenizer(
    files: &Files,
    rows: usize,
    context: &mut dyn Context,
) -> Result<Vec<(String, NewValue)>, StageError> {
    let (ranks, specials) = match (files.beside(TOKENIZER), files.beside(SPECIAL_TOKENS)) {
        (Some(ranks), Some(specials)) => (
            description(TOKENIZER, &ranks, context)?,
            description(SPECIAL_TOKENS, &specials, context)?,
        ),
        (None, None) => return Ok(Vec::new()),
        (Some(_), None) => return Err(incomplete(SPECIAL_TOKENS)),
        (None, Some(_)) => return Err(incomplete(TOKENIZER)),
    };
    let size = Bpe::read(&ranks, &specials)?.size();
    if size > rows {
        return Err(StageError::failed(format!(
            "the tokenizer has {size} tokens and the model rows for {rows}: it belongs to another \
             model"
        )));
    }
    Ok(vec![
        (TOKENIZER.to_owned(), NewValue::bytes(TOKENIZER_KIND, ranks)),
        (SPECIAL_TOKENS.to_owned(), NewValue::bytes(TOKENIZER_KIND, specials)),
    ])
}

fn incomplete(missing: &str) -> StageError {
    StageError::failed(format!("of the two files of the tokenizer the asset lacks `{missing}`"))
}

/// What the head of a model card says: lines of `key: value` between two lines of dashes.
fn named_license(files: &Files, context: &mut dyn Context) -> Result<Option<String>, StageError> {
    let Some(bytes) = files.head(MODEL_CARD, CARD_HEAD, context)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().map(str::trim_end);
    if lines.next() != Some("---") {
        return Ok(None);
    }
    let head = lines.take_while(|line| *line != "---");
    let mut named = head.filter_map(|line| line.strip_prefix("license:"));
    let name = named.next().map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
    Ok(name.filter(|name| !name.is_empty()))
}
