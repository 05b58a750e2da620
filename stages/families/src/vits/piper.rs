//! Voices of Piper: a VITS graph (`.onnx`) and its description (`.onnx.json`).
//!
//! The sizes come from the graph alone. It lacks what only training needs: the posterior encoder, the
//! posterior of durations, and one of their flows.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use stage_formats::onnx::OnnxFile;
use stage_formats::{FormatError, Tensor};

use super::checkpoint::read_checkpoint;
use super::config::{PAIRED_BLOCKS, SINGLE_BLOCKS, VitsConfig};
use super::tokenizer::Phonemes;
use crate::sizes::refused;

/// The inputs of the graph with tokens, and with the numbers of speakers.
const TOKENS: &str = "input";
const SPEAKERS: &str = "sid";
/// The table of tokens and that of speakers, in the names of the original.
const EMBEDDING: &str = "enc_p.emb.weight";
const SPEAKER_EMBEDDING: &str = "emb_g.weight";
/// The prefixes of weights.
const NETWORKS: [&str; 5] = ["enc_p.", "dp.", "flow.", "dec.", "emb_g."];
/// The shift of the affine layer of the durations, and the logarithm of its scale.
const SHIFT: &str = "dp.flows.0.m";
const SCALE: &str = "dp.flows.0.logs";

/// The relevant part of the description.
#[derive(Debug, Deserialize)]
struct Description {
    audio: Audio,
    #[serde(default)]
    espeak: Espeak,
    #[serde(default)]
    inference: Inference,
    phoneme_type: Option<String>,
    #[serde(default)]
    phoneme_map: BTreeMap<String, Vec<String>>,
    phoneme_id_map: BTreeMap<String, Vec<i64>>,
    num_symbols: Option<i64>,
    num_speakers: Option<i64>,
    #[serde(default)]
    speaker_id_map: BTreeMap<String, i64>,
}

#[derive(Debug, Deserialize)]
struct Audio {
    sample_rate: i64,
}

