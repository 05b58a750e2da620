//! The published `config.json`: read with the sizes that only the tensors have, and written for the
//! original. Missing values are those of the v2 recipe, not the defaults of the class, which are
//! those of v1.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use stage_formats::FormatError;

use super::config::XttsConfig;
use super::gpt_tensors::GPT_PREFIX;
use super::tensors::{DECODER_PREFIX, DVAE_PREFIX, SPEAKER_ENCODER_PREFIX};
use crate::import::unknown_fields;
use crate::scope::DIRECTION;
use crate::sizes::refused;

/// Shapes of the tensors of a model by their names.
pub type Shapes = BTreeMap<String, Vec<i64>>;

/// Ids in the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextTokens {
    /// The largest id + 1.
    pub rows: i64,
    pub start: i64,
    pub stop: i64,
}

/// The place of a value of the file in a configuration.
enum Field {
    Count(fn(&mut XttsConfig) -> &mut i64),
    /// The vocabulary decides it, whatever the file says.
    OfVocabulary(fn(&mut XttsConfig) -> &mut i64),
    Number(fn(&mut XttsConfig) -> &mut f64),
    /// The original computes counts of samples from these and needs whole numbers.
    Seconds(fn(&mut XttsConfig) -> &mut f64),
    Flag(fn(&mut XttsConfig) -> &mut bool),
    /// The perceiver, which all models of the second version have.
    Always,
}

/// Values by their part of the file and their names there.
const FIELDS: [(&str, &str, Field); 29] = [
    ("", "temperature", Field::Number(|config| &mut config.sampling.temperature)),
    ("", "length_penalty", Field::Number(|config| &mut config.sampling.length_penalty)),
    ("", "repetition_penalty", Field::Number(|config| &mut config.sampling.repetition_penalty)),
    ("", "top_k", Field::Count(|config| &mut config.sampling.top_k)),
    ("", "top_p", Field::Number(|config| &mut config.sampling.top_p)),
    ("", "gpt_cond_len", Field::Seconds(|config| &mut config.sampling.conditioning_seconds)),
    (
        "",
        "gpt_cond_chunk_len",
        Field::Seconds(|config| &mut config.sampling.conditioning_chunk_seconds),
    ),
    ("", "max_ref_len", Field::Seconds(|config| &mut config.sampling.max_reference_seconds)),
    (MODEL, "gpt_max_audio_tokens", Field::Count(|config| &mut config.gpt.max_audio_tokens)),
    (MODEL, "gpt_max_text_tokens", Field::Count(|config| &mut config.gpt.max_text_tokens)),
    (MODEL, "gpt_layers", Field::Count(|config| &mut config.gpt.layers)),
    (MODEL, "gpt_n_model_channels", Field::Count(|config| &mut config.gpt.width)),
    (MODEL, HEADS, Field::Count(|config| &mut config.gpt.heads)),
    (MODEL, "gpt_number_text_tokens", Field::OfVocabulary(|config| &mut config.gpt.text_tokens)),
    (MODEL, "gpt_start_text_token", Field::OfVocabulary(|config| &mut config.gpt.start_text_token)),
    (MODEL, "gpt_stop_text_token", Field::OfVocabulary(|config| &mut config.gpt.stop_text_token)),
    (MODEL, "gpt_num_audio_tokens", Field::Count(|config| &mut config.gpt.audio_tokens)),
    (MODEL, "gpt_start_audio_token", Field::Count(|config| &mut config.gpt.start_audio_token)),
    (MODEL, "gpt_stop_audio_token", Field::Count(|config| &mut config.gpt.stop_audio_token)),
    (MODEL, "gpt_code_stride_len", Field::Count(|config| &mut config.gpt.code_stride)),
    (MODEL, "gpt_use_perceiver_resampler", Field::Always),
    (MODEL, "input_sample_rate", Field::Count(|config| &mut config.gpt.sample_rate)),
    (MODEL, "output_sample_rate", Field::Count(|config| &mut config.decoder.sample_rate)),
    (MODEL, "output_hop_length", Field::Count(|config| &mut config.decoder.hop)),
    (MODEL, "decoder_input_dim", Field::Count(|config| &mut config.decoder.input_width)),
    (MODEL, "d_vector_dim", Field::Count(|config| &mut config.decoder.speaker_width)),
    (
        MODEL,
        "cond_d_vector_in_each_upsampling_layer",
        Field::Flag(|config| &mut config.decoder.speaker_in_each_layer),
    ),
    (AUDIO, "sample_rate", Field::Count(|config| &mut config.gpt.sample_rate)),
    (AUDIO, "output_sample_rate", Field::Count(|config| &mut config.decoder.sample_rate)),
];

