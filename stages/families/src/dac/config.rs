//! The sizes of a Fish codec. Missing values are those of the codec of openaudio-s1-mini.

use serde::{Deserialize, Serialize};
use stage_formats::FormatError;

/// Channels per head of the encoder's transformers, which determines the number of heads.
const ENCODER_HEAD: i64 = 64;
/// The number of frames that go through the convolutions at a time on the CPU, where a chunk stays in
/// the caches.
pub const CPU_PIECE: i64 = 8;
const FLOAT: i64 = 4;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DacConfig {
    pub sample_rate: u32,
    /// Channels after the first convolution; each encoder block doubles them.
    pub encoder_dim: i64,
    pub encoder_rates: Vec<i64>,
    /// Layers of the transformer at the end of each encoder block.
    pub encoder_transformer_layers: Vec<i64>,
    pub encoder_transformer: EncoderTransformer,
    /// Channels between encoder, quantizer and decoder.
    pub latent_dim: i64,
    /// Channels after the decoder's first convolution; each decoder block halves them.
    pub decoder_dim: i64,
    pub decoder_rates: Vec<i64>,
    pub quantizer: Quantizer,
}

/// The common settings of the encoder's transformers; the rest follows from their channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncoderTransformer {
    pub block_size: i64,
    pub head_dim: i64,
    pub window_size: i64,
    pub rope_base: f64,
    pub norm_eps: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quantizer {
    pub semantic_codebook_size: i64,
    /// Codebooks after the semantic one.
    pub n_codebooks: i64,
    pub codebook_size: i64,
    pub codebook_dim: i64,
    pub downsample_factor: Vec<i64>,
    pub pre_module: Transformer,
    pub post_module: Transformer,
}

/// A stack of pre-norm layers with causal attention within a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transformer {
    /// The longest input: position tables end there.
    pub block_size: i64,
    pub n_layer: i64,
    pub n_head: i64,
    pub head_dim: i64,
    pub dim: i64,
    pub intermediate_size: i64,
    /// A position attends to itself and the previous ones within this window.
    pub window_size: i64,
    pub rope_base: f64,
    pub norm_eps: f64,
}

impl Default for DacConfig {
    fn default() -> DacConfig {
        DacConfig {
            sample_rate: 44_100,
            encoder_dim: 64,
            encoder_rates: vec![2, 4, 8, 8],
            encoder_transformer_layers: vec![0, 0, 0, 4],
            encoder_transformer: EncoderTransformer::default(),
            latent_dim: 1_024,
            decoder_dim: 1_536,
            decoder_rates: vec![8, 8, 4, 2],
            quantizer: Quantizer::default(),
        }
    }
}

impl Default for EncoderTransformer {
    fn default() -> EncoderTransformer {
        EncoderTransformer {
            block_size: 16_384,
            head_dim: 64,
            window_size: 512,
            rope_base: 10_000.0,
            norm_eps: 1e-5,
        }
    }
}

impl Default for Quantizer {
    fn default() -> Quantizer {
        Quantizer {
            semantic_codebook_size: 4_096,
            n_codebooks: 9,
            codebook_size: 1_024,
            codebook_dim: 8,
            downsample_factor: vec![2, 2],
            pre_module: Transformer::default(),
            post_module: Transformer::default(),
        }
    }
}

impl Default for Transformer {
    fn default() -> Transformer {
        Transformer {
            block_size: 4_096,
            n_layer: 8,
            n_head: 16,
            head_dim: 64,
            dim: 1_024,
            intermediate_size: 3_072,
            window_size: 128,
            rope_base: 10_000.0,
            norm_eps: 1e-5,
        }
    }
}

