//! The model itself: its tensors, and the forward passes of both stacks.

use serde::Deserialize;
use tch::{Device, IndexOp, Kind, Tensor};

use super::block::TransformerBlock;
use crate::autoregressive::AttentionMask;
use crate::error::TorchError;
use crate::nn::layers::{Embedding, Linear, Pass, RmsNorm};
use crate::nn::lora::{Adaptable, AdaptableLayer};
use crate::nn::random::Random;
use crate::nn::rope::{Rope, Rotary};
use crate::nn::weights::{Scope, Weights};
use crate::runtime::parity::Parity;
use stage_families::dual_ar::{DualArConfig, Stack};

/// The special tokens of the model, which only the tokenizer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SpecialTokens {
    /// Entry 0 of the first codebook; the others follow.
    pub semantic_begin: i64,
    /// Ends the speech.
    pub im_end: i64,
}

/// The embeddings of words, by their name.
pub(crate) const WORDS: &str = "embeddings";

/// The names of the fields are those of the tensors.
#[derive(Debug)]
pub struct DualAr {
    pub(crate) config: DualArConfig,
    /// All of its tensors, by name.
    pub(crate) tensors: Weights,
    pub(crate) tokens: SpecialTokens,
    pub(crate) parity: Parity,
    pub(crate) embeddings: Embedding,
    pub(crate) codebook_embeddings: Embedding,
    pub(crate) layers: Vec<TransformerBlock>,
    pub(crate) norm: RmsNorm,
    /// None if the output shares the embeddings (weight tying).
    pub(crate) output: Option<Linear>,
    pub(crate) fast_project_in: Option<Linear>,
    pub(crate) fast_embeddings: Embedding,
    pub(crate) fast_layers: Vec<TransformerBlock>,
    pub(crate) fast_norm: RmsNorm,
    pub(crate) fast_output: Linear,
    rope: Rope,
    fast_rope: Rope,
}

/// The positions of the columns of a batch, and their attention mask.
pub struct AttentionLayout {
    pub rotary: Rotary,
    pub mask: AttentionMask,
}

impl DualAr {
    /// Takes the tensors, which must be complete without extra ones. Older files have queries, keys
    /// and values separate.
    pub fn load(
        config: DualArConfig,
        tokens: SpecialTokens,
        weights: Weights,
    ) -> Result<DualAr, TorchError> {
        let semantic_end = tokens.semantic_begin + config.codebook_size;
        if tokens.semantic_begin < 0 || semantic_end > config.vocab_size {
            return Err(TorchError::Model(format!(
                "the semantic tokens {} to {semantic_end} do not fit into a vocabulary of {}: \
                 check that the tokenizer belongs to this model",
                tokens.semantic_begin, config.vocab_size
            )));
        }
        let mut weights = joined(weights);
        weights.check(&config.tensors())?;
        let tensors = weights.shared(|_, _| true).into_iter().collect();
        let device = weights.iter().next().map_or(Device::Cpu, |(_, tensor)| tensor.device());
        let DualArConfig { vocab_size, codebook_size, num_codebooks, norm_eps, .. } = config;
        let (slow, fast) = (config.slow, config.fast);
        let mut linear = |name: &str, inputs, outputs, bias| {
            Linear::load(&mut weights.under(name), inputs, outputs, bias)
        };
        let output = (!config.tie_word_embeddings)
            .then(|| linear("output", slow.dim, vocab_size, false))
            .transpose()?;
        let fast_project_in = (config.projects())
            .then(|| linear("fast_project_in", slow.dim, fast.dim, true))
            .transpose()?;
        let fast_output = linear("fast_output", fast.dim, codebook_size, false)?;
        let mut embedding =
            |name: &str, rows, width| Embedding::load(&mut weights.under(name), rows, width);
        Ok(DualAr {
            embeddings: embedding("embeddings", vocab_size, slow.dim)?,
            codebook_embeddings: embedding(
                "codebook_embeddings",
                codebook_size * num_codebooks,
                slow.dim,
            )?,
            fast_embeddings: embedding("fast_embeddings", codebook_size, fast.dim)?,
            layers: blocks(&mut weights.under("layers"), &slow, norm_eps)?,
            norm: RmsNorm::load(&mut weights.under("norm"), slow.dim, norm_eps)?,
            fast_layers: blocks(&mut weights.under("fast_layers"), &fast, norm_eps)?,
            fast_norm: RmsNorm::load(&mut weights.under("fast_norm"), fast.dim, norm_eps)?,
            rope: Rope::new(config.max_seq_len, slow.head_dim, config.rope_base, device),
            fast_rope: Rope::new(num_codebooks, fast.head_dim, config.rope_base, device),
            output,
            fast_project_in,
            fast_output,
            config,
            tensors,
            tokens,
            parity: Parity::Correct,
        })
    }

