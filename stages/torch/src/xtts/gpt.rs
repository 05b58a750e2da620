//! The GPT of XTTS v2: embeddings of text and codes, the conditioning before them, GPT-2 over all,
//! and an output head for each.

use tch::{Device, Kind, Tensor};

use super::batch::{GptBatch, LabelledTokens};
use super::conditioning_encoder::ConditioningEncoder;
use super::gpt2::{Gpt2, Gpt2Dropout};
use super::perceiver::Perceiver;
use crate::autoregressive::AttentionMask;
use crate::error::TorchError;
use crate::nn::layers::{Embedding, LayerNorm, Linear, Pass};
use crate::nn::lora;
use crate::nn::weights::{Weights, check_finite};
use crate::runtime::upload::{upload, upload_all};
use stage_families::xtts::{GptConfig, is_duplicate};

/// The dropout stream after the embeddings; those of the blocks begin at 0.
const EMBEDDING_DROPOUT: u64 = u64::MAX;

/// The names of the fields are those of the tensors.
#[derive(Debug)]
pub struct Gpt {
    pub(super) config: GptConfig,
    /// All of its tensors, by name.
    pub(super) tensors: Weights,
    pub(super) conditioning_encoder: ConditioningEncoder,
    pub(super) conditioning_perceiver: Perceiver,
    pub(super) text_embedding: Embedding,
    pub(super) mel_embedding: Embedding,
    pub(super) text_pos_embedding: Embedding,
    pub(super) mel_pos_embedding: Embedding,
    pub(super) gpt: Gpt2,
    pub(super) final_norm: LayerNorm,
    pub(super) text_head: Linear,
    pub(super) mel_head: Linear,
    embedding_dropout: Gpt2Dropout,
}

/// A batch on the device of the model.
pub(super) struct GptInputs {
    /// [B, mels, frames].
    pub(super) mels: Tensor,
    pub(super) text: LabelledTokens<Tensor>,
    pub(super) audio: LabelledTokens<Tensor>,
    /// [B * columns].
    sources: Tensor,
    size: [i64; 2],
    pub(super) mask: AttentionMask,
}

impl Gpt {
    /// Takes the tensors `gpt.*`, which must be complete without extra ones. Copies for decoding in
    /// older files are dropped.
    pub fn load(config: &GptConfig, weights: Weights) -> Result<Gpt, TorchError> {
        let mut weights = weights.filtered(|name| !is_duplicate(name));
        weights.check(&config.tensors())?;
        weights.iter().try_for_each(|(name, tensor)| check_finite(name, tensor))?;
        let tensors = weights.shared(|_, _| true).into_iter().collect();
        let mut scope = weights.under("gpt");
        let GptConfig { width, text_tokens, audio_tokens, layer_norm_eps, .. } = *config;
        let mut table = |name: &str, rows| Embedding::load(&mut scope.under(name), rows, width);
        Ok(Gpt {
            text_embedding: table("text_embedding", text_tokens)?,
            mel_embedding: table("mel_embedding", audio_tokens)?,
            text_pos_embedding: table("text_pos_embedding.emb", config.text_positions())?,
            mel_pos_embedding: table("mel_pos_embedding.emb", config.audio_positions())?,
            conditioning_encoder: ConditioningEncoder::load(
                &mut scope.under("conditioning_encoder"),
                config,
            )?,
            conditioning_perceiver: Perceiver::load(
                &mut scope.under("conditioning_perceiver"),
                config,
            )?,
            gpt: Gpt2::load(&mut scope.under("gpt"), config)?,
            final_norm: LayerNorm::load(&mut scope.under("final_norm"), width, layer_norm_eps)?,
            text_head: Linear::load(&mut scope.under("text_head"), width, text_tokens, true)?,
            mel_head: Linear::load(&mut scope.under("mel_head"), width, audio_tokens, true)?,
            embedding_dropout: Gpt2Dropout::new(config.dropout, EMBEDDING_DROPOUT),
            config: config.clone(),
            tensors,
        })
    }

    /// Sets both dropouts instead of those of the configuration. Without that of attention, a fused
    /// kernel computes it.
    pub fn set_dropout(&mut self, probability: f64, attention: f64) {
        self.embedding_dropout.probability = probability;
        self.gpt.set_dropout(probability, attention);
    }

    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    pub fn device(&self) -> Device {
        self.text_embedding.weight.device()
    }

    pub fn kind(&self) -> Kind {
        self.text_embedding.weight.kind()
    }

    /// The conditioning latents of references: mel spectrograms, [B, mels, frames], to [B, latents,
    /// C].
    pub fn conditioning(&self, mels: &Tensor, pass: Pass) -> Tensor {
        let frames = self.conditioning_encoder.forward(mels);
        self.conditioning_perceiver.forward(&frames, pass)
    }

