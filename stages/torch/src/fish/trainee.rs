//! Losses and gradients of the model, with as little memory as possible.
//!
//! The slow layers run as a chain that may recompute its blocks. Only positions with labels
//! continue, in chunks with an immediate backward pass each: neither the logits over the vocabulary
//! nor the states of the fast layers ever exist as a whole.

use tch::{Device, Kind, Tensor};

use crate::autoregressive::{AttentionMask, Spans};
use crate::dual_ar::batch::{AttentionScope, DualArBatch};
use crate::dual_ar::block::TransformerBlock;
use crate::dual_ar::loss::{cross_entropy, in_pieces, over_pieces};
use crate::dual_ar::model::{AttentionLayout, DualAr, WORDS};
use crate::error::TorchError;
use crate::nn::chain::{Chain, ChainBlock, leaf, send_back};
use crate::nn::layers::Pass;
use crate::nn::lora::Adaptable;
use crate::nn::random::scramble;
use crate::runtime::parity::Parity;
use crate::runtime::upload::{upload, upload_all};
use crate::train::{Losses, Phase, Totals, Trainee, adamw};

/// The loss of tokens and the loss of codes.
pub const BASE: &str = "base";
pub const SEMANTIC: &str = "semantic";

/// Trade-offs between time and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualArMemory {
    /// Keep only the input of each block, and recompute the block for its gradient. On a CPU no bit
    /// depends on it.
    pub recompute: bool,
    /// The number of positions with logits over the vocabulary at a time. Losses and gradients
    /// depend on it by rounding, as on the next one.
    pub positions: i64,
    /// The number of frames in the fast layers at a time.
    pub frames: i64,
}

impl Default for DualArMemory {
    fn default() -> DualArMemory {
        DualArMemory { recompute: true, positions: 1024, frames: 1024 }
    }
}

/// A model in training. The trained tensors are those that require gradients.
#[derive(Debug)]
pub struct DualArTrainee {
    model: DualAr,
    memory: DualArMemory,
}

/// A batch on the device of the model.
pub(super) struct DualArInputs {
    pub(super) tokens: Tensor,
    pub(super) layout: AttentionLayout,
    /// The positions with token labels, and these: [P].
    positions: Tensor,
    token_labels: Tensor,
    /// The positions with frame labels, [N], and their codes, [N, K].
    pub(super) frames: Tensor,
    pub(super) codes: Tensor,
}

impl DualArTrainee {
    pub fn new(model: DualAr, memory: DualArMemory) -> Result<DualArTrainee, TorchError> {
        if model.config.dropout > 0.0 {
            Err(TorchError::Model(format!(
                "`config.json`: `dropout` is {}, but attention is trained without dropout: set it \
                 to 0",
                model.config.dropout
            )))
        } else {
            Ok(DualArTrainee { model, memory })
        }
    }

    pub(super) fn place(&self, batch: &DualArBatch) -> Result<DualArInputs, TorchError> {
        let (model, device) = (&self.model, self.model.device());
        let codebooks = model.config.num_codebooks;
        if batch.height != codebooks + 1 {
            let text = format!(
                "the batch has {} lines, which do not fit {codebooks} codebooks",
                batch.height
            );
            return Err(TorchError::Input(text));
        }
        let longest = model.config.max_seq_len;
        if batch.length > longest {
            let text = format!("rows have {} columns, expected at most {longest}", batch.length);
            return Err(TorchError::Input(text));
        }
        let numbers = |values: &[i64]| upload_all(values, device);
        let (positions, token_labels) = batch.token_labels();
        let (frames, codes) = batch.frame_labels();
        Ok(DualArInputs {
            tokens: batch.tokens(device),
            layout: layout(model, batch),
            positions: numbers(&positions),
            token_labels: numbers(&token_labels),
            frames: numbers(&frames),
            codes: numbers(&codes).view([-1, codebooks]),
        })
    }

    /// The original scales the embeddings in generation, but not in training.
    fn scaled(&self) -> bool {
        self.model.parity == Parity::Correct
    }

    fn chain<'a>(&self, links: Vec<ChainBlock<'a>>) -> Chain<'a> {
        Chain::new(links, self.memory.recompute)
    }

    /// Backward pass of the token loss; returns its sum and the gradient of the states.
    fn derive_tokens(
        &self,
        states: &Tensor,
        at: &DualArInputs,
        weight: f64,
        pass: Pass,
    ) -> (Tensor, Tensor) {
        let entropy = |states: &Tensor, labels: &Tensor| {
            cross_entropy(&self.model.logits(states, pass), labels)
        };
        let most = self.memory.positions;
        let derived = in_pieces(states, &at.token_labels, most, entropy, weight);
        (derived.sum, derived.gradient)
    }

    /// Backward pass of the code loss, chunk by chunk through the fast layers.
    fn derive_frames(
        &self,
        states: &Tensor,
        at: &DualArInputs,
        weight: f64,
        seed: u64,
    ) -> (Tensor, Tensor) {
        let mut gradients = vec![states.narrow(0, 0, 0)];
        let mut piece = 0;
        let sum = over_pieces(states, &at.codes, self.memory.frames, |states, codes| {
            piece += 1;
            let pass = Pass::Train { seed: scramble(seed ^ piece) };
            let (sum, gradient) = self.derive_piece(states, codes, weight, pass);
            gradients.push(gradient);
            sum
        });
        (sum, Tensor::cat(&gradients, 0))
    }

    fn derive_piece(
        &self,
        states: &Tensor,
        codes: &Tensor,
        weight: f64,
        pass: Pass,
    ) -> (Tensor, Tensor) {
        let (model, layout) = (&self.model, self.model.within_frames());
        let mut links = vec![ChainBlock::new(true, |x| model.fast_inputs(x, codes, pass))];
        links.extend(links_of(&model.fast_layers, &layout, pass, |_| true));
        let chain = self.chain(links);
        let forward = chain.forward(&leaf(states));
        let x = leaf(&forward.output());
        let sum = frame_entropy(model, &x, codes, pass);
        (&sum * weight).backward();
        let gradient = chain.backward(forward, &x.grad());
        (sum.detach(), gradient.unwrap_or_else(|| states.zeros_like()))
    }
}

