//! A transformer block of both stacks: attention and a gated feed-forward layer.

use tch::Tensor;

use crate::autoregressive::{AttentionMask, CacheShape, Heads, KvCache, rows};
use crate::error::TorchError;
use crate::nn::layers::{Linear, Pass, RmsNorm, SwiGlu};
use crate::nn::rope::Rotary;
use crate::nn::weights::Scope;
use stage_families::dual_ar::Stack;

#[derive(Debug)]
pub struct TransformerBlock {
    pub attention: DualArAttention,
    pub feed_forward: SwiGlu,
    pub ffn_norm: RmsNorm,
    pub attention_norm: RmsNorm,
}

#[derive(Debug)]
pub struct DualArAttention {
    pub wqkv: Linear,
    pub wo: Linear,
    pub q_norm: Option<RmsNorm>,
    pub k_norm: Option<RmsNorm>,
    stack: Stack,
}

/// The index of a block in the cache of its stack.
#[derive(Clone, Copy, Debug)]
pub struct BlockCache<'a> {
    pub cache: &'a KvCache,
    pub layer: usize,
}

/// The shape of the cache of a stack.
pub fn cache_shape(stack: &Stack) -> CacheShape {
    CacheShape { layers: stack.layers as usize, heads: stack.kv_heads, width: stack.head_dim }
}

impl TransformerBlock {
    pub fn load(
        scope: &mut Scope,
        stack: &Stack,
        eps: f64,
    ) -> Result<TransformerBlock, TorchError> {
        let Stack { dim, intermediate_size, .. } = *stack;
        Ok(TransformerBlock {
            attention: DualArAttention::load(&mut scope.under("attention"), stack, eps)?,
            feed_forward: SwiGlu::load(&mut scope.under("feed_forward"), dim, intermediate_size)?,
            ffn_norm: RmsNorm::load(&mut scope.under("ffn_norm"), dim, eps)?,
            attention_norm: RmsNorm::load(&mut scope.under("attention_norm"), dim, eps)?,
        })
    }

    /// [B, T, C] to the same.
    pub fn forward(&self, x: &Tensor, rotary: &Rotary, mask: &AttentionMask, pass: Pass) -> Tensor {
        let heads = self.attention.heads(&self.attention_norm.forward(x), pass).rotated(rotary);
        self.finish(x, &heads.attend(mask), pass)
    }

    /// The prefix of a row, [1, T, C] to the same; fills the cache.
    pub fn prefill(&self, x: &Tensor, rotary: &Rotary, slot: BlockCache, row: usize) -> Tensor {
        let pass = Pass::Evaluate;
        let heads = self.attention.heads(&self.attention_norm.forward(x), pass).rotated(rotary);
        slot.cache.fill(slot.layer, row, &heads);
        self.finish(x, &heads.attend(&AttentionMask::Causal), pass)
    }

    /// One column of each row, [B, 1, C] to the same, after those in the cache.
    pub fn step(&self, x: &Tensor, rotary: &Rotary, slot: BlockCache) -> Tensor {
        let TransformerBlock { attention, feed_forward, ffn_norm, attention_norm } = self;
        let normed = rows::rms_norm(attention_norm, x);
        let y = slot.cache.attend(slot.layer, &attention.step_heads(&normed, rotary));
        let h = x + rows::linear(&attention.wo, &y);
        let normed = rows::rms_norm(ffn_norm, &h);
        let SwiGlu { w1, w2, w3 } = feed_forward;
        let (gate, x) = (rows::linear(w1, &normed), rows::linear(w3, &normed));
        h + rows::linear(w2, &rows::swiglu(&gate, &x))
    }

    /// `y` is the output of attention for `x`.
    fn finish(&self, x: &Tensor, y: &Tensor, pass: Pass) -> Tensor {
        let h = x + self.attention.wo.forward(y, pass);
        let fed = self.feed_forward.forward(&self.ffn_norm.forward(&h), pass);
        h + fed
    }
}

impl DualArAttention {
    fn load(scope: &mut Scope, stack: &Stack, eps: f64) -> Result<DualArAttention, TorchError> {
        let Stack { dim, heads, head_dim, .. } = *stack;
        let mut norm = |name: &str| {
            let norm = stack.qk_norm.then(|| RmsNorm::load(&mut scope.under(name), head_dim, eps));
            norm.transpose()
        };
        let (q_norm, k_norm) = (norm("q_norm")?, norm("k_norm")?);
        let wqkv = Linear::load(&mut scope.under("wqkv"), dim, stack.qkv(), stack.qkv_bias)?;
        let wo = Linear::load(&mut scope.under("wo"), heads * head_dim, dim, stack.o_bias)?;
        Ok(DualArAttention { wqkv, wo, q_norm, k_norm, stack: *stack })
    }

    /// [B, T, C] projected, split and normed.
    pub fn heads(&self, x: &Tensor, pass: Pass) -> Heads {
        self.split(&self.wqkv.forward(x, pass))
    }

    /// Queries, keys and values of [B, T, all heads * width].
    fn split(&self, fused: &Tensor) -> Heads {
        let head_dim = self.stack.head_dim;
        let norm = |norm: &Option<RmsNorm>, x: Tensor| match norm {
            Some(norm) => x.rms_norm([head_dim], Some(&norm.weight), norm.eps),
            None => x,
        };
        let Heads { queries, keys, values } = self.parts(fused);
        Heads { queries: norm(&self.q_norm, queries), keys: norm(&self.k_norm, keys), values }
    }

    fn parts(&self, fused: &Tensor) -> Heads {
        let Stack { heads, kv_heads, head_dim, .. } = self.stack;
        let (batch, length) = (fused.size()[0], fused.size()[1]);
        let fused = fused.view([batch, length, heads + 2 * kv_heads, head_dim]);
        let mut parts = fused.split_with_sizes([heads, kv_heads, kv_heads], 2).into_iter();
        let mut part = || parts.next().unwrap_or_default();
        Heads { queries: part(), keys: part(), values: part() }
    }

    /// One column of each row, [B, 1, C], projected, split, normed and rotated.
    fn step_heads(&self, x: &Tensor, rotary: &Rotary) -> Heads {
        let fused = rows::linear(&self.wqkv, x);
        if !rows::is_exact(&fused) {
            return self.split(&fused).rotated(rotary);
        }
        let Heads { queries, keys, values } = self.parts(&fused);
        let turned = |norm: &Option<RmsNorm>, x: Tensor| match norm {
            Some(norm) => rows::rotate(rotary, &rows::rms_norm(norm, &x)),
            None => rows::rotate(rotary, &x),
        };
        Heads { queries: turned(&self.q_norm, queries), keys: turned(&self.k_norm, keys), values }
    }
}

impl Heads {
    fn rotated(self, rotary: &Rotary) -> Heads {
        Heads { queries: rotary.apply(&self.queries), keys: rotary.apply(&self.keys), ..self }
    }
}
