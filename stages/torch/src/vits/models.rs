//! The generator: text encoder, flow, posterior encoder, decoder, and synthesis with them.

use serde::Deserialize;
use tch::{Device, Tensor};

use super::VitsConfig;
use super::attentions::{EncoderLayer, RelativePositions};
use super::commons::{expand, halves, spread_out};
use super::duration_predictors::{Conditioning, DurationPredictor};
use super::modules::{ResidualCoupling, WaveNet};
use super::noise::NormalNoise;
use crate::error::TorchError;
use crate::nn::conv::{Conv, Shape, mask};
use crate::nn::hifi_gan::{HifiGan, HifiGanConfig};
use crate::nn::layers::{Embedding, Pass};
use crate::nn::weights::{Scope, Weights};
use crate::runtime::upload::{upload, upload_all};

/// Dropout streams, separate from those of the text encoder.
const FLOW_STREAM: u64 = 1 << 20;

const POSTERIOR_STREAM: u64 = 2 << 20;

/// The outputs for a text: columns of tokens.
#[derive(Debug)]
pub struct Prior {
    /// [B, C, N].
    pub hidden: Tensor,
    /// [B, F, N] each; the logarithm is that of the standard deviation.
    pub mean: Tensor,
    pub log_deviation: Tensor,
}

#[derive(Debug)]
pub struct TextEncoder {
    embed_tokens: Embedding,
    layers: Vec<EncoderLayer>,
    project: Conv,
    window: i64,
    width: i64,
}

impl TextEncoder {
    pub fn load(mut scope: Scope, config: &VitsConfig) -> Result<TextEncoder, TorchError> {
        let width = config.hidden_size;
        let embed_tokens =
            Embedding::load(&mut scope.under("embed_tokens"), config.vocab_size, width)?;
        let mut layers = Vec::new();
        for at in 0..config.num_hidden_layers {
            let scope = scope.under(&format!("encoder.layers.{at}"));
            layers.push(EncoderLayer::load(scope, config, 8 * at as u64)?);
        }
        let project =
            Conv::load(scope.under("project"), Shape::new(width, 2 * config.flow_size, 1))?;
        Ok(TextEncoder { embed_tokens, layers, project, window: config.window_size, width })
    }

    /// Tokens [B, N], and their mask: [B, 1, N].
    pub fn forward(&self, ids: &Tensor, mask: &Tensor, pass: Pass) -> Prior {
        let embedded = self.embed_tokens.forward(ids) * (self.width as f64).sqrt();
        let mut x = embedded.transpose(1, 2) * mask;
        let positions = RelativePositions::new(mask, self.window);
        for layer in &self.layers {
            x = layer.forward(&x, mask, &positions, pass);
        }
        let hidden = x * mask;
        let statistics = self.project.forward(&hidden) * mask;
        let [mean, log_deviation] = halves(&statistics);
        Prior { hidden, mean, log_deviation }
    }
}

/// ResidualCoupling layers, each followed by a flip of the channels.
#[derive(Debug)]
pub struct Flow {
    flows: Vec<ResidualCoupling>,
}

/// The posterior of latents given a recording: [B, F, T] each.
#[derive(Debug)]
pub struct Posterior {
    pub mean: Tensor,
    pub log_deviation: Tensor,
    /// Sampled from it.
    pub latents: Tensor,
}

#[derive(Debug)]
pub struct PosteriorEncoder {
    conv_pre: Conv,
    wavenet: WaveNet,
    conv_proj: Conv,
}

impl Flow {
    pub fn load(mut scope: Scope, config: &VitsConfig) -> Result<Flow, TorchError> {
        let mut flows = Vec::new();
        for at in 0..config.prior_encoder_num_flows {
            let stream = FLOW_STREAM + 1024 * at as u64;
            flows.push(ResidualCoupling::load(
                scope.under(&format!("flows.{at}")),
                config,
                stream,
            )?);
        }
        Ok(Flow { flows })
    }