#[derive(Debug, Default, Deserialize)]
struct Espeak {
    voice: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Inference {
    noise_scale: f64,
    length_scale: f64,
    noise_w: f64,
}

impl Default for Inference {
    fn default() -> Inference {
        Inference { noise_scale: 0.667, length_scale: 1.0, noise_w: 0.8 }
    }
}

/// A voice in the form of other VITS models.
#[derive(Debug)]
pub struct PiperVoice {
    pub config: VitsConfig,
    pub vocabulary: Vec<u8>,
    pub tokenizer_config: Vec<u8>,
    /// The names of the speakers by number, if all have one.
    pub speakers: Option<Vec<String>>,
}

/// The description of a voice, for players of its graph.
#[derive(Debug)]
pub struct VoiceDescription {
    pub vocabulary: Vec<u8>,
    pub tokenizer_config: Vec<u8>,
    pub num_speakers: u64,
    /// The names of the speakers by number, if all have one.
    pub speakers: Option<Vec<String>>,
    /// Samples a second.
    pub sampling_rate: u32,
    pub noise_scale: f64,
    pub length_scale: f64,
    pub noise_scale_duration: f64,
}

/// The sampling rates of voices.
const SAMPLING_RATES: std::ops::RangeInclusive<i64> = 1_000..=384_000;

/// Reads a description without its graph.
///
/// # Errors
///
/// If it is damaged or unsupported.
pub fn describe(description: &[u8]) -> Result<VoiceDescription, FormatError> {
    let description = Description::read(description)?;
    let num_speakers = description.num_speakers.unwrap_or(1).max(1);
    let rate = description.audio.sample_rate;
    let sampling_rate = u32::try_from(rate).ok().filter(|_| SAMPLING_RATES.contains(&rate));
    let Inference { noise_scale, length_scale, noise_w } = description.inference;
    let is_scale = |scale: f64| scale.is_finite() && scale >= 0.0;
    if !is_scale(noise_scale)
        || !is_scale(noise_w)
        || !is_scale(length_scale)
        || length_scale == 0.0
    {
        return Err(refused("`inference` has a scale that is negative, or a length of 0"));
    }
    Ok(VoiceDescription {
        vocabulary: description.vocabulary(description.num_symbols.unwrap_or(i64::MAX))?,
        tokenizer_config: description.tokenizer_config()?,
        num_speakers: num_speakers.unsigned_abs(),
        speakers: description.speakers(num_speakers),
        sampling_rate: sampling_rate.ok_or_else(|| {
            refused(format!("`sample_rate` is {rate}, expected 1,000 to 384,000"))
        })?,
        noise_scale,
        length_scale,
        noise_scale_duration: noise_w,
    })
}

/// The description of a voice is beside its graph, with this ending behind the whole name.
pub const DESCRIPTION_SUFFIX: &str = ".json";

/// Tests if a description is that of a voice that reads phonemes.
pub fn reads_phonemes(description: &[u8]) -> bool {
    let description: Option<Value> = serde_json::from_slice(description).ok();
    description.is_some_and(|description| description["phoneme_type"] != "text")
}

/// Gives the weights of a graph the names of the original project.
///
/// # Errors
///
/// If it is no graph of a voice.
pub fn named(graph: &mut OnnxFile) -> Result<(), FormatError> {
    for (input, name) in [(TOKENS, EMBEDDING), (SPEAKERS, SPEAKER_EMBEDDING)] {
        if let Some(table) = graph.table_of(input).map(str::to_owned) {
            graph.rename(&table, name);
        }
    }
    if let Some(factor) = graph.factor_behind(SHIFT).map(str::to_owned) {
        // The graph has the factor of the way back: exp(-logs).
        let factor = graph.tensor(&factor)?;
        let logarithms: Vec<f32> = factor.to_f32().iter().map(|value| -value.ln()).collect();
        graph.insert(SCALE, Tensor::from_f32(factor.shape(), &logarithms)?);
    }
    graph.retain(|name| NETWORKS.iter().any(|network| name.starts_with(network)));
    Ok(())
}

/// The voice of a graph with the names of the original, and its description.
///
/// # Errors
///
/// If one of them is damaged or unsupported, or they do not belong together.
pub fn voice(graph: &OnnxFile, description: &[u8]) -> Result<PiperVoice, FormatError> {
    let description = Description::read(description)?;
    let config = Sizes::of(graph).config(&description)?;
    described(config, &description)
}

/// The whole model of a checkpoint of Piper's trainer, from its settings, and its description.
///
/// # Errors
///
/// Those of [`voice`].
pub fn checkpoint(settings: &Value, description: &[u8]) -> Result<PiperVoice, FormatError> {
    let config = read_checkpoint(settings)?;
    let description = Description::read(description)?;
    let config = VitsConfig {
        sampling_rate: description.audio.sample_rate,
        noise_scale: description.inference.noise_scale,
        noise_scale_duration: description.inference.noise_w,
        speaking_rate: 1.0 / description.inference.length_scale,
        ..config
    };
    described(config, &description)
}

fn described(config: VitsConfig, description: &Description) -> Result<PiperVoice, FormatError> {
    if let Some(symbols) = description.num_symbols.filter(|own| *own != config.vocab_size) {
        let rows = config.vocab_size;
        return Err(refused(format!(
            "the model has {rows} symbols, but `num_symbols` is {symbols}: they belong to different \
             voices"
        )));
    }
    let speakers = description.num_speakers.unwrap_or(1).max(1);
    if speakers != config.num_speakers {
        let rows = config.num_speakers;
        return Err(refused(format!(
            "the model has {rows} speakers, but `num_speakers` is {speakers}: they belong to \
             different voices"
        )));
    }
    Ok(PiperVoice {
        vocabulary: description.vocabulary(config.vocab_size)?,
        tokenizer_config: description.tokenizer_config()?,
        speakers: description.speakers(speakers),
        config,
    })
}

impl Description {
    fn read(bytes: &[u8]) -> Result<Description, FormatError> {
        serde_json::from_slice(bytes).map_err(|error| refused(error.to_string()))
    }

    fn id(&self, symbol: &str) -> Result<i64, FormatError> {
        match self.phoneme_id_map.get(symbol).map(Vec::as_slice) {
            Some([id]) => Ok(*id),
            _ => Err(refused(format!("`phoneme_id_map` has no number for `{symbol}`"))),
        }
    }

