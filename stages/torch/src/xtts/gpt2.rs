//! The transformer of GPT-2 without embeddings and positions: blocks and the final norm.

use tch::{Kind, Tensor};

use crate::autoregressive::{AttentionMask, Heads, KvCache, rows};
use crate::error::TorchError;
use crate::nn::layers::{Conv1D, LayerNorm, Pass, dropout};
use crate::nn::random::scramble;
use crate::nn::weights::Scope;
use stage_families::xtts::GptConfig;

#[derive(Debug)]
pub struct Gpt2 {
    pub h: Vec<Gpt2Block>,
    pub ln_f: LayerNorm,
}

#[derive(Debug)]
pub struct Gpt2Block {
    pub ln_1: LayerNorm,
    pub attn: Gpt2Attention,
    pub ln_2: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Debug)]
pub struct Gpt2Attention {
    pub c_attn: Conv1D,
    pub c_proj: Conv1D,
    heads: i64,
    /// Dropout of attention weights.
    attn_dropout: Gpt2Dropout,
    resid_dropout: Gpt2Dropout,
}

#[derive(Debug)]
pub struct Mlp {
    pub c_fc: Conv1D,
    pub c_proj: Conv1D,
    dropout: Gpt2Dropout,
}

/// A dropout layer; each has its own random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Gpt2Dropout {
    pub probability: f64,
    place: u64,
}

impl Gpt2 {
    pub fn load(scope: &mut Scope, config: &GptConfig) -> Result<Gpt2, TorchError> {
        let mut blocks = scope.under("h");
        let block =
            |at: i64| Gpt2Block::load(&mut blocks.under(&at.to_string()), config, at as u64);
        let h = (0..config.layers).map(block).collect::<Result<_, _>>()?;
        let ln_f = LayerNorm::load(&mut scope.under("ln_f"), config.width, config.layer_norm_eps)?;
        Ok(Gpt2 { h, ln_f })
    }

    /// All blocks, without the norm: [B, T, C] to the same.
    pub fn forward(&self, x: &Tensor, mask: &AttentionMask, pass: Pass) -> Tensor {
        self.h.iter().fold(x.shallow_clone(), |x, block| block.forward(&x, mask, pass))
    }

    /// Sets both dropouts instead of those of the configuration.
    pub fn set_dropout(&mut self, probability: f64, attention: f64) {
        for Gpt2Block { attn, mlp, .. } in &mut self.h {
            attn.attn_dropout.probability = attention;
            attn.resid_dropout.probability = probability;
            mlp.dropout.probability = probability;
        }
    }

    /// The states after a whole prefix of one row, [1, T, C] to the same; stored in the cache.
    pub fn prefill(&self, x: &Tensor, cache: &KvCache, row: usize) -> Tensor {
        let blocks = self.h.iter().enumerate();
        blocks.fold(x.shallow_clone(), |x, (layer, block)| {
            let heads = block.attn.heads(&block.ln_1.forward(&x), Pass::Evaluate);
            cache.fill(layer, row, &heads);
            block.finish(&x, &heads.attend(&AttentionMask::Causal), Pass::Evaluate)
        })
    }

    /// The states of one more column of each row, [B, 1, C] to the same.
    pub fn step(&self, x: &Tensor, cache: &KvCache) -> Tensor {
        let blocks = self.h.iter().enumerate();
        blocks.fold(x.shallow_clone(), |x, (layer, block)| block.step(&x, cache, layer))
    }
}

impl Gpt2Block {
    fn load(scope: &mut Scope, config: &GptConfig, at: u64) -> Result<Gpt2Block, TorchError> {
        let (width, eps) = (config.width, config.layer_norm_eps);
        let place = |part: u64| Gpt2Dropout::new(config.dropout, 4 * at + part);
        let mlp = &mut scope.under("mlp");
        let mlp = Mlp {
            c_fc: Conv1D::load(&mut mlp.under("c_fc"), width, 4 * width)?,
            c_proj: Conv1D::load(&mut mlp.under("c_proj"), 4 * width, width)?,
            dropout: place(3),
        };
        let attn = &mut scope.under("attn");
        let attn = Gpt2Attention {
            c_attn: Conv1D::load(&mut attn.under("c_attn"), width, 3 * width)?,
            c_proj: Conv1D::load(&mut attn.under("c_proj"), width, width)?,
            heads: config.heads,
            attn_dropout: place(1),
            resid_dropout: place(2),
        };
        let ln_1 = LayerNorm::load(&mut scope.under("ln_1"), width, eps)?;
        let ln_2 = LayerNorm::load(&mut scope.under("ln_2"), width, eps)?;
        Ok(Gpt2Block { ln_1, attn, ln_2, mlp })
    }

    /// [B, T, C] to the same.
    pub fn forward(&self, x: &Tensor, mask: &AttentionMask, pass: Pass) -> Tensor {
        let heads = self.attn.heads(&self.ln_1.forward(x), pass);
        self.finish(x, &self.attn.attend(&heads, mask, pass), pass)
    }

    /// `attended` is the output of the heads for `x`.
    fn finish(&self, x: &Tensor, attended: &Tensor, pass: Pass) -> Tensor {
        let Gpt2Attention { c_proj, resid_dropout, .. } = &self.attn;
        let x = x + resid_dropout.forward(&c_proj.forward(attended, pass), pass);
        let fed = self.mlp.forward(&self.ln_2.forward(&x), pass);
        x + fed
    }

