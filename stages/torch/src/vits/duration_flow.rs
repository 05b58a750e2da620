//! The flow between noise and log-durations, over two channels: [B, 2, N].

use tch::{Kind, Tensor};

use super::config::Config;
use super::duration::STREAM;
use super::separable::Separable;
use super::spline::{Spline, from_numbers};
use super::text_encoder::halves;
use crate::conv::{Conv, Shape};
use crate::error::TorchError;
use crate::layers::Pass;
use crate::weights::Scope;

/// An affine layer on both channels.
#[derive(Debug)]
struct Affine {
    translate: Tensor,
    log_scale: Tensor,
}

/// A spline coupling: transforms one channel conditioned on the other.
#[derive(Debug)]
struct ConvFlow {
    conv_pre: Conv,
    conv_dds: Separable,
    conv_proj: Conv,
    bins: i64,
    divisor: f64,
    bound: f64,
}

/// An affine layer, then couplings, each followed by a flip of the channels. So the first coupling
/// transforms the channel that is not a duration.
#[derive(Debug)]
pub struct Flows {
    affine: Affine,
    bends: Vec<ConvFlow>,
}

impl Affine {
    fn load(mut scope: Scope, channels: i64) -> Result<Affine, TorchError> {
        let mut vector = |name: &str| scope.take(name, &[channels, 1]);
        Ok(Affine { translate: vector("translate")?, log_scale: vector("log_scale")? })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> (Tensor, Tensor) {
        let y = (&self.translate + self.log_scale.exp() * x) * mask;
        (y, summed(&(&self.log_scale * mask)))
    }

    fn reverse(&self, y: &Tensor, mask: &Tensor) -> Tensor {
        (y - &self.translate) * (-&self.log_scale).exp() * mask
    }
}

impl ConvFlow {
    fn load(mut scope: Scope, config: &Config, stream: u64) -> Result<ConvFlow, TorchError> {
        let (width, bins) = (config.hidden_size, config.duration_predictor_flow_bins);
        Ok(ConvFlow {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(1, width, 1))?,
            conv_dds: Separable::load(scope.under("conv_dds"), config, 0.0, stream)?,
            conv_proj: Conv::load(scope.under("conv_proj"), Shape::new(width, 3 * bins - 1, 1))?,
            bins,
            divisor: (width as f64).sqrt(),
            bound: config.duration_predictor_tail_bound,
        })
    }

    /// The spline of each token, from one channel and the text.
    fn spline(&self, first: &Tensor, mask: &Tensor, cond: &Tensor) -> Result<Spline, TorchError> {
        let x = self.conv_pre.forward(first)?;
        let x = self.conv_dds.forward(&x, mask, Some(cond), Pass::Evaluate)?;
        let numbers = self.conv_proj.forward(&x)? * mask; // [B, 3 K - 1, N]
        from_numbers(&numbers.transpose(1, 2).unsqueeze(1), self.bins, self.divisor, self.bound)
    }

    fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        cond: &Tensor,
    ) -> Result<(Tensor, Tensor), TorchError> {
        let [first, second] = halves(x);
        let (second, slope) = self.spline(&first, mask, cond)?.forward(&second);
        Ok((Tensor::f_cat(&[first, second], 1)? * mask, summed(&(slope * mask))))
    }

    fn reverse(&self, y: &Tensor, mask: &Tensor, cond: &Tensor) -> Result<Tensor, TorchError> {
        let [first, second] = halves(y);
        let second = self.spline(&first, mask, cond)?.reverse(&second);
        Ok(Tensor::f_cat(&[first, second], 1)? * mask)
    }
}

impl Flows {
    pub fn load(mut scope: Scope, config: &Config) -> Result<Flows, TorchError> {
        let affine = Affine::load(scope.under("0"), config.depth_separable_channels)?;
        let bends = (1..=config.duration_predictor_num_flows)
            .map(|at| ConvFlow::load(scope.under(&at.to_string()), config, STREAM));
        Ok(Flows { affine, bends: bends.collect::<Result<_, _>>()? })
    }

    /// [B, 2, N] to [B, 2, N], and the log-determinant: [B].
    pub fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        cond: &Tensor,
    ) -> Result<(Tensor, Tensor), TorchError> {
        let (mut x, mut widening) = self.affine.forward(x, mask);
        for bend in &self.bends {
            let (y, more) = bend.forward(&x, mask, cond)?;
            x = y.f_flip([1])?;
            widening += more;
        }
        Ok((x, widening))
    }

    /// The inverse, without the first coupling: it transforms the channel that is not a duration,
    /// and the original omits it.
    pub fn reverse(&self, y: &Tensor, mask: &Tensor, cond: &Tensor) -> Result<Tensor, TorchError> {
        let mut y = y.shallow_clone();
        for bend in self.bends.iter().skip(1).rev() {
            y = bend.reverse(&y.f_flip([1])?, mask, cond)?;
        }
        Ok(self.affine.reverse(&y.f_flip([1])?, mask))
    }
}

/// The sum over channels and columns: [B, C, N] to [B].
pub fn summed(x: &Tensor) -> Tensor {
    x.sum_dim_intlist([1i64, 2].as_slice(), false, Kind::Float)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Device;

    use super::*;
    use crate::random::Random;
    use crate::weights::Weights;

    fn drawn(random: &mut Random, shape: &[i64]) -> Tensor {
        let count = shape.iter().product::<i64>();
        let values: Vec<f32> = (0..count).map(|_| random.fraction() as f32 - 0.5).collect();
        Tensor::from_slice(&values).view(shape)
    }

    #[test]
    fn the_way_back_leads_to_the_durations() {
        let prefix = "duration_predictor.flows";
        let (mut random, tokens) = (Random::new(3), 7);
        for duration_predictor_num_flows in [1, 2, 3, 4] {
            let config =
                Config { hidden_size: 8, duration_predictor_num_flows, ..Config::default() };
            let tensors = config.generator().into_iter();
            let own = tensors.filter(|(name, _)| name.starts_with(&format!("{prefix}.")));
            let mut weights: Weights =
                own.map(|(name, shape)| (name, drawn(&mut random, &shape))).collect();
            let flows = Flows::load(weights.under(prefix), &config).unwrap();
            let mask = Tensor::ones([1, 1, tokens], (Kind::Float, Device::Cpu));
            let cond = drawn(&mut random, &[1, 8, tokens]);
            let x = drawn(&mut random, &[1, 2, tokens]) * 4.0;
            let (y, _) = flows.forward(&x, &mask, &cond).unwrap();
            let back = flows.reverse(&y, &mask, &cond).unwrap();
            let [[expected, _], [durations, _]] = [halves(&x), halves(&back)];
            let far = (durations - expected).abs().max().double_value(&[]);
            assert!(far < 1e-4, "{duration_predictor_num_flows} flows: off by {far}");
        }
    }
}