    /// Random weights: normal, biases zero, norms one. The same seed gives the same ones on every
    /// machine.
    pub fn fresh(config: &DualArConfig, seed: u64) -> Weights {
        let mut random = Random::new(seed);
        let fill = |(name, shape): (String, Vec<i64>)| {
            let options = (Kind::Float, Device::Cpu);
            let tensor = match name.rsplit('.').next() {
                Some("bias") => Tensor::zeros(&shape, options),
                _ if shape.len() == 1 => Tensor::ones(&shape, options),
                _ => random.normal(&shape, config.initializer_range),
            };
            (name, tensor)
        };
        config.tensors().into_iter().map(fill).collect()
    }

    pub fn with_parity(mut self, parity: Parity) -> DualAr {
        self.parity = parity;
        self
    }

    pub fn parity(&self) -> Parity {
        self.parity
    }

    pub fn config(&self) -> &DualArConfig {
        &self.config
    }

    pub fn tokens(&self) -> SpecialTokens {
        self.tokens
    }

    pub fn device(&self) -> Device {
        self.embeddings.weight.device()
    }

    pub fn kind(&self) -> Kind {
        self.embeddings.weight.kind()
    }

    /// [B, 1 + K, T] of tokens and codes to [B, T, C]. At frames the embeddings of all codes are
    /// added, and with `scaled` the sum keeps the scale of a single one.
    pub fn embed(&self, columns: &Tensor, scaled: bool) -> Tensor {
        let codebooks = self.config.num_codebooks;
        let tokens = columns.i((.., 0));
        let is_frame = self.is_semantic(&tokens);
        let x = self.embeddings.forward(&tokens);
        let (batch, length, dim) = (x.size()[0], x.size()[1], x.size()[2]);
        // Codes are only looked up for frames; text has none.
        let frames = is_frame.view(-1).nonzero().squeeze_dim(1);
        let codes = columns.narrow(1, 1, codebooks).transpose(1, 2).reshape([-1, codebooks]);
        let size = self.config.codebook_size;
        let options = (Kind::Int64, columns.device());
        let rows = codes.index_select(0, &frames) + Tensor::arange(codebooks, options) * size;
        let sums =
            self.codebook_embeddings.forward(&rows).sum_dim_intlist([1i64].as_slice(), false, None);
        let x = x.view([-1, dim]).index_add(0, &frames, &sums).view([batch, length, dim]);
        if scaled && self.config.scale_codebook_embeddings {
            let root = ((codebooks + 1) as f64).sqrt();
            // In f32: rounded to half precision, the root would scale every frame by 0.1 %.
            let ones = Tensor::ones([batch, length, 1], (Kind::Float, x.device()));
            let scaled = &x / ones.masked_fill(&is_frame.unsqueeze(-1), root);
            scaled.to_kind(x.kind())
        } else {
            x
        }
    }

    pub fn is_semantic(&self, tokens: &Tensor) -> Tensor {
        let begin = self.tokens.semantic_begin;
        tokens.ge(begin).logical_and(&tokens.lt(begin + self.config.codebook_size))
    }

    /// Rows of `length` columns with causal attention.
    pub fn causal(&self, length: i64) -> AttentionLayout {
        AttentionLayout { rotary: self.rope.range(0, length), mask: AttentionMask::Causal }
    }

    /// For columns at arbitrary positions: [B, T].
    pub fn rotary(&self, positions: &Tensor) -> Rotary {
        self.rope.at(positions)
    }

    /// For positions within a frame: [B, T].
    pub(crate) fn fast_rotary(&self, places: &Tensor) -> Rotary {
        self.fast_rope.at(places)
    }

    /// All slow layers: [B, T, C] to the hidden state before the last norm.
    pub fn slow(&self, x: &Tensor, layout: &AttentionLayout, pass: Pass) -> Tensor {
        let step = |x: Tensor, block: &TransformerBlock| {
            block.forward(&x, &layout.rotary, &layout.mask, pass)
        };
        self.layers.iter().fold(x.shallow_clone(), step)
    }

