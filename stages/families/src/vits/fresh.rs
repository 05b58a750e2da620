//! Configurations of new models, from the parameters of `vits.init`.

use stage_core::{Parameters, StageError};

use super::VitsConfig;

/// For a tokenizer with this number of symbols.
pub fn config(parameters: &Parameters, symbols: i64) -> Result<VitsConfig, StageError> {
    let mut config = match parameters.text("shape")? {
        "mms" => VitsConfig::mms(),
        _ => small(),
    };
    config.vocab_size = symbols;
    config.sampling_rate = parameters.integer("rate")?;
    let hidden = parameters.integer_or("hidden", config.hidden_size)?;
    if hidden != config.hidden_size {
        config.ffn_dim = 4 * hidden;
        config.flow_size = hidden;
        config.hidden_size = hidden;
    }
    config.num_hidden_layers = parameters.integer_or("layers", config.num_hidden_layers)?;
    config.upsample_initial_channel =
        parameters.integer_or("channels", config.upsample_initial_channel)?;
    config.num_speakers = parameters.integer_or("speakers", 1)?;
    if config.num_speakers > 1 {
        config.speaker_embedding_size = config.hidden_size;
    }
    Ok(config)
}

impl VitsConfig {
    /// The published models of MMS.
    pub fn mms() -> VitsConfig {
        VitsConfig { model_type: "vits".into(), ..VitsConfig::default() }
    }
}

/// Hop and segment lengths are those of the published models.
fn small() -> VitsConfig {
    VitsConfig {
        hidden_size: 32,
        num_hidden_layers: 2,
        ffn_dim: 128,
        flow_size: 32,
        upsample_initial_channel: 32,
        resblock_kernel_sizes: vec![3],
        resblock_dilation_sizes: vec![vec![1, 3]],
        prior_encoder_num_flows: 2,
        prior_encoder_num_wavenet_layers: 2,
        posterior_encoder_num_wavenet_layers: 4,
        duration_predictor_filter_channels: 32,
        discriminator_periods: vec![2, 3],
        discriminator_period_channels: vec![1, 8, 16],
        discriminator_scale_channels: vec![1, 16, 16],
        ..VitsConfig::mms()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stage_core::ParameterValue;

    #[test]
    fn another_width_widens_what_hangs_on_it() {
        let values = [
            ("shape", ParameterValue::Text("mms".to_owned())),
            ("rate", ParameterValue::Integer(16_000)),
            ("hidden", ParameterValue::Integer(48)),
        ];
        let named = values.into_iter().map(|(name, value)| (name.to_owned(), value));
        let config = config(&Parameters(named.collect()), 30).unwrap();
        assert_eq!((config.ffn_dim, config.flow_size, config.vocab_size), (192, 48, 30));
        assert_eq!(config.num_hidden_layers, VitsConfig::mms().num_hidden_layers);
    }
}