    fn vocabulary(&self, rows: i64) -> Result<Vec<u8>, FormatError> {
        let mut ids = serde_json::Map::new();
        for (symbol, numbers) in &self.phoneme_id_map {
            let [id] = numbers.as_slice() else {
                let count = numbers.len();
                return Err(refused(format!("`{symbol}` has {count} numbers, expected one")));
            };
            if !(0..rows).contains(id) {
                return Err(refused(format!(
                    "`{symbol}` has the number {id}, but the graph has {rows}"
                )));
            }
            ids.insert(symbol.clone(), Value::from(*id));
        }
        Ok(format!("{:#}\n", Value::Object(ids)).into_bytes())
    }

    fn tokenizer_config(&self) -> Result<Vec<u8>, FormatError> {
        if !self.phoneme_map.is_empty() {
            return Err(refused("`phoneme_map` is not empty, which is not supported"));
        }
        let is_text = match self.phoneme_type.as_deref() {
            None | Some("espeak") => false,
            Some("text") => true,
            Some(other) => {
                return Err(refused(format!(
                    "`phoneme_type` is `{other}`, expected `espeak` or `text`"
                )));
            }
        };
        let voice = match (is_text, &self.espeak.voice) {
            (true, _) => None,
            (false, Some(voice)) => Some(voice.clone()),
            (false, None) => return Err(refused("`espeak` has no `voice`")),
        };
        let (begin, pad, end) = (self.id("^")?, self.id("_")?, self.id("$")?);
        let phonemes = serde_json::to_value(Phonemes { voice, begin, pad, end })
            .map_err(|error| refused(error.to_string()))?;
        let config = json!({"normalize": is_text, "phonemes": phonemes, "phonemize": false});
        Ok(format!("{config:#}\n").into_bytes())
    }

    fn speakers(&self, count: i64) -> Option<Vec<String>> {
        let mut names = vec![None; usize::try_from(count).ok()?.min(self.speaker_id_map.len())];
        for (name, number) in &self.speaker_id_map {
            *names.get_mut(usize::try_from(*number).ok()?)? = Some(name.clone());
        }
        names
            .into_iter()
            .collect::<Option<Vec<String>>>()
            .filter(|names| names.len() as i64 == count)
    }
}

/// The sizes of a graph, by its tensors.
struct Sizes<'a> {
    graph: &'a OnnxFile,
    shapes: BTreeMap<&'a str, &'a [usize]>,
}

