//! A transformer block as both stacks have it: attention and a gated feed-forward part.

use tch::{Device, Kind, Tensor};

use crate::error::TorchError;
use crate::layers::{Linear, Pass, RmsNorm, SwiGlu, repeat_heads};
use crate::rope::Turns;
use crate::weights::Scope;
use stage_families::dual_ar::Stack;

/// Which keys a query sees. Nothing but what a whole batch has in common.
#[derive(Debug)]
pub enum Reach {
    /// All before it and itself, in its own row.
    Causal,
    /// The same within spans: how many columns each has, row after row.
    Spans(Vec<i64>),
    /// True where seen: [B, 1, queries, keys].
    Mask(Tensor),
}

#[derive(Debug)]
pub struct Block {
    pub attention: Attention,
    pub feed_forward: SwiGlu,
    pub ffn_norm: RmsNorm,
    pub attention_norm: RmsNorm,
}

#[derive(Debug)]
pub struct Attention {
    pub wqkv: Linear,
    pub wo: Linear,
    pub q_norm: Option<RmsNorm>,
    pub k_norm: Option<RmsNorm>,
    stack: Stack,
}

/// Keys and values of what was seen so far, with room for more: [1, heads, room, width].
#[derive(Debug)]
pub struct Cache {
    keys: Tensor,
    values: Tensor,
    length: i64,
}

impl Block {
    pub fn load(scope: &mut Scope, stack: &Stack, eps: f64) -> Result<Block, TorchError> {
        let Stack { dim, intermediate_size, .. } = *stack;
        Ok(Block {
            attention: Attention::load(&mut scope.under("attention"), stack, eps)?,
            feed_forward: SwiGlu::load(&mut scope.under("feed_forward"), dim, intermediate_size)?,
            ffn_norm: RmsNorm::load(&mut scope.under("ffn_norm"), dim, eps)?,
            attention_norm: RmsNorm::load(&mut scope.under("attention_norm"), dim, eps)?,
        })
    }

    /// [B, T, C] to the same.
    pub fn forward(&self, x: &Tensor, turns: &Turns, reach: &Reach, pass: Pass) -> Tensor {
        let h = x + self.attention.forward(&self.attention_norm.forward(x), turns, reach, pass);
        self.fed_forward(h, pass)
    }

    /// The columns that follow those in the cache: [1, T, C] to the same.
    pub fn step(&self, x: &Tensor, turns: &Turns, cache: &mut Cache) -> Tensor {
        let h = x + self.attention.step(&self.attention_norm.forward(x), turns, cache);
        self.fed_forward(h, Pass::Evaluate)
    }

    fn fed_forward(&self, h: Tensor, pass: Pass) -> Tensor {
        let fed = self.feed_forward.forward(&self.ffn_norm.forward(&h), pass);
        h + fed
    }
}

/// Queries, keys and values, turned: [B, T, heads, width].
pub struct Heads {
    pub queries: Tensor,
    pub keys: Tensor,
    pub values: Tensor,
}

impl Attention {
    fn load(scope: &mut Scope, stack: &Stack, eps: f64) -> Result<Attention, TorchError> {
        let Stack { dim, heads, head_dim, .. } = *stack;
        let mut norm = |name: &str| {
            let norm = stack.qk_norm.then(|| RmsNorm::load(&mut scope.under(name), head_dim, eps));
            norm.transpose()
        };
        let (q_norm, k_norm) = (norm("q_norm")?, norm("k_norm")?);
        let wqkv = Linear::load(&mut scope.under("wqkv"), dim, stack.qkv(), stack.qkv_bias)?;
        let wo = Linear::load(&mut scope.under("wo"), heads * head_dim, dim, stack.o_bias)?;
        Ok(Attention { wqkv, wo, q_norm, k_norm, stack: *stack })
    }

    fn forward(&self, x: &Tensor, turns: &Turns, reach: &Reach, pass: Pass) -> Tensor {
        let heads = self.heads(x, pass).turned(turns);
        let y = match reach {
            Reach::Causal => self.attend(&heads, None),
            Reach::Mask(mask) => self.attend(&heads, Some(mask)),
            Reach::Spans(lengths) => self.attend_within(&heads, lengths),
        };
        self.wo.forward(&y.reshape([x.size()[0], x.size()[1], -1]), pass)
    }

