//! A voice: conditioning latents of the GPT, and the speaker vector of the decoder, computed from
//! references or of a speaker that came with the model.

use stage_core::{Context, Fields, NewValue, StageError};
use stage_families::artifact;
use stage_families::xtts::{SPEAKER_ENCODER_PREFIX, XttsConfig};
use tch::{Device, Kind, Tensor};

use super::artifact::XttsModel;
use super::conditioning_encoder::ConditioningEncoder;
use super::mel::LogMel;
use super::perceiver::Perceiver;
use super::speaker_encoder::SpeakerEncoder;
use crate::error::TorchError;
use crate::nn::layers::Pass;
use crate::nn::weights::{check_finite, is_finite, usable};
use crate::port_model::{Family, PortModel};
use crate::stored;

/// The names of the tensors, those of `speakers_xtts.pth`.
pub const LATENTS: &str = "gpt_cond_latent";
pub const VECTOR: &str = "speaker_embedding";
/// Shorter chunks are ignored.
const LEAST_SECONDS: f64 = 0.33;

const FAMILY: Family = Family {
    name: artifact::XTTS_VOICE,
    title: "voice of an XTTS model",
    advice: "read from an `xtts.voice` stage",
};

#[derive(Debug)]
pub struct VoiceLatents {
    /// [1, latents, C].
    pub latents: Tensor,
    /// [1, speaker width, 1].
    pub vector: Tensor,
}

/// The used lengths of references, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceLengths {
    pub conditioning: f64,
    pub chunk: f64,
    pub reference: f64,
}

/// The parts of a model that process references.
pub struct VoiceEncoder {
    sample_rate: f64,
    mel: LogMel,
    conditioning_encoder: ConditioningEncoder,
    conditioning_perceiver: Perceiver,
    speaker_encoder: SpeakerEncoder,
}

impl VoiceLatents {
    /// The voice on a port, for a model of these sizes.
    pub fn read(
        port: &str,
        fields: Option<&Fields>,
        config: &XttsConfig,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<VoiceLatents, StageError> {
        let arrived = PortModel::on(port, fields, &FAMILY)?;
        let mut tensor = |name: &str, shape: [i64; 3]| {
            let blob = arrived.blob(&artifact::tensor_field(name))?;
            let tensor = stored::recall(blob, context)?;
            if tensor.size() == shape {
                Ok(usable(name, tensor, device)?)
            } else {
                let found = tensor.size();
                Err(arrived.refused(&format!("`{name}` is {found:?}, expected {shape:?}")))
            }
        };
        Ok(VoiceLatents {
            latents: tensor(LATENTS, [1, config.gpt.latents, config.gpt.width])?,
            vector: tensor(VECTOR, [1, config.decoder.speaker_width, 1])?,
        })
    }

    /// The tensor values of the artifact.
    pub fn values(&self, context: &mut dyn Context) -> Result<Vec<(String, NewValue)>, StageError> {
        let mut value = |(name, tensor): (&str, &Tensor)| {
            let blob = stored::keep(tensor, context)?;
            Ok((artifact::tensor_field(name), NewValue::blob(blob)))
        };
        [(LATENTS, &self.latents), (VECTOR, &self.vector)].into_iter().map(&mut value).collect()
    }
}

impl VoiceEncoder {
    pub fn of(
        model: &XttsModel,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<VoiceEncoder, StageError> {
        let _guard = tch::no_grad_guard();
        let config = &model.config;
        let own = ["gpt.conditioning_encoder.", "gpt.conditioning_perceiver."];
        let weights = model.tensors(&own, context)?;
        let mut weights = weights.moved(device, Some(Kind::Float));
        weights.iter().try_for_each(|(name, tensor)| check_finite(name, tensor))?;
        let mut scope = weights.under("gpt");
        let encoder =
            ConditioningEncoder::load(&mut scope.under("conditioning_encoder"), &config.gpt)?;
        let perceiver = Perceiver::load(&mut scope.under("conditioning_perceiver"), &config.gpt)?;
        let stats = model.mel_stats(device, context)?;
        Ok(VoiceEncoder {
            sample_rate: config.gpt.sample_rate as f64,
            mel: LogMel::conditioning(config.gpt.sample_rate, &stats),
            conditioning_encoder: encoder,
            conditioning_perceiver: perceiver,
            speaker_encoder: SpeakerEncoder::load(
                &config.speaker_encoder,
                model.part(SPEAKER_ENCODER_PREFIX, context)?,
                device,
            )?,
        })
    }

    /// The voice of references, waves at the rate of the model.
    ///
    /// # Errors
    ///
    /// [`TorchError::Input`] if they are too short, all together.
    pub fn voice(
        &self,
        references: &[Vec<f32>],
        listening: &ReferenceLengths,
        device: Device,
    ) -> Result<VoiceLatents, TorchError> {
        let _guard = tch::no_grad_guard();
        let samples = |seconds: f64| (seconds * self.sample_rate) as usize;
        let (most, least) = (samples(listening.reference), samples(LEAST_SECONDS));
        let cut = references.iter().map(|wave| &wave[..wave.len().min(most)]);
        let references: Vec<&[f32]> = cut.collect();
        let all = references.concat();
        let all = &all[..all.len().min(samples(listening.conditioning))];
        let chunks: Vec<&[f32]> = all
            .chunks(samples(listening.chunk).max(1))
            .filter(|chunk| chunk.len() >= least)
            .collect();
        let heard = references.iter().filter(|wave| wave.len() >= least);
        let rate = self.sample_rate as i64;
        let vectors = heard.map(|wave| self.speaker_encoder.forward(&row(wave, device), rate));
        let vectors = vectors.collect::<Result<Vec<Tensor>, TorchError>>()?;
        let latents = chunks.iter().map(|chunk| {
            let frames = self.conditioning_encoder.forward(&self.mel.forward(&row(chunk, device))?);
            Ok(self.conditioning_perceiver.forward(&frames, Pass::Evaluate))
        });
        let latents = latents.collect::<Result<Vec<Tensor>, TorchError>>()?;
        if latents.is_empty() || vectors.is_empty() {
            let seconds = all.len() as f64 / self.sample_rate;
            return Err(TorchError::Input(format!(
                "references of {seconds:.2} s are too short for a voice: one of at least \
                 {LEAST_SECONDS} s is needed"
            )));
        }
        let mean =
            |tensors: &[Tensor]| Tensor::stack(tensors, 0).mean_dim(0i64, false, Kind::Float);
        let voice = VoiceLatents { latents: mean(&latents), vector: mean(&vectors).unsqueeze(2) };
        if is_finite(&voice.latents) && is_finite(&voice.vector) {
            Ok(voice)
        } else {
            Err(TorchError::Model("its output for these references is not finite".into()))
        }
    }
}

fn row(wave: &[f32], device: Device) -> Tensor {
    Tensor::from_slice(wave).unsqueeze(0).to_device(device)
}
