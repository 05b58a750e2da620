//! Losses and gradients of the GPT, with as little memory as possible.
//!
//! The conditioning and the blocks run as chains that may recompute their blocks. Only labelled
//! columns go on to the heads, in chunks: logits over the vocabulary never exist as a whole.

use tch::{Kind, Tensor};

use super::batch::{GptBatch, LabelledTokens};
use super::gpt::{Gpt, GptInputs};
use crate::dual_ar::loss::{cross_entropy, in_pieces, over_pieces};
use crate::error::TorchError;
use crate::nn::chain::{Chain, ChainBlock, send_back};
use crate::nn::layers::{Linear, Pass};
use crate::nn::lora::{Adaptable, is_adapter};
use crate::train::{Losses, Means, Phase, Totals, Trainee};

/// The loss of the text and the loss of the codes, both before their weights.
pub const TEXT: &str = "text";
pub const AUDIO: &str = "audio";

/// The weights of the losses.
pub const TEXT_WEIGHT: f64 = 0.01;
pub const AUDIO_WEIGHT: f64 = 1.0;

/// Trade-offs between time and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptMemory {
    /// Keep only the input of each block, and recompute the block for its gradient. On a CPU no bit
    /// depends on it.
    pub recompute: bool,
    /// The number of columns with logits over a vocabulary at a time. Losses and gradients depend on it
    /// by rounding.
    pub positions: i64,
}

impl Default for GptMemory {
    fn default() -> GptMemory {
        GptMemory { recompute: true, positions: 1024 }
    }
}

/// A model in training. The trained tensors are those that require gradients.
#[derive(Debug)]
pub struct GptTrainee {
    model: Gpt,
    memory: GptMemory,
}

impl GptTrainee {
    pub fn new(model: Gpt, memory: GptMemory) -> GptTrainee {
        GptTrainee { model, memory }
    }

    fn chain<'a>(&self, links: Vec<ChainBlock<'a>>) -> Chain<'a> {
        Chain::new(links, self.memory.recompute)
    }

    /// The chain from spectrograms to latents.
    fn conditioning_links(&self, pass: Pass) -> Vec<ChainBlock<'_>> {
        let (encoder, perceiver) =
            (&self.model.conditioning_encoder, &self.model.conditioning_perceiver);
        let init = self.is_trained("gpt.conditioning_encoder.init.");
        let mut links = vec![ChainBlock::new(init, |mel| encoder.init.forward(mel))];
        links.extend(encoder.attn.iter().enumerate().map(|(at, block)| {
            let is_trained = self.is_trained(&format!("gpt.conditioning_encoder.attn.{at}."));
            ChainBlock::new(is_trained, |x| block.forward(x))
        }));
        let is_trained = self.is_trained("gpt.conditioning_perceiver.");
        links.push(ChainBlock::new(is_trained, move |x| perceiver.forward(x, pass)));
        links
    }

    fn block_links<'a>(&'a self, at: &'a GptInputs, pass: Pass) -> Vec<ChainBlock<'a>> {
        let link = |(layer, block): (usize, &'a super::gpt2::Gpt2Block)| {
            let is_trained = self.is_trained(&format!("gpt.gpt.h.{layer}."));
            ChainBlock::new(is_trained, move |x| block.forward(x, &at.mask, pass))
        };
        self.model.gpt.h.iter().enumerate().map(link).collect()
    }

    /// Tests if any tensor of a module is trained.
    fn is_trained(&self, prefix: &str) -> bool {
        let mut tensors = self.model.tensors.iter();
        tensors.any(|(name, tensor)| name.starts_with(prefix) && tensor.requires_grad())
    }

    /// The backward pass of both losses; returns their sums and the gradient of the states, [B * T,
    /// C].
    fn derive_heads(
        &self,
        flat: &Tensor,
        at: &GptInputs,
        totals: &Totals,
        pass: Pass,
    ) -> (Losses, Tensor) {
        let mut gradient = flat.zeros_like();
        let mut losses = Losses::default();
        for head in self.heads(at) {
            let wanted = flat.index_select(0, &head.tokens.columns);
            let derived = in_pieces(
                &wanted,
                &head.tokens.labels,
                self.memory.positions,
                |x, labels| cross_entropy(&self.model.logits(head.output, x, pass), labels),
                head.weight * totals.weight(head.name),
            );
            let _ = gradient.index_add_(0, &head.tokens.columns, &derived.gradient);
            losses = losses.with(head.name, &derived.sum);
        }
        (losses, gradient)
    }

    fn heads<'a>(&'a self, at: &'a GptInputs) -> [Head<'a>; 2] {
        let (text, audio) = (&self.model.text_head, &self.model.mel_head);
        [
            Head { name: TEXT, weight: TEXT_WEIGHT, tokens: &at.text, output: text },
            Head { name: AUDIO, weight: AUDIO_WEIGHT, tokens: &at.audio, output: audio },
        ]
    }
}

