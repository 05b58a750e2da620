//! The generator of HiFi-GAN (arXiv 2010.05646), from latents or hidden states to a waveform, with
//! a speaker vector added before, and in some models also after each upsampling.

use tch::Tensor;

use crate::error::TorchError;
use crate::nn::conv::{Conv, Leaky, Shape, Upsampler};
use crate::nn::weights::Scope;

/// The kernel sizes of the first and the last convolution.
const ENDS: i64 = 7;

/// The sizes, and the names of modules in the files of a family.
#[derive(Clone, Debug)]
pub struct HifiGanConfig<'a> {
    pub inputs: i64,
    pub initial_channels: i64,
    pub upsample_rates: &'a [i64],
    pub upsample_kernels: &'a [i64],
    pub resblock_kernels: &'a [i64],
    pub resblock_dilations: &'a [Vec<i64>],
    /// Each residual layer is a pair of convolutions, and not a single one.
    pub has_pairs: bool,
    /// Channels of the speaker vector, 0 without one.
    pub speaker_width: i64,
    /// The module for this vector before the first upsampling.
    pub cond: &'static str,
    /// The modules for it after each upsampling, if there are any.
    pub conds: Option<&'static str>,
    pub upsampler: &'static str,
    pub leaky_slope: f64,
}

/// Residual layers: a dilated convolution, and in most models one without dilation behind it.
#[derive(Debug)]
struct ResidualBlock(Vec<(Conv, Option<Conv>)>);

/// An upsampling layer and its residual blocks; their outputs are averaged.
#[derive(Debug)]
struct Stage {
    upsampler: Upsampler,
    cond: Option<Conv>,
    resblocks: Vec<ResidualBlock>,
}

#[derive(Debug)]
pub struct HifiGan {
    conv_pre: Conv,
    cond: Option<Conv>,
    stages: Vec<Stage>,
    conv_post: Conv,
    leaky: Leaky,
}

impl HifiGanConfig<'_> {
    /// Channels after this number of upsampling layers.
    fn channels(&self, steps: usize) -> i64 {
        self.initial_channels >> steps.min(62)
    }
}

impl ResidualBlock {
    fn load(
        mut scope: Scope,
        channels: i64,
        kernel: i64,
        dilations: &[i64],
        has_pairs: bool,
    ) -> Result<ResidualBlock, TorchError> {
        let shape = Shape::new(channels, channels, kernel);
        let layers = dilations.iter().enumerate().map(|(at, dilation)| {
            let dilated = shape.dilated(*dilation);
            if !has_pairs {
                return Ok((Conv::load(scope.under(&format!("convs.{at}")), dilated)?, None));
            }
            let first = Conv::load(scope.under(&format!("convs1.{at}")), dilated)?;
            let second = Conv::load(scope.under(&format!("convs2.{at}")), shape)?;
            Ok((first, Some(second)))
        });
        Ok(ResidualBlock(layers.collect::<Result<_, TorchError>>()?))
    }

    /// [B, C, L] to [B, C, L].
    fn forward(&self, x: &Tensor, leaky: &Leaky) -> Tensor {
        let mut x = x.shallow_clone();
        for (first, second) in &self.0 {
            let inner = first.forward(&leaky.forward(&x));
            x = match second {
                Some(second) => second.forward(&leaky.forward(&inner)) + x,
                None => inner + x,
            };
        }
        x
    }
}

impl Stage {
    fn load(
        scope: &mut Scope,
        config: &HifiGanConfig,
        at: usize,
        (rate, kernel): (i64, i64),
    ) -> Result<Stage, TorchError> {
        let channels = [config.channels(at), config.channels(at + 1)];
        let upsampler = scope.under(&format!("{}.{at}", config.upsampler));
        let upsampler = Upsampler::load(upsampler, channels, kernel, rate)?;
        let shape = Shape::new(config.speaker_width, channels[1], 1);
        let cond = config.conds.filter(|_| config.speaker_width > 0);
        let cond = cond.map(|name| Conv::load(scope.under(&format!("{name}.{at}")), shape));
        let kinds = config.resblock_kernels.iter().zip(config.resblock_dilations);
        let count = config.resblock_kernels.len();
        let blocks = kinds.enumerate().map(|(kind, (kernel, dilations))| {
            let scope = scope.under(&format!("resblocks.{}", at * count + kind));
            ResidualBlock::load(scope, channels[1], *kernel, dilations, config.has_pairs)
        });
        Ok(Stage {
            resblocks: blocks.collect::<Result<_, _>>()?,
            upsampler,
            cond: cond.transpose()?,
        })
    }

    fn forward(&self, x: &Tensor, speaker: Option<&Tensor>, leaky: &Leaky) -> Tensor {
        let mut x = self.upsampler.forward(&leaky.forward(x));
        if let (Some(cond), Some(speaker)) = (&self.cond, speaker) {
            x += cond.forward(speaker);
        }
        let mut sum: Option<Tensor> = None;
        for block in &self.resblocks {
            let y = block.forward(&x, leaky);
            sum = Some(match sum {
                Some(sum) => sum + y,
                None => y,
            });
        }
        match sum {
            Some(sum) => sum / self.resblocks.len() as f64,
            None => x,
        }
    }
}

impl HifiGan {
    pub fn load(mut scope: Scope, config: &HifiGanConfig) -> Result<HifiGan, TorchError> {
        let (widest, speaker) = (config.initial_channels, config.speaker_width);
        let conv_pre = Shape::new(config.inputs, widest, ENDS);
        let cond = Shape::new(speaker, widest, 1);
        let cond = (speaker > 0).then(|| Conv::load(scope.under(config.cond), cond)).transpose()?;
        let steps = config.upsample_rates.iter().zip(config.upsample_kernels).enumerate();
        let stages = steps
            .map(|(at, (rate, kernel))| Stage::load(&mut scope, config, at, (*rate, *kernel)))
            .collect::<Result<_, TorchError>>()?;
        let last = config.channels(config.upsample_rates.len());
        let conv_post = Shape::new(last, 1, ENDS).without_bias();
        Ok(HifiGan {
            conv_pre: Conv::load(scope.under("conv_pre"), conv_pre)?,
            cond,
            stages,
            conv_post: Conv::load(scope.under("conv_post"), conv_post)?,
            leaky: Leaky::new(config.leaky_slope),
        })
    }

    /// [B, inputs, T] and [B, speaker width, 1] to waves [B, 1, T * hop] between -1 and 1. There is
    /// no mask: padding is audible.
    pub fn forward(&self, latents: &Tensor, speaker: Option<&Tensor>) -> Tensor {
        let mut x = self.conv_pre.forward(latents);
        if let (Some(cond), Some(speaker)) = (&self.cond, speaker) {
            x += cond.forward(speaker);
        }
        for stage in &self.stages {
            x = stage.forward(&x, speaker, &self.leaky);
        }
        // Only here, the original uses its library's default slope of 0.01.
        self.conv_post.forward(&x.leaky_relu()).tanh()
    }
}
