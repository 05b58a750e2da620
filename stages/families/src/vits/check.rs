//! Constraints on a configuration of VITS.

use super::config::{PAIRED_BLOCKS, SINGLE_BLOCKS, VitsConfig};
use crate::sizes::{LARGEST, in_range, refused};
use stage_formats::FormatError;

/// The largest number of layers or parts of one kind.
const MOST: i64 = 256;

impl VitsConfig {
    /// Refuses impossible configurations, and names the field.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        if self.model_type != "vits" {
            let found = &self.model_type;
            return Err(refused(format!("`model_type` is `{found}`, expected `vits`")));
        }
        if ![PAIRED_BLOCKS, SINGLE_BLOCKS].contains(&self.resblock.as_str()) {
            let found = &self.resblock;
            return Err(refused(format!("`resblock` is `{found}`, expected `1` or `2`")));
        }
        if self.hidden_act != "relu" {
            let found = &self.hidden_act;
            return Err(refused(format!("`hidden_act` is `{found}`, expected `relu`")));
        }
        self.check_sizes()?;
        self.check_reach()?;
        self.check_numbers()?;
        self.check_decoder()?;
        self.check_discriminator()
    }

    fn check_sizes(&self) -> Result<(), FormatError> {
        for (name, size, largest) in [
            ("vocab_size", self.vocab_size, LARGEST),
            ("hidden_size", self.hidden_size, LARGEST),
            ("num_hidden_layers", self.num_hidden_layers, MOST),
            ("num_attention_heads", self.num_attention_heads, self.hidden_size),
            ("window_size", self.window_size, MOST),
            ("ffn_dim", self.ffn_dim, LARGEST),
            ("flow_size", self.flow_size, LARGEST),
            ("spectrogram_bins", self.spectrogram_bins, LARGEST),
            ("num_speakers", self.num_speakers, LARGEST),
            ("depth_separable_num_layers", self.depth_separable_num_layers, 12),
            ("duration_predictor_flow_bins", self.duration_predictor_flow_bins, 512),
            ("duration_predictor_num_flows", self.duration_predictor_num_flows, MOST),
            (
                "duration_predictor_filter_channels",
                self.duration_predictor_filter_channels,
                LARGEST,
            ),
            ("prior_encoder_num_flows", self.prior_encoder_num_flows, MOST),
            ("prior_encoder_num_wavenet_layers", self.prior_encoder_num_wavenet_layers, MOST),
            (
                "posterior_encoder_num_wavenet_layers",
                self.posterior_encoder_num_wavenet_layers,
                MOST,
            ),
            ("wavenet_dilation_rate", self.wavenet_dilation_rate, 16),
            ("sampling_rate", self.sampling_rate, 384_000),
        ] {
            in_range(name, size, 1, largest)?;
        }
        in_range("speaker_embedding_size", self.speaker_embedding_size, 0, LARGEST)?;
        // The duration noise has two channels; one of them becomes the duration.
        in_range("depth_separable_channels", self.depth_separable_channels, 2, 2)?;
        for (name, size) in [
            ("ffn_kernel_size", self.ffn_kernel_size),
            ("duration_predictor_kernel_size", self.duration_predictor_kernel_size),
            ("wavenet_kernel_size", self.wavenet_kernel_size),
        ] {
            odd(name, size)?;
        }
        divides("hidden_size", self.hidden_size, "num_attention_heads", self.num_attention_heads)?;
        divides("flow_size", self.flow_size, "number of halves", 2)?;
        match self.num_speakers > 1 && self.speaker_embedding_size == 0 {
            true => Err(refused("there are several speakers but no `speaker_embedding_size`")),
            false => Ok(()),
        }
    }

    /// The dilation grows by this factor from layer to layer.
    fn check_reach(&self) -> Result<(), FormatError> {
        let layers = self.prior_encoder_num_wavenet_layers;
        let layers = layers.max(self.posterior_encoder_num_wavenet_layers);
        for (name, factor, layers) in [
            ("wavenet_dilation_rate", self.wavenet_dilation_rate, layers),
            (
                "duration_predictor_kernel_size",
                self.duration_predictor_kernel_size,
                self.depth_separable_num_layers,
            ),
        ] {
            let reach = factor.checked_pow(layers as u32).unwrap_or(i64::MAX);
            in_range(&format!("power of `{name}` over {layers} layers"), reach, 1, LARGEST)?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), FormatError> {
        for (name, value) in [
            ("layer_norm_eps", self.layer_norm_eps),
            ("leaky_relu_slope", self.leaky_relu_slope),
            ("duration_predictor_tail_bound", self.duration_predictor_tail_bound),
            ("speaking_rate", self.speaking_rate),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(refused(format!("`{name}` is {value}, expected more than 0")));
            }
        }
        for (name, value) in [
            ("hidden_dropout", self.hidden_dropout),
            ("attention_dropout", self.attention_dropout),
            ("activation_dropout", self.activation_dropout),
            ("duration_predictor_dropout", self.duration_predictor_dropout),
            ("wavenet_dropout", self.wavenet_dropout),
        ] {
            if !(0.0..1.0).contains(&value) {
                return Err(refused(format!("`{name}` is {value}, expected 0 to 1")));
            }
        }
        Ok(())
    }

    fn check_decoder(&self) -> Result<(), FormatError> {
        let steps = self.upsample_rates.len();
        in_range("number of `upsample_rates`", steps as i64, 1, 12)?;
        in_range(
            "number of `resblock_kernel_sizes`",
            self.resblock_kernel_sizes.len() as i64,
            1,
            64,
        )?;
        same_length(
            "upsample_rates",
            steps,
            "upsample_kernel_sizes",
            self.upsample_kernel_sizes.len(),
        )?;
        let (kernels, dilations) = (&self.resblock_kernel_sizes, &self.resblock_dilation_sizes);
        same_length(
            "resblock_kernel_sizes",
            kernels.len(),
            "resblock_dilation_sizes",
            dilations.len(),
        )?;
        for (rate, kernel) in self.upsample_rates.iter().zip(&self.upsample_kernel_sizes) {
            in_range("upsample_rates", *rate, 1, 1024)?;
            // Otherwise a frame would not have an integer number of samples.
            if kernel < rate || (kernel - rate) % 2 != 0 || *kernel > 4096 {
                return Err(refused(format!(
                    "an upsampling kernel of {kernel} does not fit a rate of {rate}"
                )));
            }
        }
        kernels.iter().try_for_each(|size| odd("resblock_kernel_sizes", *size))?;
        for dilations in dilations {
            in_range("number of `resblock_dilation_sizes`", dilations.len() as i64, 1, 64)?;
        }
        for dilation in dilations.iter().flatten() {
            in_range("resblock_dilation_sizes", *dilation, 1, 4096)?;
        }
        in_range("upsample_initial_channel", self.upsample_initial_channel, 1 << steps, LARGEST)?;
        // The product of all rates, which may overflow.
        let hop = self.upsample_rates.iter().try_fold(1i64, |hop, rate| hop.checked_mul(*rate));
        in_range("product of `upsample_rates`", hop.unwrap_or(i64::MAX), 1, self.transform())
    }

    fn check_discriminator(&self) -> Result<(), FormatError> {
        odd("discriminator_kernel_size", self.discriminator_kernel_size)?;
        in_range("discriminator_stride", self.discriminator_stride, 1, 64)?;
        let periods = self.discriminator_periods.len();
        in_range("number of `discriminator_periods`", periods as i64, 0, 64)?;
        for period in &self.discriminator_periods {
            in_range("discriminator_periods", *period, 2, 1024)?;
        }
        for (name, channels) in [
            ("discriminator_period_channels", &self.discriminator_period_channels),
            ("discriminator_scale_channels", &self.discriminator_scale_channels),
        ] {
            in_range(&format!("number of `{name}`"), channels.len() as i64, 2, 12)?;
            channels.iter().try_for_each(|size| in_range(name, *size, 1, LARGEST))?;
            if channels.first() != Some(&1) {
                return Err(refused(format!("`{name}` does not begin with the 1 of a wave")));
            }
        }
        for [groups, inputs, outputs] in self.scale_groups() {
            divides("discriminator_scale_channels", inputs, "number of groups", groups)?;
            divides("discriminator_scale_channels", outputs, "number of groups", groups)?;
        }
        in_range("segment_size", self.segment_size, self.hop(), LARGEST)
    }
}

/// Odd kernels: the output is as long as the input.
fn odd(name: &str, size: i64) -> Result<(), FormatError> {
    in_range(name, size, 1, 4095)?;
    match size % 2 {
        1 => Ok(()),
        _ => Err(refused(format!("`{name}` is {size}, expected an odd number"))),
    }
}

fn divides(whole: &str, size: i64, part: &str, by: i64) -> Result<(), FormatError> {
    match size % by {
        0 => Ok(()),
        _ => Err(refused(format!("`{whole}` is {size}, not a multiple of the {part} ({by})"))),
    }
}

fn same_length(one: &str, count: usize, other: &str, others: usize) -> Result<(), FormatError> {
    match count == others {
        true => Ok(()),
        false => Err(refused(format!("`{one}` has {count} entries, but `{other}` has {others}"))),
    }
}
