//! Sizes of a model that takes a training step in a moment on two cores, for trials.

use super::config::{
    Config, DecoderConfig, DvaeConfig, GptConfig, SamplingConfig, SpeakerEncoderConfig,
};

impl Config {
    /// With this number of text tokens, of which `[STOP]` is 0 and `[START]` the last. Rates,
    /// bins and the perceiver's heads are those of the published model.
    pub fn small(text_tokens: i64) -> Config {
        let published = Config::published();
        Config {
            gpt: GptConfig {
                layers: 2,
                width: 64,
                heads: 4,
                conditioning_heads: 4,
                text_tokens,
                start_text_token: text_tokens - 1,
                audio_tokens: 34,
                start_audio_token: 32,
                stop_audio_token: 33,
                max_text_tokens: 200,
                max_audio_tokens: 256,
                ..published.gpt
            },
            dvae: DvaeConfig {
                codes: 32,
                codebook_width: 16,
                hidden: 16,
                residual_blocks: 1,
                ..published.dvae
            },
            decoder: DecoderConfig {
                input_width: 64,
                initial_channels: 32,
                resblock_kernels: vec![3],
                resblock_dilations: vec![vec![1, 3, 5]],
                speaker_width: 32,
                ..published.decoder
            },
            speaker_encoder: SpeakerEncoderConfig {
                blocks: [1; 4],
                channels: [8, 8, 16, 16],
                width: 32,
                ..published.speaker_encoder
            },
            sampling: SamplingConfig { ..published.sampling },
            languages: published.languages,
        }
    }
}
