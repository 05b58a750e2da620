//! The published files of an XTTS model, and the checkpoints of its trainer, which contain model
//! and DVAE in one file.

use stage_core::{Blob, Context, NewValue, StageError};
use stage_formats::shapes::Expected;
use stage_formats::weight_norm::newer;

use super::published::{Shapes, notes_of_unknown};
use super::tensors::{DVAE_PREFIX, MEL_STATS};
use super::{
    Speakers, Xtts, XttsConfig, XttsTokenizer, XttsVocabulary, is_duplicate, published_check,
};
use crate::artifact::{CONFIG, CONFIG_KIND, TOKENIZER_KIND, VOCABULARY};
use crate::import::{
    CONFIG_FILE, ImportedModel, Importer, Part, Request, TensorLayout, WeightSource,
};

pub const DVAE_FILE: &str = "dvae.pth";
pub const MEL_STATS_FILE: &str = "mel_stats.pth";
/// The voices that come with the model.
pub const SPEAKERS_FILE: &str = "speakers_xtts.pth";

/// The prefix of the model in trainer checkpoints.
const TRAINER: &str = "xtts.";
/// Filters of the trainer's spectrograms, which follow from their sizes.
const REMADE: &str = "torch_mel_spectrogram_";
/// The tensors of the DVAE for its own training.
const DVAE_UNUSED: [&str; 3] =
    ["dvae.discrete_loss.", "dvae.codebook.cluster_size", "dvae.codebook.embed_avg"];

impl Importer for Xtts {
    fn prefixes(&self) -> &'static [&'static str] {
        &["model."]
    }

    fn companions(&self) -> &'static [&'static str] {
        &[DVAE_FILE, MEL_STATS_FILE, SPEAKERS_FILE]
    }

    fn states(&self) -> &'static [&'static str] {
        &["best_model", "checkpoint"]
    }

    fn marks(&self) -> &'static [&'static [&'static str]] {
        &[
            &["gpt.conditioning_encoder.", "hifigan_decoder."],
            &["xtts.gpt.conditioning_encoder.", "xtts.hifigan_decoder."],
        ]
    }

    fn import(
        &self,
        weights: WeightSource,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<ImportedModel, StageError> {
        let file = request.config(context)?;
        let json = request.files.needed(VOCABULARY, "how texts are read", context)?;
        XttsTokenizer::read(&json)?;
        let vocabulary = XttsVocabulary::read(&json)?;
        let layout = TensorLayout::renamed(&weights.file, self.prefixes(), own_name)?;
        let mut parts = vec![Part { weights, layout }];
        if !has(&parts, DVAE_PREFIX) {
            let rename = |name: &str| own_name(&format!("{DVAE_PREFIX}{name}"));
            parts.extend(beside(DVAE_FILE, request, context, rename)?);
        }
        let rename = |_: &str| Some(MEL_STATS.to_owned());
        let stats = beside(MEL_STATS_FILE, request, context, rename)?;
        let own = parts.iter().find(|part| !part.layout.stored(MEL_STATS).is_empty());
        if let (Some(own), Some(stats)) = (own, &stats) {
            compare_stats(own, stats)?;
        } else {
            parts.extend(stats);
        }
        let config = XttsConfig::read_published(&file, &shapes(&parts), vocabulary.text_tokens()?)?;
        check(&mut parts, &config)?;
        let mut notes = published_check::compare(&file, &config, &vocabulary)?;
        notes.extend(notes_of_unknown(&file));
        let mut values = vec![
            (CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config.to_json()?)),
            (CONFIG_FILE.to_owned(), NewValue::bytes(CONFIG_KIND, file)),
            (VOCABULARY.to_owned(), NewValue::bytes(TOKENIZER_KIND, json)),
        ];
        if let Some(path) = request.files.path_beside(SPEAKERS_FILE)? {
            let opened = request.files.weights(&path, context)?;
            Speakers::read(opened.file, &config).map_err(|error| error.of(&path))?;
            let blob = Blob::clone(&*request.files.exactly(&path)?);
            values.push((SPEAKERS_FILE.to_owned(), NewValue::blob(blob)));
        }
        if !has(&parts, DVAE_PREFIX) {
            notes.push((format!("`{DVAE_FILE}`, which training needs, is missing"), 1));
        }
        Ok(ImportedModel { parts, values, notes })
    }
}

