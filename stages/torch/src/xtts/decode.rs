//! The prefix of decoding, and the hidden states for the waveform decoder.
//!
//! The prefix is latents, START, text, STOP, then START of the codes, which has position 0; the
//! code of step k has position k. The original runs the model once more over the finished codes,
//! with these positions and without a mask, so the states of this second pass are those of
//! decoding.

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::batch::check_ids;
use super::gpt::Gpt;
use crate::autoregressive::sampler::SamplingOrder;
use crate::autoregressive::{
    self, AttentionMask, CacheShape, Decoder, Draws, KvCache, Line, Noise, OpenRows, PenaltyScope,
    RowMemory, RowRequest, Stop, rows,
};
use crate::error::TorchError;
use crate::nn::layers::Pass;
use crate::runtime::parity::Parity;

/// The number of each prefix column in the original's search for repetition.
const PREFIX_CODE: i64 = 1;

/// Sampling of codes: penalty, temperature, `top_k`, `top_p`, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptSampling {
    pub temperature: f64,
    /// 0 allows all codes.
    pub top_k: i64,
    pub top_p: f64,
    /// 1 is no penalty. Applies to all drawn codes.
    pub repetition_penalty: f64,
}

/// One sentence of a batch.
pub struct GptSentence<'a> {
    /// The conditioning latents of the reference: [latents, C].
    pub latents: &'a Tensor,
    /// Token ids without START and STOP.
    pub text: &'a [i64],
    /// The largest number of codes; never more than the model has positions.
    pub most: usize,
    pub noise: &'a mut dyn Noise,
}

/// The codes of a sentence, including the end if the model gave one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentenceCodes {
    pub codes: Vec<i64>,
    pub stop: Stop,
}

impl Gpt {
    /// Synthesises all sentences; each is the same in any batch, to the bit in f32 on a CPU.
    pub fn speak(
        &self,
        sentences: Vec<GptSentence<'_>>,
        sampling: &GptSampling,
        parity: Parity,
    ) -> Result<Vec<SentenceCodes>, TorchError> {
        let _guard = tch::no_grad_guard();
        let room = self.config.max_generated_tokens() as usize;
        let mut rows = Vec::with_capacity(sentences.len());
        let mut is_cut = Vec::with_capacity(sentences.len());
        for GptSentence { latents, text, most, noise } in sentences {
            let prefix = self.prefix(latents, text)?.squeeze_dim(0);
            rows.push(RowRequest { prefix, most: most.min(room), least: 0, noise });
            is_cut.push(most > room);
        }
        let speaker = GptDecoder { model: self, parity };
        let drawn = autoregressive::generate(&speaker, rows, &sampling.ordered())?;
        let spoken = drawn.into_iter().zip(is_cut).map(|(drawn, is_cut)| {
            let codes = drawn.frames.iter().flatten().copied().collect();
            let stop = match drawn.stop {
                Stop::Limit if is_cut => Stop::Full,
                stop => stop,
            };
            SentenceCodes { codes, stop }
        });
        Ok(spoken.collect())
    }
}

impl GptSampling {
    pub fn check(&self) -> Result<(), TorchError> {
        self.ordered().check()
    }

    fn ordered(&self) -> autoregressive::Sampling {
        let GptSampling { temperature, top_k, top_p, repetition_penalty } = *self;
        autoregressive::Sampling {
            order: SamplingOrder::Transformers,
            temperature,
            top_k,
            top_p,
            repetition_penalty,
            scope: PenaltyScope::All,
        }
    }
}

/// A model that draws codes.
struct GptDecoder<'a> {
    model: &'a Gpt,
    parity: Parity,
}

/// The caches of the blocks for the rows of a batch.
pub(super) struct GptCaches {
    cache: KvCache,
    /// The number of codes that each row has processed.
    steps: i64,
}

impl RowMemory for GptCaches {
    fn keep(&mut self, rows: &OpenRows) {
        self.cache.keep(rows);
    }
}

impl Gpt {
    /// Runs prefixes, [T, C] each, and reserves more columns: the states of their last ones, [B,
    /// C].
    pub(super) fn prefill(&self, prefixes: &[&Tensor], steps: i64) -> (GptCaches, Tensor) {
        let lengths: Vec<i64> = prefixes.iter().map(|prefix| prefix.size()[0]).collect();
        let (heads, width) = (self.config.heads, self.config.width / self.config.heads);
        let shape = CacheShape { layers: self.gpt.h.len(), heads, width };
        let cache = KvCache::new(shape, &lengths, steps, (self.kind(), self.device()));
        let state = |(row, prefix): (usize, &&Tensor)| {
            let states = self.gpt.prefill(&prefix.unsqueeze(0), &cache, row);
            states.narrow(1, lengths[row] - 1, 1).squeeze_dim(1)
        };
        let states: Vec<Tensor> = prefixes.iter().enumerate().map(state).collect();
        (GptCaches { cache, steps: 0 }, Tensor::cat(&states, 0))
    }