    /// From posterior to prior: [B, F, T] to [B, F, T].
    pub fn forward(
        &self,
        latents: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        pass: Pass,
    ) -> Tensor {
        let mut x = latents.shallow_clone();
        for flow in &self.flows {
            let [first, second] = halves(&x);
            let second = flow.shift(&first, mask, speaker, pass) + second * mask;
            x = Tensor::cat(&[first, second], 1).flip([1]);
        }
        x
    }

    /// From prior to posterior.
    pub fn reverse(&self, latents: &Tensor, mask: &Tensor, speaker: Option<&Tensor>) -> Tensor {
        let mut x = latents.shallow_clone();
        for flow in self.flows.iter().rev() {
            let [first, second] = halves(&x.flip([1]));
            let second = (second - flow.shift(&first, mask, speaker, Pass::Evaluate)) * mask;
            x = Tensor::cat(&[first, second], 1);
        }
        x
    }
}

impl PosteriorEncoder {
    pub fn load(mut scope: Scope, config: &VitsConfig) -> Result<PosteriorEncoder, TorchError> {
        let (bins, width) = (config.spectrogram_bins, config.hidden_size);
        let layers = config.posterior_encoder_num_wavenet_layers;
        let wavenet = WaveNet::load(scope.under("wavenet"), config, layers, POSTERIOR_STREAM)?;
        let conv_proj = Shape::new(width, 2 * config.flow_size, 1);
        Ok(PosteriorEncoder {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(bins, width, 1))?,
            wavenet,
            conv_proj: Conv::load(scope.under("conv_proj"), conv_proj)?,
        })
    }

    /// A linear spectrogram [B, bins, T] with its mask [B, 1, T], and noise [B, F, T].
    pub fn forward(
        &self,
        spectrogram: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        noise: &Tensor,
        pass: Pass,
    ) -> Posterior {
        let [mean, log_deviation] = self.statistics(spectrogram, mask, speaker, pass);
        let latents = (&mean + noise * log_deviation.exp()) * mask;
        Posterior { mean, log_deviation, latents }
    }

    /// The mean and the logarithm of the standard deviation.
    pub fn statistics(
        &self,
        spectrogram: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        pass: Pass,
    ) -> [Tensor; 2] {
        let x = self.conv_pre.forward(spectrogram) * mask;
        let x = self.wavenet.forward(&x, mask, speaker, pass);
        halves(&(self.conv_proj.forward(&x) * mask))
    }
}

#[derive(Debug)]
pub struct Vits {
    pub config: VitsConfig,
    pub device: Device,
    pub text_encoder: TextEncoder,
    pub flow: Flow,
    pub decoder: HifiGan,
    pub duration_predictor: DurationPredictor,
    /// None in a model that only speaks.
    pub posterior_encoder: Option<PosteriorEncoder>,
    pub embed_speaker: Option<Embedding>,
    /// True if training changes the text encoder; a frozen one has no dropout.
    pub learns_text: bool,
}

/// Tokenized texts of one batch.
#[derive(Debug)]
pub struct Texts {
    /// [B, N], zeros after the shorter ones.
    pub ids: Tensor,
    /// 1 for tokens: [B, 1, N].
    pub mask: Tensor,
    pub lengths: Vec<i64>,
}

/// The settings of synthesis.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SynthesisSettings {
    /// The scale of the latent noise: the variation of the sound.
    pub noise_scale: f64,
    /// The scale of the duration noise: the variation of the rhythm.
    pub noise_scale_duration: f64,
    pub speaking_rate: f64,
    /// The largest number of frames of one text; a model with untrained durations may ask for
    /// hours.
    pub most_frames: i64,
}

