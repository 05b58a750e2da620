//! A posterior encoder that learns the latents of sound.

use tch::{Device, Kind, Tensor};

use crate::error::TorchError;
use crate::nn::layers::{Embedding, Pass};
use crate::nn::weights::Weights;
use crate::runtime::upload::{StagedTensor, upload_all};
use crate::train::{Losses, Means, Phase, Totals, Trainee};
use crate::vits::VitsConfig;
use crate::vits::models::PosteriorEncoder;

/// The negative log-likelihood of a value of the latents, without its constant.
const LIKELIHOOD: &str = "likelihood";
/// The squared error of the mean of such a value.
const ERROR: &str = "mse";

/// Parts of sentences, on the CPU, zeros after the shorter ones.
#[derive(Debug)]
pub struct PairBatch {
    /// [B, F, T].
    pub latents: StagedTensor,
    /// [B, bins, T].
    pub linears: StagedTensor,
    /// [B, 1, T].
    pub mask: StagedTensor,
    /// The values of the latents in all rows.
    pub values: u64,
    /// For models with several.
    pub speakers: Option<Vec<i64>>,
}

#[derive(Debug)]
pub struct PosteriorTrainee {
    encoder: PosteriorEncoder,
    parameters: Vec<(String, Tensor)>,
    device: Device,
    /// The embeddings of the speakers, which stay as they are.
    speakers: Option<Embedding>,
}

impl PosteriorTrainee {
    pub fn new(config: &VitsConfig, mut weights: Weights) -> Result<PosteriorTrainee, TorchError> {
        let own = weights.iter();
        let parameters: Vec<(String, Tensor)> =
            own.map(|(name, tensor)| (name.to_owned(), tensor.set_requires_grad(true))).collect();
        let device = parameters.first().map_or(Device::Cpu, |(_, tensor)| tensor.device());
        let encoder = PosteriorEncoder::load(weights.under("posterior_encoder"), config)?;
        weights.finish()?;
        Ok(PosteriorTrainee { encoder, parameters, device, speakers: None })
    }

    /// With the embeddings of the voice's speakers, if it has several.
    pub fn speaking_as(self, speakers: Option<Embedding>) -> PosteriorTrainee {
        PosteriorTrainee { speakers, ..self }
    }

    /// Sums of both losses over the values of a batch.
    fn losses(&self, batch: &PairBatch) -> [(&'static str, Tensor); 2] {
        let here = |tensor: &StagedTensor| tensor.upload(self.device);
        let (latents, mask) = (here(&batch.latents), here(&batch.mask));
        let speaker = self.speakers.as_ref().zip(batch.speakers.as_deref());
        let speaker = speaker
            .map(|(table, numbers)| table.forward(&upload_all(numbers, self.device)).unsqueeze(-1));
        let [mean, log_deviation] =
            self.encoder.statistics(&here(&batch.linears), &mask, speaker.as_ref(), Pass::Evaluate);
        let squared = (latents - mean).square();
        let likelihood = &log_deviation + &squared * (&log_deviation * -2.0).exp() * 0.5;
        let summed = |x: Tensor| (x * &mask).sum(Kind::Float);
        [(LIKELIHOOD, summed(likelihood)), (ERROR, summed(squared.detach()))]
    }
}

fn told(losses: &[(&'static str, Tensor)]) -> Losses {
    losses.iter().fold(Losses::default(), |losses, (name, sum)| losses.with(name, sum))
}

impl Trainee for PosteriorTrainee {
    type Batch = PairBatch;
    type Network = PosteriorEncoder;

    fn network(&self) -> &PosteriorEncoder {
        &self.encoder
    }

    fn network_mut(&mut self) -> &mut PosteriorEncoder {
        &mut self.encoder
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        let own = self.parameters.iter();
        own.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect()
    }

    fn accumulate(&mut self, batch: &PairBatch, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        let losses = self.losses(batch);
        (&losses[0].1 * phase.totals.weight(LIKELIHOOD)).backward();
        Ok(told(&losses))
    }

    fn evaluate(&self, batch: &PairBatch) -> Result<Losses, TorchError> {
        Ok(told(&self.losses(batch)))
    }

    fn count(batch: &PairBatch) -> Totals {
        Totals::new(&[(LIKELIHOOD, batch.values), (ERROR, batch.values)])
    }

    fn total(&self, means: &Means) -> f64 {
        means.of(LIKELIHOOD).unwrap_or(f64::NAN)
    }
}
