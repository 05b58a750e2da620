//! Checkpoints of Piper's trainer: a Lightning file with the generator, the discriminator and the
//! settings, in the names of the original project below a prefix for each network.

use serde::Deserialize;
use serde_json::Value;
use stage_formats::{FormatError, WeightFile};

use super::config::{SINGLE_BLOCKS, VitsConfig};
use crate::sizes::refused;

/// The prefixes of the networks.
const NETWORKS: [&str; 2] = ["model_g.", "model_d."];

/// The prefixes of the generator's parts in every checkpoint.
pub const MARKS: &[&str] = &["model_g.enc_p.", "model_g.enc_q.", "model_g.flow."];

/// The width of speakers that the trainer assumes.
const SPEAKER_WIDTH: i64 = 512;

/// The settings of the trainer; absent ones have its defaults.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Settings {
    num_symbols: i64,
    num_speakers: i64,
    resblock: String,
    resblock_kernel_sizes: Vec<i64>,
    resblock_dilation_sizes: Vec<Vec<i64>>,
    upsample_rates: Vec<i64>,
    upsample_initial_channel: i64,
    upsample_kernel_sizes: Vec<i64>,
    filter_length: i64,
    hop_length: i64,
    inter_channels: i64,
    hidden_channels: i64,
    filter_channels: i64,
    n_heads: i64,
    n_layers: i64,
    kernel_size: i64,
    p_dropout: f64,
    use_spectral_norm: bool,
    gin_channels: i64,
    use_sdp: bool,
    segment_size: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            num_symbols: 256,
            num_speakers: 1,
            resblock: SINGLE_BLOCKS.into(),
            resblock_kernel_sizes: vec![3, 5, 7],
            resblock_dilation_sizes: vec![vec![1, 2], vec![2, 6], vec![3, 12]],
            upsample_rates: vec![8, 8, 4],
            upsample_initial_channel: 256,
            upsample_kernel_sizes: vec![16, 16, 8],
            filter_length: 1024,
            hop_length: 256,
            inter_channels: 192,
            hidden_channels: 192,
            filter_channels: 768,
            n_heads: 2,
            n_layers: 6,
            kernel_size: 3,
            p_dropout: 0.1,
            use_spectral_norm: false,
            gin_channels: 0,
            use_sdp: true,
            segment_size: 8192,
        }
    }
}

/// The settings of a file, if it is a checkpoint of the trainer.
pub fn settings(file: &WeightFile) -> Option<&Value> {
    let WeightFile::Pth(checkpoint) = file else { return None };
    let names = file.plain_names(&[]).names;
    let has = |mark: &&str| names.keys().any(|name| name.starts_with(*mark));
    MARKS.iter().all(has).then(|| checkpoint.settings())
}

/// The name in the original project of a tensor of a checkpoint, or of any other file.
pub fn without_network(name: &str) -> &str {
    NETWORKS.iter().find_map(|network| name.strip_prefix(network)).unwrap_or(name)
}

/// The configuration, without what only the description of a voice says.
///
/// # Errors
///
/// If the settings are missing or damaged, or the model is unsupported.
pub fn read_checkpoint(settings: &Value) -> Result<VitsConfig, FormatError> {
    if settings["num_symbols"].is_null() {
        return Err(refused(
            "the checkpoint has no `hyper_parameters`, which say what the model is",
        ));
    }
    let own: Settings =
        serde_json::from_value(settings.clone()).map_err(|error| refused(error.to_string()))?;
    if own.use_spectral_norm {
        return Err(refused("`use_spectral_norm` is true, which is not supported"));
    }
    let width = match (own.num_speakers > 1, own.gin_channels) {
        (false, _) => 0,
        (true, 0) => SPEAKER_WIDTH,
        (true, width) => width,
    };
    let config = VitsConfig {
        model_type: "vits".into(),
        vocab_size: own.num_symbols,
        hidden_size: own.hidden_channels,
        num_hidden_layers: own.n_layers,
        num_attention_heads: own.n_heads,
        ffn_dim: own.filter_channels,
        ffn_kernel_size: own.kernel_size,
        flow_size: own.inter_channels,
        spectrogram_bins: own.filter_length / 2 + 1,
        hidden_dropout: own.p_dropout,
        attention_dropout: own.p_dropout,
        activation_dropout: own.p_dropout,
        use_stochastic_duration_prediction: own.use_sdp,
        num_speakers: own.num_speakers.max(1),
        speaker_embedding_size: width,
        upsample_initial_channel: own.upsample_initial_channel,
        upsample_rates: own.upsample_rates,
        upsample_kernel_sizes: own.upsample_kernel_sizes,
        resblock: own.resblock,
        resblock_kernel_sizes: own.resblock_kernel_sizes,
        resblock_dilation_sizes: own.resblock_dilation_sizes,
        segment_size: own.segment_size,
        ..VitsConfig::default()
    };
    config.check()?;
    match config.hop() == own.hop_length {
        true => Ok(config),
        false => Err(refused(format!(
            "`hop_length` is {}, but the product of `upsample_rates` is {}",
            own.hop_length,
            config.hop()
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_each_quality_are_a_model() {
        let medium = read_checkpoint(&json!({"num_symbols": 256, "num_speakers": 1})).unwrap();
        assert_eq!((medium.hop(), medium.has_paired_blocks()), (256, false));
        assert_eq!(
            (medium.speaking_parameters() / 100_000, medium.speaker_embedding_size),
            (236, 0)
        );
        let high = json!({
            "num_symbols": 256, "num_speakers": 3, "resblock": "1", "upsample_rates": [8, 8, 2, 2],
            "resblock_kernel_sizes": [3, 7, 11], "upsample_initial_channel": 512,
            "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
            "upsample_kernel_sizes": [16, 16, 4, 4], "gin_channels": 0, "dataset": [null],
            "learning_rate": 2e-4,
        });
        let high = read_checkpoint(&high).unwrap();
        assert!(high.has_paired_blocks());
        assert_eq!((high.num_speakers, high.speaker_embedding_size), (3, SPEAKER_WIDTH));
    }

    #[test]
    fn what_cannot_be_a_model_is_refused() {
        for (settings, told) in [
            (Value::Null, "no `hyper_parameters`"),
            (json!({"num_symbols": 256, "hop_length": 200}), "`hop_length` is 200"),
            (json!({"num_symbols": 256, "use_spectral_norm": true}), "use_spectral_norm"),
            (json!({"num_symbols": "many"}), "invalid type"),
        ] {
            let error = read_checkpoint(&settings).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_network_is_no_part_of_a_name() {
        for (name, own) in [
            ("model_g.enc_p.emb.weight", "enc_p.emb.weight"),
            ("model_d.discriminators.0.convs.0.bias", "discriminators.0.convs.0.bias"),
            ("enc_p.emb.weight", "enc_p.emb.weight"),
        ] {
            assert_eq!(without_network(name), own);
        }
    }
}
