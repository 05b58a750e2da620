//! The published files of a VITS model, of transformers or of the original project.

use stage_core::{Context, NewValue, StageError};
use stage_formats::json::to_json;
use stage_formats::{FormatError, WeightFile};

use super::checkpoint;
use super::config::FIELDS;
use super::piper::{self, DESCRIPTION_SUFFIX, PiperVoice};
use super::{
    DISCRIMINATOR_PREFIX, SPEAKERS_FILE, Vits, VitsConfig, VitsTokenizer, is_original,
    is_projection, plain_name, read_original, read_speakers, tokenizer_config_file,
    vocabulary_file, write_speakers,
};
use crate::artifact::{
    CONFIG, CONFIG_KIND, SPEAKERS, TOKENIZER_CONFIG, TOKENIZER_KIND, VOCABULARY,
};
use crate::import::{
    AssetFiles, ImportedModel, Importer, Part, Request, TRANSFORMERS_FIELDS, TensorLayout,
    WeightSource, description, unknown_fields,
};

/// The file of the original with its symbols, one per line.
const SYMBOLS: &str = "vocab.txt";

/// The purpose of the file beside a graph.
const WHAT_VOICE: &str = "what the voice is";

/// The note on the model of a graph.
const SPEAKS_ONLY: &str = "a graph has no parts for training: this model only speaks";

/// The note on a model that only accepts the texts of its own tokenizer.
const ROMANISED: &str =
    "reads only romanised texts: convert other scripts with uroman in a `command` stage";

impl Importer for Vits {
    fn prefixes(&self) -> &'static [&'static str] {
        &["model."]
    }

    fn marks(&self) -> &'static [&'static [&'static str]] {
        &[
            &["text_encoder.", "posterior_encoder.", "flow."],
            &["enc_p.", "enc_q.", "flow."],
            // A graph.
            &["enc_p.", "dp.", "flow.", "dec."],
            checkpoint::MARKS,
        ]
    }

    fn import(
        &self,
        mut weights: WeightSource,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<ImportedModel, StageError> {
        if let WeightFile::Onnx(graph) = &mut weights.file {
            let described = match request.chosen_config(context)? {
                Some(described) => described,
                None => request.files.behind(DESCRIPTION_SUFFIX, WHAT_VOICE, context)?,
            };
            piper::named(graph)?;
            let description = Description::of_voice(piper::voice(graph, &described)?)?;
            let parts = description.parts(self.prefixes(), weights, None)?;
            return Ok(ImportedModel {
                parts,
                values: description.values,
                notes: description.notes,
            });
        }
        let config = request.config(context)?;
        if let Some(settings) = checkpoint::settings(&weights.file) {
            let voice = piper::checkpoint(settings, &config)?;
            let description = Description::of_voice(voice)?;
            let parts = description.parts(self.prefixes(), weights, None)?;
            let Description { values, notes, .. } = description;
            return Ok(ImportedModel { parts, values, notes });
        }
        let judge = request.discriminator.as_ref().map(|path| request.files.weights(path, context));
        let judge = judge.transpose()?;
        let description = Description::read(&config, &request.files, context)?;
        let parts = description.parts(self.prefixes(), weights, judge)?;
        Ok(ImportedModel { parts, values: description.values, notes: description.notes })
    }
}

/// The descriptions of a model, in the format of transformers for all sources.
struct Description {
    config: VitsConfig,
    values: Vec<(String, NewValue)>,
    notes: Vec<(String, u64)>,
}

