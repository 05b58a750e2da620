//! The decoder of latents to sound (HiFi-GAN, arXiv 2010.05646).

use tch::Tensor;

use super::config::Config;
use super::conv::{Conv, Leaky, Shape, Upsampler};
use crate::error::TorchError;
use crate::weights::Scope;

/// The samples that the first and the last convolution look at.
const ENDS: i64 = 7;

/// Pairs of convolutions, the first of each dilated; each pair is added to its input.
#[derive(Debug)]
struct ResidualBlock {
    convs1: Vec<Conv>,
    convs2: Vec<Conv>,
}

/// An upsampling and the blocks of which the mean is taken behind it.
#[derive(Debug)]
struct Stage {
    upsampler: Upsampler,
    resblocks: Vec<ResidualBlock>,
}

#[derive(Debug)]
pub struct Decoder {
    conv_pre: Conv,
    cond: Option<Conv>,
    stages: Vec<Stage>,
    conv_post: Conv,
    leaky: Leaky,
}

impl ResidualBlock {
    fn load(
        mut scope: Scope,
        channels: i64,
        kernel: i64,
        dilations: &[i64],
    ) -> Result<ResidualBlock, TorchError> {
        let (mut convs1, mut convs2) = (Vec::new(), Vec::new());
        for (at, dilation) in dilations.iter().enumerate() {
            let shape = Shape::new(channels, channels, kernel);
            let dilated = shape.dilated(*dilation);
            convs1.push(Conv::load(scope.under(&format!("convs1.{at}")), dilated)?);
            convs2.push(Conv::load(scope.under(&format!("convs2.{at}")), shape)?);
        }
        Ok(ResidualBlock { convs1, convs2 })
    }

    /// [B, C, L] to [B, C, L].
    fn forward(&self, x: &Tensor, leaky: &Leaky) -> Result<Tensor, TorchError> {
        let mut x = x.shallow_clone();
        for (first, second) in self.convs1.iter().zip(&self.convs2) {
            let inner = first.forward(&leaky.forward(&x)?)?;
            x = second.forward(&leaky.forward(&inner)?)? + x;
        }
        Ok(x)
    }
}

impl Decoder {
    pub fn load(mut scope: Scope, config: &Config) -> Result<Decoder, TorchError> {
        let (widest, speaker) = (config.upsample_initial_channel, config.speaker_embedding_size);
        let conv_pre = Shape::new(config.flow_size, widest, ENDS);
        let cond = Shape::new(speaker, widest, 1);
        let cond = (speaker > 0).then(|| Conv::load(scope.under("cond"), cond)).transpose()?;
        let stages = (0..config.upsample_rates.len()).map(|at| stage(&mut scope, config, at));
        let stages = stages.collect::<Result<_, TorchError>>()?;
        let last = config.decoder_channels(config.upsample_rates.len());
        let conv_post = Shape::new(last, 1, ENDS).without_bias();
        Ok(Decoder {
            conv_pre: Conv::load(scope.under("conv_pre"), conv_pre)?,
            cond,
            stages,
            conv_post: Conv::load(scope.under("conv_post"), conv_post)?,
            leaky: Leaky::new(config.leaky_relu_slope),
        })
    }

    /// [B, F, T] to waves [B, 1, T * hop] between -1 and 1. Nothing is masked: padding sounds.
    pub fn forward(
        &self,
        latents: &Tensor,
        speaker: Option<&Tensor>,
    ) -> Result<Tensor, TorchError> {
        let mut x = self.conv_pre.forward(latents)?;
        if let (Some(cond), Some(speaker)) = (&self.cond, speaker) {
            x += cond.forward(speaker)?;
        }
        for stage in &self.stages {
            x = stage.upsampler.forward(&self.leaky.forward(&x)?)?;
            let mut sum: Option<Tensor> = None;
            for block in &stage.resblocks {
                let y = block.forward(&x, &self.leaky)?;
                sum = Some(match sum {
                    Some(sum) => sum + y,
                    None => y,
                });
            }
            if let Some(sum) = sum {
                x = sum / stage.resblocks.len() as f64;
            }
        }
        // Here, and only here, the original has its library's slope of 0.01.
        Ok(self.conv_post.forward(&x.leaky_relu())?.tanh())
    }
}

fn stage(scope: &mut Scope, config: &Config, at: usize) -> Result<Stage, TorchError> {
    let (rate, kernel) = (config.upsample_rates[at], config.upsample_kernel_sizes[at]);
    let channels = [config.decoder_channels(at), config.decoder_channels(at + 1)];
    let upsampler =
        Upsampler::load(scope.under(&format!("upsampler.{at}")), channels, kernel, rate)?;
    let kinds = config.resblock_kernel_sizes.iter().zip(&config.resblock_dilation_sizes);
    let count = config.resblock_kernel_sizes.len();
    let blocks = kinds.enumerate().map(|(kind, (kernel, dilations))| {
        let scope = scope.under(&format!("resblocks.{}", at * count + kind));
        ResidualBlock::load(scope, channels[1], *kernel, dilations)
    });
    Ok(Stage { resblocks: blocks.collect::<Result<_, _>>()?, upsampler })
}
