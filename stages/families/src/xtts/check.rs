//! Refuses impossible configurations, before their sizes are used.

use stage_formats::FormatError;

use super::config::{
    DecoderConfig, DvaeConfig, GptConfig, SamplingConfig, SpeakerEncoderConfig, XttsConfig,
};
use crate::sizes::{LARGEST, in_range, refused};

/// The largest number of layers, heads and blocks.
const MOST_PARTS: i64 = 1024;

type Checked = Result<(), FormatError>;

fn divisible(name: &str, size: i64, by: &str, parts: i64) -> Checked {
    match size % parts {
        0 => Ok(()),
        _ => Err(refused(format!("`{name}` {size} is not divisible by `{by}` {parts}"))),
    }
}

impl XttsConfig {
    /// # Errors
    ///
    /// The first impossible value, by its name.
    pub fn check(&self) -> Checked {
        self.gpt.check()?;
        self.dvae.check()?;
        self.decoder.check()?;
        self.speaker_encoder.check()?;
        self.sampling.check()?;
        if self.dvae.codes > self.gpt.audio_tokens - 2 {
            let (codes, tokens) = (self.dvae.codes, self.gpt.audio_tokens);
            let message =
                format!("the DVAE has {codes} codes, but the GPT has {tokens} audio tokens");
            return Err(refused(message));
        }
        let (start, stop) = (self.gpt.start_audio_token, self.gpt.stop_audio_token);
        if start == stop {
            let message = "`gpt_start_audio_token` and `gpt_stop_audio_token` are both";
            return Err(refused(format!("{message} {start}")));
        }
        in_range("gpt_start_audio_token", start, self.dvae.codes, LARGEST)?;
        in_range("gpt_stop_audio_token", stop, self.dvae.codes, LARGEST)?;
        if self.decoder.input_width != self.gpt.width {
            let (input, width) = (self.decoder.input_width, self.gpt.width);
            let message =
                format!("`decoder_input_dim` is {input}, but the GPT has the width {width}");
            return Err(refused(message));
        }
        Ok(())
    }
}

impl GptConfig {
    fn check(&self) -> Checked {
        in_range("gpt_layers", self.layers, 1, MOST_PARTS)?;
        in_range("gpt_n_model_channels", self.width, 1, 1 << 16)?;
        in_range("gpt_n_heads", self.heads, 1, MOST_PARTS)?;
        divisible("gpt_n_model_channels", self.width, "gpt_n_heads", self.heads)?;
        divisible(
            "gpt_n_model_channels",
            self.width,
            "conditioning heads",
            self.conditioning_heads,
        )?;
        in_range("gpt_number_text_tokens", self.text_tokens, 3, LARGEST)?;
        in_range("gpt_num_audio_tokens", self.audio_tokens, 3, LARGEST)?;
        in_range("gpt_start_text_token", self.start_text_token, 0, self.text_tokens - 1)?;
        in_range("gpt_stop_text_token", self.stop_text_token, 0, self.text_tokens - 1)?;
        in_range("gpt_start_audio_token", self.start_audio_token, 0, self.audio_tokens - 1)?;
        in_range("gpt_stop_audio_token", self.stop_audio_token, 0, self.audio_tokens - 1)?;
        in_range("gpt_max_text_tokens", self.max_text_tokens, 1, 1 << 20)?;
        in_range("gpt_max_audio_tokens", self.max_audio_tokens, 1, 1 << 20)?;
        in_range("gpt_code_stride_len", self.code_stride, 1, 1 << 20)?;
        in_range("latents", self.latents, 1, 1 << 16)?;
        in_range("perceiver_layers", self.perceiver_layers, 0, MOST_PARTS)?;
        in_range("perceiver_heads", self.perceiver_heads, 1, MOST_PARTS)?;
        in_range("perceiver_head_width", self.perceiver_head_width, 1, 1 << 16)?;
        in_range("conditioning_layers", self.conditioning_layers, 0, MOST_PARTS)?;
        in_range("mels", self.mels, 1, 1 << 12)?;
        in_range("sample_rate", self.sample_rate, 1_000, 384_000)?;
        match (0.0..1.0).contains(&self.dropout) && self.layer_norm_eps > 0.0 {
            true => Ok(()),
            false => Err(refused("`dropout` or `layer_norm_eps` is out of range")),
        }
    }
}

impl DvaeConfig {
    fn check(&self) -> Checked {
        in_range("dvae.codes", self.codes, 1, LARGEST)?;
        in_range("dvae.codebook_width", self.codebook_width, 1, 1 << 16)?;
        in_range("dvae.hidden", self.hidden, 1, 1 << 14)?;
        in_range("dvae.layers", self.layers, 1, 6)?;
        in_range("dvae.residual_blocks", self.residual_blocks, 0, 64)
    }
}

