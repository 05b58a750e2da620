//! The tensors of a model beside the GPT: names as in the published files, and shapes, from the
//! configuration alone. Those of the DVAE, a separate file there, begin with `dvae.` as in trainer
//! checkpoints.

use stage_formats::shapes::Expected;

use super::config::{DecoderConfig, DvaeConfig, SpeakerEncoderConfig, XttsConfig};
use crate::scope::{self, Scope, collect};

pub const DVAE_PREFIX: &str = "dvae.";
pub const DECODER_PREFIX: &str = "hifigan_decoder.waveform_decoder.";
pub const SPEAKER_ENCODER_PREFIX: &str = "hifigan_decoder.speaker_encoder.";
/// The mean of each log-mel bin; both spectrograms are divided by it.
pub const MEL_STATS: &str = "mel_stats";

/// Channels between the two convolutions of the attentive pooling.
const POOLING_WIDTH: i64 = 128;
/// Squeeze-and-excitation divides the channels by this.
const SE_REDUCTION: i64 = 8;
/// Strides of the ResNet divide the bins by this.
const BINS_REDUCTION: i64 = 8;

/// Tests if a tensor is not a parameter: a statistic, or a table that follows from the sizes.
pub fn is_buffer(name: &str) -> bool {
    let parts = [".running_mean", ".running_var", ".num_batches_tracked", ".torch_spec."];
    name == MEL_STATS
        || name.starts_with("dvae.codebook.")
        || parts.iter().any(|part| name.contains(part))
}

/// The number of parameters, without buffers.
pub fn parameters(tensors: &[Expected]) -> i64 {
    scope::parameters(tensors.iter().filter(|(name, _)| !is_buffer(name)))
}

impl XttsConfig {
    /// All tensors, those of the DVAE included.
    pub fn tensors(&self) -> Vec<Expected> {
        [self.model_tensors(), self.dvae_tensors()].concat()
    }

    /// The tensors of `model.pth`.
    pub fn model_tensors(&self) -> Vec<Expected> {
        let stats = (MEL_STATS.to_owned(), vec![self.gpt.mels]);
        let decoder = collect(DECODER_PREFIX, |scope| self.decoder.fill(scope));
        let encoder = collect(SPEAKER_ENCODER_PREFIX, |scope| self.speaker_encoder.fill(scope));
        [self.gpt.tensors(), decoder, encoder, vec![stats]].concat()
    }

    pub fn dvae_tensors(&self) -> Vec<Expected> {
        collect(DVAE_PREFIX, |scope| self.dvae.fill(scope, self.gpt.mels))
    }
}

impl DvaeConfig {
    /// Channels of the innermost convolutions.
    pub fn inner(&self) -> i64 {
        self.hidden << (self.layers - 1)
    }

    fn fill(&self, scope: &mut Scope, mels: i64) {
        let (inner, last) = (self.inner(), self.layers + self.residual_blocks);
        let mut encoder = scope.under("encoder");
        for at in 0..self.layers {
            let inputs = if at == 0 { mels } else { self.hidden << (at - 1) };
            encoder.layer(format!("{at}.0"), self.hidden << at, &[inputs, 3]);
        }
        for at in 0..self.residual_blocks {
            residual(&mut encoder.under(self.layers + at), inner);
        }
        encoder.layer(last, self.codebook_width, &[inner, 1]);
        let mut decoder = scope.under("decoder");
        decoder.layer(0, inner, &[self.codebook_width, 1]);
        for at in 0..self.residual_blocks {
            residual(&mut decoder.under(at + 1), inner);
        }
        for at in 0..self.layers {
            // The first one keeps the width.
            let inputs = inner >> (at - 1).max(0);
            let place = format!("{}.0.conv", self.residual_blocks + 1 + at);
            decoder.layer(place, inner >> at, &[inputs, 3]);
        }
        decoder.layer(last + 1, mels, &[self.hidden, 1]);
        scope.add("codebook.embed", &[self.codebook_width, self.codes]);
    }
}

fn residual(scope: &mut Scope, width: i64) {
    for (part, kernel) in [(0, 3), (2, 3), (4, 1)] {
        scope.layer(format!("net.{part}"), width, &[width, kernel]);
    }
}

impl DecoderConfig {
    /// Channels after this number of upsampling layers.
    pub fn channels(&self, layers: usize) -> i64 {
        self.initial_channels >> layers
    }