const MODEL: &str = "model_args";
const AUDIO: &str = "audio";
const HEADS: &str = "gpt_n_heads";

impl Field {
    fn read(&self, config: &mut XttsConfig, name: &str, given: &Value) -> Result<(), FormatError> {
        let wrong = |expected: &str| refused(format!("`{name}` is {given}, expected {expected}"));
        match self {
            Field::OfVocabulary(_) => {}
            Field::Count(of) => {
                *of(config) = given.as_i64().ok_or_else(|| wrong("a whole number"))?
            }
            Field::Number(of) | Field::Seconds(of) => {
                *of(config) = given.as_f64().ok_or_else(|| wrong("a number"))?;
            }
            Field::Flag(of) => {
                *of(config) = given.as_bool().ok_or_else(|| wrong("true or false"))?
            }
            Field::Always if given == &json!(false) => {
                return Err(FormatError::Unsupported {
                    message: "the model has no perceiver: it is XTTS v1, but only v2 is supported"
                        .to_owned(),
                });
            }
            Field::Always => {}
        }
        Ok(())
    }

    fn written(&self, config: &mut XttsConfig) -> Value {
        match self {
            Field::Count(of) | Field::OfVocabulary(of) => json!(of(config)),
            Field::Number(of) => json!(of(config)),
            Field::Seconds(of) => whole(*of(config)),
            Field::Flag(of) => json!(of(config)),
            Field::Always => json!(true),
        }
    }
}

/// A value of the file; null is none.
pub(super) fn given<'a>(file: &'a Map<String, Value>, part: &str, name: &str) -> Option<&'a Value> {
    let value = match part {
        "" => file.get(name),
        part => file.get(part)?.get(name),
    };
    value.filter(|value| !value.is_null())
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Python writes unlimited values as `Infinity`, which is not JSON: `instead` takes their place.
fn finite(json: &[u8], instead: &[u8]) -> Vec<u8> {
    let words: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let mut plain = Vec::with_capacity(json.len());
    let (mut rest, mut is_text) = (json, false);
    while let Some((first, after)) = rest.split_first() {
        let word = words.iter().find(|word| !is_text && rest.starts_with(word));
        match (word, first, after.first()) {
            (Some(word), ..) => {
                plain.extend_from_slice(instead);
                rest = &rest[word.len()..];
                continue;
            }
            (None, b'\\', Some(escaped)) if is_text => {
                plain.extend_from_slice(&[b'\\', *escaped]);
                rest = &after[1..];
                continue;
            }
            (None, b'"', _) => is_text = !is_text,
            _ => {}
        }
        plain.push(*first);
        rest = after;
    }
    plain
}

/// The values of a file. Numbers that are not finite are texts, so that they are refused where a
/// number is used.
pub(super) fn parsed(json: &[u8]) -> Result<Map<String, Value>, FormatError> {
    let json = finite(json, b"\"not finite\"");
    serde_json::from_slice(&json).map_err(|error| refused(error.to_string()))
}

/// The names of the fields that the original knows, by their part of the file.
static KNOWN: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("published_fields.toml")).unwrap_or_default());

/// Notes about fields that the original does not know.
pub(super) fn notes_of_unknown(config: &[u8]) -> Vec<(String, u64)> {
    KNOWN.iter().flat_map(|(part, known)| unknown_fields(config, part, &[known])).collect()
}