impl<'a> Sizes<'a> {
    fn of(graph: &'a OnnxFile) -> Sizes<'a> {
        let shapes = graph.tensors().map(|(name, info)| (name, info.shape.as_slice()));
        Sizes { graph, shapes: shapes.collect() }
    }

    /// A size of a tensor that every voice has.
    fn size(&self, name: &str, axis: usize) -> Result<i64, FormatError> {
        let size = self.shapes.get(name).and_then(|shape| shape.get(axis));
        size.map(|size| *size as i64)
            .ok_or_else(|| refused(format!("the graph has no `{name}`: it is no voice of Piper")))
    }

    /// The number of modules in a list: `{before}.0{behind}`, `{before}.1{behind}`.
    fn count(&self, before: &str, behind: &str) -> i64 {
        let has = |at: &i64| self.shapes.contains_key(format!("{before}.{at}{behind}").as_str());
        (0..).take_while(has).count() as i64
    }

    fn attribute(&self, weight: &str, name: &str) -> Result<i64, FormatError> {
        let value = self.graph.attribute(weight, name).and_then(<[i64]>::first).copied();
        value.ok_or_else(|| refused(format!("the graph has no `{name}` for `{weight}`")))
    }

    fn config(&self, description: &Description) -> Result<VitsConfig, FormatError> {
        let published = VitsConfig::default();
        let hidden_size = self.size(EMBEDDING, 1)?;
        let relative = |axis| self.size("enc_p.encoder.attn_layers.0.emb_rel_k", axis);
        let (places, head) = (relative(1)?, relative(2)?.max(1));
        let rows = match self.shapes.contains_key(SPEAKER_EMBEDDING) {
            true => (self.size(SPEAKER_EMBEDDING, 0)?, self.size(SPEAKER_EMBEDDING, 1)?),
            false => (1, 0),
        };
        let is_stochastic = self.shapes.contains_key(SHIFT);
        let inference = &description.inference;
        let config = VitsConfig {
            model_type: "vits".into(),
            vocab_size: self.size(EMBEDDING, 0)?,
            hidden_size,
            num_hidden_layers: self.count("enc_p.encoder.attn_layers", ".emb_rel_k"),
            num_attention_heads: hidden_size / head,
            window_size: (places - 1) / 2,
            ffn_dim: self.size("enc_p.encoder.ffn_layers.0.conv_1.weight", 0)?,
            ffn_kernel_size: self.size("enc_p.encoder.ffn_layers.0.conv_1.weight", 2)?,
            flow_size: self.size("enc_p.proj.weight", 0)? / 2,
            num_speakers: rows.0,
            speaker_embedding_size: rows.1,
            prior_encoder_num_flows: (0..)
                .take_while(|at| {
                    self.shapes.contains_key(format!("flow.flows.{}.pre.weight", 2 * at).as_str())
                })
                .count() as i64,
            prior_encoder_num_wavenet_layers: self.count("flow.flows.0.enc.in_layers", ".weight"),
            wavenet_kernel_size: self.size("flow.flows.0.enc.in_layers.0.weight", 2)?,
            use_stochastic_duration_prediction: is_stochastic,
            sampling_rate: description.audio.sample_rate,
            noise_scale: inference.noise_scale,
            noise_scale_duration: inference.noise_w,
            speaking_rate: 1.0 / inference.length_scale,
            speaks_only: true,
            ..published
        };
        let config = self.with_decoder(self.with_durations(config)?)?;
        config.check()?;
        Ok(config)
    }

    fn with_durations(&self, config: VitsConfig) -> Result<VitsConfig, FormatError> {
        if !config.use_stochastic_duration_prediction {
            return Ok(VitsConfig {
                duration_predictor_filter_channels: self.size("dp.conv_1.weight", 0)?,
                duration_predictor_kernel_size: self.size("dp.conv_1.weight", 2)?,
                ..config
            });
        }
        // Every other flow flips the channels, and synthesis leaves out the first.
        let flows = (1..).take_while(|at| {
            let name = format!("dp.flows.{}.pre.weight", 2 * at + 1);
            self.shapes.contains_key(name.as_str())
        });
        Ok(VitsConfig {
            depth_separable_num_layers: self.count("dp.convs.convs_sep", ".weight"),
            duration_predictor_kernel_size: self.size("dp.convs.convs_sep.0.weight", 2)?,
            duration_predictor_num_flows: flows.count() as i64 + 1,
            duration_predictor_flow_bins: (self.size("dp.flows.3.proj.weight", 0)? + 1) / 3,
            ..config
        })
    }

    fn with_decoder(&self, config: VitsConfig) -> Result<VitsConfig, FormatError> {
        let steps = self.count("dec.ups", ".weight");
        let is_paired = self.shapes.contains_key("dec.resblocks.0.convs1.0.weight");
        let list = if is_paired { "convs1" } else { "convs" };
        let blocks = self.count("dec.resblocks", &format!(".{list}.0.weight"));
        let steps_of = |what: &dyn Fn(&str) -> Result<i64, FormatError>| {
            let weights = (0..steps).map(|at| format!("dec.ups.{at}.weight"));
            weights.map(|weight| what(&weight)).collect::<Result<Vec<i64>, FormatError>>()
        };
        let (mut kernels, mut dilations) = (Vec::new(), Vec::new());
        for kind in 0..blocks / steps.max(1) {
            let before = format!("dec.resblocks.{kind}.{list}");
            kernels.push(self.size(&format!("{before}.0.weight"), 2)?);
            let layers = (0..self.count(&before, ".weight"))
                .map(|at| self.attribute(&format!("{before}.{at}.weight"), "dilations"));
            dilations.push(layers.collect::<Result<_, _>>()?);
        }
        Ok(VitsConfig {
            upsample_initial_channel: self.size("dec.conv_pre.weight", 0)?,
            upsample_rates: steps_of(&|weight| self.attribute(weight, "strides"))?,
            upsample_kernel_sizes: steps_of(&|weight| self.size(weight, 2))?,
            resblock: if is_paired { PAIRED_BLOCKS } else { SINGLE_BLOCKS }.into(),
            resblock_kernel_sizes: kernels,
            resblock_dilation_sizes: dilations,
            ..config
        })
    }
}
