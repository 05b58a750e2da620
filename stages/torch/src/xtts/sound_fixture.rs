//! The audio modules on the inputs of a fixture, with outputs under the names of the reference's
//! results.

use serde::Deserialize;
use stage_families::xtts::{DecoderConfig, DvaeConfig, SpeakerEncoderConfig};
use tch::{Kind, Tensor};

use super::codec::DvaeCodec;
use super::decoder::WaveformDecoder;
use super::mel::LogMel;
use super::resample::resample;
use super::speaker_encoder::SpeakerEncoder;
use crate::error::TorchError;
use crate::fixture::parts::{self, Outputs, input};
use crate::fixture::setup::Setup;
use crate::nn::weights::Weights;
use crate::sound::codec::Codec;
use crate::sound::mel::to_vec;

/// `settings` of the fixture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SoundFixtureSettings {
    dvae: DvaeConfig,
    decoder: DecoderConfig,
    speaker_encoder: SpeakerEncoderConfig,
    /// Samples a second of the waves.
    sample_rate: i64,
    /// Samples per hidden state.
    code_stride: f64,
    speeds: Vec<f64>,
    /// The rates that the waves are resampled to.
    rates: Vec<i64>,
}

/// Runs everything that the reference ran. `inputs` has waves `input.wave.N`, hidden states and
/// vectors.
pub fn outputs(
    settings: &serde_json::Value,
    weights: &[u8],
    inputs: Weights,
    setup: &Setup,
) -> Result<Outputs, TorchError> {
    let _guard = tch::no_grad_guard();
    let settings: SoundFixtureSettings = parts::settings(settings)?;
    let mut weights = Weights::from_safetensors(weights)?.moved(setup.device, None);
    let inputs = &inputs.moved(setup.device, None);
    let mut outputs = Outputs::new();
    let encoder = weights.take_module("hifigan_decoder.speaker_encoder");
    let encoder = SpeakerEncoder::load(&settings.speaker_encoder, encoder, setup.device)?;
    for (at, wave) in waves(inputs).into_iter().enumerate() {
        let wave = wave.unsqueeze(0);
        let vector = encoder.forward(&wave, settings.sample_rate)?;
        outputs.insert(format!("speaker.{at}"), vector);
        for rate in &settings.rates {
            let name = format!("resampled.{rate}.{at}");
            outputs.insert(name, resample(&wave, settings.sample_rate, *rate));
        }
    }
    let sizes = &settings.speaker_encoder;
    for (name, table) in [
        ("0.filter", sizes.emphasis_filter()),
        ("1.spectrogram.window", sizes.hamming_window()),
        ("1.mel_scale.fb", sizes.mel_filters()),
    ] {
        outputs.insert(format!("table.torch_spec.{name}"), Tensor::from_slice(&table));
    }
    codes(&settings, &mut weights, inputs, &mut outputs)?;
    spoken(&settings, &mut weights, inputs, &mut outputs)?;
    Ok(outputs)
}

fn waves(inputs: &Weights) -> Vec<&Tensor> {
    (0..).map_while(|at| inputs.get(&format!("input.wave.{at}"))).collect()
}

fn codes(
    settings: &SoundFixtureSettings,
    weights: &mut Weights,
    inputs: &Weights,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let dvae = weights.take_module("dvae");
    let stats = weights.remove("mel_stats");
    let stats = stats.ok_or_else(|| TorchError::Model("there is no `mel_stats`".into()))?;
    let stats = stats.to_kind(Kind::Float);
    let conditioning = LogMel::conditioning(settings.sample_rate, &stats);
    let dvae_mel = LogMel::dvae(settings.sample_rate, &stats);
    let codec = DvaeCodec::new(&settings.dvae, settings.sample_rate, &stats, dvae, stats.device())?;
    for (at, wave) in waves(inputs).into_iter().enumerate() {
        let row = wave.unsqueeze(0);
        outputs.insert(format!("mel.conditioning.{at}"), conditioning.forward(&row)?);
        outputs.insert(format!("mel.dvae.{at}"), dvae_mel.forward(&row)?);
        let samples = to_vec(wave);
        let codes = codec.encode(&[&samples])?.remove(0).values;
        let codes: Vec<i64> = codes.into_iter().map(i64::from).collect();
        outputs.insert(format!("codes.{at}"), Tensor::from_slice(&codes));
    }
    let spoken = input(inputs, "codes")?.to_kind(Kind::Int64).unsqueeze(0);
    outputs.insert("mel.decoded".into(), codec.mel(&spoken)?);
    Ok(())
}

fn spoken(
    settings: &SoundFixtureSettings,
    weights: &mut Weights,
    inputs: &Weights,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let decoder = weights.take_module("hifigan_decoder.waveform_decoder");
    let codes = (settings.code_stride, settings.sample_rate as f64);
    let hidden = input(inputs, "hidden")?.unsqueeze(0);
    let decoder = WaveformDecoder::load(&settings.decoder, codes, decoder, hidden.device())?;
    let speaker = input(inputs, "speaker")?.view([1, -1, 1]);
    for (at, speed) in settings.speeds.iter().enumerate() {
        outputs.insert(format!("wave.{at}"), decoder.forward(&hidden, &speaker, *speed));
    }
    Ok(())
}
