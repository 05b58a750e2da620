//! The published `config.json`, with the defaults of transformers, which are the sizes of
//! `facebook/wav2vec2-base-960h`.

use serde::{Deserialize, Serialize};

use crate::sizes::{LARGEST, in_range, refused};
use stage_formats::FormatError;

/// The largest number of layers of one kind.
const MOST: i64 = 256;

/// A checked configuration. Fields are named as in the file; unknown ones are ignored, since most
/// of them only concern training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wav2Vec2Config {
    pub model_type: String,
    /// The number of symbols in the output layer.
    pub vocab_size: i64,
    pub hidden_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub intermediate_size: i64,
    pub hidden_act: String,
    pub feat_extract_activation: String,
    pub feat_extract_norm: Norm,
    /// Channels, kernels and strides of the convolutional feature encoder.
    pub conv_dim: Vec<i64>,
    pub conv_kernel: Vec<i64>,
    pub conv_stride: Vec<i64>,
    pub conv_bias: bool,
    /// The kernel of the positional convolution.
    pub num_conv_pos_embeddings: i64,
    pub num_conv_pos_embedding_groups: i64,
    /// Layer norm before the sublayers (pre-norm) instead of after them.
    pub do_stable_layer_norm: bool,
    pub layer_norm_eps: f64,
    /// The padding symbol: the blank of CTC.
    pub pad_token_id: i64,
    pub add_adapter: bool,
    pub adapter_attn_dim: Option<i64>,
}

/// The norm of the feature encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Group norm of the first layer, each channel over the whole recording; the others have none.
    Group,
    /// Layer norm of all layers, over the channels of a frame.
    Layer,
}

impl Default for Wav2Vec2Config {
    fn default() -> Wav2Vec2Config {
        Wav2Vec2Config {
            model_type: String::new(),
            vocab_size: 32,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: "gelu".into(),
            feat_extract_activation: "gelu".into(),
            feat_extract_norm: Norm::Group,
            conv_dim: vec![512; 7],
            conv_kernel: vec![10, 3, 3, 3, 3, 2, 2],
            conv_stride: vec![5, 2, 2, 2, 2, 2, 2],
            conv_bias: false,
            num_conv_pos_embeddings: 128,
            num_conv_pos_embedding_groups: 16,
            do_stable_layer_norm: false,
            layer_norm_eps: 1e-5,
            pad_token_id: 0,
            add_adapter: false,
            adapter_attn_dim: None,
        }
    }
}

/// The fields of `Wav2Vec2Config` of transformers.
pub(super) const FIELDS: &str = "\
    activation_dropout adapter_attn_dim adapter_kernel_size adapter_stride add_adapter \
    apply_spec_augment attention_dropout classifier_proj_size codevector_dim \
    contrastive_logits_temperature conv_bias conv_dim conv_kernel conv_stride ctc_loss_reduction \
    ctc_zero_infinity diversity_loss_weight do_stable_layer_norm feat_extract_activation \
    feat_extract_norm feat_proj_dropout feat_quantizer_dropout final_dropout hidden_act \
    hidden_dropout hidden_size initializer_range intermediate_size layer_norm_eps layerdrop \
    mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length \
    mask_time_min_masks mask_time_prob num_adapter_layers num_attention_heads \
    num_codevector_groups num_codevectors_per_group num_conv_pos_embedding_groups \
    num_conv_pos_embeddings num_feat_extract_layers num_hidden_layers num_negatives \
    output_hidden_size proj_codevector_dim tdnn_dilation tdnn_dim tdnn_kernel \
    use_weighted_layer_sum vocab_size xvector_output_dim";

