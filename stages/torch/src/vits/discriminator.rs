//! The discriminator between generated and recorded sound: a scale discriminator on the waveform,
//! and period discriminators on every p-th sample for some periods p (HiFi-GAN, arXiv 2010.05646).

use stage_families::vits::DISCRIMINATOR_PREFIX;
use tch::Tensor;

use super::VitsConfig;
use crate::error::{InTch, TorchError};
use crate::nn::conv::{Conv, Leaky, Shape};
use crate::nn::weights::{Scope, Weights};

/// Convolutions; all but the last are followed by an activation.
#[derive(Debug)]
struct SubDiscriminator {
    convs: Vec<Conv>,
    final_conv: Conv,
    /// The period in samples; None for the waveform itself.
    period: Option<i64>,
}

#[derive(Debug)]
pub struct Discriminator {
    parts: Vec<SubDiscriminator>,
    leaky: Leaky,
}

/// The outputs of the sub-discriminators for waves.
#[derive(Debug, Default)]
pub struct DiscriminatorOutput {
    /// Scores near one for recordings, one tensor per sub-discriminator.
    pub scores: Vec<Tensor>,
    /// All feature maps, the scores included.
    pub features: Vec<Tensor>,
}

impl Discriminator {
    pub fn load(config: &VitsConfig, mut weights: Weights) -> Result<Discriminator, TorchError> {
        let prefix = DISCRIMINATOR_PREFIX.trim_end_matches('.');
        let mut scope = weights.under(prefix);
        let mut parts = vec![SubDiscriminator::scale(scope.under("discriminators.0"), config)?];
        for (at, period) in config.discriminator_periods.iter().enumerate() {
            let scope = scope.under(&format!("discriminators.{}", at + 1));
            parts.push(SubDiscriminator::period(scope, config, *period)?);
        }
        weights.finish()?;
        Ok(Discriminator { parts, leaky: Leaky::new(config.leaky_relu_slope) })
    }

    /// Discriminates waves [B, 1, L].
    pub fn forward(&self, waves: &Tensor) -> DiscriminatorOutput {
        let mut output = DiscriminatorOutput::default();
        for part in &self.parts {
            let mut x = part.planes(waves);
            for conv in &part.convs {
                x = self.leaky.forward(&conv.forward(&x));
                output.features.push(x.shallow_clone());
            }
            let scores = part.final_conv.forward(&x);
            output.features.push(scores.shallow_clone());
            output.scores.push(scores);
        }
        output
    }

    /// A copy without gradients: the weights of its pairs are computed once.
    pub fn frozen(&self) -> Discriminator {
        let parts = self.parts.iter().map(SubDiscriminator::frozen).collect();
        Discriminator { parts, leaky: self.leaky.clone() }
    }
}

impl DiscriminatorOutput {
    /// For a batch with recordings in its first half: the outputs of each half.
    pub fn halves(&self) -> [DiscriminatorOutput; 2] {
        let half = |tensor: &Tensor, second: i64| {
            let rows = tensor.size()[0] / 2;
            tensor.narrow(0, second * rows, rows)
        };
        let of = |second: i64| {
            let halves = |tensors: &[Tensor]| {
                tensors.iter().map(|tensor| half(tensor, second)).collect::<Vec<_>>()
            };
            let (scores, features) = (halves(&self.scores), halves(&self.features));
            DiscriminatorOutput { scores, features }
        };
        [of(0), of(1)]
    }
}

impl SubDiscriminator {
    fn scale(mut scope: Scope, config: &VitsConfig) -> Result<SubDiscriminator, TorchError> {
        let channels = &config.discriminator_scale_channels;
        let (first, last) = (channels[1], channels[channels.len() - 1]);
        let mut shapes = vec![Shape::new(1, first, 15)];
        shapes.extend(config.scale_groups().into_iter().map(|[groups, inputs, outputs]| {
            Shape::new(inputs, outputs, 41).strided(4).grouped(groups)
        }));
        shapes.push(Shape::new(last, last, 5));
        SubDiscriminator::load(&mut scope, &shapes, Shape::new(last, 1, 3), None)
    }

    fn period(
        mut scope: Scope,
        config: &VitsConfig,
        period: i64,
    ) -> Result<SubDiscriminator, TorchError> {
        let (channels, kernel) =
            (&config.discriminator_period_channels, config.discriminator_kernel_size);
        let last = channels[channels.len() - 1];
        let pairs = channels.iter().zip(channels.iter().skip(1));
        let mut shapes: Vec<Shape> = pairs
            .map(|(inputs, outputs)| {
                Shape::new(*inputs, *outputs, kernel).strided(config.discriminator_stride).flat()
            })
            .collect();
        shapes.push(Shape::new(last, last, kernel).flat());
        SubDiscriminator::load(&mut scope, &shapes, Shape::new(last, 1, 3).flat(), Some(period))
    }

    fn load(
        scope: &mut Scope,
        shapes: &[Shape],
        final_conv: Shape,
        period: Option<i64>,
    ) -> Result<SubDiscriminator, TorchError> {
        let convs = shapes.iter().enumerate();
        let convs =
            convs.map(|(at, shape)| Conv::load(scope.under(&format!("convs.{at}")), *shape));
        let convs = convs.collect::<Result<_, _>>()?;
        Ok(SubDiscriminator {
            convs,
            final_conv: Conv::load(scope.under("final_conv"), final_conv)?,
            period,
        })
    }

    fn frozen(&self) -> SubDiscriminator {
        let convs = self.convs.iter().map(Conv::frozen).collect();
        SubDiscriminator { convs, final_conv: self.final_conv.frozen(), period: self.period }
    }

    /// Every p-th sample as a row: [B, 1, L] to [B, 1, L / p, p], the end reflected if L is not a
    /// multiple of p. The waveform itself does not change.
    fn planes(&self, waves: &Tensor) -> Tensor {
        let Some(period) = self.period else { return waves.shallow_clone() };
        let (rows, _, length) = waves.size3().in_tch();
        let missing = (period - length % period) % period;
        let padded = waves.reflection_pad1d([0, missing]);
        padded.view([rows, 1, (length + missing) / period, period])
    }
}