impl XttsConfig {
    /// Reads our own stored format.
    pub fn parse(json: &[u8]) -> Result<XttsConfig, FormatError> {
        let config: XttsConfig =
            serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Our own stored format. The same configuration gives the same bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, FormatError> {
        serde_json::to_vec_pretty(self).map_err(|error| refused(error.to_string()))
    }

    /// Reads the published file. Missing sizes follow from the shapes of the tensors, by our names.
    pub fn read_published(
        json: &[u8],
        shapes: &Shapes,
        tokens: TextTokens,
    ) -> Result<XttsConfig, FormatError> {
        let (file, seen) = (parsed(json)?, ShapeFacts(shapes));
        if let Some(part) = [MODEL, AUDIO]
            .iter()
            .find(|part| file.get(**part).is_some_and(|part| !part.is_object() && !part.is_null()))
        {
            return Err(refused(format!("`{part}` is not a table")));
        }
        let mut config = XttsConfig::published();
        config.complete_gpt(&seen, given(&file, MODEL, HEADS).is_some())?;
        for (part, name, field) in &FIELDS {
            if let Some(given) = given(&file, part, name) {
                field.read(&mut config, name, given)?;
            }
        }
        if let Some(languages) = given(&file, "", "languages") {
            config.languages = serde_json::from_value(languages.clone())
                .map_err(|error| refused(format!("`languages`: {error}")))?;
        }
        let TextTokens { rows, start, stop } = tokens;
        let is_said = |name: &str| given(&file, MODEL, name).is_some();
        let gpt = &mut config.gpt;
        (gpt.text_tokens, gpt.start_text_token, gpt.stop_text_token) = (rows, start, stop);
        if !is_said("gpt_start_audio_token") {
            gpt.start_audio_token = gpt.audio_tokens.saturating_sub(2);
        }
        if !is_said("gpt_stop_audio_token") {
            gpt.stop_audio_token = gpt.audio_tokens.saturating_sub(1);
        }
        if !is_said("decoder_input_dim") {
            config.decoder.input_width = gpt.width;
        }
        gpt.conditioning_heads = gpt.heads;
        config.speaker_encoder.width = config.decoder.speaker_width;
        config.complete(&seen);
        config.check()?;
        Ok(config)
    }

    /// Sizes of the GPT that the file need not say.
    fn complete_gpt(&mut self, seen: &ShapeFacts, has_heads: bool) -> Result<(), FormatError> {
        let (gpt, own) = (&mut self.gpt, |name: &str| format!("{GPT_PREFIX}{name}"));
        let published = gpt.width;
        set(&mut gpt.layers, seen.count(&own("gpt.h."), ""));
        set(&mut gpt.width, seen.size(&own("mel_embedding.weight"), 1));
        set(&mut gpt.audio_tokens, seen.size(&own("mel_embedding.weight"), 0));
        let positions =
            |name: &str| seen.size(&own(&format!("{name}_pos_embedding.emb.weight")), 0);
        set(&mut gpt.max_text_tokens, positions("text").map(|rows| rows - 2));
        set(&mut gpt.max_audio_tokens, positions("mel").map(|rows| rows - 3));
        let speaker = format!("{DECODER_PREFIX}cond_layer.weight");
        set(&mut self.decoder.speaker_width, seen.size(&speaker, 1));
        match gpt.width == published || has_heads {
            true => Ok(()),
            false => Err(refused(format!(
                "`{HEADS}` of `{MODEL}` is missing, and the width {} of the GPT is not that of \
                 XTTS v2 ({published})",
                gpt.width
            ))),
        }
    }

    /// Completes it from the tensors.
    fn complete(&mut self, seen: &ShapeFacts) {
        let gpt = &mut self.gpt;
        let own = |name: &str| format!("{GPT_PREFIX}{name}");
        set(&mut gpt.latents, seen.size(&own("conditioning_perceiver.latents"), 0));
        set(&mut gpt.perceiver_layers, seen.count(&own("conditioning_perceiver.layers."), ""));
        set(&mut gpt.conditioning_layers, seen.count(&own("conditioning_encoder.attn."), ""));
        set(&mut gpt.mels, seen.size(&own("conditioning_encoder.init.weight"), 1));
        let query = seen.size(&own("conditioning_perceiver.layers.0.0.to_q.weight"), 0);
        set(&mut gpt.perceiver_heads, query.map(|width| width / gpt.perceiver_head_width.max(1)));
        // If the file has no DVAE, the GPT determines its number of codes.
        self.dvae.codes = gpt.audio_tokens.saturating_sub(2);
        self.complete_dvae(seen);
        self.complete_decoder(seen);
        self.complete_speaker_encoder(seen);
    }

    fn complete_dvae(&mut self, seen: &ShapeFacts) {
        let (dvae, own) = (&mut self.dvae, |name: &str| format!("{DVAE_PREFIX}{name}"));
        set(&mut dvae.codes, seen.size(&own("codebook.embed"), 1));
        set(&mut dvae.codebook_width, seen.size(&own("codebook.embed"), 0));
        set(&mut dvae.hidden, seen.size(&own("encoder.0.0.weight"), 0));
        set(&mut dvae.layers, seen.count(&own("encoder."), ".0.weight"));
        set(&mut dvae.residual_blocks, seen.count(&own("encoder."), ".net.0.weight"));
    }

    /// Strides are half of their kernels and dilations the odd numbers, as in every release.
    fn complete_decoder(&mut self, seen: &ShapeFacts) {
        let own = |name: String| format!("{DECODER_PREFIX}{name}");
        let decoder = &mut self.decoder;
        set(&mut decoder.initial_channels, seen.size(&own("conv_pre.weight".into()), 0));
        let kernel = |at: i64| seen.size(&own(format!("ups.{at}.{DIRECTION}")), 2);
        let kernels: Vec<i64> = (0..).map_while(kernel).collect();
        if kernels.is_empty() {
            return;
        }
        decoder.upsample_rates = kernels.iter().map(|kernel| kernel / 2).collect();
        let steps = kernels.len() as i64;
        decoder.upsample_kernels = kernels;
        let blocks = seen.count(&own("resblocks.".into()), ".convs1.0.bias").unwrap_or(0);
        let (mut sizes, mut dilations) = (Vec::new(), Vec::new());
        for at in 0..blocks / steps {
            let kernel = seen.size(&own(format!("resblocks.{at}.convs1.0.{DIRECTION}")), 2);
            sizes.extend(kernel);
            let count = seen.count(&own(format!("resblocks.{at}.convs1.")), ".bias");
            dilations.push((0..count.unwrap_or(0)).map(|at| 2 * at + 1).collect());
        }
        (decoder.resblock_kernels, decoder.resblock_dilations) = (sizes, dilations);
    }

    fn complete_speaker_encoder(&mut self, seen: &ShapeFacts) {
        let own = |name: String| format!("{SPEAKER_ENCODER_PREFIX}{name}");
        let encoder = &mut self.speaker_encoder;
        for at in 0..encoder.blocks.len() {
            let stage = at + 1;
            let count = seen.count(&own(format!("layer{stage}.")), ".conv1.weight");
            set(&mut encoder.blocks[at], count);
            let first = seen.size(&own(format!("layer{stage}.0.conv1.weight")), 0);
            set(&mut encoder.channels[at], first);
        }
        set(&mut encoder.width, seen.size(&own("fc.bias".into()), 0));
        set(&mut encoder.mels, seen.size(&own("torch_spec.1.mel_scale.fb".into()), 1));
        set(&mut encoder.window, seen.size(&own("torch_spec.1.spectrogram.window".into()), 0));
        let bins = seen.size(&own("torch_spec.1.mel_scale.fb".into()), 0);
        set(&mut encoder.n_fft, bins.map(|bins| 2 * (bins - 1)));
    }

    /// The file that the original loads: the given one, or a new one, with our values.
    pub fn published_file(&self, given: Option<&[u8]>) -> Result<Vec<u8>, FormatError> {
        let failed = |error: serde_json::Error| refused(error.to_string());
        let mut file: Map<String, Value> = match given {
            Some(json) => serde_json::from_slice(&finite(json, b"null")).map_err(failed)?,
            None => Map::new(),
        };
        file.insert("model".to_owned(), json!("xtts"));
        file.insert("languages".to_owned(), json!(self.languages));
        let mut own = self.clone();
        for (part, name, field) in &FIELDS {
            let value = field.written(&mut own);
            let place = match *part {
                "" => Some(&mut file),
                part => object(file.entry(part).or_insert_with(|| json!({}))),
            };
            place.map(|place| place.insert((*name).to_owned(), value));
        }
        serde_json::to_vec_pretty(&file).map_err(failed)
    }
}

/// A table, in the place of anything else.
fn object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut()
}