impl Description {
    /// A voice of Piper.
    fn of_voice(voice: PiperVoice) -> Result<Description, StageError> {
        let mut values = vec![
            (VOCABULARY.to_owned(), NewValue::bytes(TOKENIZER_KIND, voice.vocabulary)),
            (TOKENIZER_CONFIG.to_owned(), NewValue::bytes(TOKENIZER_KIND, voice.tokenizer_config)),
            (CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, to_json(&voice.config)?)),
        ];
        let names = voice.speakers.map(|names| NewValue::Text(write_speakers(&names)));
        values.extend(names.map(|names| (SPEAKERS.to_owned(), names)));
        let speaks_only = voice.config.speaks_only.then(|| (SPEAKS_ONLY.to_owned(), 1));
        let notes = speaks_only.into_iter().collect();
        Ok(Description { config: voice.config, values, notes })
    }

    fn read(
        source: &[u8],
        files: &AssetFiles<'_>,
        context: &mut dyn Context,
    ) -> Result<Description, StageError> {
        let (config, text, vocabulary, reading) = match is_original(source) {
            false => {
                let mut needed = |name: &str| files.needed(name, "how texts are read", context);
                let parts = (needed(VOCABULARY)?.to_vec(), needed(TOKENIZER_CONFIG)?.to_vec());
                (VitsConfig::parse(source)?, source.to_vec(), parts.0, parts.1)
            }
            true => {
                let symbols =
                    symbols(&files.needed(SYMBOLS, "what the model can read", context)?)?;
                let (own, rules) = read_original(source, symbols.len())?;
                let text = to_json(&own)?;
                let reading = tokenizer_config_file(&symbols, rules);
                (own, text, vocabulary_file(&symbols)?, reading)
            }
        };
        let tokenizer = VitsTokenizer::read(&vocabulary, &reading)?;
        let size = tokenizer.size();
        if size > config.vocab_size {
            let rows = config.vocab_size;
            return Err(StageError::failed(format!(
                "the tokenizer has {size} tokens, but the model has {rows} rows: it belongs to \
                 another model"
            )));
        }
        let mut values = vec![
            (VOCABULARY.to_owned(), NewValue::bytes(TOKENIZER_KIND, vocabulary)),
            (TOKENIZER_CONFIG.to_owned(), NewValue::bytes(TOKENIZER_KIND, reading)),
            (CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, text)),
        ];
        if let Some(list) = files.beside(SPEAKERS_FILE)? {
            let names = read_speakers(&description(SPEAKERS_FILE, &list, context)?, &config)?;
            values.push((SPEAKERS.to_owned(), NewValue::Text(write_speakers(&names))));
        }
        let mut notes: Vec<(String, u64)> =
            tokenizer.is_romanised().then(|| (ROMANISED.to_owned(), 1)).into_iter().collect();
        if !is_original(source) {
            notes.extend(unknown_fields(source, "", &[FIELDS, TRANSFORMERS_FIELDS]));
        }
        Ok(Description { config, values, notes })
    }

    /// The tensors of the model, with those of a discriminator in a separate file.
    fn parts(
        &self,
        prefixes: &[&str],
        weights: WeightSource,
        judge: Option<WeightSource>,
    ) -> Result<Vec<Part>, StageError> {
        let mut layout = self.layout(&weights.file, prefixes)?;
        let has_judge = layout.names().any(|name| name.starts_with(DISCRIMINATOR_PREFIX));
        let mut expected = self.config.generator();
        if has_judge {
            expected.extend(self.config.discriminator());
        }
        layout.fit_paired(expected)?;
        let mut parts = vec![Part { weights, layout }];
        if let Some(weights) = judge {
            if has_judge {
                let message = "the file of weights already has a discriminator";
                return Err(StageError::with_help(message, "leave out `discriminator`"));
            }
            let mut layout = self.layout(&weights.file, prefixes)?;
            layout.fit_paired(self.config.discriminator())?;
            parts.push(Part { weights, layout });
        }
        Ok(parts)
    }

    /// The layout of a generator or discriminator, from a file of transformers or of the original;
    /// each weight is whole or in the pair that the file has. The type of the duration predictor
    /// distinguishes some names.
    fn layout(&self, file: &WeightFile, prefixes: &[&str]) -> Result<TensorLayout, StageError> {
        let is_stochastic = self.config.use_stochastic_duration_prediction;
        let rename =
            |name: &str| Some(plain_name(checkpoint::without_network(name), is_stochastic));
        let mut layout = TensorLayout::renamed(file, prefixes, rename)?;
        layout.drop_last_axis(is_projection);
        Ok(layout)
    }
}

/// The lines of a file; one of them may be a space.
fn symbols(bytes: &[u8]) -> Result<Vec<String>, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|error| FormatError::Unsupported {
        message: format!("`{SYMBOLS}` is not UTF-8: {error}"),
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}
