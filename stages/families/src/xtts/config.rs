//! The sizes and constants of a model. The published values are those of XTTS v2 in the package
//! coqui-tts 0.27.2 (`XttsArgs`, `recipes/ljspeech/xtts_v2`).

use serde::{Deserialize, Serialize};

/// A whole model. Sizes that the published `config.json` lacks follow from the shapes of the
/// tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct XttsConfig {
    pub gpt: GptConfig,
    pub dvae: DvaeConfig,
    pub decoder: DecoderConfig,
    pub speaker_encoder: SpeakerEncoderConfig,
    pub sampling: SamplingConfig,
    /// Languages with a tag in the tokenizer, such as `en`.
    pub languages: Vec<String>,
}

/// The autoregressive model with its conditioning encoder and perceiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GptConfig {
    pub layers: i64,
    /// Channels of the residual stream.
    pub width: i64,
    pub heads: i64,
    /// Rows of the text embedding: the largest token id + 1.
    pub text_tokens: i64,
    pub start_text_token: i64,
    pub stop_text_token: i64,
    /// Codes of the DVAE, then start and stop.
    pub audio_tokens: i64,
    pub start_audio_token: i64,
    pub stop_audio_token: i64,
    /// Positions without start and stop.
    pub max_text_tokens: i64,
    pub max_audio_tokens: i64,
    /// Samples at `sample_rate` per code.
    pub code_stride: i64,
    /// The number of latent vectors that the perceiver makes from a reference.
    pub latents: i64,
    pub perceiver_layers: i64,
    pub perceiver_heads: i64,
    pub perceiver_head_width: i64,
    /// Attention blocks of the conditioning encoder.
    pub conditioning_layers: i64,
    pub conditioning_heads: i64,
    /// Bins of the mel spectrograms of both GPT and DVAE.
    pub mels: i64,
    /// Samples per second of the input of GPT and DVAE.
    pub sample_rate: i64,
    pub dropout: f64,
    pub layer_norm_eps: f64,
}

/// The discrete VAE that encodes mel spectrograms to codes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DvaeConfig {
    pub codes: i64,
    pub codebook_width: i64,
    /// Channels of the first convolution; each following one has twice as many.
    pub hidden: i64,
    pub layers: i64,
    pub residual_blocks: i64,
}

/// The HiFi-GAN that decodes hidden states to samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecoderConfig {
    pub input_width: i64,
    pub initial_channels: i64,
    pub upsample_rates: Vec<i64>,
    pub upsample_kernels: Vec<i64>,
    pub resblock_kernels: Vec<i64>,
    pub resblock_dilations: Vec<Vec<i64>>,
    pub speaker_width: i64,
    pub speaker_in_each_layer: bool,
    /// Samples per second of the output.
    pub sample_rate: i64,
    /// Samples per frame, the product of the rates.
    pub hop: i64,
}

/// The ResNet that computes a speaker vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeakerEncoderConfig {
    /// Blocks of each of the four stages.
    pub blocks: [i64; 4],
    pub channels: [i64; 4],
    pub mels: i64,
    pub width: i64,
    pub sample_rate: i64,
    pub n_fft: i64,
    pub window: i64,
    pub hop: i64,
    pub preemphasis: f64,
}

/// Default settings of synthesis in `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingConfig {
    pub temperature: f64,
    pub length_penalty: f64,
    pub repetition_penalty: f64,
    pub top_k: i64,
    pub top_p: f64,
    /// Used seconds of the reference, and of each of its chunks.
    pub conditioning_seconds: f64,
    pub conditioning_chunk_seconds: f64,
    pub max_reference_seconds: f64,
}

impl XttsConfig {
    /// XTTS v2 as published, with its newest vocabulary. Long, since it is a table: a line for each
    /// figure.
    pub fn published() -> XttsConfig {
        let languages = [
            "en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh-cn", "hu",
            "ko", "ja", "hi",
        ];
        XttsConfig {
            gpt: GptConfig {
                layers: 30,
                width: 1024,
                heads: 16,
                text_tokens: 6681,
                start_text_token: 261,
                stop_text_token: 0,
                audio_tokens: 1026,
                start_audio_token: 1024,
                stop_audio_token: 1025,
                max_text_tokens: 402,
                max_audio_tokens: 605,
                code_stride: 1024,
                latents: 32,
                perceiver_layers: 2,
                perceiver_heads: 8,
                perceiver_head_width: 64,
                conditioning_layers: 6,
                conditioning_heads: 16,
                mels: 80,
                sample_rate: 22_050,
                dropout: 0.1,
                layer_norm_eps: 1e-5,
            },
            dvae: DvaeConfig {
                codes: 1024,
                codebook_width: 512,
                hidden: 512,
                layers: 2,
                residual_blocks: 3,
            },
            decoder: DecoderConfig {
                input_width: 1024,
                initial_channels: 512,
                upsample_rates: vec![8, 8, 2, 2],
                upsample_kernels: vec![16, 16, 4, 4],
                resblock_kernels: vec![3, 7, 11],
                resblock_dilations: vec![vec![1, 3, 5]; 3],
                speaker_width: 512,
                speaker_in_each_layer: true,
                sample_rate: 24_000,
                hop: 256,
            },
            speaker_encoder: SpeakerEncoderConfig {
                blocks: [3, 4, 6, 3],
                channels: [32, 64, 128, 256],
                mels: 64,
                width: 512,
                sample_rate: 16_000,
                n_fft: 512,
                window: 400,
                hop: 160,
                preemphasis: 0.97,
            },
            sampling: SamplingConfig {
                temperature: 0.75,
                length_penalty: 1.0,
                repetition_penalty: 5.0,
                top_k: 50,
                top_p: 0.85,
                conditioning_seconds: 30.0,
                conditioning_chunk_seconds: 4.0,
                max_reference_seconds: 30.0,
            },
            languages: languages.map(str::to_owned).to_vec(),
        }
    }
}