impl DacConfig {
    pub fn from_json(bytes: &[u8]) -> Result<DacConfig, FormatError> {
        let config: DacConfig =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Refuses impossible sizes, and sizes that this program does not support.
    pub fn check(&self) -> Result<(), FormatError> {
        let quantizer = &self.quantizer;
        let wide = 1..=1 << 20;
        let book = 1..=1 << 16;
        sized("sample_rate", i64::from(self.sample_rate), &wide)?;
        sized("encoder_dim", self.encoder_dim, &wide)?;
        sized("latent_dim", self.latent_dim, &wide)?;
        sized("decoder_dim", self.decoder_dim, &wide)?;
        sized("semantic_codebook_size", quantizer.semantic_codebook_size, &book)?;
        sized("codebook_size", quantizer.codebook_size, &book)?;
        sized("n_codebooks", quantizer.n_codebooks, &(0..=255))?;
        sized("codebook_dim", quantizer.codebook_dim, &book)?;
        for (name, rates) in [
            ("encoder_rates", &self.encoder_rates),
            ("decoder_rates", &self.decoder_rates),
            ("downsample_factor", &quantizer.downsample_factor),
        ] {
            sized(&format!("the length of {name}"), rates.len() as i64, &(1..=8))?;
            rates.iter().try_for_each(|rate| sized(name, *rate, &(1..=64)))?;
        }
        self.check_levels()?;
        for (name, module) in
            [("pre_module", &quantizer.pre_module), ("post_module", &quantizer.post_module)]
        {
            module.check(name)?;
            if module.dim != self.latent_dim {
                return Err(wrong(format!(
                    "{name} has dim {}, but latent_dim is {}",
                    module.dim, self.latent_dim
                )));
            }
        }
        for level in 0..self.encoder_rates.len() {
            self.encoder_module(level)
                .map_or(Ok(()), |module| module.check("encoder_transformer"))?;
        }
        Ok(())
    }

    fn check_levels(&self) -> Result<(), FormatError> {
        let levels = self.encoder_rates.len();
        if self.encoder_transformer_layers.len() != levels {
            let count = self.encoder_transformer_layers.len();
            let text = format!("{count} encoder_transformer_layers for {levels} encoder_rates");
            return Err(wrong(text));
        }
        sized("encoder_dim in the last block", self.encoder_dim << levels, &(1..=1 << 20))?;
        let layers = self.encoder_transformer_layers.iter();
        layers.into_iter().try_for_each(|n| sized("encoder_transformer_layers", *n, &(0..=256)))?;
        if self.decoder_dim >> self.decoder_rates.len() == 0 {
            return Err(wrong("decoder_dim is too small for this number of decoder_rates".into()));
        }
        let encoded =
            self.hop_of(&self.encoder_rates) * self.hop_of(&self.quantizer.downsample_factor);
        let decoded =
            self.hop_of(&self.decoder_rates) * self.hop_of(&self.quantizer.downsample_factor);
        sized("samples a frame", encoded, &(1..=1 << 20))?;
        match encoded == decoded {
            true => Ok(()),
            false => Err(wrong(format!(
                "a frame has {encoded} samples in the encoder, but {decoded} in the decoder"
            ))),
        }
    }

    fn hop_of(&self, rates: &[i64]) -> i64 {
        rates.iter().fold(1, |hop: i64, rate| hop.saturating_mul(*rate))
    }

    /// Samples per step of the encoder's output.
    pub fn encoder_hop(&self) -> i64 {
        self.hop_of(&self.encoder_rates)
    }

    /// Samples per frame of codes.
    pub fn frame(&self) -> i64 {
        self.encoder_hop() * self.steps()
    }

    /// Steps of the encoder's output per frame of codes.
    pub fn steps(&self) -> i64 {
        self.hop_of(&self.quantizer.downsample_factor)
    }

    /// Channels after this number of encoder blocks.
    pub fn encoder_channels(&self, level: usize) -> i64 {
        self.encoder_dim << level
    }

    /// Channels after this number of decoder blocks.
    pub fn decoder_channels(&self, level: usize) -> i64 {
        self.decoder_dim >> level
    }

    /// The transformer at the end of an encoder block, if there is one.
    pub fn encoder_module(&self, level: usize) -> Option<Transformer> {
        let n_layer = *self.encoder_transformer_layers.get(level)?;
        let shared = &self.encoder_transformer;
        let dim = self.encoder_channels(level + 1);
        (n_layer > 0).then(|| Transformer {
            block_size: shared.block_size,
            n_layer,
            n_head: dim / ENCODER_HEAD,
            head_dim: shared.head_dim,
            dim,
            intermediate_size: 3 * dim,
            window_size: shared.window_size,
            rope_base: shared.rope_base,
            norm_eps: shared.norm_eps,
        })
    }

    /// The largest number of frames in the position tables.
    pub fn longest(&self) -> i64 {
        let quantizer = &self.quantizer;
        let mut frames = quantizer.pre_module.block_size.min(quantizer.post_module.block_size);
        let mut hop = 1;
        for (level, rate) in self.encoder_rates.iter().enumerate() {
            hop *= rate;
            if let Some(module) = self.encoder_module(level) {
                frames = frames.min(module.block_size * hop / self.frame());
            }
        }
        frames
    }

    /// The approximate memory in bytes of encoding a clip of this number of frames in chunks of at
    /// most this number of frames.
    pub fn encode_bytes(&self, frames: i64, piece: i64) -> u64 {
        // An input, its padded copy, the input of a non-linearity, and an output.
        const TENSORS: i64 = 4;
        let levels = self.encoder_rates.len();
        let is_whole = |level: &usize| self.encoder_module(*level).is_some();
        let first = (0..levels).find(is_whole).unwrap_or(levels);
        // Channels and samples per step before each level, of the widest one of either part.
        let hop = |level: usize| self.hop_of(&self.encoder_rates[..level]);
        let width = |level: usize| self.encoder_channels(level) * self.frame() / hop(level);
        let widest = |levels: std::ops::Range<usize>| levels.map(width).max().unwrap_or(0);
        // Inside a transformer layer a step is about six times as wide as between layers.
        let whole = widest(first..levels).max(6 * self.latent_dim * self.steps());
        let floats = widest(0..first) * piece.min(frames) + whole * frames;
        (TENSORS * FLOAT).saturating_mul(floats) as u64
    }

    /// The same for a thread of the CPU, which encodes one clip at a time: a convolution also copies
    /// its weights, in another order.
    pub fn encode_bytes_of_thread(&self, frames: i64) -> u64 {
        // A kernel spans two steps of its output.
        let values = |(level, rate): (usize, &i64)| {
            2 * rate * self.encoder_channels(level) * self.encoder_channels(level + 1)
        };
        let widest = self.encoder_rates.iter().enumerate().map(values).max().unwrap_or(0);
        self.encode_bytes(frames, CPU_PIECE).saturating_add(FLOAT.saturating_mul(widest) as u64)
    }

    /// The number of entries of each codebook.
    pub fn entries(&self) -> Vec<usize> {
        let mut entries = vec![self.quantizer.semantic_codebook_size as usize];
        let others = self.quantizer.n_codebooks as usize;
        entries.extend(std::iter::repeat_n(self.quantizer.codebook_size as usize, others));
        entries
    }
}

impl Transformer {
    fn check(&self, name: &str) -> Result<(), FormatError> {
        let wide = 1..=1 << 20;
        sized(&format!("block_size of {name}"), self.block_size, &wide)?;
        sized(&format!("n_layer of {name}"), self.n_layer, &(1..=256))?;
        sized(&format!("n_head of {name}"), self.n_head, &(1..=1_024))?;
        sized(&format!("head_dim of {name}"), self.head_dim, &(2..=1_024))?;
        sized(&format!("dim of {name}"), self.dim, &wide)?;
        sized(&format!("intermediate_size of {name}"), self.intermediate_size, &wide)?;
        sized(&format!("window_size of {name}"), self.window_size, &wide)?;
        if self.head_dim % 2 != 0 {
            return Err(wrong(format!("head_dim of {name} is odd")));
        }
        let positive = self.rope_base > 0.0 && self.norm_eps >= 0.0;
        match positive && self.rope_base.is_finite() && self.norm_eps.is_finite() {
            true => Ok(()),
            false => Err(wrong(format!("rope_base or norm_eps of {name} is out of range"))),
        }
    }
}

fn sized(name: &str, value: i64, range: &std::ops::RangeInclusive<i64>) -> Result<(), FormatError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(wrong(format!("{name} is {value}, expected {} to {}", range.start(), range.end())))
}

