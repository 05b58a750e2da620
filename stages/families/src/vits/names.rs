//! Names in transformers for the tensors of the original VITS.

use super::tensors::DISCRIMINATOR_PREFIX;
use stage_formats::weight_norm;

/// The name in transformers, with weight norm in this project's spelling, of a tensor of any file.
pub fn plain_name(name: &str, is_stochastic: bool) -> String {
    from_original(name, is_stochastic).unwrap_or_else(|| weight_norm::plain(name))
}

/// Tests if a weight is a matrix that the original stores as a convolution, with a third axis of
/// one.
pub fn is_projection(name: &str) -> bool {
    name.contains(".attention.") && name.ends_with("_proj.weight")
}

/// The name in transformers of a tensor of an original checkpoint (its `model`), generator or
/// discriminator; None if there is no such tensor. The type of the duration predictor distinguishes
/// two of the names. Only the names differ, except for the projections of the attention: their
/// weights have a third axis of one in the original.
pub fn from_original(name: &str, is_stochastic: bool) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let mapped = match parts.as_slice() {
        ["emb_g", rest @ ..] => format!("embed_speaker.{}", joined(rest)),
        ["enc_p", rest @ ..] => format!("text_encoder.{}", text_encoder(rest)?),
        ["enc_q", rest @ ..] => format!("posterior_encoder.{}", wavenet_module(rest, "conv_proj")?),
        ["flow", "flows", at, rest @ ..] => {
            let at: usize = at.parse().ok()?;
            // Every other layer flips the channels, and has no tensors.
            let module = at.is_multiple_of(2).then(|| wavenet_module(rest, "conv_post"))??;
            format!("flow.flows.{}.{module}", at / 2)
        }
        ["dec", "ups", rest @ ..] => format!("decoder.upsampler.{}", joined(rest)),
        ["dec", rest @ ..] => format!("decoder.{}", joined(rest)),
        ["dp", rest @ ..] if is_stochastic => format!("duration_predictor.{}", stochastic(rest)?),
        ["dp", rest @ ..] => format!("duration_predictor.{}", deterministic(rest)?),
        ["discriminators", at, "conv_post", rest @ ..] => {
            format!("discriminator.discriminators.{at}.final_conv.{}", joined(rest))
        }
        ["discriminators", rest @ ..] => format!("discriminator.discriminators.{}", joined(rest)),
        _ => return None,
    };
    Some(mapped)
}

/// The reverse for a tensor of the discriminator; None for one of the generator.
pub fn of_original_discriminator(name: &str) -> Option<String> {
    let own = name.strip_prefix(DISCRIMINATOR_PREFIX)?;
    Some(own.replace(".final_conv.", ".conv_post."))
}

fn joined(parts: &[&str]) -> String {
    parts.join(".")
}

/// The vectors of a norm have different names in the original.
fn norm(rest: &[&str]) -> Option<&'static str> {
    match rest {
        ["gamma"] => Some("weight"),
        ["beta"] => Some("bias"),
        _ => None,
    }
}

fn text_encoder(parts: &[&str]) -> Option<String> {
    let mapped = match parts {
        ["emb", rest @ ..] => format!("embed_tokens.{}", joined(rest)),
        ["proj", rest @ ..] => format!("project.{}", joined(rest)),
        ["encoder", kind, at, rest @ ..] => {
            let module = match (*kind, rest) {
                ("attn_layers", ["conv_q", rest @ ..]) => {
                    format!("attention.q_proj.{}", joined(rest))
                }
                ("attn_layers", ["conv_k", rest @ ..]) => {
                    format!("attention.k_proj.{}", joined(rest))
                }
                ("attn_layers", ["conv_v", rest @ ..]) => {
                    format!("attention.v_proj.{}", joined(rest))
                }
                ("attn_layers", ["conv_o", rest @ ..]) => {
                    format!("attention.out_proj.{}", joined(rest))
                }
                ("attn_layers", rest) => format!("attention.{}", joined(rest)),
                ("norm_layers_1", rest) => format!("layer_norm.{}", norm(rest)?),
                ("norm_layers_2", rest) => format!("final_layer_norm.{}", norm(rest)?),
                ("ffn_layers", rest) => format!("feed_forward.{}", joined(rest)),
                _ => return None,
            };
            format!("encoder.layers.{at}.{module}")
        }
        _ => return None,
    };
    Some(mapped)
}

/// A WaveNet between two convolutions of kernel size one.
fn wavenet_module(parts: &[&str], last: &str) -> Option<String> {
    match parts {
        ["pre", rest @ ..] => Some(format!("conv_pre.{}", joined(rest))),
        ["enc", rest @ ..] => Some(format!("wavenet.{}", joined(rest))),
        ["proj" | "post", rest @ ..] => Some(format!("{last}.{}", joined(rest))),
        _ => None,
    }
}