fn whole(seconds: f64) -> Value {
    match seconds.fract() == 0.0 && seconds.abs() < 1e9 {
        true => json!(seconds as i64),
        false => json!(seconds),
    }
}

/// Facts from the shapes.
struct ShapeFacts<'a>(&'a Shapes);

impl ShapeFacts<'_> {
    fn size(&self, name: &str, axis: usize) -> Option<i64> {
        self.0.get(name)?.get(axis).copied()
    }

    /// The number of different numbers between this prefix and ending in names; None without such a
    /// name.
    fn count(&self, prefix: &str, end: &str) -> Option<i64> {
        let names = self.0.range(prefix.to_owned()..).map(|(name, _)| name);
        let names = names.take_while(|name| name.starts_with(prefix));
        let mut numbers: Vec<&str> = names
            .filter_map(|name| {
                let rest = &name[prefix.len()..];
                let (number, last) = rest.split_at(rest.find('.')?);
                (end.is_empty() || last == end).then_some(number)
            })
            .collect();
        numbers.dedup();
        (!numbers.is_empty()).then_some(numbers.len() as i64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shapes(config: &XttsConfig) -> Shapes {
        config.tensors().into_iter().collect()
    }

    fn tokens(config: &XttsConfig) -> TextTokens {
        let gpt = &config.gpt;
        let (start, stop) = (gpt.start_text_token, gpt.stop_text_token);
        TextTokens { rows: gpt.text_tokens, start, stop }
    }

    #[test]
    fn both_forms_of_a_configuration_are_read_as_it_was() {
        for config in [XttsConfig::published(), XttsConfig::small(40)] {
            assert_eq!(XttsConfig::parse(&config.to_json().unwrap()).unwrap(), config);
            let file = config.published_file(None).unwrap();
            let read =
                XttsConfig::read_published(&file, &shapes(&config), tokens(&config)).unwrap();
            assert_eq!(read, config);
        }
    }

    #[test]
    fn what_the_file_does_not_say_is_as_in_v2_and_unknown_keys_pass() {
        let config = XttsConfig::published();
        let file = br#"{"model_args": {"gpt_batch_size": 1, "tokenizer_file": ""}, "zeta": [1]}"#;
        let read = XttsConfig::read_published(file, &shapes(&config), tokens(&config)).unwrap();
        assert_eq!(read, config);
        let file = br#"{"temperature": 0.65, "model_args": {"gpt_max_audio_tokens": 605}}"#;
        let read = XttsConfig::read_published(file, &Shapes::new(), tokens(&config)).unwrap();
        assert_eq!(read.sampling.temperature, 0.65);
        assert_eq!(read.dvae.codes, 1024);
    }

    #[test]
    fn numbers_that_are_not_finite_pass_where_no_number_is_used() {
        let file = br#"{"a \" Infinity": [-Infinity, NaN], "b": "NaN \\", "c": Infinity}"#;
        let expected = br#"{"a \" Infinity": [null, null], "b": "NaN \\", "c": null}"#;
        assert_eq!(finite(file, b"null"), expected);
        let read = |file: &[u8]| {
            let config = XttsConfig::published();
            XttsConfig::read_published(file, &shapes(&config), tokens(&config))
        };
        assert!(read(br#"{"zeta": Infinity}"#).is_ok());
        for file in [&br#"{"temperature": NaN}"#[..], br#"{"audio": {"sample_rate": Infinity}}"#] {
            assert!(read(file).unwrap_err().to_string().contains("\"not finite\""));
        }
    }

    #[test]
    fn sizes_that_the_file_does_not_say_are_those_of_the_tensors() {
        let config = XttsConfig::small(40);
        let read =
            |file: &[u8]| XttsConfig::read_published(file, &shapes(&config), tokens(&config));
        let said = br#"{"model_args": {"gpt_n_heads": 4, "input_sample_rate": 22050}}"#;
        let own = read(said).unwrap();
        assert_eq!((own.gpt, own.decoder), (config.gpt.clone(), config.decoder.clone()));
        for file in [&br#"{"model_args": {}}"#[..], b"{}"] {
            let told = read(file).unwrap_err().to_string();
            assert!(told.contains("`gpt_n_heads` of `model_args` is missing"), "{told}");
        }
        for file in [&br#"{"model_args": 3}"#[..], br#"{"model_args": {"gpt_layers": "x"}}"#] {
            assert!(read(file).is_err());
        }
    }

    #[test]
    fn the_list_of_fields_has_those_that_are_read() {
        assert_eq!(KNOWN.keys().collect::<Vec<_>>(), ["", "audio", "model_args"]);
        for (part, name, _) in &FIELDS {
            assert!(KNOWN[*part].split_whitespace().any(|known| known == *name), "{part} {name}");
        }
    }

    #[test]
    fn a_list_is_refused_without_names_of_the_code() {
        let read =
            XttsConfig::read_published(b"[]", &Shapes::new(), tokens(&XttsConfig::published()));
        assert!(!read.unwrap_err().to_string().contains("Published"));
    }

    #[test]
    fn the_first_version_is_refused_by_name() {
        let file = br#"{"model_args": {"gpt_use_perceiver_resampler": false}}"#;
        let read =
            XttsConfig::read_published(file, &Shapes::new(), tokens(&XttsConfig::published()));
        assert!(read.unwrap_err().to_string().contains("XTTS v1"));
    }

    #[test]
    fn an_exported_file_keeps_what_else_the_given_one_says() {
        let config = XttsConfig::small(40);
        let given = br#"{"zeta": [1], "model_args": {"kv_cache": true, "gpt_layers": 30}}"#;
        let made = config.published_file(Some(given)).unwrap();
        let made: Value = serde_json::from_slice(&made).unwrap();
        assert_eq!(made["zeta"], json!([1]));
        assert_eq!(made["model_args"]["kv_cache"], json!(true));
        assert_eq!(made["model_args"]["gpt_layers"], json!(2));
    }
}