    /// The states after one more code of each row: [B, 1] to [B, C].
    pub(super) fn follow(&self, codes: &Tensor, caches: &mut GptCaches) -> Tensor {
        caches.steps += 1;
        caches.cache.grow();
        let x = self.embed_audio(codes, &self.positions(caches.steps, 1));
        self.gpt.step(&x, &caches.cache).squeeze_dim(1)
    }

    /// Logits over the codes, from states of few rows: [B, C].
    pub(super) fn step_logits(&self, states: &Tensor) -> Tensor {
        let normed = rows::layer_norm(&self.gpt.ln_f, states);
        rows::linear(&self.mel_head, &rows::layer_norm(&self.final_norm, &normed))
    }
}

impl Decoder for GptDecoder<'_> {
    /// Embeddings: [T, C].
    type Prefix = Tensor;
    type Memory = GptCaches;

    fn device(&self) -> Device {
        self.model.device()
    }

    fn width(&self) -> i64 {
        1
    }

    fn lines(&self) -> Vec<Line> {
        let already = match self.parity {
            Parity::Correct => Vec::new(),
            // The original penalises these codes from the beginning.
            Parity::Upstream => vec![PREFIX_CODE, self.model.config.start_audio_token],
        };
        vec![Line { ends: true, already, ..Line::of(self.model.config.audio_tokens) }]
    }

    fn begin(&self, prefixes: &[&Tensor], steps: i64) -> (GptCaches, Tensor) {
        self.model.prefill(prefixes, steps)
    }

    fn frame(&self, state: &Tensor, _: &mut GptCaches, draws: &Draws) -> Tensor {
        draws.draw(0, &self.model.step_logits(state)).unsqueeze(1)
    }

    fn step(&self, frame: &Tensor, caches: &mut GptCaches) -> Tensor {
        self.model.follow(frame, caches)
    }

    fn is_end(&self, frame: &[i64]) -> bool {
        frame.first() == Some(&self.model.config.stop_audio_token)
    }
}

impl Gpt {
    /// The embeddings before the first code: of latents, [latents, C], and of the tokens of a text,
    /// [1, T, C].
    pub fn prefix(&self, latents: &Tensor, text: &[i64]) -> Result<Tensor, TorchError> {
        let config = &self.config;
        check_ids("", "text tokens", text, config.text_tokens, config.max_text_tokens)?;
        if latents.size() != [config.latents, config.width] {
            return Err(TorchError::Input(format!(
                "latents of {:?}, expected [{}, {}]",
                latents.size(),
                config.latents,
                config.width
            )));
        }
        let mut ids = vec![config.start_text_token];
        ids.extend(text);
        ids.push(config.stop_text_token);
        let text = self.embed_text(&self.ids(&ids), &self.positions(0, ids.len()));
        let start = self.ids(&[config.start_audio_token]);
        let start = self.embed_audio(&start, &self.positions(0, 1));
        let latents = latents.to_device(self.device()).to_kind(self.kind());
        Ok(Tensor::cat(&[latents, text, start], 0).unsqueeze(0))
    }

    /// The states that codes were drawn from, after both norms: [codes, C]. One per code; the end
    /// counts as one if it is among them.
    pub fn hidden_states(
        &self,
        latents: &Tensor,
        text: &[i64],
        codes: &[i64],
    ) -> Result<Tensor, TorchError> {
        let _guard = tch::no_grad_guard();
        let config = &self.config;
        check_ids("", "codes", codes, config.audio_tokens, config.max_generated_tokens())?;
        let prefix = self.prefix(latents, text)?;
        let before = codes.len().saturating_sub(1);
        let later = self.embed_audio(&self.ids(&codes[..before]), &self.positions(1, before));
        let x = Tensor::cat(&[prefix, later.unsqueeze(0)], 1);
        let states = self.gpt.forward(&x, &AttentionMask::Causal, Pass::Evaluate);
        let count = codes.len() as i64;
        Ok(self.normed(&states.narrow(1, x.size()[1] - count, count)).squeeze_dim(0))
    }

    fn ids(&self, ids: &[i64]) -> Tensor {
        Tensor::from_slice(ids).to_device(self.device())
    }

    fn positions(&self, first: i64, count: usize) -> Tensor {
        Tensor::arange_start(first, first + count as i64, (Kind::Int64, self.device()))
    }
}
