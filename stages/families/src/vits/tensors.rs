//! The tensors of a model: names as in transformers, and shapes, from the configuration alone.
//! Weights are listed without weight norm, whether a file has them so or in pairs.

use super::config::VitsConfig;
use crate::scope::{Scope, collect, parameters};
use stage_formats::shapes::Expected;
use stage_formats::weight_norm::WHOLE;

/// The prefix of the part that only training needs.
pub const DISCRIMINATOR_PREFIX: &str = "discriminator.";

/// Tests if training keeps a weight under weight norm, as the original does: the WaveNets, the
/// decoder's inner layers, and the discriminator.
pub fn is_normed(name: &str) -> bool {
    let inside = [".wavenet.", "decoder.upsampler.", "decoder.resblocks.", DISCRIMINATOR_PREFIX];
    name.ends_with(&format!(".{WHOLE}")) && inside.iter().any(|part| name.contains(part))
}

/// Tests if transformers needs a weight under weight norm, even for synthesis: it would take others
/// for missing, and use random ones.
pub fn is_normed_in_transformers(name: &str) -> bool {
    name.contains(".wavenet.")
}

impl VitsConfig {
    /// The generator, which synthesises, with the posterior encoder and the posterior of durations,
    /// which only training needs, if it has them.
    pub fn generator(&self) -> Vec<Expected> {
        collect("", |root| self.fill_generator(root))
    }

    fn fill_generator(&self, root: &mut Scope) {
        self.text_encoder(&mut root.under("text_encoder"));
        self.flow(&mut root.under("flow.flows"));
        self.decoder(&mut root.under("decoder"));
        match self.use_stochastic_duration_prediction {
            true => self.stochastic(&mut root.under("duration_predictor")),
            false => self.deterministic(&mut root.under("duration_predictor")),
        }
        if !self.speaks_only {
            self.posterior(&mut root.under("posterior_encoder"));
        }
        if self.num_speakers > 1 {
            root.add("embed_speaker.weight", &[self.num_speakers, self.speaker_embedding_size]);
        }
    }

    /// The discriminator, which is also in files of finetune-hf-vits.
    pub fn discriminator(&self) -> Vec<Expected> {
        collect(DISCRIMINATOR_PREFIX, |root| {
            self.scale(&mut root.under("discriminators.0"));
            for at in 1..=self.discriminator_periods.len() {
                self.period(&mut root.under(format!("discriminators.{at}")));
            }
        })
    }

    /// The number of parameters of the generator.
    pub fn speaking_parameters(&self) -> i64 {
        parameters(&self.generator())
    }

    /// The number of parameters of the discriminator.
    pub fn judging_parameters(&self) -> i64 {
        parameters(&self.discriminator())
    }