/// The result of synthesis.
#[derive(Debug)]
pub struct VitsSpeech {
    /// The samples of each text between -1 and 1, on the device.
    pub waves: Vec<Tensor>,
    /// The number of frames of each.
    pub frames: Vec<i64>,
    /// The log-durations of the tokens: [B, 1, N].
    pub log_durations: Tensor,
    /// In frames: [B, N].
    pub durations: Tensor,
    /// The input of the decoder: [B, F, T].
    pub latents: Tensor,
}

impl SynthesisSettings {
    /// From the configuration, with a limit of one minute.
    pub fn of(config: &VitsConfig) -> SynthesisSettings {
        SynthesisSettings {
            noise_scale: config.noise_scale,
            noise_scale_duration: config.noise_scale_duration,
            speaking_rate: config.speaking_rate,
            most_frames: 60 * config.sampling_rate / config.hop(),
        }
    }
}

impl Vits {
    /// Takes the tensors of the generator, which must be complete without extra ones.
    pub fn load(config: VitsConfig, mut weights: Weights) -> Result<Vits, TorchError> {
        let device = weights.iter().next().map_or(Device::Cpu, |(_, tensor)| tensor.device());
        let all = &mut weights;
        let (speakers, width) = (config.num_speakers, config.speaker_embedding_size);
        let table = (speakers > 1)
            .then(|| Embedding::load(&mut all.under("embed_speaker"), speakers, width))
            .transpose()?;
        let posterior = (!config.speaks_only)
            .then(|| PosteriorEncoder::load(all.under("posterior_encoder"), &config))
            .transpose()?;
        let model = Vits {
            device,
            text_encoder: TextEncoder::load(all.under("text_encoder"), &config)?,
            flow: Flow::load(all.under("flow"), &config)?,
            decoder: decoder(all.under("decoder"), &config)?,
            duration_predictor: DurationPredictor::load(all.under("duration_predictor"), &config)?,
            posterior_encoder: posterior,
            embed_speaker: table,
            learns_text: true,
            config,
        };
        weights.finish()?;
        Ok(model)
    }

    /// Checks and pads tokens; every text must have some, all of them in the vocabulary.
    pub fn texts(&self, texts: &[Vec<i64>]) -> Result<Texts, TorchError> {
        let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if lengths.contains(&0) || lengths.is_empty() {
            return Err(TorchError::Input("the text has no known character".into()));
        }
        let rows = self.config.vocab_size;
        if let Some(id) = texts.iter().flatten().find(|id| !(0..rows).contains(*id)) {
            return Err(TorchError::Input(format!(
                "token {id} is out of range: the model has {rows}"
            )));
        }
        let mut ids = Vec::with_capacity(lengths.len() * longest as usize);
        for text in texts {
            ids.extend_from_slice(text);
            ids.resize(ids.len() + longest as usize - text.len(), 0);
        }
        let ids = Tensor::from_slice(&ids).view([lengths.len() as i64, longest]);
        let mask = mask(&lengths, self.device);
        Ok(Texts { ids: upload(&ids, self.device), mask, lengths })
    }

