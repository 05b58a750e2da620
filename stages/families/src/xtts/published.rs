//! The published `config.json`: read with the sizes that only the tensors have, and written for the
//! original. Missing values are those of the v2 recipe, not the defaults of the class, which are
//! those of v1.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stage_formats::FormatError;

use super::config::Config;
use super::gpt_tensors::GPT_PREFIX;
use super::tensors::{DECODER_PREFIX, DIRECTION, DVAE_PREFIX, SPEAKER_ENCODER_PREFIX};
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

#[derive(Deserialize)]
struct Published {
    model_args: Option<ModelArgs>,
    audio: Option<Audio>,
    languages: Option<Vec<String>>,
    temperature: Option<f64>,
    length_penalty: Option<f64>,
    repetition_penalty: Option<f64>,
    top_k: Option<i64>,
    top_p: Option<f64>,
    gpt_cond_len: Option<f64>,
    gpt_cond_chunk_len: Option<f64>,
    max_ref_len: Option<f64>,
}

#[derive(Default, Deserialize)]
struct Audio {
    sample_rate: Option<i64>,
    output_sample_rate: Option<i64>,
}

/// Names that have other meanings elsewhere in the file are left out.
#[derive(Default, Deserialize)]
struct ModelArgs {
    gpt_max_audio_tokens: Option<i64>,
    gpt_max_text_tokens: Option<i64>,
    gpt_layers: Option<i64>,
    gpt_n_model_channels: Option<i64>,
    gpt_n_heads: Option<i64>,
    gpt_num_audio_tokens: Option<i64>,
    gpt_start_audio_token: Option<i64>,
    gpt_stop_audio_token: Option<i64>,
    gpt_code_stride_len: Option<i64>,
    gpt_use_perceiver_resampler: Option<bool>,
    input_sample_rate: Option<i64>,
    output_sample_rate: Option<i64>,
    output_hop_length: Option<i64>,
    decoder_input_dim: Option<i64>,
    d_vector_dim: Option<i64>,
    cond_d_vector_in_each_upsampling_layer: Option<bool>,
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

fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, FormatError> {
    let json = finite(json, b"\"not finite\"");
    serde_json::from_slice(&json).map_err(|error| refused(error.to_string()))
}

impl Config {
    /// Reads our own stored format.
    pub fn parse(json: &[u8]) -> Result<Config, FormatError> {
        let config: Config =
            serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Our own stored format. The same configuration gives the same bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, FormatError> {
        serde_json::to_vec_pretty(self).map_err(|error| refused(error.to_string()))
    }

    /// The values of the published file. Numbers that are not finite are texts, so that they are
    /// refused where a number is used.
    pub fn published_values(json: &[u8]) -> Result<Value, FormatError> {
        Ok(Value::Object(parsed(json)?))
    }

    /// Reads the published file. Missing sizes follow from the shapes of the tensors, by our names.
    pub fn read_published(
        json: &[u8],
        shapes: &Shapes,
        tokens: TextTokens,
    ) -> Result<Config, FormatError> {
        let _is_object = Config::published_values(json)?;
        let file: Published = parsed(json)?;
        let mut config = Config::published();
        config.take_model_args(file.model_args.unwrap_or_default())?;
        let audio = file.audio.unwrap_or_default();
        set(&mut config.gpt.sample_rate, audio.sample_rate);
        set(&mut config.decoder.sample_rate, audio.output_sample_rate);
        set(&mut config.languages, file.languages);
        let sampling = &mut config.sampling;
        set(&mut sampling.temperature, file.temperature);
        set(&mut sampling.length_penalty, file.length_penalty);
        set(&mut sampling.repetition_penalty, file.repetition_penalty);
        set(&mut sampling.top_k, file.top_k);
        set(&mut sampling.top_p, file.top_p);
        set(&mut sampling.conditioning_seconds, file.gpt_cond_len);
        set(&mut sampling.conditioning_chunk_seconds, file.gpt_cond_chunk_len);
        set(&mut sampling.max_reference_seconds, file.max_ref_len);
        config.gpt.text_tokens = tokens.rows;
        config.gpt.start_text_token = tokens.start;
        config.gpt.stop_text_token = tokens.stop;
        config.complete(&Seen(shapes));
        config.check()?;
        Ok(config)
    }

    fn take_model_args(&mut self, args: ModelArgs) -> Result<(), FormatError> {
        if args.gpt_use_perceiver_resampler == Some(false) {
            return Err(FormatError::Unsupported {
                message: "the model has no perceiver: it is XTTS v1, and v2 is read here"
                    .to_owned(),
            });
        }
        let (gpt, decoder) = (&mut self.gpt, &mut self.decoder);
        set(&mut gpt.max_audio_tokens, args.gpt_max_audio_tokens);
        set(&mut gpt.max_text_tokens, args.gpt_max_text_tokens);
        set(&mut gpt.layers, args.gpt_layers);
        set(&mut gpt.width, args.gpt_n_model_channels);
        set(&mut gpt.heads, args.gpt_n_heads);
        set(&mut gpt.audio_tokens, args.gpt_num_audio_tokens);
        gpt.start_audio_token = gpt.audio_tokens - 2;
        gpt.stop_audio_token = gpt.audio_tokens - 1;
        set(&mut gpt.start_audio_token, args.gpt_start_audio_token);
        set(&mut gpt.stop_audio_token, args.gpt_stop_audio_token);
        set(&mut gpt.code_stride, args.gpt_code_stride_len);
        set(&mut gpt.sample_rate, args.input_sample_rate);
        gpt.conditioning_heads = gpt.heads;
        decoder.input_width = gpt.width;
        set(&mut decoder.input_width, args.decoder_input_dim);
        set(&mut decoder.sample_rate, args.output_sample_rate);
        set(&mut decoder.hop, args.output_hop_length);
        set(&mut decoder.speaker_width, args.d_vector_dim);
        set(&mut decoder.speaker_in_each_layer, args.cond_d_vector_in_each_upsampling_layer);
        self.speaker_encoder.width = decoder.speaker_width;
        Ok(())
    }

    /// Completes it from the tensors.
    fn complete(&mut self, seen: &Seen) {
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

    fn complete_dvae(&mut self, seen: &Seen) {
        let (dvae, own) = (&mut self.dvae, |name: &str| format!("{DVAE_PREFIX}{name}"));
        set(&mut dvae.codes, seen.size(&own("codebook.embed"), 1));
        set(&mut dvae.codebook_width, seen.size(&own("codebook.embed"), 0));
        set(&mut dvae.hidden, seen.size(&own("encoder.0.0.weight"), 0));
        set(&mut dvae.layers, seen.count(&own("encoder."), ".0.weight"));
        set(&mut dvae.residual_blocks, seen.count(&own("encoder."), ".net.0.weight"));
    }

    /// Strides are half of their kernels and dilations the odd numbers, as in every release.
    fn complete_decoder(&mut self, seen: &Seen) {
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

    fn complete_speaker_encoder(&mut self, seen: &Seen) {
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
        let sampling = &self.sampling;
        let own = json!({
            "model": "xtts",
            "languages": self.languages,
            "temperature": sampling.temperature,
            "length_penalty": sampling.length_penalty,
            "repetition_penalty": sampling.repetition_penalty,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "gpt_cond_len": whole(sampling.conditioning_seconds),
            "gpt_cond_chunk_len": whole(sampling.conditioning_chunk_seconds),
            "max_ref_len": whole(sampling.max_reference_seconds),
        });
        overlay(&mut file, own);
        for (name, own) in [("model_args", self.model_args()), ("audio", self.audio())] {
            let part = file.entry(name).or_insert_with(|| json!({}));
            if !part.is_object() {
                *part = json!({});
            }
            if let Some(part) = part.as_object_mut() {
                overlay(part, own);
            }
        }
        serde_json::to_vec_pretty(&file).map_err(failed)
    }

    fn model_args(&self) -> Value {
        let (gpt, decoder) = (&self.gpt, &self.decoder);
        json!({
            "gpt_max_audio_tokens": gpt.max_audio_tokens,
            "gpt_max_text_tokens": gpt.max_text_tokens,
            "gpt_layers": gpt.layers,
            "gpt_n_model_channels": gpt.width,
            "gpt_n_heads": gpt.heads,
            "gpt_number_text_tokens": gpt.text_tokens,
            "gpt_start_text_token": gpt.start_text_token,
            "gpt_stop_text_token": gpt.stop_text_token,
            "gpt_num_audio_tokens": gpt.audio_tokens,
            "gpt_start_audio_token": gpt.start_audio_token,
            "gpt_stop_audio_token": gpt.stop_audio_token,
            "gpt_code_stride_len": gpt.code_stride,
            "gpt_use_perceiver_resampler": true,
            "input_sample_rate": gpt.sample_rate,
            "output_sample_rate": decoder.sample_rate,
            "output_hop_length": decoder.hop,
            "decoder_input_dim": decoder.input_width,
            "d_vector_dim": decoder.speaker_width,
            "cond_d_vector_in_each_upsampling_layer": decoder.speaker_in_each_layer,
        })
    }

    fn audio(&self) -> Value {
        json!({
            "sample_rate": self.gpt.sample_rate,
            "output_sample_rate": self.decoder.sample_rate,
        })
    }
}

/// The original computes sample counts from these and needs integers.
fn whole(seconds: f64) -> Value {
    match seconds.fract() == 0.0 && seconds.abs() < 1e9 {
        true => json!(seconds as i64),
        false => json!(seconds),
    }
}

fn overlay(file: &mut Map<String, Value>, own: Value) {
    if let Value::Object(own) = own {
        file.extend(own);
    }
}

/// Facts from the shapes.
struct Seen<'a>(&'a Shapes);

impl Seen<'_> {
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

    fn shapes(config: &Config) -> Shapes {
        config.tensors().into_iter().collect()
    }

    fn tokens(config: &Config) -> TextTokens {
        let gpt = &config.gpt;
        let (start, stop) = (gpt.start_text_token, gpt.stop_text_token);
        TextTokens { rows: gpt.text_tokens, start, stop }
    }

    #[test]
    fn both_forms_of_a_configuration_are_read_as_it_was() {
        for config in [Config::published(), Config::small(40)] {
            assert_eq!(Config::parse(&config.to_json().unwrap()).unwrap(), config);
            let file = config.published_file(None).unwrap();
            let read = Config::read_published(&file, &shapes(&config), tokens(&config)).unwrap();
            assert_eq!(read, config);
        }
    }

    #[test]
    fn what_the_file_does_not_say_is_as_in_v2_and_unknown_keys_pass() {
        let config = Config::published();
        let file = br#"{"model_args": {"gpt_batch_size": 1, "tokenizer_file": ""}, "zeta": [1]}"#;
        let read = Config::read_published(file, &shapes(&config), tokens(&config)).unwrap();
        assert_eq!(read, config);
        let file = br#"{"temperature": 0.65, "model_args": {"gpt_max_audio_tokens": 605}}"#;
        let read = Config::read_published(file, &Shapes::new(), tokens(&config)).unwrap();
        assert_eq!(read.sampling.temperature, 0.65);
        assert_eq!(read.dvae.codes, 1024);
    }

    #[test]
    fn numbers_that_are_not_finite_pass_where_no_number_is_used() {
        let file = br#"{"a \" Infinity": [-Infinity, NaN], "b": "NaN \\", "c": Infinity}"#;
        let expected = br#"{"a \" Infinity": [null, null], "b": "NaN \\", "c": null}"#;
        assert_eq!(finite(file, b"null"), expected);
        let read = |file: &[u8]| {
            let config = Config::published();
            Config::read_published(file, &shapes(&config), tokens(&config))
        };
        assert!(read(br#"{"zeta": Infinity}"#).is_ok());
        for file in [&br#"{"temperature": NaN}"#[..], br#"{"audio": {"sample_rate": Infinity}}"#] {
            assert!(read(file).unwrap_err().to_string().contains("\"not finite\""));
        }
    }

    #[test]
    fn a_list_is_refused_without_names_of_the_code() {
        let read = Config::read_published(b"[]", &Shapes::new(), tokens(&Config::published()));
        assert!(!read.unwrap_err().to_string().contains("Published"));
    }

    #[test]
    fn the_first_version_is_refused_by_name() {
        let file = br#"{"model_args": {"gpt_use_perceiver_resampler": false}}"#;
        let read = Config::read_published(file, &Shapes::new(), tokens(&Config::published()));
        assert!(read.unwrap_err().to_string().contains("XTTS v1"));
    }

    #[test]
    fn an_exported_file_keeps_what_else_the_given_one_says() {
        let config = Config::small(40);
        let given = br#"{"zeta": [1], "model_args": {"kv_cache": true, "gpt_layers": 30}}"#;
        let made = config.published_file(Some(given)).unwrap();
        let made: Value = serde_json::from_slice(&made).unwrap();
        assert_eq!(made["zeta"], json!([1]));
        assert_eq!(made["model_args"]["kv_cache"], json!(true));
        assert_eq!(made["model_args"]["gpt_layers"], json!(2));
    }
}