impl Trainee for DualArTrainee {
    type Batch = DualArBatch;
    type Network = DualAr;

    fn network(&self) -> &DualAr {
        &self.model
    }

    fn network_mut(&mut self) -> &mut DualAr {
        &mut self.model
    }

    fn frozen(&self) -> Vec<(String, Tensor)> {
        self.model.frozen()
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        self.model.tensors.shared(|_, tensor| tensor.requires_grad())
    }

    /// The embeddings of words and their adapters have no weight decay; those of codes have, as in
    /// the original.
    fn decays(name: &str, parameter: &Tensor) -> bool {
        let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
        adamw::decays(parameter) && module != WORDS
    }

    fn accumulate(&mut self, batch: &DualArBatch, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        let Phase { totals, seed, .. } = *phase;
        let at = self.place(batch)?;
        let pass = Pass::Train { seed };
        let model = &self.model;
        let x = model.embed(&at.tokens, self.scaled());
        let parameters = self.parameters();
        let is_trained = |layer: usize| {
            let prefix = format!("layers.{layer}.");
            parameters.iter().any(|(name, _)| name.starts_with(&prefix))
        };
        let chain = self.chain(links_of(&model.layers, &at.layout, pass, is_trained));
        let forward = chain.forward(&x);
        let states = forward.output();
        let dim = states.size()[2];
        let flat = states.view([-1, dim]);

        let wanted = flat.index_select(0, &at.positions);
        let (base, tokens_grad) = self.derive_tokens(&wanted, &at, totals.weight(BASE), pass);
        let wanted = flat.index_select(0, &at.frames);
        let (semantic, frames_grad) =
            self.derive_frames(&wanted, &at, totals.weight(SEMANTIC), seed);
        drop(wanted);

        let mut gradient = flat.zeros_like();
        let _ = gradient.index_add_(0, &at.positions, &tokens_grad);
        let _ = gradient.index_add_(0, &at.frames, &frames_grad);
        if let Some(gradient) = chain.backward(forward, &gradient.view_as(&states)) {
            send_back(&x, &gradient);
        }
        Ok(Losses::default().with(BASE, &base).with(SEMANTIC, &semantic))
    }

    fn evaluate(&self, batch: &DualArBatch) -> Result<Losses, TorchError> {
        let _guard = tch::no_grad_guard();
        let at = self.place(batch)?;
        let (model, pass) = (&self.model, Pass::Evaluate);
        let states = model.slow(&model.embed(&at.tokens, self.scaled()), &at.layout, pass);
        let flat = states.view([-1, states.size()[2]]);
        let wanted = flat.index_select(0, &at.positions);
        let base = over_pieces(&wanted, &at.token_labels, self.memory.positions, |x, labels| {
            cross_entropy(&model.logits(x, pass), labels)
        });
        let wanted = flat.index_select(0, &at.frames);
        let semantic = over_pieces(&wanted, &at.codes, self.memory.frames, |x, codes| {
            let x = model.fast(&model.fast_inputs(x, codes, pass), pass);
            frame_entropy(model, &x, codes, pass)
        });
        Ok(Losses::default().with(BASE, &base).with(SEMANTIC, &semantic))
    }

    fn count(batch: &DualArBatch) -> Totals {
        let (tokens, codes) = (batch.token_labels().1.len(), batch.frame_labels().1.len());
        Totals::new(&[(BASE, tokens as u64), (SEMANTIC, codes as u64)])
    }
}

fn links_of<'a>(
    blocks: &'a [TransformerBlock],
    layout: &'a AttentionLayout,
    pass: Pass,
    is_trained: impl Fn(usize) -> bool,
) -> Vec<ChainBlock<'a>> {
    let link = |(at, block): (usize, &'a TransformerBlock)| {
        ChainBlock::new(is_trained(at), move |x| {
            block.forward(x, &layout.rotary, &layout.mask, pass)
        })
    };
    blocks.iter().enumerate().map(link).collect()
}

/// The loss of the codes of frames, from the output of the fast layers: [N, K, C].
fn frame_entropy(model: &DualAr, x: &Tensor, codes: &Tensor, pass: Pass) -> Tensor {
    cross_entropy(&model.fast_logits(x, pass).flatten(0, 1), &codes.reshape([-1]))
}

fn layout(model: &DualAr, batch: &DualArBatch) -> AttentionLayout {
    let (rows, length, device) = (batch.rows, batch.length, model.device());
    if let (AttentionScope::Spans(lengths), Some(positions)) = (&batch.scope, batch.positions()) {
        let positions = Tensor::from_slice(&positions).view([rows, length]);
        let rotary = model.rotary(&upload(&positions, device));
        let spans = Spans::new(lengths.clone(), device);
        return AttentionLayout { rotary, mask: AttentionMask::Spans(spans) };
    }
    let mut layout = model.causal(length);
    if let AttentionScope::Padding(padding) = &batch.scope {
        layout.mask = AttentionMask::Explicit(mask(padding, rows, length, device));
    }
    layout
}

/// True for previous non-padding columns: [B, 1, T, T].
fn mask(padding: &[bool], rows: i64, length: i64, device: Device) -> Tensor {
    let padding = Tensor::from_slice(padding).view([rows, 1, 1, length]);
    let past = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).tril(0);
    upload(&past.logical_and(&padding.logical_not()), device)
}