fn wrong(text: String) -> FormatError {
    FormatError::Unsupported { message: format!("its config: {text}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_empty_file_means_the_published_codec() {
        let config = DacConfig::from_json(b"{}").unwrap();
        assert_eq!(config, DacConfig::default());
        assert_eq!((config.encoder_hop(), config.frame()), (512, 2_048));
        assert_eq!(config.longest(), 4_096);
        assert_eq!(config.entries()[..2], [4_096, 1_024]);
    }

    #[test]
    fn what_is_written_is_read() {
        let config = DacConfig { encoder_dim: 8, latent_dim: 128, ..DacConfig::default() };
        let text = serde_json::to_vec(&config).unwrap();
        assert_eq!(serde_json::from_slice::<DacConfig>(&text).unwrap(), config);
    }

    #[test]
    fn sizes_that_make_no_codec_are_refused() {
        let refused = |text: &str| DacConfig::from_json(text.as_bytes()).unwrap_err().to_string();
        for (text, expected) in [
            (r#"{"encoder_dim": 0}"#, "encoder_dim is 0, expected 1 to 1048576"),
            (r#"{"encoder_rates": [2, 4]}"#, "4 encoder_transformer_layers for 2 encoder_rates"),
            (
                r#"{"decoder_rates": [8, 8, 4, 4]}"#,
                "a frame has 2048 samples in the encoder, but 4096 in the decoder",
            ),
            (r#"{"latent_dim": 512}"#, "pre_module has dim 1024, but latent_dim is 512"),
            (
                r#"{"encoder_rates": [9223372036854775807, 2, 2, 2]}"#,
                "encoder_rates is 9223372036854775807, expected 1 to 64",
            ),
            (r#"{"hop": 1}"#, "unknown field `hop`"),
        ] {
            let message = refused(text);
            let start = format!("its config: {expected}");
            assert!(message.starts_with(&start), "{message}");
        }
    }
}
