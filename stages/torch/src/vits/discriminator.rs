//! What tells made sound from recorded sound: one look at the wave itself, and one at every
//! p-th sample of it for some periods p (HiFi-GAN, arXiv 2010.05646).

use stage_formats::vits::DISCRIMINATOR_PREFIX;
use tch::Tensor;

use super::config::Config;
use super::conv::{Conv, Leaky, Shape};
use crate::error::TorchError;
use crate::weights::{Scope, Weights};

/// Convolutions, of which all but the last bend their outputs.
#[derive(Debug)]
struct Part {
    convs: Vec<Conv>,
    final_conv: Conv,
    /// Samples from look to look; one for the wave itself.
    period: i64,
}

#[derive(Debug)]
pub struct Discriminator {
    parts: Vec<Part>,
    leaky: Leaky,
}

/// What the parts think of waves.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Near one for recordings, one tensor a part.
    pub scores: Vec<Tensor>,
    /// All that was seen on the way, the scores included.
    pub features: Vec<Tensor>,
}

impl Discriminator {
    pub fn load(config: &Config, mut weights: Weights) -> Result<Discriminator, TorchError> {
        let prefix = DISCRIMINATOR_PREFIX.trim_end_matches('.');
        let mut scope = weights.under(prefix);
        let mut parts = vec![Part::scale(scope.under("discriminators.0"), config)?];
        for (at, period) in config.discriminator_periods.iter().enumerate() {
            let scope = scope.under(&format!("discriminators.{}", at + 1));
            parts.push(Part::period(scope, config, *period)?);
        }
        weights.finish()?;
        Ok(Discriminator { parts, leaky: Leaky::new(config.leaky_relu_slope) })
    }

    /// Judges waves [B, 1, L].
    pub fn forward(&self, waves: &Tensor) -> Result<Judgement, TorchError> {
        self.judge(waves, Conv::forward)
    }

    /// The same where only the waves are to learn from it.
    pub fn forward_frozen(&self, waves: &Tensor) -> Result<Judgement, TorchError> {
        self.judge(waves, Conv::forward_frozen)
    }

    fn judge(
        &self,
        waves: &Tensor,
        convolve: impl Fn(&Conv, &Tensor) -> Result<Tensor, TorchError>,
    ) -> Result<Judgement, TorchError> {
        let mut judgement = Judgement::default();
        for part in &self.parts {
            let mut x = part.columns(waves)?;
            for conv in &part.convs {
                x = self.leaky.forward(&convolve(conv, &x)?)?;
                judgement.features.push(x.shallow_clone());
            }
            let scores = convolve(&part.final_conv, &x)?;
            judgement.features.push(scores.shallow_clone());
            judgement.scores.push(scores);
        }
        Ok(judgement)
    }
}

impl Part {
    fn scale(mut scope: Scope, config: &Config) -> Result<Part, TorchError> {
        let channels = &config.discriminator_scale_channels;
        let (first, last) = (channels[1], channels[channels.len() - 1]);
        let mut shapes = vec![Shape::new(1, first, 15)];
        shapes.extend(config.scale_groups().into_iter().map(|[groups, inputs, outputs]| {
            Shape::new(inputs, outputs, 41).strided(4).grouped(groups)
        }));
        shapes.push(Shape::new(last, last, 5));
        Part::load(&mut scope, &shapes, Shape::new(last, 1, 3), 1)
    }

    fn period(mut scope: Scope, config: &Config, period: i64) -> Result<Part, TorchError> {
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
        Part::load(&mut scope, &shapes, Shape::new(last, 1, 3).flat(), period)
    }

    fn load(
        scope: &mut Scope,
        shapes: &[Shape],
        final_conv: Shape,
        period: i64,
    ) -> Result<Part, TorchError> {
        let convs = shapes.iter().enumerate();
        let convs =
            convs.map(|(at, shape)| Conv::load(scope.under(&format!("convs.{at}")), *shape));
        let convs = convs.collect::<Result<_, _>>()?;
        Ok(Part { convs, final_conv: Conv::load(scope.under("final_conv"), final_conv)?, period })
    }

    /// Every p-th sample as a row of its own: [B, 1, L] to [B p, 1, L / p], the end mirrored
    /// where L is no multiple of p.
    fn columns(&self, waves: &Tensor) -> Result<Tensor, TorchError> {
        let period = self.period;
        if period == 1 {
            return Ok(waves.shallow_clone());
        }
        let (rows, _, length) = waves.size3()?;
        let missing = (period - length % period) % period;
        let padded = waves.f_reflection_pad1d([0, missing])?;
        let planes = padded.f_view([rows, (length + missing) / period, period])?;
        Ok(planes.f_transpose(1, 2)?.f_reshape([rows * period, 1, -1])?)
    }
}
