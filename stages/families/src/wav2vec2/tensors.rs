//! The names in transformers and the shapes of the tensors of a recogniser.

use super::config::{Norm, Wav2Vec2Config};
use crate::scope::{collect, parameters};
use stage_formats::shapes::Expected;
use stage_formats::weight_norm::{self, DIRECTION, LENGTH};

/// The embedding of frames that training masks: files have it, and recognition does not use it.
pub const MASK: &str = "wav2vec2.masked_spec_embed";

/// Prefixes in the files of torchaudio's pipelines, such as `MMS_FA`, and those of transformers.
const TORCHAUDIO: [(&str, &str); 4] = [
    ("feature_extractor.", "wav2vec2.feature_extractor."),
    ("encoder.feature_projection.", "wav2vec2.feature_projection."),
    ("encoder.transformer.", "wav2vec2.encoder."),
    ("aux.", "lm_head."),
];

/// The name of a tensor in this project, for any file; None for tensors that recognition does not
/// use.
pub fn plain_name(name: &str) -> Option<String> {
    let renamed = TORCHAUDIO
        .iter()
        .find_map(|(theirs, ours)| Some(format!("{ours}{}", name.strip_prefix(theirs)?)));
    (name != MASK).then(|| weight_norm::plain(renamed.as_deref().unwrap_or(name)))
}

impl Wav2Vec2Config {
    /// All tensors of a model. The positional convolution is in a pair, with one magnitude per
    /// position of the kernel.
    pub fn tensors(&self) -> Vec<Expected> {
        let (width, inner) = (self.hidden_size, self.intermediate_size);
        let (places, groups) = (self.num_conv_pos_embeddings, self.num_conv_pos_embedding_groups);
        collect("", |scope| {
            let mut model = scope.under("wav2vec2");
            let mut inputs = 1;
            for (at, (outputs, kernel)) in self.conv_dim.iter().zip(&self.conv_kernel).enumerate() {
                let mut layer = model.under(format!("feature_extractor.conv_layers.{at}"));
                layer.add("conv.weight", &[*outputs, inputs, *kernel]);
                if self.conv_bias {
                    layer.add("conv.bias", &[*outputs]);
                }
                if at == 0 || self.feat_extract_norm == Norm::Layer {
                    layer.norm("layer_norm", *outputs);
                }
                inputs = *outputs;
            }
            model.norm("feature_projection.layer_norm", inputs);
            model.layer("feature_projection.projection", width, &[inputs]);
            let mut convolution = model.under("encoder.pos_conv_embed.conv");
            convolution.add(LENGTH, &[1, 1, places]);
            convolution.add(DIRECTION, &[width, width / groups, places]);
            convolution.add("bias", &[width]);
            model.norm("encoder.layer_norm", width);
            for at in 0..self.num_hidden_layers {
                let mut layer = model.under(format!("encoder.layers.{at}"));
                for name in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    layer.layer(format!("attention.{name}"), width, &[width]);
                }
                layer.norm("layer_norm", width);
                layer.layer("feed_forward.intermediate_dense", inner, &[width]);
                layer.layer("feed_forward.output_dense", width, &[inner]);
                layer.norm("final_layer_norm", width);
            }
            scope.layer("lm_head", self.vocab_size, &[width]);
        })
    }

    pub fn parameters(&self) -> i64 {
        parameters(&self.tensors())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_base_model_has_as_many_parameters_as_transformers_counts() {
        // `num_parameters()` of `Wav2Vec2ForCTC(Wav2Vec2Config())`, less the 768 of the mask.
        assert_eq!(Wav2Vec2Config::default().parameters(), 94_395_552);
    }

    #[test]
    fn names_are_spelt_in_one_way_and_the_mask_is_none() {
        let name = |name: &str| plain_name(&format!("wav2vec2.encoder.pos_conv_embed.conv.{name}"));
        for (newer, older) in [("original0", "weight_g"), ("original1", "weight_v")] {
            assert_eq!(name(&format!("parametrizations.weight.{newer}")), name(older));
        }
        assert_eq!(plain_name("lm_head.bias").as_deref(), Some("lm_head.bias"));
        assert_eq!(plain_name(MASK), None);
        let theirs = "encoder.transformer.pos_conv_embed.conv.weight_g";
        assert_eq!(plain_name(theirs), name("weight_g"));
        assert_eq!(plain_name("aux.bias").as_deref(), Some("lm_head.bias"));
    }
}