    /// Text tokens with their positions, any shape of both, to vectors.
    pub(super) fn embed_text(&self, ids: &Tensor, positions: &Tensor) -> Tensor {
        self.text_embedding.forward(ids) + self.text_pos_embedding.forward(positions)
    }

    pub(super) fn embed_audio(&self, ids: &Tensor, positions: &Tensor) -> Tensor {
        self.mel_embedding.forward(ids) + self.mel_pos_embedding.forward(positions)
    }

    /// The input of the blocks: latents, [B, latents, C], and the tokens of a batch, in the order
    /// of its rows, [B, T, C].
    pub(super) fn embed(&self, latents: &Tensor, at: &GptInputs, pass: Pass) -> Tensor {
        let text = self.embed_text(&at.text.ids, &at.text.positions);
        let audio = self.embed_audio(&at.audio.ids, &at.audio.positions);
        let nothing = text.narrow(0, 0, 1).zeros_like();
        let [rows, length] = at.size;
        let all = Tensor::cat(&[latents.flatten(0, 1), text, audio, nothing], 0);
        let x = all.index_select(0, &at.sources).view([rows, length, self.config.width]);
        self.embedding_dropout.forward(&x, pass)
    }

    /// The states of a batch before the norms: [B, T, C].
    pub(super) fn states(&self, at: &GptInputs, pass: Pass) -> Tensor {
        let latents = self.conditioning(&at.mels, pass);
        self.gpt.forward(&self.embed(&latents, at, pass), &at.mask, pass)
    }

    /// The input of the heads and of the waveform decoder: both norms, one after the other.
    pub fn normed(&self, x: &Tensor) -> Tensor {
        self.final_norm.forward(&self.gpt.ln_f.forward(x))
    }

    /// Logits of a head, from states before the norms.
    pub(super) fn logits(&self, head: &Linear, x: &Tensor, pass: Pass) -> Tensor {
        head.forward(&self.normed(x), pass)
    }

    pub(super) fn place(&self, batch: &GptBatch) -> GptInputs {
        let device = self.device();
        let numbers = |values: &[i64]| upload_all(values, device);
        let size = [batch.rows as i64, batch.length as i64];
        let mels = Tensor::from_slice(&batch.mels).view([size[0], self.config.mels, -1]);
        let mask = match &batch.seen {
            Some(seen) => AttentionMask::Explicit(upload(&mask(seen, size), device)),
            None => AttentionMask::Causal,
        };
        let (text, audio) = (batch.text.each(numbers), batch.audio.each(numbers));
        let mels = upload(&mels, device).to_kind(self.kind());
        let sources = numbers(&batch.sources);
        GptInputs { mels, text, audio, sources, size, mask }
    }
}

/// True for attended columns, previous and own: [B, 1, T, T].
fn mask(seen: &[bool], [rows, length]: [i64; 2]) -> Tensor {
    let seen = Tensor::from_slice(seen).view([rows, 1, 1, length]);
    let past = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).tril(0);
    past.logical_and(&seen)
}

impl lora::Adaptable for Gpt {
    /// The projections of the blocks and of the perceiver, the token embeddings, and the heads.
    fn layers(&mut self) -> Vec<(String, lora::AdaptableLayer<'_>)> {
        let mut found = Vec::new();
        for (at, block) in self.gpt.h.iter_mut().enumerate() {
            for (name, layer) in block.layers() {
                found.push((format!("gpt.gpt.h.{at}.{name}"), lora::AdaptableLayer::Conv1D(layer)));
            }
        }
        for (at, layer) in self.conditioning_perceiver.layers.iter_mut().enumerate() {
            for (name, layer) in layer.layers() {
                let name = format!("gpt.conditioning_perceiver.layers.{at}.{name}");
                found.push((name, lora::AdaptableLayer::Linear(layer)));
            }
        }
        let tables = [
            ("gpt.text_embedding", &mut self.text_embedding),
            ("gpt.mel_embedding", &mut self.mel_embedding),
        ];
        found.extend(
            tables.map(|(name, table)| (name.to_owned(), lora::AdaptableLayer::Embedding(table))),
        );
        let heads = [("gpt.text_head", &mut self.text_head), ("gpt.mel_head", &mut self.mel_head)];
        found.extend(
            heads.map(|(name, head)| (name.to_owned(), lora::AdaptableLayer::Linear(head))),
        );
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }

    fn weights(&self) -> &Weights {
        &self.tensors
    }

    fn weights_mut(&mut self) -> &mut Weights {
        &mut self.tensors
    }
}