impl Wav2Vec2Config {
    pub fn parse(json: &[u8]) -> Result<Wav2Vec2Config, FormatError> {
        let config: Wav2Vec2Config =
            serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// The receptive field of one frame in samples; shorter sound gives no frame.
    pub fn receptive_field(&self) -> i64 {
        let layers = self.conv_kernel.iter().zip(&self.conv_stride).rev();
        layers.fold(1, |field: i64, (kernel, stride)| {
            (field - 1).saturating_mul(*stride).saturating_add(*kernel)
        })
    }

    /// Multiplications for a second of sound, attention itself left out.
    pub(super) fn multiplications(&self) -> f64 {
        const SAMPLES: f64 = 16_000.0;
        let (mut frames, mut channels, mut all) = (SAMPLES, 1.0, 0.0);
        for ((width, kernel), stride) in
            self.conv_dim.iter().zip(&self.conv_kernel).zip(&self.conv_stride)
        {
            frames /= *stride as f64;
            all += frames * channels * (width * kernel) as f64;
            channels = *width as f64;
        }
        let (hidden, inner) = (self.hidden_size as f64, self.intermediate_size as f64);
        let groups = self.num_conv_pos_embedding_groups as f64;
        let positions = hidden * hidden / groups * self.num_conv_pos_embeddings as f64;
        let layer = 4.0 * hidden * hidden + 2.0 * hidden * inner;
        let ends = channels * hidden + hidden * self.vocab_size as f64;
        all + frames * (ends + positions + layer * self.num_hidden_layers as f64)
    }

    /// Refuses impossible configurations, and names the field.
    fn check(&self) -> Result<(), FormatError> {
        if self.model_type != "wav2vec2" {
            let found = &self.model_type;
            return Err(refused(format!(
                "`model_type` is `{found}`, expected `wav2vec2`; use a checkpoint of \
                 Wav2Vec2ForCTC, or run the recogniser in a `command` stage"
            )));
        }
        if self.add_adapter || self.adapter_attn_dim.is_some() {
            return Err(refused(
                "it has adapters (`add_adapter` or `adapter_attn_dim`), which are not supported; \
                 use a checkpoint without adapters, or run this one in a `command` stage",
            ));
        }
        for (name, found) in [
            ("hidden_act", &self.hidden_act),
            ("feat_extract_activation", &self.feat_extract_activation),
        ] {
            if found != "gelu" {
                return Err(refused(format!("`{name}` is `{found}`, expected `gelu`")));
            }
        }
        self.check_sizes()?;
        self.check_convolutions()?;
        match self.layer_norm_eps.is_finite() && self.layer_norm_eps > 0.0 {
            true => Ok(()),
            false => {
                let found = self.layer_norm_eps;
                Err(refused(format!("`layer_norm_eps` is {found}, expected more than 0")))
            }
        }
    }

    fn check_sizes(&self) -> Result<(), FormatError> {
        for (name, size, least, largest) in [
            ("vocab_size", self.vocab_size, 1, LARGEST),
            ("hidden_size", self.hidden_size, 1, LARGEST),
            ("num_hidden_layers", self.num_hidden_layers, 1, MOST),
            ("num_attention_heads", self.num_attention_heads, 1, self.hidden_size),
            ("intermediate_size", self.intermediate_size, 1, LARGEST),
            ("num_conv_pos_embeddings", self.num_conv_pos_embeddings, 1, 4096),
            (
                "num_conv_pos_embedding_groups",
                self.num_conv_pos_embedding_groups,
                1,
                self.hidden_size,
            ),
            ("pad_token_id", self.pad_token_id, 0, self.vocab_size - 1),
        ] {
            in_range(name, size, least, largest)?;
        }
        for (name, parts) in [
            ("num_attention_heads", self.num_attention_heads),
            ("num_conv_pos_embedding_groups", self.num_conv_pos_embedding_groups),
        ] {
            if self.hidden_size % parts != 0 {
                let size = self.hidden_size;
                return Err(refused(format!(
                    "`hidden_size` is {size}, not a multiple of `{name}` ({parts})"
                )));
            }
        }
        Ok(())
    }

    fn check_convolutions(&self) -> Result<(), FormatError> {
        let count = self.conv_dim.len();
        in_range("number of `conv_dim`", count as i64, 1, 16)?;
        for (name, sizes, largest) in [
            ("conv_dim", &self.conv_dim, LARGEST),
            ("conv_kernel", &self.conv_kernel, 1024),
            ("conv_stride", &self.conv_stride, 1024),
        ] {
            if sizes.len() != count {
                return Err(refused(format!(
                    "`{name}` has {} entries, but `conv_dim` has {count}",
                    sizes.len()
                )));
            }
            sizes.iter().try_for_each(|size| in_range(name, *size, 1, largest))?;
        }
        in_range("samples behind a frame", self.receptive_field(), 1, LARGEST)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn config(more: &str) -> Result<Wav2Vec2Config, FormatError> {
        Wav2Vec2Config::parse(format!(r#"{{"model_type": "wav2vec2"{more}}}"#).as_bytes())
    }

    #[test]
    fn what_is_not_said_is_as_in_the_published_base_model() {
        let config = config(r#", "ctc_loss_reduction": "mean", "adapter_attn_dim": null"#).unwrap();
        let expected =
            Wav2Vec2Config { model_type: "wav2vec2".into(), ..Wav2Vec2Config::default() };
        assert_eq!(config, expected);
        // 25 ms at 16 kHz, as in the paper (arXiv 2006.11477, section 4.2).
        assert_eq!(config.receptive_field(), 400);
    }

    #[test]
    fn the_large_model_multiplies_nearly_three_times_as_much_and_a_tiny_one_hardly() {
        let share = |more: &str| {
            config(more).unwrap().multiplications() / Wav2Vec2Config::default().multiplications()
        };
        let large = r#", "hidden_size": 1024, "num_hidden_layers": 24,
            "num_attention_heads": 16, "intermediate_size": 4096"#;
        assert!((2.4..3.0).contains(&share(large)), "{}", share(large));
        let tiny = r#", "conv_dim": [32, 32, 32, 32, 32, 32, 32], "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64"#;
        assert!(share(tiny) < 0.01, "{}", share(tiny));
    }

    #[test]
    fn what_cannot_be_a_model_is_refused_with_the_field() {
        for (more, told) in [
            (r#", "hidden_act": "relu""#, "`hidden_act` is `relu`, expected `gelu`"),
            (r#", "adapter_attn_dim": 16"#, "a `command` stage"),
            (r#", "add_adapter": true"#, "use a checkpoint without"),
            (r#", "num_attention_heads": 5"#, "not a multiple of `num_attention_heads` (5)"),
            (r#", "conv_kernel": [3]"#, "`conv_kernel` has 1 entries, but `conv_dim` has 7"),
            (r#", "conv_stride": [0, 2, 2, 2, 2, 2, 2]"#, "`conv_stride` is 0, expected 1 to"),
            (r#", "pad_token_id": 32"#, "`pad_token_id` is 32, expected 0 to 31"),
            (r#", "feat_extract_norm": "batch""#, "unknown variant `batch`"),
            (r#", "layer_norm_eps": 0"#, "`layer_norm_eps` is 0, expected more than 0"),
        ] {
            let error = config(more).unwrap_err().to_string();
            assert!(error.contains(told), "{more}: {error}");
        }
        let other = Wav2Vec2Config::parse(br#"{"model_type": "hubert"}"#).unwrap_err().to_string();
        assert!(other.contains("`hubert`, expected `wav2vec2`; use a checkpoint"), "{other}");
    }

    proptest::proptest! {
        #[test]
        fn any_numbers_never_panic(
            place in 0usize..30,
            number in proptest::prelude::any::<i64>(),
            power in 0u32..63,
            length in 0usize..9,
        ) {
            let whole = Wav2Vec2Config { model_type: "wav2vec2".into(), ..Wav2Vec2Config::default() };
            let mut fields = serde_json::to_value(whole).unwrap();
            let field = fields.as_object().unwrap().keys().nth(place).cloned();
            if let Some(field) = field {
                let number = number >> power;
                fields[&field] = match length {
                    0 => serde_json::json!(number),
                    length => serde_json::json!(vec![number; length]),
                };
            }
            if let Ok(config) = Wav2Vec2Config::parse(fields.to_string().as_bytes()) {
                let sizes = config.tensors().into_iter().flat_map(|(_, shape)| shape);
                proptest::prop_assert!(sizes.min() > Some(0));
            }
        }
    }
}
