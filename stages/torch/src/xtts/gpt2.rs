//! The transformer of GPT-2 without embeddings and positions: blocks and the norm after them.

use tch::{Kind, Tensor};

use super::named::{Listed, Named};
use crate::error::TorchError;
use crate::layers::{Conv1D, LayerNorm, Pass, dropout};
use crate::random::scramble;
use crate::weights::Scope;
use stage_families::xtts::GptConfig;

/// Which keys a query sees.
#[derive(Debug)]
pub enum AttentionMask {
    /// Those before it and itself.
    Causal,
    /// True where seen: [B, 1, queries, keys].
    Seen(Tensor),
}

#[derive(Debug)]
pub struct Gpt2 {
    pub h: Vec<Block>,
    pub ln_f: LayerNorm,
}

#[derive(Debug)]
pub struct Block {
    pub ln_1: LayerNorm,
    pub attn: Attention,
    pub ln_2: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Debug)]
pub struct Attention {
    pub c_attn: Conv1D,
    pub c_proj: Conv1D,
    heads: i64,
    /// Of the weights over the keys.
    attn_dropout: Dropout,
    resid_dropout: Dropout,
}

#[derive(Debug)]
pub struct Mlp {
    pub c_fc: Conv1D,
    pub c_proj: Conv1D,
    dropout: Dropout,
}

/// A place where training drops entries; each place has its own random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    probability: f64,
    place: u64,
}

/// Keys and values of what one block has seen: [B, heads, T, width], in room for more.
#[derive(Debug)]
pub struct Cache {
    keys: Tensor,
    values: Tensor,
    length: i64,
}

/// Queries, keys and values: [B, heads, T, width].
struct Heads {
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
}

impl Gpt2 {
    pub fn load(scope: &mut Scope, config: &GptConfig) -> Result<Gpt2, TorchError> {
        let mut blocks = scope.under("h");
        let block = |at: i64| Block::load(&mut blocks.under(&at.to_string()), config, at as u64);
        let h = (0..config.layers).map(block).collect::<Result<_, _>>()?;
        let ln_f = LayerNorm::load(&mut scope.under("ln_f"), config.width, config.layer_norm_eps)?;
        Ok(Gpt2 { h, ln_f })
    }

    /// All blocks, without the norm: [B, T, C] to the same.
    pub fn forward(&self, x: &Tensor, mask: &AttentionMask, pass: Pass) -> Tensor {
        self.h.iter().fold(x.shallow_clone(), |x, block| block.forward(&x, mask, pass))
    }

    /// Of the weights over the keys, in place of that of the configuration.
    pub fn set_attention_dropout(&mut self, probability: f64) {
        for block in &mut self.h {
            block.attn.attn_dropout.probability = probability;
        }
    }

    /// The columns that follow those in the caches, one cache for each block.
    pub fn step(&self, x: &Tensor, caches: &mut [Cache]) -> Tensor {
        let blocks = self.h.iter().zip(caches);
        blocks.fold(x.shallow_clone(), |x, (block, cache)| block.step(&x, cache))
    }
}

impl Block {
    fn load(scope: &mut Scope, config: &GptConfig, at: u64) -> Result<Block, TorchError> {
        let (width, eps) = (config.width, config.layer_norm_eps);
        let place = |part: u64| Dropout::new(config.dropout, 4 * at + part);
        let mlp = &mut scope.under("mlp");
        let mlp = Mlp {
            c_fc: Conv1D::load(&mut mlp.under("c_fc"), width, 4 * width)?,
            c_proj: Conv1D::load(&mut mlp.under("c_proj"), 4 * width, width)?,
            dropout: place(3),
        };
        let attn = &mut scope.under("attn");
        let attn = Attention {
            c_attn: Conv1D::load(&mut attn.under("c_attn"), width, 3 * width)?,
            c_proj: Conv1D::load(&mut attn.under("c_proj"), width, width)?,
            heads: config.heads,
            attn_dropout: place(1),
            resid_dropout: place(2),
        };
        let ln_1 = LayerNorm::load(&mut scope.under("ln_1"), width, eps)?;
        let ln_2 = LayerNorm::load(&mut scope.under("ln_2"), width, eps)?;
        Ok(Block { ln_1, attn, ln_2, mlp })
    }

    /// [B, T, C] to the same.
    pub fn forward(&self, x: &Tensor, mask: &AttentionMask, pass: Pass) -> Tensor {
        let x = x + self.attn.forward(&self.ln_1.forward(x), mask, pass);
        let fed = self.mlp.forward(&self.ln_2.forward(&x), pass);
        x + fed
    }

    fn step(&self, x: &Tensor, cache: &mut Cache) -> Tensor {
        let x = x + self.attn.step(&self.ln_1.forward(x), cache);
        let fed = self.mlp.forward(&self.ln_2.forward(&x), Pass::Evaluate);
        x + fed
    }

