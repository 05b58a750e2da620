//! The tensors in a codec's file: names and shapes, from the config alone.
//!
//! Names are those of the original's state dict. A convolution with weight norm is stored as
//! `weight_g` (magnitude) and `weight_v` (direction), for both spellings in files.

use super::config::{DacConfig, Transformer};
use crate::scope::parameters;

/// The expansion of channels inside a ConvNeXt block.
const WIDENING: i64 = 4;

/// Names with shapes, in no particular order; no name twice.
#[derive(Debug, Default)]
pub struct DacLayout(pub Vec<(String, Vec<i64>)>);

impl DacLayout {
    pub fn of(config: &DacConfig) -> DacLayout {
        let mut layout = DacLayout::default();
        layout.encoder(config);
        layout.quantizer(config);
        layout.decoder(config);
        layout
    }

    /// The number of parameters.
    pub fn parameters(&self) -> i64 {
        parameters(&self.0)
    }

    fn add(&mut self, name: String, shape: &[i64]) {
        self.0.push((name, shape.to_vec()));
    }

    fn encoder(&mut self, config: &DacConfig) {
        let levels = config.encoder_rates.len();
        self.normed("encoder.block.0.conv", [config.encoder_dim, 1, 7], config.encoder_dim);
        for (level, rate) in config.encoder_rates.iter().enumerate() {
            let (narrow, wide) =
                (config.encoder_channels(level), config.encoder_channels(level + 1));
            let block = format!("encoder.block.{}.block", level + 1);
            (0..3).for_each(|unit| self.residual_unit(&format!("{block}.{unit}"), narrow));
            self.add(format!("{block}.3.alpha"), &[1, narrow, 1]);
            self.normed(&format!("{block}.4.conv"), [wide, narrow, 2 * rate], wide);
            if let Some(module) = config.encoder_module(level) {
                self.transformer(&format!("{block}.5"), &module);
            }
        }
        let channels = config.encoder_channels(levels);
        self.add(format!("encoder.block.{}.alpha", levels + 1), &[1, channels, 1]);
        let last = format!("encoder.block.{}.conv", levels + 2);
        self.normed(&last, [config.latent_dim, channels, 3], config.latent_dim);
    }

    fn quantizer(&mut self, config: &DacConfig) {
        let (quantizer, channels) = (&config.quantizer, config.latent_dim);
        let factors = quantizer.downsample_factor.len();
        for (at, factor) in quantizer.downsample_factor.iter().enumerate() {
            // The last downsampling corresponds to the first upsampling.
            for (prefix, at) in [("downsample", at), ("upsample", factors - 1 - at)] {
                let prefix = format!("quantizer.{prefix}.{at}");
                self.add(format!("{prefix}.0.conv.weight"), &[channels, channels, *factor]);
                self.add(format!("{prefix}.0.conv.bias"), &[channels]);
                self.conv_next(&format!("{prefix}.1"), channels);
            }
        }
        self.transformer("quantizer.pre_module", &quantizer.pre_module);
        self.transformer("quantizer.post_module", &quantizer.post_module);
        for (at, entries) in config.entries().iter().enumerate() {
            self.codebook(&codebook_name(at), *entries as i64, config);
        }
    }

    fn codebook(&mut self, name: &str, entries: i64, config: &DacConfig) {
        let (dim, channels) = (config.quantizer.codebook_dim, config.latent_dim);
        self.normed(&format!("{name}.in_proj"), [dim, channels, 1], dim);
        self.normed(&format!("{name}.out_proj"), [channels, dim, 1], channels);
        self.add(format!("{name}.codebook.weight"), &[entries, dim]);
    }