    /// Like [`forward`](Self::forward), for one column of each row after those in the cache.
    fn step(&self, x: &Tensor, cache: &KvCache, layer: usize) -> Tensor {
        let Gpt2Block { ln_1, attn, ln_2, mlp } = self;
        let normed = rows::layer_norm(ln_1, x);
        let heads = attn.split(&rows::conv1d(&attn.c_attn, &normed));
        let x = x + rows::conv1d(&attn.c_proj, &cache.attend(layer, &heads));
        let normed = rows::layer_norm(ln_2, &x);
        let inner = rows::conv1d(&mlp.c_fc, &normed);
        x + rows::conv1d(&mlp.c_proj, &rows::gelu(&inner))
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

impl Gpt2Attention {
    /// [B, T, C] projected and split.
    fn heads(&self, x: &Tensor, pass: Pass) -> Heads {
        self.split(&self.c_attn.forward(x, pass))
    }

    /// [B, T, 3 C] to queries, keys and values, C channels each, split into heads.
    fn split(&self, fused: &Tensor) -> Heads {
        let mut parts = fused.chunk(3, -1).into_iter();
        let mut part = || parts.next().unwrap_or_default().unflatten(-1, [self.heads, -1]);
        Heads { queries: part(), keys: part(), values: part() }
    }

    /// [B, T, C].
    fn attend(&self, heads: &Heads, mask: &AttentionMask, pass: Pass) -> Tensor {
        if self.attn_dropout.acts(pass) {
            self.attend_with_dropout(heads, mask, pass)
        } else {
            heads.attend(mask)
        }
    }

    /// The same with the attention weights as a tensor. libtorch's own dropout would draw from a
    /// generator that all devices share.
    fn attend_with_dropout(&self, heads: &Heads, mask: &AttentionMask, pass: Pass) -> Tensor {
        let [queries, keys, values] =
            [&heads.queries, &heads.keys, &heads.values].map(|x| x.transpose(1, 2));
        let (length, width) = (queries.size()[2], queries.size()[3]);
        let scores = (queries / (width as f64).sqrt()).matmul(&keys.transpose(2, 3));
        let hidden = match mask {
            AttentionMask::Explicit(seen) => seen.logical_not(),
            _ => Tensor::ones([length, length], (Kind::Bool, scores.device())).triu(1),
        };
        let scores = scores.masked_fill(&hidden, f64::NEG_INFINITY);
        let weights = scores.softmax(-1, Kind::Float).to_kind(values.kind());
        let attended = self.attn_dropout.forward(&weights, pass).matmul(&values);
        attended.transpose(1, 2).flatten(2, 3)
    }
}

impl Mlp {
    fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let inner = self.c_fc.forward(x, pass).gelu("tanh");
        self.dropout.forward(&self.c_proj.forward(&inner, pass), pass)
    }
}

impl Gpt2Dropout {
    pub fn new(probability: f64, place: u64) -> Gpt2Dropout {
        Gpt2Dropout { probability, place }
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

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

    fn attention(probability: f64) -> Gpt2Attention {
        let conv = || Conv1D {
            weight: Tensor::zeros([8, 8], CPU),
            bias: Tensor::zeros([8], CPU),
            adapter: None,
        };
        let dropout = Gpt2Dropout::new(probability, 1);
        let (attn_dropout, resid_dropout) = (dropout, dropout);
        Gpt2Attention { c_attn: conv(), c_proj: conv(), heads: 2, attn_dropout, resid_dropout }
    }

    fn heads(values: Tensor) -> Heads {
        let random = || Tensor::randn([3, 50, 2, 4], CPU);
        Heads { queries: random(), keys: random(), values }
    }

    #[test]
    fn attention_with_dropout_is_that_of_the_kernel_before_anything_is_dropped() {
        let heads = heads(Tensor::randn([3, 50, 2, 4], CPU));
        let seen = Tensor::ones([50, 50], (Kind::Bool, Device::Cpu)).tril(0);
        let _ = seen.narrow(1, 7, 5).fill_(0);
        let _ = seen.diagonal(0, 0, 1).fill_(1);
        let explicit = AttentionMask::Explicit(seen.view([1, 1, 50, 50]));
        for mask in [AttentionMask::Causal, explicit] {
            let dropped = attention(0.1).attend_with_dropout(&heads, &mask, Pass::Evaluate);
            let far = (dropped - heads.attend(&mask)).abs().max();
            assert!(far.double_value(&[]) < 1e-5, "{mask:?}");
        }
    }

    #[test]
    fn training_drops_weights_over_the_keys_and_keeps_their_mean() {
        let heads = heads(Tensor::ones([3, 50, 2, 4], CPU));
        let pass = |seed| Pass::Train { seed };
        let attend = |pass| attention(0.1).attend(&heads, &AttentionMask::Causal, pass);
        let ones = attend(Pass::Evaluate);
        assert!((&ones - 1.0).abs().max().double_value(&[]) < 1e-5);
        assert_eq!(attend(pass(3)), attend(pass(3)));
        assert_ne!(attend(pass(3)), attend(pass(4)));
        let means: f64 =
            (0..40).map(|seed| attend(pass(seed)).mean(Kind::Double).double_value(&[])).sum();
        // A sum of weights has a deviation of at most a third; there are 40 times 300 of them.
        assert!((means / 40.0 - 1.0).abs() < 6.0 * 0.34 / (40.0f64 * 300.0).sqrt(), "{means}");
    }
}
