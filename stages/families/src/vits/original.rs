//! The configuration of the original project, converted to that of transformers.

use serde::Deserialize;

use super::config::VitsConfig;
use super::vocabulary::TextRules;
use crate::sizes::refused;
use stage_formats::FormatError;

/// The relevant part of the original's `config.json`.
#[derive(Debug, Deserialize)]
struct Original {
    #[serde(default)]
    train: Train,
    data: Data,
    model: OriginalModel,
}

#[derive(Debug, Default, Deserialize)]
struct Train {
    segment_size: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Data {
    sampling_rate: i64,
    filter_length: i64,
    hop_length: i64,
    win_length: Option<i64>,
    n_speakers: Option<i64>,
    add_blank: Option<bool>,
    training_files: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OriginalModel {
    inter_channels: i64,
    hidden_channels: i64,
    filter_channels: i64,
    n_heads: i64,
    n_layers: i64,
    kernel_size: i64,
    p_dropout: f64,
    resblock: String,
    resblock_kernel_sizes: Vec<i64>,
    resblock_dilation_sizes: Vec<Vec<i64>>,
    upsample_rates: Vec<i64>,
    upsample_initial_channel: i64,
    upsample_kernel_sizes: Vec<i64>,
    use_spectral_norm: Option<bool>,
    gin_channels: Option<i64>,
    use_sdp: Option<bool>,
}

/// Tests if a `config.json` is one of the original project.
pub fn is_original(json: &[u8]) -> bool {
    let parts: Option<serde_json::Value> = serde_json::from_slice(json).ok();
    parts.is_some_and(|config| config["model"].is_object() && config["data"].is_object())
}

/// The configuration for this number of symbols, and the settings of the tokenizer.
///
/// # Errors
///
/// If the file is invalid, or transformers does not support the model.
pub fn read_original(json: &[u8], symbols: usize) -> Result<(VitsConfig, TextRules), FormatError> {
    let Original { train, data, model } =
        serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
    if model.resblock != "1" {
        let found = model.resblock;
        return Err(refused(format!("`resblock` is `{found}`, expected `1`")));
    }
    if model.use_spectral_norm == Some(true) {
        return Err(refused("`use_spectral_norm` is true, which is not supported"));
    }
    if data.win_length.is_some_and(|window| window != data.filter_length) {
        return Err(refused("`win_length` is not `filter_length`"));
    }
    let speakers = data.n_speakers.unwrap_or(0);
    let published = VitsConfig::default();
    let config = VitsConfig {
        model_type: "vits".into(),
        vocab_size: symbols as i64,
        hidden_size: model.hidden_channels,
        num_hidden_layers: model.n_layers,
        num_attention_heads: model.n_heads,
        ffn_dim: model.filter_channels,
        ffn_kernel_size: model.kernel_size,
        flow_size: model.inter_channels,
        spectrogram_bins: data.filter_length / 2 + 1,
        hidden_dropout: model.p_dropout,
        attention_dropout: model.p_dropout,
        activation_dropout: model.p_dropout,
        use_stochastic_duration_prediction: model.use_sdp.unwrap_or(true),
        num_speakers: speakers.max(1),
        speaker_embedding_size: if speakers > 1 { model.gin_channels.unwrap_or(0) } else { 0 },
        upsample_initial_channel: model.upsample_initial_channel,
        upsample_rates: model.upsample_rates,
        upsample_kernel_sizes: model.upsample_kernel_sizes,
        resblock_kernel_sizes: model.resblock_kernel_sizes,
        resblock_dilation_sizes: model.resblock_dilation_sizes,
        sampling_rate: data.sampling_rate,
        segment_size: train.segment_size.unwrap_or(published.segment_size),
        ..published
    };
    config.check()?;
    if config.hop() != data.hop_length {
        let (hop, product) = (data.hop_length, config.hop());
        return Err(refused(format!(
            "`hop_length` is {hop}, but the product of `upsample_rates` is {product}"
        )));
    }
    let romanised = data.training_files.is_some_and(|path| path.ends_with(".uroman"));
    let rules = TextRules { add_blank: data.add_blank.unwrap_or(true), is_uroman: romanised };
    Ok((config, rules))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The fields of the configuration that MMS publishes beside its original checkpoints.
    const MMS: &str = r#"{
        "train": {"segment_size": 8192, "c_mel": 45},
        "data": {"training_files": "train.ltr.uroman", "sampling_rate": 16000, "filter_length": 1024,
            "hop_length": 256, "win_length": 1024, "add_blank": true, "n_speakers": 0},
        "model": {"inter_channels": 192, "hidden_channels": 192, "filter_channels": 768, "n_heads": 2,
            "n_layers": 6, "kernel_size": 3, "p_dropout": 0.1, "resblock": "1",
            "resblock_kernel_sizes": [3, 7, 11],
            "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
            "upsample_rates": [8, 8, 2, 2], "upsample_initial_channel": 512,
            "upsample_kernel_sizes": [16, 16, 4, 4], "n_layers_q": 3, "use_spectral_norm": false}
    }"#;

    #[test]
    fn the_published_original_is_the_published_model() {
        assert!(is_original(MMS.as_bytes()) && !is_original(br#"{"model_type": "vits"}"#));
        let (config, rules) = read_original(MMS.as_bytes(), 38).unwrap();
        assert_eq!(config, VitsConfig { model_type: "vits".into(), ..VitsConfig::default() });
        assert_eq!(rules, TextRules { add_blank: true, is_uroman: true });
    }

    #[test]
    fn several_speakers_have_a_width() {
        let several = MMS.replace(r#""n_speakers": 0"#, r#""n_speakers": 4"#);
        let several = several.replace(r#""n_layers_q": 3"#, r#""gin_channels": 256"#);
        let (config, _) = read_original(several.as_bytes(), 38).unwrap();
        assert_eq!((config.num_speakers, config.speaker_embedding_size), (4, 256));
    }

    #[test]
    fn what_transformers_does_not_know_is_refused() {
        for (from, to, told) in [
            (r#""resblock": "1""#, r#""resblock": "2""#, "`resblock` is `2`, expected `1`"),
            (r#""use_spectral_norm": false"#, r#""use_spectral_norm": true"#, "spectral_norm"),
            (r#""win_length": 1024"#, r#""win_length": 800"#, "`win_length` is not"),
            (
                r#""hop_length": 256"#,
                r#""hop_length": 200"#,
                "the product of `upsample_rates` is 256",
            ),
            (r#""n_heads": 2"#, r#""n_heads": 5"#, "num_attention_heads"),
        ] {
            let changed = MMS.replace(from, to);
            let error = read_original(changed.as_bytes(), 38).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
