//! The published `config.json`, with the defaults of the original loader, which are the sizes of
//! the MMS models.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sizes::refused;
use stage_formats::FormatError;

/// A checked configuration. Fields are named as in the file; unknown ones are ignored, since
/// releases differ in them. The `discriminator_*` fields and `segment_size` are those of
/// finetune-hf-vits and matter in training only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VitsConfig {
    pub model_type: String,
    pub vocab_size: i64,
    pub hidden_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    /// The number of relative positions per side that attention distinguishes.
    pub window_size: i64,
    pub use_bias: bool,
    pub ffn_dim: i64,
    pub ffn_kernel_size: i64,
    /// Channels of the latents.
    pub flow_size: i64,
    pub spectrogram_bins: i64,
    pub hidden_act: String,
    pub hidden_dropout: f64,
    pub attention_dropout: f64,
    pub activation_dropout: f64,
    pub layer_norm_eps: f64,
    pub use_stochastic_duration_prediction: bool,
    pub num_speakers: i64,
    /// 0 for a model without speakers.
    pub speaker_embedding_size: i64,
    pub upsample_initial_channel: i64,
    pub upsample_rates: Vec<i64>,
    pub upsample_kernel_sizes: Vec<i64>,
    /// `1`: pairs of convolutions, as in the published models. `2`: single ones, as Piper has them.
    #[serde(skip_serializing_if = "is_paired")]
    pub resblock: String,
    pub resblock_kernel_sizes: Vec<i64>,
    pub resblock_dilation_sizes: Vec<Vec<i64>>,
    pub leaky_relu_slope: f64,
    pub depth_separable_channels: i64,
    pub depth_separable_num_layers: i64,
    pub duration_predictor_flow_bins: i64,
    pub duration_predictor_tail_bound: f64,
    pub duration_predictor_kernel_size: i64,
    pub duration_predictor_dropout: f64,
    pub duration_predictor_num_flows: i64,
    /// Of the deterministic predictor only.
    pub duration_predictor_filter_channels: i64,
    pub prior_encoder_num_flows: i64,
    pub prior_encoder_num_wavenet_layers: i64,
    pub posterior_encoder_num_wavenet_layers: i64,
    pub wavenet_kernel_size: i64,
    pub wavenet_dilation_rate: i64,
    pub wavenet_dropout: f64,
    pub speaking_rate: f64,
    pub noise_scale: f64,
    pub noise_scale_duration: f64,
    /// Samples per second.
    pub sampling_rate: i64,
    pub discriminator_kernel_size: i64,
    pub discriminator_stride: i64,
    pub discriminator_periods: Vec<i64>,
    pub discriminator_period_channels: Vec<i64>,
    pub discriminator_scale_channels: Vec<i64>,
    /// The length in samples of the segment of each clip that the decoder is trained on.
    pub segment_size: i64,
    /// Without the parts that only training needs, as in a graph.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub speaks_only: bool,
    /// Without the posterior half of the stochastic duration predictor, which is then never trained:
    /// the model of a graph, completed by `vits.complete`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fixed_durations: bool,
}

/// The residual blocks with pairs of convolutions.
pub(super) const PAIRED_BLOCKS: &str = "1";
/// Those with single convolutions.
pub(super) const SINGLE_BLOCKS: &str = "2";

fn is_paired(resblock: &str) -> bool {
    resblock == PAIRED_BLOCKS
}

impl Default for VitsConfig {
    fn default() -> VitsConfig {
        VitsConfig {
            model_type: String::new(),
            vocab_size: 38,
            hidden_size: 192,
            num_hidden_layers: 6,
            num_attention_heads: 2,
            window_size: 4,
            use_bias: true,
            ffn_dim: 768,
            ffn_kernel_size: 3,
            flow_size: 192,
            spectrogram_bins: 513,
            hidden_act: "relu".into(),
            hidden_dropout: 0.1,
            attention_dropout: 0.1,
            activation_dropout: 0.1,
            layer_norm_eps: 1e-5,
            use_stochastic_duration_prediction: true,
            num_speakers: 1,
            speaker_embedding_size: 0,
            upsample_initial_channel: 512,
            upsample_rates: vec![8, 8, 2, 2],
            upsample_kernel_sizes: vec![16, 16, 4, 4],
            resblock: PAIRED_BLOCKS.into(),
            resblock_kernel_sizes: vec![3, 7, 11],
            resblock_dilation_sizes: vec![vec![1, 3, 5]; 3],
            leaky_relu_slope: 0.1,
            depth_separable_channels: 2,
            depth_separable_num_layers: 3,
            duration_predictor_flow_bins: 10,
            duration_predictor_tail_bound: 5.0,
            duration_predictor_kernel_size: 3,
            duration_predictor_dropout: 0.5,
            duration_predictor_num_flows: 4,
            duration_predictor_filter_channels: 256,
            prior_encoder_num_flows: 4,
            prior_encoder_num_wavenet_layers: 4,
            posterior_encoder_num_wavenet_layers: 16,
            wavenet_kernel_size: 5,
            wavenet_dilation_rate: 1,
            wavenet_dropout: 0.0,
            speaking_rate: 1.0,
            noise_scale: 0.667,
            noise_scale_duration: 0.8,
            sampling_rate: 16_000,
            discriminator_kernel_size: 5,
            discriminator_stride: 3,
            discriminator_periods: vec![2, 3, 5, 7, 11],
            discriminator_period_channels: vec![1, 32, 128, 512, 1024],
            discriminator_scale_channels: vec![1, 16, 64, 256, 1024],
            segment_size: 8192,
            speaks_only: false,
            fixed_durations: false,
        }
    }
}