    fn decoder(&mut self, config: &DacConfig) {
        let levels = config.decoder_rates.len();
        let first = [config.decoder_dim, config.latent_dim, 7];
        self.normed("decoder.model.0.conv", first, config.decoder_dim);
        for (level, rate) in config.decoder_rates.iter().enumerate() {
            let (wide, narrow) =
                (config.decoder_channels(level), config.decoder_channels(level + 1));
            let block = format!("decoder.model.{}.block", level + 1);
            self.add(format!("{block}.0.alpha"), &[1, wide, 1]);
            // Transposed: the input's channels come first.
            self.normed(&format!("{block}.1.conv"), [wide, narrow, 2 * rate], narrow);
            (2..5).for_each(|unit| self.residual_unit(&format!("{block}.{unit}"), narrow));
        }
        let channels = config.decoder_channels(levels);
        self.add(format!("decoder.model.{}.alpha", levels + 1), &[1, channels, 1]);
        self.normed(&format!("decoder.model.{}.conv", levels + 2), [1, channels, 7], 1);
    }

    /// A convolution with weight norm, over all axes of the weight but the first.
    fn normed(&mut self, name: &str, weight: [i64; 3], bias: i64) {
        self.add(format!("{name}.weight_g"), &[weight[0], 1, 1]);
        self.add(format!("{name}.weight_v"), &weight);
        self.add(format!("{name}.bias"), &[bias]);
    }

    fn residual_unit(&mut self, name: &str, channels: i64) {
        for (at, kernel) in [(0, 7), (2, 1)] {
            self.add(format!("{name}.block.{at}.alpha"), &[1, channels, 1]);
            let conv = format!("{name}.block.{}.conv", at + 1);
            self.normed(&conv, [channels, channels, kernel], channels);
        }
    }

    fn conv_next(&mut self, name: &str, channels: i64) {
        let wide = WIDENING * channels;
        self.add(format!("{name}.dwconv.conv.weight"), &[channels, 1, 7]);
        for bias in ["dwconv.conv.bias", "norm.weight", "norm.bias", "pwconv2.bias", "gamma"] {
            self.add(format!("{name}.{bias}"), &[channels]);
        }
        self.add(format!("{name}.pwconv1.weight"), &[wide, channels]);
        self.add(format!("{name}.pwconv1.bias"), &[wide]);
        self.add(format!("{name}.pwconv2.weight"), &[channels, wide]);
    }

    fn transformer(&mut self, name: &str, config: &Transformer) {
        let Transformer { dim, intermediate_size: inner, .. } = *config;
        let heads = config.n_head * config.head_dim;
        for layer in 0..config.n_layer {
            let name = format!("{name}.layers.{layer}");
            self.add(format!("{name}.attention.wqkv.weight"), &[3 * heads, dim]);
            self.add(format!("{name}.attention.wo.weight"), &[dim, heads]);
            self.add(format!("{name}.feed_forward.w1.weight"), &[inner, dim]);
            self.add(format!("{name}.feed_forward.w3.weight"), &[inner, dim]);
            self.add(format!("{name}.feed_forward.w2.weight"), &[dim, inner]);
            for vector in ["ffn_norm.weight", "attention_norm.weight"] {
                self.add(format!("{name}.{vector}"), &[dim]);
            }
            for vector in ["attention_layer_scale.gamma", "ffn_layer_scale.gamma"] {
                self.add(format!("{name}.{vector}"), &[dim]);
            }
        }
        self.add(format!("{name}.norm.weight"), &[dim]);
    }
}

/// The name of a codebook: the first one is semantic and separate from the others.
pub fn codebook_name(at: usize) -> String {
    match at.checked_sub(1) {
        None => "quantizer.semantic_quantizer.quantizers.0".to_owned(),
        Some(at) => format!("quantizer.quantizer.quantizers.{at}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The figures of the published file, which has 541 entries: these, and two buffers for each of
    /// the three transformers.
    #[test]
    fn the_published_codec_has_its_tensors_and_parameters() {
        let layout = DacLayout::of(&DacConfig::default());
        let names: BTreeSet<&String> = layout.0.iter().map(|(name, _)| name).collect();
        assert_eq!(layout.parameters(), 391_430_530);
        assert_eq!(names.len(), layout.0.len());
        assert_eq!(names.len(), 541 - 6);
    }
}