    /// Logits over the vocabulary, from states.
    pub fn logits(&self, states: &Tensor, pass: Pass) -> Tensor {
        let normed = self.norm.forward(states);
        match &self.output {
            Some(output) => output.forward(&normed, pass),
            None => normed.linear(&self.embeddings.weight, None::<&Tensor>),
        }
    }

    /// The input of the fast layers for a state: [.., C] to [.., C of the fast layers].
    pub fn hand_over(&self, states: &Tensor, pass: Pass) -> Tensor {
        let states = if self.config.norm_fastlayer_input {
            self.norm.forward(states)
        } else {
            states.shallow_clone()
        };
        match &self.fast_project_in {
            Some(project) => project.forward(&states, pass),
            None => states,
        }
    }

    /// The inputs of the fast layers: the states that predict N frames, [N, C], and the codes of
    /// these frames except the last, [N, K].
    pub fn fast_inputs(&self, states: &Tensor, codes: &Tensor, pass: Pass) -> Tensor {
        let codes = codes.narrow(1, 0, self.config.num_codebooks - 1);
        let first = self.hand_over(states, pass).unsqueeze(1);
        Tensor::cat(&[first, self.fast_embeddings.forward(&codes)], 1)
    }

    /// The positions of a frame, with causal attention.
    pub fn within_frames(&self) -> AttentionLayout {
        let rotary = self.fast_rope.range(0, self.config.num_codebooks);
        AttentionLayout { rotary, mask: AttentionMask::Causal }
    }

    /// All fast layers: [N, K, C] to the same.
    pub fn fast(&self, x: &Tensor, pass: Pass) -> Tensor {
        let AttentionLayout { rotary, mask } = self.within_frames();
        let step = |x: Tensor, block: &TransformerBlock| block.forward(&x, &rotary, &mask, pass);
        self.fast_layers.iter().fold(x.shallow_clone(), step)
    }

    /// Logits over the entries of the codebooks: [N, K, C] to [N, K, entries].
    pub fn fast_logits(&self, x: &Tensor, pass: Pass) -> Tensor {
        self.fast_output.forward(&self.fast_norm.forward(x), pass)
    }
}

impl Adaptable for DualAr {
    fn layers(&mut self) -> Vec<(String, AdaptableLayer<'_>)> {
        let mut found = Vec::new();
        let stacks = [("layers", &mut self.layers), ("fast_layers", &mut self.fast_layers)];
        for (stack, blocks) in stacks {
            for (at, block) in blocks.iter_mut().enumerate() {
                let TransformerBlock { attention, feed_forward, .. } = block;
                for (name, linear) in [
                    ("attention.wqkv", &mut attention.wqkv),
                    ("attention.wo", &mut attention.wo),
                    ("feed_forward.w1", &mut feed_forward.w1),
                    ("feed_forward.w2", &mut feed_forward.w2),
                    ("feed_forward.w3", &mut feed_forward.w3),
                ] {
                    found.push((format!("{stack}.{at}.{name}"), AdaptableLayer::Linear(linear)));
                }
            }
        }
        for (name, table) in [
            ("embeddings", &mut self.embeddings),
            ("codebook_embeddings", &mut self.codebook_embeddings),
            ("fast_embeddings", &mut self.fast_embeddings),
        ] {
            found.push((name.to_owned(), AdaptableLayer::Embedding(table)));
        }
        let outputs =
            [("output", self.output.as_mut()), ("fast_output", Some(&mut self.fast_output))];
        for (name, linear) in outputs {
            found.extend(linear.map(|linear| (name.to_owned(), AdaptableLayer::Linear(linear))));
        }
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

fn blocks(scope: &mut Scope, stack: &Stack, eps: f64) -> Result<Vec<TransformerBlock>, TorchError> {
    (0..stack.layers)
        .map(|at| TransformerBlock::load(&mut scope.under(&at.to_string()), stack, eps))
        .collect()
}

/// Concatenates `wq`, `wk` and `wv` to the fused tensor of newer files.
fn joined(mut weights: Weights) -> Weights {
    let apart: Vec<String> = weights
        .names()
        .filter_map(|name| name.strip_suffix("wq.weight"))
        .map(str::to_owned)
        .collect();
    for prefix in apart {
        let parts =
            ["wq", "wk", "wv"].map(|part| weights.remove(&format!("{prefix}{part}.weight")));
        let parts: Vec<Tensor> = parts.into_iter().flatten().collect();
        weights.insert(format!("{prefix}wqkv.weight"), Tensor::cat(&parts, 0));
    }
    weights
}