/// The fields of `VitsConfig` of transformers and of finetune-hf-vits.
pub(super) const FIELDS: &str = "\
    activation_dropout attention_dropout depth_separable_channels depth_separable_num_layers \
    duration_predictor_dropout duration_predictor_filter_channels duration_predictor_flow_bins \
    duration_predictor_kernel_size duration_predictor_num_flows duration_predictor_tail_bound \
    ffn_dim ffn_kernel_size flow_size hidden_act hidden_dropout hidden_size initializer_range \
    layer_norm_eps layerdrop leaky_relu_slope noise_scale noise_scale_duration \
    num_attention_heads num_hidden_layers num_speakers posterior_encoder_num_wavenet_layers \
    prior_encoder_num_flows prior_encoder_num_wavenet_layers resblock_dilation_sizes \
    resblock_kernel_sizes sampling_rate speaker_embedding_size speaking_rate spectrogram_bins \
    upsample_initial_channel upsample_kernel_sizes upsample_rates use_bias \
    use_stochastic_duration_prediction vocab_size wavenet_dilation_rate wavenet_dropout \
    wavenet_kernel_size window_size discriminator_kernel_size discriminator_period_channels \
    discriminator_periods discriminator_scale_channels discriminator_stride hop_length \
    segment_size resblock speaks_only fixed_durations";