/// One of the losses: its weight, its labels, and its head.
struct Head<'a> {
    name: &'static str,
    weight: f64,
    tokens: &'a LabelledTokens<Tensor>,
    output: &'a Linear,
}

impl Trainee for GptTrainee {
    type Batch = GptBatch;
    type Network = Gpt;

    fn network(&self) -> &Gpt {
        &self.model
    }

    fn network_mut(&mut self) -> &mut Gpt {
        &mut self.model
    }

    fn frozen(&self) -> Vec<(String, Tensor)> {
        self.model.frozen()
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        self.model.tensors.shared(|_, tensor| tensor.requires_grad())
    }

    /// Biases, norms and embeddings have no weight decay. The latents and the last norm of the
    /// perceiver do: the original detects norms by their type, and that one has its own type.
    fn decays(name: &str, _: &Tensor) -> bool {
        if is_adapter(name) {
            return true;
        }
        let is_norm = |part: &str| ["ln_1", "ln_2", "ln_f", "final_norm", "norm"].contains(&part);
        let is_table = |part: &str| part.ends_with("_embedding");
        match name.rsplit_once('.') {
            Some((module, "weight")) => {
                !module.split('.').any(|part| is_norm(part) || is_table(part))
            }
            Some((_, "bias")) => false,
            _ => true,
        }
    }

    fn accumulate(&mut self, batch: &GptBatch, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        let pass = Pass::Train { seed: phase.seed };
        let at = self.model.place(batch);
        let conditioning = self.chain(self.conditioning_links(pass));
        let conditioned = conditioning.forward(&at.mels);
        let latents = conditioned.output().set_requires_grad(conditioning.is_trained());
        let x = self.model.embed(&latents, &at, pass);
        let blocks = self.chain(self.block_links(&at, pass));
        let forward = blocks.forward(&x);
        let states = forward.output();
        let (losses, gradient) = self.derive_heads(&states.flatten(0, 1), &at, phase.totals, pass);
        if let Some(gradient) = blocks.backward(forward, &gradient.view_as(&states)) {
            send_back(&x, &gradient);
        }
        if latents.requires_grad() {
            conditioning.backward(conditioned, &latents.grad());
        }
        Ok(losses)
    }

    fn evaluate(&self, batch: &GptBatch) -> Result<Losses, TorchError> {
        let _guard = tch::no_grad_guard();
        let at = self.model.place(batch);
        let states = self.model.states(&at, Pass::Evaluate);
        let flat = states.flatten(0, 1);
        let sum = |head: &Head| {
            let wanted = flat.index_select(0, &head.tokens.columns);
            over_pieces(&wanted, &head.tokens.labels, self.memory.positions, |x, labels| {
                cross_entropy(&self.model.logits(head.output, x, Pass::Evaluate), labels)
            })
        };
        Ok(self.heads(&at).iter().fold(Losses::default(), |losses, head| {
            losses.with(head.name, &sum(head).to_kind(Kind::Float))
        }))
    }

    fn count(batch: &GptBatch) -> Totals {
        let [text, audio] = batch.labels().map(|count| count as u64);
        Totals::new(&[(TEXT, text), (AUDIO, audio)])
    }

    fn total(&self, means: &Means) -> f64 {
        let part = |name, weight| means.of(name).map_or(0.0, |mean| weight * mean);
        part(TEXT, TEXT_WEIGHT) + part(AUDIO, AUDIO_WEIGHT)
    }
}