impl DecoderConfig {
    fn check(&self) -> Checked {
        let steps = self.upsample_rates.len();
        in_range("decoder.initial_channels", self.initial_channels, 1, 1 << 16)?;
        in_range("d_vector_dim", self.speaker_width, 1, 1 << 16)?;
        in_range("output_sample_rate", self.sample_rate, 1_000, 384_000)?;
        in_range("decoder.upsample_rates", steps as i64, 1, 16)?;
        if self.upsample_kernels.len() != steps {
            return Err(refused("the decoder has different numbers of kernels and rates"));
        }
        if self.resblock_kernels.is_empty()
            || self.resblock_kernels.len() != self.resblock_dilations.len()
        {
            return Err(refused("the decoder has different numbers of dilation lists and kernels"));
        }
        for (rate, kernel) in self.upsample_rates.iter().zip(&self.upsample_kernels) {
            in_range("decoder.upsample_rates", *rate, 1, 1 << 10)?;
            in_range("decoder.upsample_kernels", *kernel, *rate, 1 << 12)?;
        }
        let dilations = self.resblock_dilations.iter().flatten();
        for size in self.resblock_kernels.iter().chain(dilations) {
            in_range("decoder.resblocks", *size, 1, 1 << 10)?;
        }
        divisible("decoder.initial_channels", self.initial_channels, "halvings", 1 << steps)?;
        let hop = self.upsample_rates.iter().try_fold(1i64, |hop, rate| hop.checked_mul(*rate));
        match hop == Some(self.hop) {
            true => Ok(()),
            false => Err(refused(format!(
                "`output_hop_length` is {}, which is not the product of the rates of the decoder",
                self.hop
            ))),
        }
    }
}

impl SpeakerEncoderConfig {
    fn check(&self) -> Checked {
        for (blocks, channels) in self.blocks.iter().zip(self.channels) {
            in_range("speaker_encoder.blocks", *blocks, 1, 64)?;
            in_range("speaker_encoder.channels", channels, 8, 1 << 14)?;
        }
        in_range("speaker_encoder.mels", self.mels, 8, 1 << 12)?;
        in_range("speaker_encoder.width", self.width, 1, 1 << 16)?;
        in_range("speaker_encoder.sample_rate", self.sample_rate, 1_000, 384_000)?;
        in_range("speaker_encoder.n_fft", self.n_fft, 16, 1 << 16)?;
        in_range("speaker_encoder.window", self.window, 1, self.n_fft)?;
        in_range("speaker_encoder.hop", self.hop, 1, self.n_fft)
    }
}

/// The shortest reference that latents are made of, in seconds.
const SHORTEST_REFERENCE: f64 = 0.33;

impl SamplingConfig {
    fn check(&self) -> Checked {
        let problem = |name: &str, value: f64, expected: &str| {
            Err(refused(format!("`{name}` is {value:?}, expected {expected}")))
        };
        if !(0.0..=10.0).contains(&self.temperature) {
            return problem("temperature", self.temperature, "0 to 10");
        }
        in_range("top_k", self.top_k, 0, LARGEST)?;
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return problem("top_p", self.top_p, "more than 0 and at most 1");
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty <= 100.0) {
            let expected = "more than 0 and at most 100";
            return problem("repetition_penalty", self.repetition_penalty, expected);
        }
        for (name, seconds) in [
            ("gpt_cond_len", self.conditioning_seconds),
            ("gpt_cond_chunk_len", self.conditioning_chunk_seconds),
            ("max_ref_len", self.max_reference_seconds),
        ] {
            if seconds.is_nan() || seconds < SHORTEST_REFERENCE {
                return problem(name, seconds, "at least 0.33 seconds");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_that_no_model_has_are_named() {
        let refusal = |change: fn(&mut XttsConfig)| {
            let mut config = XttsConfig::published();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        XttsConfig::published().check().unwrap();
        XttsConfig::small(40).check().unwrap();
        for (told, text) in [
            (refusal(|config| config.gpt.heads = 15), "`gpt_n_heads` 15"),
            (refusal(|config| config.gpt.heads = 0), "`gpt_n_heads` is 0"),
            (refusal(|config| config.gpt.stop_text_token = 6681), "`gpt_stop_text_token` is 6681"),
            (refusal(|config| config.dvae.codes = 1025), "1025 codes"),
            (refusal(|config| config.dvae.layers = 60), "`dvae.layers` is 60"),
            (refusal(|config| config.decoder.hop = 255), "`output_hop_length` is 255"),
            (
                refusal(|config| config.decoder.upsample_kernels.truncate(1)),
                "different numbers of kernels and rates",
            ),
            (refusal(|config| config.decoder.initial_channels = 520), "not divisible"),
            (refusal(|config| config.decoder.input_width = 512), "`decoder_input_dim` is 512"),
            (refusal(|config| config.speaker_encoder.channels[0] = 4), "channels` is 4"),
            (refusal(|config| config.gpt.start_audio_token = 1025), "are both 1025"),
            (refusal(|config| config.gpt.start_audio_token = 0), "`gpt_start_audio_token` is 0"),
            (refusal(|config| config.sampling.temperature = -1.0), "`temperature` is -1.0"),
            (refusal(|config| config.sampling.temperature = 1e308), "`temperature` is 1e308"),
            (refusal(|config| config.sampling.top_k = -5), "`top_k` is -5"),
            (refusal(|config| config.sampling.top_p = 0.0), "`top_p` is 0.0"),
            (refusal(|config| config.sampling.top_p = 7.0), "`top_p` is 7.0"),
            (refusal(|config| config.sampling.repetition_penalty = 0.0), "`repetition_penalty` is"),
            (refusal(|config| config.sampling.conditioning_seconds = 0.0), "`gpt_cond_len` is 0.0"),
            (refusal(|config| config.sampling.max_reference_seconds = -1.0), "`max_ref_len` is"),
        ] {
            assert!(told.contains(text), "{told}");
        }
    }
}