    fn text_encoder(&self, scope: &mut Scope) {
        let (width, inner) = (self.hidden_size, self.ffn_dim);
        scope.add("embed_tokens.weight", &[self.vocab_size, width]);
        for at in 0..self.num_hidden_layers {
            let mut layer = scope.under(format!("encoder.layers.{at}"));
            let mut attention = layer.under("attention");
            for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                match self.use_bias {
                    true => attention.layer(part, width, &[width]),
                    false => attention.under(part).add(WHOLE, &[width, width]),
                }
            }
            for table in ["emb_rel_k", "emb_rel_v"] {
                let places = 2 * self.window_size + 1;
                attention.add(table, &[1, places, width / self.num_attention_heads]);
            }
            layer.norm("layer_norm", width);
            layer.layer("feed_forward.conv_1", inner, &[width, self.ffn_kernel_size]);
            layer.layer("feed_forward.conv_2", width, &[inner, self.ffn_kernel_size]);
            layer.norm("final_layer_norm", width);
        }
        scope.layer("project", 2 * self.flow_size, &[width, 1]);
    }

    fn wavenet(&self, scope: &mut Scope, layers: i64) {
        let width = self.hidden_size;
        if self.speaker_embedding_size > 0 {
            scope.layer("cond_layer", 2 * width * layers, &[self.speaker_embedding_size, 1]);
        }
        for at in 0..layers {
            let input = format!("in_layers.{at}");
            scope.layer(input, 2 * width, &[width, self.wavenet_kernel_size]);
            // The last layer has no next one to pass on to.
            let outputs = if at + 1 < layers { 2 * width } else { width };
            scope.layer(format!("res_skip_layers.{at}"), outputs, &[width, 1]);
        }
    }

    fn flow(&self, scope: &mut Scope) {
        let (half, width) = (self.flow_size / 2, self.hidden_size);
        for at in 0..self.prior_encoder_num_flows {
            let mut flow = scope.under(at);
            flow.layer("conv_pre", width, &[half, 1]);
            self.wavenet(&mut flow.under("wavenet"), self.prior_encoder_num_wavenet_layers);
            flow.layer("conv_post", half, &[width, 1]);
        }
    }

    fn posterior(&self, scope: &mut Scope) {
        scope.layer("conv_pre", self.hidden_size, &[self.spectrogram_bins, 1]);
        self.wavenet(&mut scope.under("wavenet"), self.posterior_encoder_num_wavenet_layers);
        scope.layer("conv_proj", 2 * self.flow_size, &[self.hidden_size, 1]);
    }

    fn decoder(&self, scope: &mut Scope) {
        let kinds = self.resblock_kernel_sizes.len();
        scope.layer("conv_pre", self.upsample_initial_channel, &[self.flow_size, 7]);
        if self.speaker_embedding_size > 0 {
            scope.layer("cond", self.upsample_initial_channel, &[self.speaker_embedding_size, 1]);
        }
        for (step, kernel) in self.upsample_kernel_sizes.iter().enumerate() {
            let (wide, narrow) = (self.decoder_channels(step), self.decoder_channels(step + 1));
            let mut upsampler = scope.under(format!("upsampler.{step}"));
            // Transposed: the input axis comes first, and the bias has the size of the output.
            upsampler.add(WHOLE, &[wide, narrow, *kernel]);
            upsampler.add("bias", &[narrow]);
            for (kind, kernel) in self.resblock_kernel_sizes.iter().enumerate() {
                let mut block = scope.under(format!("resblocks.{}", step * kinds + kind));
                let lists: &[&str] =
                    if self.has_paired_blocks() { &["convs1", "convs2"] } else { &["convs"] };
                for at in 0..self.resblock_dilation_sizes[kind].len() {
                    for list in lists {
                        block.layer(format!("{list}.{at}"), narrow, &[narrow, *kernel]);
                    }
                }
            }
        }
        let last = self.decoder_channels(self.upsample_rates.len());
        scope.add("conv_post.weight", &[1, last, 7]);
    }

    fn separable(&self, scope: &mut Scope) {
        let width = self.hidden_size;
        for at in 0..self.depth_separable_num_layers {
            let kernel = self.duration_predictor_kernel_size;
            scope.layer(format!("convs_dilated.{at}"), width, &[1, kernel]);
            scope.layer(format!("convs_pointwise.{at}"), width, &[width, 1]);
            scope.norm(format!("norms_1.{at}"), width);
            scope.norm(format!("norms_2.{at}"), width);
        }
    }

    fn stochastic(&self, scope: &mut Scope) {
        let width = self.hidden_size;
        // Widths and heights of the bins, and the derivatives between them.
        let numbers = 3 * self.duration_predictor_flow_bins - 1;
        let sides = [("", width), ("post_", 1)];
        for (prefix, inputs) in &sides[..if self.learns_durations() { 2 } else { 1 }] {
            scope.layer(format!("{prefix}conv_pre"), width, &[*inputs, 1]);
            scope.layer(format!("{prefix}conv_proj"), width, &[width, 1]);
            self.separable(&mut scope.under(format!("{prefix}conv_dds")));
            let mut flows = scope.under(format!("{prefix}flows"));
            for vector in ["0.translate", "0.log_scale"] {
                flows.add(vector, &[self.depth_separable_channels, 1]);
            }
            // Synthesis leaves out the first one.
            let first = if self.learns_durations() { 1 } else { 2 };
            for at in first..=self.duration_predictor_num_flows {
                let mut flow = flows.under(at);
                flow.layer("conv_pre", width, &[1, 1]);
                self.separable(&mut flow.under("conv_dds"));
                flow.layer("conv_proj", numbers, &[width, 1]);
            }
        }
        if self.speaker_embedding_size > 0 {
            scope.layer("cond", width, &[self.speaker_embedding_size, 1]);
        }
    }

    fn deterministic(&self, scope: &mut Scope) {
        let (width, inner) = (self.hidden_size, self.duration_predictor_filter_channels);
        let kernel = self.duration_predictor_kernel_size;
        scope.layer("conv_1", inner, &[width, kernel]);
        scope.norm("norm_1", inner);
        scope.layer("conv_2", inner, &[inner, kernel]);
        scope.norm("norm_2", inner);
        scope.layer("proj", 1, &[inner, 1]);
        if self.speaker_embedding_size > 0 {
            scope.layer("cond", width, &[self.speaker_embedding_size, 1]);
        }
    }

    fn scale(&self, scope: &mut Scope) {
        let channels = &self.discriminator_scale_channels;
        let (first, last) = (channels[1], channels[channels.len() - 1]);
        scope.layer("convs.0", first, &[1, 15]);
        let groups = self.scale_groups();
        for (at, [groups, inputs, outputs]) in groups.iter().enumerate() {
            scope.layer(format!("convs.{}", at + 1), *outputs, &[inputs / groups, 41]);
        }
        scope.layer(format!("convs.{}", groups.len() + 1), last, &[last, 5]);
        scope.layer("final_conv", 1, &[last, 3]);
    }

    fn period(&self, scope: &mut Scope) {
        let (channels, kernel) =
            (&self.discriminator_period_channels, self.discriminator_kernel_size);
        let last = channels[channels.len() - 1];
        let outputs = channels.iter().skip(1).chain([&last]);
        for (at, (inputs, outputs)) in channels.iter().zip(outputs).enumerate() {
            scope.layer(format!("convs.{at}"), *outputs, &[*inputs, kernel, 1]);
        }
        scope.layer("final_conv", 1, &[last, 3, 1]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn count(tensors: &[Expected], of: impl Fn(&str) -> bool) -> i64 {
        let those = tensors.iter().filter(|(name, _)| of(name));
        those.map(|(_, shape)| shape.iter().product::<i64>()).sum()
    }

    /// Figures of `VitsConfig()` in transformers 4.57.6 and of the discriminator of
    /// finetune-hf-vits, with weight norm removed.
    #[test]
    fn the_published_model_has_its_number_of_parameters() {
        let config = VitsConfig::default();
        let (generator, discriminator) = (config.generator(), config.discriminator());
        assert_eq!(count(&generator, |_| true), 36_260_976);
        for (part, parameters) in [
            ("text_encoder.", 6_299_904),
            ("decoder.", 14_327_424),
            ("duration_predictor.", 1_317_168),
            ("duration_predictor.post_", 640_248),
        ] {
            assert_eq!(count(&generator, |name| name.starts_with(part)), parameters, "{part}");
        }
        assert_eq!(count(&discriminator, |_| true), 46_730_118);
        let deterministic =
            VitsConfig { use_stochastic_duration_prediction: false, ..VitsConfig::default() }
                .generator();
        assert_eq!(count(&deterministic, |name| name.starts_with("duration")), 345_857);
    }

    #[test]
    fn several_speakers_need_more() {
        let one = VitsConfig::default();
        let two =
            VitsConfig { num_speakers: 2, speaker_embedding_size: 256, ..VitsConfig::default() };
        // Of `VitsConfig(num_speakers=2, speaker_embedding_size=256)`, which has 39,636,336,
        // less the gains of weight norm: 23,616, and 12,288 for conditioning.
        let more = count(&two.generator(), |_| true) - count(&one.generator(), |_| true);
        assert_eq!(more, 39_636_336 - 36_284_592 - 12_288);
    }

    #[test]
    fn shapes_are_those_of_the_published_files() {
        let tensors: BTreeMap<String, Vec<i64>> =
            VitsConfig::default().generator().into_iter().collect();
        for (name, shape) in [
            ("text_encoder.encoder.layers.5.attention.emb_rel_k", &[1, 9, 96][..]),
            ("decoder.upsampler.1.weight", &[256, 128, 16]),
            ("decoder.upsampler.1.bias", &[128]),
            ("decoder.resblocks.11.convs1.2.weight", &[32, 32, 11]),
            ("duration_predictor.flows.4.conv_proj.weight", &[29, 192, 1]),
            ("posterior_encoder.wavenet.res_skip_layers.15.weight", &[192, 192, 1]),
        ] {
            assert_eq!(tensors[name], shape, "{name}");
        }
        assert!(!tensors.contains_key("decoder.conv_post.bias"));
    }

    #[test]
    fn weight_norm_is_on_the_layers_of_the_original() {
        let normed = |name: &str| is_normed(name);
        assert!(normed("flow.flows.0.wavenet.in_layers.0.weight"));
        assert!(normed("decoder.resblocks.0.convs1.0.weight"));
        assert!(normed("discriminator.discriminators.0.final_conv.weight"));
        for plain in ["flow.flows.0.conv_pre.weight", "decoder.conv_pre.weight"] {
            assert!(!normed(plain), "{plain}");
        }
        assert!(!normed("decoder.upsampler.0.bias"));
    }
}