    fn step(&self, x: &Tensor, turns: &Turns, cache: &mut Cache) -> Tensor {
        let heads = self.heads(x, Pass::Evaluate).turned(turns);
        let first = cache.length == 0;
        cache.push(&heads);
        let y = match first {
            true => self.attend(&heads, None),
            false => self.attend_all(&heads.queries, cache),
        };
        self.wo.forward(&y.reshape([x.size()[0], x.size()[1], -1]), Pass::Evaluate)
    }

    /// [B, T, C] projected, split and normed.
    pub fn heads(&self, x: &Tensor, pass: Pass) -> Heads {
        let Stack { heads, kv_heads, head_dim, .. } = self.stack;
        let (batch, length) = (x.size()[0], x.size()[1]);
        let all = heads + 2 * kv_heads;
        let fused = self.wqkv.forward(x, pass).view([batch, length, all, head_dim]);
        let mut parts = fused.split_with_sizes([heads, kv_heads, kv_heads], 2).into_iter();
        let mut part = || parts.next().unwrap_or_default();
        let (queries, keys, values) = (part(), part(), part());
        let norm = |norm: &Option<RmsNorm>, x: Tensor| match norm {
            Some(norm) => x.rms_norm([head_dim], Some(&norm.weight), norm.eps),
            None => x,
        };
        Heads { queries: norm(&self.q_norm, queries), keys: norm(&self.k_norm, keys), values }
    }

    /// [B, T, heads, width]; causal where there is no mask.
    fn attend(&self, heads: &Heads, mask: Option<&Tensor>) -> Tensor {
        let times = self.stack.heads / self.stack.kv_heads;
        let keys = repeat_heads(&heads.keys.transpose(1, 2), times);
        let values = repeat_heads(&heads.values.transpose(1, 2), times);
        let queries = heads.queries.transpose(1, 2);
        attention(&queries, &keys, &values, mask, mask.is_none()).transpose(1, 2)
    }

    /// The batch as one long row, cut into spans that do not see each other.
    fn attend_within(&self, heads: &Heads, lengths: &[i64]) -> Tensor {
        let cut = |x: &Tensor| {
            let size = x.size();
            x.reshape([1, -1, size[2], size[3]]).split_with_sizes(lengths, 1)
        };
        let parts = cut(&heads.queries).into_iter().zip(cut(&heads.keys)).zip(cut(&heads.values));
        let parts: Vec<Tensor> = parts
            .map(|((queries, keys), values)| self.attend(&Heads { queries, keys, values }, None))
            .collect();
        Tensor::cat(&parts, 1)
    }

    /// One column that sees all of the cache. The queries that share a head of keys take the
    /// place of columns, so that the cache is not copied.
    fn attend_all(&self, queries: &Tensor, cache: &Cache) -> Tensor {
        let Stack { heads, kv_heads, head_dim, .. } = self.stack;
        let queries = queries.view([1, kv_heads, heads / kv_heads, head_dim]);
        attention(&queries, &cache.seen(&cache.keys), &cache.seen(&cache.values), None, false)
    }
}

impl Heads {
    fn turned(self, turns: &Turns) -> Heads {
        Heads { queries: turns.apply(&self.queries), keys: turns.apply(&self.keys), ..self }
    }
}

impl Cache {
    pub fn new(stack: &Stack, room: i64, kind: Kind, device: Device) -> Cache {
        let zeros = || Tensor::zeros([1, stack.kv_heads, room, stack.head_dim], (kind, device));
        Cache { keys: zeros(), values: zeros(), length: 0 }
    }

    pub fn length(&self) -> i64 {
        self.length
    }

    /// Forgets what was seen; the room stays.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    fn push(&mut self, heads: &Heads) {
        let count = heads.keys.size()[1];
        for (room, new) in [(&self.keys, &heads.keys), (&self.values, &heads.values)] {
            room.narrow(2, self.length, count).copy_(&new.transpose(1, 2));
        }
        self.length += count;
    }

    fn seen(&self, room: &Tensor) -> Tensor {
        room.narrow(2, 0, self.length)
    }
}

fn attention(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
) -> Tensor {
    Tensor::scaled_dot_product_attention(queries, keys, values, mask, 0.0, causal, None, false)
}