/// The largest difference, by the smaller of two numbers: files in half precision are rounded.
const ROUNDED: f32 = 1e-2;

/// Refuses a file with other statistics than the model: the DVAE would encode by other mels than
/// the GPT listens to.
fn compare_stats(own: &Part, beside: &Part) -> Result<(), StageError> {
    beside.weights.verify()?;
    let values = |part: &Part| {
        let tensor = part.layout.tensor(&part.weights.file, MEL_STATS);
        tensor.map(|tensor| tensor.to_f32()).map_err(|error| error.of(MEL_STATS))
    };
    let (own, beside) = (values(own)?, values(beside)?);
    let is_same = |(own, beside): (&f32, &f32)| (own - beside).abs() <= ROUNDED * own.abs();
    match own.len() == beside.len() && own.iter().zip(&beside).all(is_same) {
        true => Ok(()),
        false => Err(StageError::with_help(
            format!("`{MEL_STATS_FILE}` does not match `{MEL_STATS}` of the model"),
            format!("remove `{MEL_STATS_FILE}`, or replace it with the file of this model"),
        )),
    }
}

/// A file with further tensors, if there is one.
fn beside(
    name: &str,
    request: &Request<'_>,
    context: &mut dyn Context,
    rename: impl Fn(&str) -> Option<String>,
) -> Result<Option<Part>, StageError> {
    let Some(path) = request.files.path_beside(name)? else { return Ok(None) };
    let weights = request.files.weights(&path, context)?;
    let layout = TensorLayout::renamed(&weights.file, &["model."], rename)?;
    Ok(Some(Part { weights, layout }))
}

/// Our name of a tensor; None for tensors that the model does not have.
fn own_name(name: &str) -> Option<String> {
    let name = name.strip_prefix(TRAINER).unwrap_or(name);
    let is_unused = DVAE_UNUSED.iter().any(|start| name.starts_with(start));
    let is_left_out = is_unused || name.starts_with(REMADE) || is_duplicate(name);
    (!is_left_out).then(|| newer(name))
}

fn has(parts: &[Part], start: &str) -> bool {
    parts.iter().any(|part| part.layout.names().any(|name| name.starts_with(start)))
}

fn shapes(parts: &[Part]) -> Shapes {
    let all = parts.iter().flat_map(|part| part.layout.shapes());
    all.map(|(name, shape)| (name.to_owned(), shape)).collect()
}

/// Checks each part; the DVAE may be missing. The original refuses a model with further tensors, and
/// ignores those of a DVAE.
fn check(parts: &mut [Part], config: &XttsConfig) -> Result<(), StageError> {
    let mut expected: Vec<Expected> = config.model_tensors();
    if has(parts, DVAE_PREFIX) {
        expected.extend(config.dvae_tensors());
    }
    let Some((first, others)) = parts.split_first_mut() else { return Ok(()) };
    for part in others {
        let is_stats = part.layout.names().any(|name| name == MEL_STATS);
        let prefix = if is_stats { MEL_STATS } else { DVAE_PREFIX };
        let is_own = |(name, _): &Expected| name.starts_with(prefix);
        let (own, rest): (Vec<_>, Vec<_>) = expected.into_iter().partition(is_own);
        part.layout.fit(&own)?;
        expected = rest;
    }
    first.layout.check(&expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_trainer_and_of_older_libraries_become_ours() {
        for (given, own) in [
            ("xtts.gpt.text_head.bias", Some("gpt.text_head.bias")),
            ("gpt.text_head.bias", Some("gpt.text_head.bias")),
            ("xtts.mel_stats", Some("mel_stats")),
            ("dvae.codebook.embed", Some("dvae.codebook.embed")),
            ("dvae.codebook.cluster_size", None),
            ("dvae.discrete_loss.accumulator", None),
            ("gpt.gpt.wte.weight", None),
            ("xtts.gpt.gpt_inference.transformer.h.0.ln_1.bias", None),
            ("torch_mel_spectrogram_dvae.mel_stft.mel_scale.fb", None),
            (
                "hifigan_decoder.waveform_decoder.ups.0.weight_g",
                Some("hifigan_decoder.waveform_decoder.ups.0.parametrizations.weight.original0"),
            ),
        ] {
            assert_eq!(own_name(given).as_deref(), own, "{given}");
        }
    }
}