impl VitsConfig {
    pub fn parse(json: &[u8]) -> Result<VitsConfig, FormatError> {
        let config: VitsConfig =
            serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Samples per frame of latents.
    pub fn hop(&self) -> i64 {
        self.upsample_rates.iter().product()
    }

    /// The FFT size of the linear spectrogram.
    pub fn transform(&self) -> i64 {
        2 * (self.spectrogram_bins - 1)
    }

    /// The length in frames of the segment of each clip that the decoder is trained on; the rest of
    /// `segment_size` is unused.
    pub fn segment_frames(&self) -> i64 {
        self.segment_size / self.hop()
    }

    /// Tests if the model has all parts of its duration predictor, so that it can be trained.
    pub fn learns_durations(&self) -> bool {
        !self.speaks_only && !self.fixed_durations
    }

    /// The `config.json` of a model that only speaks, after its posterior encoder was added; all
    /// other fields stay.
    pub fn completed(json: &[u8]) -> Result<Vec<u8>, FormatError> {
        let damaged = |error: serde_json::Error| refused(error.to_string());
        let is_stochastic = VitsConfig::parse(json)?.use_stochastic_duration_prediction;
        let mut fields: Map<String, Value> = serde_json::from_slice(json).map_err(damaged)?;
        fields.remove("speaks_only");
        if is_stochastic {
            fields.insert("fixed_durations".to_owned(), true.into());
        }
        serde_json::to_vec_pretty(&fields).map_err(damaged)
    }

    /// Tests if the residual blocks of the decoder have pairs of convolutions.
    pub fn has_paired_blocks(&self) -> bool {
        is_paired(&self.resblock)
    }

    /// Channels after this number of upsampling steps.
    pub fn decoder_channels(&self, steps: usize) -> i64 {
        self.upsample_initial_channel >> steps
    }

    /// Groups, inputs and outputs of the strided convolutions of the scale discriminator.
    pub fn scale_groups(&self) -> Vec<[i64; 3]> {
        let channels = &self.discriminator_scale_channels;
        let last = channels.last().copied().unwrap_or(1);
        let outputs = channels.iter().skip(2).copied().chain([last]);
        let pairs = channels.iter().skip(1).copied().zip(outputs);
        let groups = std::iter::successors(Some(4i64), |groups| groups.checked_mul(4));
        groups.zip(pairs).map(|(groups, (inputs, outputs))| [groups, inputs, outputs]).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn config(more: &str) -> Result<VitsConfig, FormatError> {
        VitsConfig::parse(format!(r#"{{"model_type": "vits"{more}}}"#).as_bytes())
    }

    #[test]
    fn what_is_not_said_is_as_in_the_published_models() {
        let config = config(r#", "vocab_size": 60, "pad_token_id": null"#).unwrap();
        let expected =
            VitsConfig { model_type: "vits".into(), vocab_size: 60, ..VitsConfig::default() };
        assert_eq!(config, expected);
        assert_eq!((config.hop(), config.transform(), config.segment_frames()), (256, 1024, 32));
    }

    #[test]
    fn what_is_written_is_read() {
        let one = config(r#", "upsample_rates": [4, 2], "upsample_kernel_sizes": [8, 4]"#).unwrap();
        assert_eq!(VitsConfig::parse(&serde_json::to_vec(&one).unwrap()).unwrap(), one);
    }

    #[test]
    fn a_completed_voice_lacks_only_what_trains_its_durations() {
        let parts = |config: &VitsConfig, start: &str| {
            config.generator().iter().filter(|(name, _)| name.starts_with(start)).count()
        };
        for is_stochastic in [true, false] {
            let voice = config(&format!(
                r#", "speaks_only": true, "use_stochastic_duration_prediction": {is_stochastic}"#
            ));
            let voice = voice.unwrap();
            let json = serde_json::to_vec(&voice).unwrap();
            let whole = VitsConfig::parse(&VitsConfig::completed(&json).unwrap()).unwrap();
            assert_eq!(whole.learns_durations(), !is_stochastic);
            let durations = "duration_predictor.";
            assert_eq!(parts(&whole, durations), parts(&voice, durations));
            assert!(parts(&whole, "posterior_encoder.") > 0 && !whole.speaks_only);
        }
    }

    #[test]
    fn what_cannot_be_a_model_is_refused_with_the_field() {
        for (more, told) in [
            (r#", "model_type": "bark""#, "duplicate field"),
            (r#", "hidden_act": "gelu""#, "`hidden_act` is `gelu`, expected `relu`"),
            (r#", "num_attention_heads": 5"#, "not a multiple of the num_attention_heads (5)"),
            (r#", "vocab_size": 0"#, "`vocab_size` is 0, expected 1 to"),
            (r#", "num_speakers": 2"#, "no `speaker_embedding_size`"),
            (r#", "upsample_rates": [8, 8]"#, "has 2 entries, but `upsample_kernel_sizes` has 4"),
            (
                r#", "upsample_kernel_sizes": [15, 16, 4, 4]"#,
                "an upsampling kernel of 15 does not fit",
            ),
            (r#", "wavenet_kernel_size": 4"#, "expected an odd number"),
            (r#", "speaking_rate": 0"#, "`speaking_rate` is 0, expected more than 0"),
            (r#", "hidden_dropout": 1"#, "`hidden_dropout` is 1, expected 0 to 1"),
            (
                r#", "discriminator_scale_channels": [1, 6]"#,
                "not a multiple of the number of groups",
            ),
            (r#", "segment_size": 100"#, "`segment_size` is 100, expected 256 to"),
            (r#", "wavenet_dilation_rate": 4"#, "power of `wavenet_dilation_rate` over 16 layers"),
            (
                r#", "upsample_rates": [1024, 1024, 1024, 1024], "upsample_kernel_sizes": [1024, 1024, 1024, 1024]"#,
                "product of `upsample_rates`",
            ),
            (r#", "upsample_initial_channel": 8"#, "`upsample_initial_channel` is 8"),
            (
                &format!(r#", "discriminator_periods": {:?}"#, [2; 65]),
                "number of `discriminator_periods`` is 65, expected 0 to 64",
            ),
        ] {
            let error = config(more).unwrap_err().to_string();
            assert!(error.contains(told), "{more}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_numbers_never_panic(
            place in 0usize..50,
            number in proptest::prelude::any::<i64>(),
            power in 0u32..63,
            is_list: bool,
        ) {
            let fields = serde_json::to_value(VitsConfig { model_type: "vits".into(), ..VitsConfig::default() });
            let mut fields = fields.unwrap();
            let field = fields.as_object().unwrap().keys().nth(place).cloned();
            if let Some(field) = field {
                let number = number >> power;
                fields[&field] = match is_list {
                    true => serde_json::json!([number, number, number, number]),
                    false => serde_json::json!(number),
                };
            }
            if let Ok(config) = VitsConfig::parse(fields.to_string().as_bytes()) {
                let tensors = config.generator().into_iter().chain(config.discriminator());
                proptest::prop_assert!(tensors.flat_map(|(_, shape)| shape).all(|size| size > 0));
            }
        }
    }
}