fn stochastic(parts: &[&str]) -> Option<String> {
    match parts {
        [list @ ("flows" | "post_flows"), "0", vector] => {
            let vector = match *vector {
                "m" => "translate",
                "logs" => "log_scale",
                _ => return None,
            };
            Some(format!("{list}.0.{vector}"))
        }
        [list @ ("flows" | "post_flows"), at, rest @ ..] => {
            let at: usize = at.parse().ok()?;
            let module = (!at.is_multiple_of(2)).then(|| separable_module(rest))??;
            Some(format!("{list}.{}.{module}", at.div_ceil(2)))
        }
        ["cond", ..] => Some(joined(parts)),
        [first, rest @ ..] => match first.strip_prefix("post_") {
            Some(first) => Some(format!("post_{}", separable_module(&[&[first], rest].concat())?)),
            None => separable_module(parts),
        },
        [] => None,
    }
}

fn deterministic(parts: &[&str]) -> Option<String> {
    match parts {
        [norms @ ("norm_1" | "norm_2"), rest @ ..] => Some(format!("{norms}.{}", norm(rest)?)),
        ["conv_1" | "conv_2" | "proj" | "cond", ..] => Some(joined(parts)),
        _ => None,
    }
}

/// Separable convolutions between two convolutions of kernel size one.
fn separable_module(parts: &[&str]) -> Option<String> {
    let mapped = match parts {
        ["pre", rest @ ..] => format!("conv_pre.{}", joined(rest)),
        ["proj", rest @ ..] => format!("conv_proj.{}", joined(rest)),
        ["convs", "convs_sep", rest @ ..] => format!("conv_dds.convs_dilated.{}", joined(rest)),
        ["convs", "convs_1x1", rest @ ..] => format!("conv_dds.convs_pointwise.{}", joined(rest)),
        ["convs", list @ ("norms_1" | "norms_2"), at, rest @ ..] => {
            format!("conv_dds.{list}.{at}.{}", norm(rest)?)
        }
        _ => return None,
    };
    Some(mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_original_are_those_of_transformers() {
        for (original, name) in [
            ("enc_p.emb.weight", "text_encoder.embed_tokens.weight"),
            (
                "enc_p.encoder.attn_layers.3.conv_o.bias",
                "text_encoder.encoder.layers.3.attention.out_proj.bias",
            ),
            (
                "enc_p.encoder.attn_layers.0.emb_rel_v",
                "text_encoder.encoder.layers.0.attention.emb_rel_v",
            ),
            (
                "enc_p.encoder.norm_layers_1.2.gamma",
                "text_encoder.encoder.layers.2.layer_norm.weight",
            ),
            (
                "enc_p.encoder.norm_layers_2.2.beta",
                "text_encoder.encoder.layers.2.final_layer_norm.bias",
            ),
            (
                "enc_p.encoder.ffn_layers.1.conv_2.weight",
                "text_encoder.encoder.layers.1.feed_forward.conv_2.weight",
            ),
            ("enc_p.proj.weight", "text_encoder.project.weight"),
            ("enc_q.enc.in_layers.7.weight_g", "posterior_encoder.wavenet.in_layers.7.weight_g"),
            ("enc_q.proj.bias", "posterior_encoder.conv_proj.bias"),
            ("flow.flows.6.post.weight", "flow.flows.3.conv_post.weight"),
            ("flow.flows.2.enc.cond_layer.weight_v", "flow.flows.1.wavenet.cond_layer.weight_v"),
            ("dec.ups.0.weight_v", "decoder.upsampler.0.weight_v"),
            ("dec.resblocks.4.convs1.0.bias", "decoder.resblocks.4.convs1.0.bias"),
            ("dec.conv_post.weight", "decoder.conv_post.weight"),
            ("dp.pre.weight", "duration_predictor.conv_pre.weight"),
            ("dp.post_proj.bias", "duration_predictor.post_conv_proj.bias"),
            ("dp.convs.convs_sep.1.weight", "duration_predictor.conv_dds.convs_dilated.1.weight"),
            ("dp.post_convs.norms_1.0.gamma", "duration_predictor.post_conv_dds.norms_1.0.weight"),
            ("dp.flows.0.logs", "duration_predictor.flows.0.log_scale"),
            (
                "dp.flows.7.convs.convs_1x1.2.bias",
                "duration_predictor.flows.4.conv_dds.convs_pointwise.2.bias",
            ),
            ("dp.post_flows.1.proj.weight", "duration_predictor.post_flows.1.conv_proj.weight"),
            ("dp.cond.weight", "duration_predictor.cond.weight"),
            ("emb_g.weight", "embed_speaker.weight"),
            (
                "discriminators.2.conv_post.weight_g",
                "discriminator.discriminators.2.final_conv.weight_g",
            ),
            ("discriminators.0.convs.5.bias", "discriminator.discriminators.0.convs.5.bias"),
        ] {
            assert_eq!(from_original(original, true).as_deref(), Some(name));
        }
        for (original, name) in [
            ("dp.norm_1.gamma", "duration_predictor.norm_1.weight"),
            ("dp.proj.weight", "duration_predictor.proj.weight"),
        ] {
            assert_eq!(from_original(original, false).as_deref(), Some(name));
        }
    }

    #[test]
    fn what_no_original_has_is_not_named() {
        for name in [
            "",
            "encoder.weight",
            "flow.flows.1.pre.weight",
            "dp.flows.2.pre.weight",
            "dp.flows.0.x",
        ] {
            assert_eq!(from_original(name, true), None, "{name}");
        }
    }
}