    pub fn layers(&mut self) -> [(&'static str, &mut Conv1D); 4] {
        [
            ("attn.c_attn", &mut self.attn.c_attn),
            ("attn.c_proj", &mut self.attn.c_proj),
            ("mlp.c_fc", &mut self.mlp.c_fc),
            ("mlp.c_proj", &mut self.mlp.c_proj),
        ]
    }
}

impl Attention {
    fn forward(&self, x: &Tensor, mask: &AttentionMask, pass: Pass) -> Tensor {
        let heads = self.heads(x, pass);
        let attended = match self.attn_dropout.acts(pass) {
            true => self.attend_with_dropout(&heads, mask, pass),
            false => {
                let Heads { queries, keys, values } = &heads;
                match mask {
                    AttentionMask::Causal => attend(queries, keys, values, None, true),
                    AttentionMask::Seen(seen) => attend(queries, keys, values, Some(seen), false),
                }
            }
        };
        self.resid_dropout.forward(&self.project(&attended, pass), pass)
    }

    /// The first columns see each other causally; a single column that follows sees all.
    fn step(&self, x: &Tensor, cache: &mut Cache) -> Tensor {
        let heads = self.heads(x, Pass::Evaluate);
        let first = cache.length == 0;
        cache.push(&heads);
        let attended = attend(&heads.queries, &cache.keys(), &cache.values(), None, first);
        self.project(&attended, Pass::Evaluate)
    }

    /// [B, T, C] to queries, keys and values, C channels each, that are split into heads.
    fn heads(&self, x: &Tensor, pass: Pass) -> Heads {
        let mut parts = self.c_attn.forward(x, pass).chunk(3, -1).into_iter();
        let mut part = || {
            let part = parts.next().unwrap_or_default();
            part.unflatten(-1, [self.heads, -1]).transpose(1, 2)
        };
        Heads { queries: part(), keys: part(), values: part() }
    }

    /// The same as without dropout, with the weights over the keys as a tensor. libtorch's own
    /// dropout would draw from a generator that all devices share.
    fn attend_with_dropout(&self, heads: &Heads, mask: &AttentionMask, pass: Pass) -> Tensor {
        let Heads { queries, keys, values } = heads;
        let scale = 1.0 / (queries.size()[3] as f64).sqrt();
        let scores = (queries * scale).matmul(&keys.transpose(2, 3));
        let hidden = match mask {
            AttentionMask::Causal => scores.slice(1, 0, 1, 1).slice(0, 0, 1, 1).ones_like().triu(1),
            AttentionMask::Seen(seen) => 1 - seen.to_kind(scores.kind()),
        };
        let scores = scores.masked_fill(&hidden.to_kind(Kind::Bool), f64::NEG_INFINITY);
        let weights = scores.softmax(-1, Kind::Float).to_kind(values.kind());
        self.attn_dropout.forward(&weights, pass).matmul(values)
    }

    fn project(&self, attended: &Tensor, pass: Pass) -> Tensor {
        self.c_proj.forward(&attended.transpose(1, 2).flatten(2, 3), pass)
    }
}

impl Mlp {
    fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let inner = self.c_fc.forward(x, pass).gelu("tanh");
        self.dropout.forward(&self.c_proj.forward(&inner, pass), pass)
    }
}

impl Dropout {
    pub fn new(probability: f64, place: u64) -> Dropout {
        Dropout { probability, place }
    }

    fn acts(self, pass: Pass) -> bool {
        self.probability > 0.0 && pass != Pass::Evaluate
    }

    pub fn forward(self, x: &Tensor, pass: Pass) -> Tensor {
        match pass {
            Pass::Train { seed } if self.acts(pass) => {
                dropout(x, self.probability, scramble(seed ^ scramble(self.place)))
            }
            _ => x.shallow_clone(),
        }
    }
}

impl Cache {
    /// Room for so many columns of each row, like those of `x`: [B, T, C].
    pub fn new(x: &Tensor, heads: i64, room: i64) -> Cache {
        let (rows, width) = (x.size()[0], x.size()[2] / heads);
        let zeros = || Tensor::zeros([rows, heads, room, width], (x.kind(), x.device()));
        Cache { keys: zeros(), values: zeros(), length: 0 }
    }

    fn push(&mut self, heads: &Heads) {
        let count = heads.keys.size()[2];
        for (room, new) in [(&self.keys, &heads.keys), (&self.values, &heads.values)] {
            room.narrow(2, self.length, count).copy_(new);
        }
        self.length += count;
    }

    fn keys(&self) -> Tensor {
        self.keys.narrow(2, 0, self.length)
    }

    fn values(&self) -> Tensor {
        self.values.narrow(2, 0, self.length)
    }
}

fn attend(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
) -> Tensor {
    Tensor::scaled_dot_product_attention(queries, keys, values, mask, 0.0, causal, None, false)
}

impl Named for Gpt2 {
    fn list(&self, name: &str, into: &mut Listed) {
        self.h.list(&format!("{name}.h"), into);
        self.ln_f.list(&format!("{name}.ln_f"), into);
    }
}

impl Named for Block {
    fn list(&self, name: &str, into: &mut Listed) {
        self.ln_1.list(&format!("{name}.ln_1"), into);
        self.ln_2.list(&format!("{name}.ln_2"), into);
        self.attn.c_attn.list(&format!("{name}.attn.c_attn"), into);
        self.attn.c_proj.list(&format!("{name}.attn.c_proj"), into);
        self.mlp.c_fc.list(&format!("{name}.mlp.c_fc"), into);
        self.mlp.c_proj.list(&format!("{name}.mlp.c_proj"), into);
    }
}