    /// The speaker embeddings of a number of texts by speaker number, [B, E, 1]; None for a model
    /// with one speaker. A model with several needs a speaker.
    pub fn speaker(
        &self,
        numbers: Option<&[i64]>,
        texts: usize,
    ) -> Result<Option<Tensor>, TorchError> {
        let known = self.config.num_speakers;
        let unsaid = || {
            TorchError::Input(format!("the model has {known} speakers: choose one with `speaker`"))
        };
        let numbers = match (numbers, &self.embed_speaker) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(unsaid()),
            (Some(numbers), _) => numbers,
        };
        if numbers.len() != texts {
            let speakers = numbers.len();
            return Err(TorchError::Input(format!("{speakers} speakers for {texts} texts")));
        }
        if let Some(number) = numbers.iter().find(|number| !(0..known).contains(*number)) {
            return Err(TorchError::Input(format!(
                "speaker {number} is out of range: the model has {known}"
            )));
        }
        let Some(table) = &self.embed_speaker else { return Ok(None) };
        let numbers = upload_all(numbers, self.device);
        Ok(Some(table.forward(&numbers).unsqueeze(-1)))
    }

    pub fn prior(&self, texts: &Texts, pass: Pass) -> Prior {
        let pass = if self.learns_text { pass } else { Pass::Evaluate };
        self.text_encoder.forward(&texts.ids, &texts.mask, pass)
    }

    /// Synthesises texts. Noise is drawn for the durations, [B, 2, N], then for the latents, [B, F,
    /// T]; the deterministic duration predictor needs none.
    pub fn speak(
        &self,
        texts: &Texts,
        speakers: Option<&[i64]>,
        settings: &SynthesisSettings,
        noise: &mut dyn NormalNoise,
    ) -> Result<VitsSpeech, TorchError> {
        let _guard = tch::no_grad_guard();
        let speaker = self.speaker(speakers, texts.lengths.len())?;
        let prior = self.prior(texts, Pass::Evaluate);
        let conditioning =
            Conditioning { hidden: &prior.hidden, mask: &texts.mask, speaker: speaker.as_ref() };
        let rows = texts.lengths.len() as i64;
        let drawn = if self.duration_predictor.takes_noise() {
            let drawn = noise.draw([rows, 2, texts.ids.size()[1]], self.device)?;
            Some(drawn * settings.noise_scale_duration)
        } else {
            None
        };
        let log_durations = self.duration_predictor.predict(conditioning, drawn.as_ref())?;
        let durations = log_durations.exp() * &texts.mask * (1.0 / settings.speaking_rate);
        let durations = durations.ceil().squeeze_dim(1);
        let (places, frames) = spread_out(&durations, settings.most_frames)?;
        let places = upload(&places, self.device);
        let mask = mask(&frames, self.device);
        let mean = expand(&prior.mean, &places) * &mask;
        let deviation = (expand(&prior.log_deviation, &places) * &mask).exp();
        let drawn = noise.draw([rows, self.config.flow_size, mask.size()[2]], self.device)?;
        let latents = mean + drawn * deviation * settings.noise_scale;
        let latents = self.flow.reverse(&latents, &mask, speaker.as_ref()) * &mask;
        let waves = self.sound(&latents, &frames, speaker.as_ref());
        Ok(VitsSpeech { waves, frames, log_durations, durations, latents })
    }

    /// Each text by itself: the decoder has no mask, so padding would be audible in the last
    /// frames, and a text would sound different alone than in a batch.
    fn sound(&self, latents: &Tensor, frames: &[i64], speaker: Option<&Tensor>) -> Vec<Tensor> {
        let rows = frames.iter().enumerate().map(|(row, frames)| {
            let row = row as i64;
            let speaker = speaker.map(|speaker| speaker.narrow(0, row, 1));
            let latents = latents.narrow(0, row, 1).narrow(2, 0, *frames);
            self.decoder.forward(&latents, speaker.as_ref()).view(-1)
        });
        rows.collect()
    }
}

/// The decoder from latents to a waveform: a HiFi-GAN with the names of transformers.
fn decoder(scope: Scope, config: &VitsConfig) -> Result<HifiGan, TorchError> {
    let sizes = HifiGanConfig {
        inputs: config.flow_size,
        initial_channels: config.upsample_initial_channel,
        upsample_rates: &config.upsample_rates,
        upsample_kernels: &config.upsample_kernel_sizes,
        resblock_kernels: &config.resblock_kernel_sizes,
        resblock_dilations: &config.resblock_dilation_sizes,
        has_pairs: config.has_paired_blocks(),
        speaker_width: config.speaker_embedding_size,
        cond: "cond",
        conds: None,
        upsampler: "upsampler",
        leaky_slope: config.leaky_relu_slope,
    };
    HifiGan::load(scope, &sizes)
}