    fn fill(&self, scope: &mut Scope) {
        let (initial, speaker) = (self.initial_channels, self.speaker_width);
        scope.layer("conv_pre", initial, &[self.input_width, 7]);
        let kinds = self.resblock_kernels.len();
        for (at, kernel) in self.upsample_kernels.iter().enumerate() {
            let (wide, narrow) = (self.channels(at), self.channels(at + 1));
            // Transposed: the input axis comes first, and the bias has the size of the output.
            scope.normed(format!("ups.{at}"), narrow, [wide, narrow, *kernel]);
            if self.speaker_in_each_layer {
                scope.layer(format!("conds.{at}"), narrow, &[speaker, 1]);
            }
            let blocks = self.resblock_kernels.iter().zip(&self.resblock_dilations);
            for (kind, (kernel, dilations)) in blocks.enumerate() {
                let mut block = scope.under(format!("resblocks.{}", at * kinds + kind));
                for at in 0..dilations.len() {
                    block.normed(format!("convs1.{at}"), narrow, [narrow, narrow, *kernel]);
                    block.normed(format!("convs2.{at}"), narrow, [narrow, narrow, *kernel]);
                }
            }
        }
        scope.add("conv_post.weight", &[1, self.channels(self.upsample_kernels.len()), 7]);
        scope.layer("cond_layer", initial, &[speaker, 1]);
    }
}

impl SpeakerEncoderConfig {
    /// Channels times bins of the pooling input.
    pub fn pooled(&self) -> i64 {
        self.channels[3] * (self.mels / BINS_REDUCTION)
    }

    fn fill(&self, scope: &mut Scope) {
        let pooled = self.pooled();
        scope.layer("conv1", self.channels[0], &[1, 3, 3]);
        scope.batch_norm("bn1", self.channels[0]);
        let mut inputs = self.channels[0];
        for (stage, (blocks, channels)) in self.blocks.iter().zip(self.channels).enumerate() {
            for at in 0..*blocks {
                let mut block = scope.under(format!("layer{}.{at}", stage + 1));
                block.add("conv1.weight", &[channels, inputs, 3, 3]);
                block.batch_norm("bn1", channels);
                block.add("conv2.weight", &[channels, channels, 3, 3]);
                block.batch_norm("bn2", channels);
                block.layer("se.fc.0", channels / SE_REDUCTION, &[channels]);
                block.layer("se.fc.2", channels, &[channels / SE_REDUCTION]);
                // All stages except the first begin with a stride.
                if at == 0 && (stage > 0 || inputs != channels) {
                    block.add("downsample.0.weight", &[channels, inputs, 1, 1]);
                    block.batch_norm("downsample.1", channels);
                }
                inputs = channels;
            }
        }
        scope.add("torch_spec.0.filter", &[1, 1, 2]);
        scope.add("torch_spec.1.spectrogram.window", &[self.window]);
        scope.add("torch_spec.1.mel_scale.fb", &[self.n_fft / 2 + 1, self.mels]);
        scope.layer("attention.0", POOLING_WIDTH, &[pooled, 1]);
        scope.batch_norm("attention.2", POOLING_WIDTH);
        scope.layer("attention.3", pooled, &[POOLING_WIDTH, 1]);
        scope.layer("fc", self.width, &[2 * pooled]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of the classes in coqui-tts 0.27.2 with the values of XTTS v2.
    #[test]
    fn the_published_model_has_its_number_of_parameters() {
        let config = XttsConfig::published();
        let count = |prefix: &str| {
            let tensors = config.model_tensors();
            scope::parameters(
                tensors.iter().filter(|(name, _)| name.starts_with(prefix) && !is_buffer(name)),
            )
        };
        assert_eq!(count("gpt."), 441_018_563);
        assert_eq!(count(DECODER_PREFIX), 17_827_808);
        assert_eq!(count(SPEAKER_ENCODER_PREFIX), 8_028_492);
        assert_eq!(parameters(&config.model_tensors()), 466_874_863);
        assert_eq!(parameters(&config.dvae_tensors()), 51_567_184);
        assert_eq!(parameters(&config.tensors()), 518_442_047);
    }

    #[test]
    fn names_and_shapes_are_those_of_the_reference() {
        let listed = include_str!("../../tests/fixtures/xtts/tensors.txt");
        let mut expected: Vec<Expected> = listed
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (name, shape) = line.split_once(' ')?;
                let sizes = shape.split('x').filter(|size| !size.is_empty());
                Some((name.to_owned(), sizes.filter_map(|size| size.parse().ok()).collect()))
            })
            .collect();
        let mut own = XttsConfig::small(40).tensors();
        own.sort();
        expected.sort();
        assert_eq!(own, expected);
    }
}
