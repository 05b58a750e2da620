//! Incremental decoding for several rows at once, with [`crate::autoregressive`].

use tch::{Device, Kind, Tensor};

use super::block::{BlockCache, TransformerBlock, cache_shape};
use super::model::DualAr;
use crate::autoregressive::{Decoder, Draws, KvCache, Line, OpenRows, RowMemory, rows};
use crate::nn::rope::Rotary;

/// The original draws codes after the first codebook from this number of entries only.
const FAST_ENTRIES: i64 = 1024;

/// The caches of all layers for the rows of a batch.
#[derive(Debug)]
pub struct DualArCaches {
    slow: KvCache,
    fast: KvCache,
}

impl RowMemory for DualArCaches {
    fn keep(&mut self, rows: &OpenRows) {
        self.slow.keep(rows);
        self.fast.keep(rows);
    }
}

impl DualAr {
    /// The states of the last columns of some prefixes, [1 + K, T] each, and caches with capacity
    /// for more columns.
    pub fn prefill(&self, prefixes: &[&Tensor], steps: i64) -> (DualArCaches, Tensor) {
        let options = (self.kind(), self.device());
        let lengths: Vec<i64> = prefixes.iter().map(|prefix| prefix.size()[1]).collect();
        let slow = KvCache::new(cache_shape(&self.config.slow), &lengths, steps, options);
        let frames = vec![0; prefixes.len()];
        let codebooks = self.config.num_codebooks;
        let fast = KvCache::new(cache_shape(&self.config.fast), &frames, codebooks, options);
        let state = |(row, prefix): (usize, &&Tensor)| {
            let (rotary, length) = (self.causal(lengths[row]).rotary, lengths[row]);
            let mut x = self.embed(&prefix.unsqueeze(0), true);
            for (layer, block) in self.layers.iter().enumerate() {
                x = block.prefill(&x, &rotary, BlockCache { cache: &slow, layer }, row);
            }
            x.narrow(1, length - 1, 1).squeeze_dim(1)
        };
        let states: Vec<Tensor> = prefixes.iter().enumerate().map(state).collect();
        let states = Tensor::cat(&states, 0);
        (DualArCaches { slow, fast }, states)
    }

    /// The states after one more column of each row: [B, 1 + K].
    pub fn follow(&self, columns: &Tensor, caches: &mut DualArCaches) -> Tensor {
        let x = self.embed_frames(columns);
        caches.slow.grow();
        let rotary = self.rotary(&caches.slow.positions());
        steps(&self.layers, x, &rotary, &caches.slow).squeeze_dim(1)
    }

    /// The states of the fast layers, [B, C], after the next position of a frame: [B, C].
    pub fn follow_fast(&self, x: &Tensor, caches: &mut DualArCaches) -> Tensor {
        caches.fast.grow();
        let rotary = self.fast_rotary(&caches.fast.positions());
        steps(&self.fast_layers, x.unsqueeze(1), &rotary, &caches.fast).squeeze_dim(1)
    }

    /// The input of the fast layers for states, [B, C], at the first position of a frame.
    pub fn begin_frame(&self, states: &Tensor, caches: &mut DualArCaches) -> Tensor {
        caches.fast.clear();
        let states = if self.config.norm_fastlayer_input {
            rows::rms_norm(&self.norm, states)
        } else {
            states.shallow_clone()
        };
        match &self.fast_project_in {
            Some(project) => rows::linear(project, &states),
            None => states,
        }
    }

    /// Logits over the first entries of a codebook, from states of the fast layers: [B, C].
    pub fn fast_step_logits(&self, states: &Tensor, entries: i64) -> Tensor {
        let normed = rows::rms_norm(&self.fast_norm, states);
        rows::linear(&self.fast_output.rows(0, entries), &normed)
    }

    /// [B, 1 + K] to [B, 1, C]: like [`embed`](Self::embed), without asking the device which
    /// columns are frames.
    fn embed_frames(&self, columns: &Tensor) -> Tensor {
        let (codebooks, size) = (self.config.num_codebooks, self.config.codebook_size);
        let tokens = columns.narrow(1, 0, 1);
        let is_text = self.is_semantic(&tokens).logical_not().unsqueeze(-1);
        let options = (Kind::Int64, columns.device());
        let entries = columns.narrow(1, 1, codebooks) + Tensor::arange(codebooks, options) * size;
        let sums = rows::embedding(&self.codebook_embeddings, &entries);
        let sums = sums.sum_dim_intlist([1i64].as_slice(), true, None);
        let x = rows::embedding(&self.embeddings, &tokens) + sums.masked_fill(&is_text, 0.0);
        if self.config.scale_codebook_embeddings {
            let ones = Tensor::ones([x.size()[0], 1, 1], (Kind::Float, x.device()));
            let root = ones * ((codebooks + 1) as f64).sqrt();
            (&x / root.masked_fill(&is_text, 1.0)).to_kind(x.kind())
        } else {
            x
        }
    }
}

fn steps(blocks: &[TransformerBlock], x: Tensor, rotary: &Rotary, cache: &KvCache) -> Tensor {
    let step = |x: Tensor, (layer, block): (usize, &TransformerBlock)| {
        block.step(&x, rotary, BlockCache { cache, layer })
    };
    blocks.iter().enumerate().fold(x, step)
}

/// A model for synthesis.
#[derive(Clone, Copy, Debug)]
pub struct DualArDecoder<'a> {
    pub model: &'a DualAr,
    /// Draw only frames and the end, not text in between.
    pub semantic_only: bool,
}

impl DualArDecoder<'_> {
    /// The allowed tokens, as ranges of the vocabulary: start and length.
    fn token_ranges(&self) -> Vec<(i64, i64)> {
        let model = self.model;
        if self.semantic_only {
            vec![
                (model.tokens.semantic_begin, model.config.codebook_size),
                (model.tokens.im_end, 1),
            ]
        } else {
            vec![(0, model.config.vocab_size)]
        }
    }

    /// Logits over the allowed tokens: [B, C] to [B, tokens].
    fn token_logits(&self, states: &Tensor) -> Tensor {
        let model = self.model;
        let normed = rows::rms_norm(&model.norm, states);
        let part = |(start, length): (i64, i64)| match &model.output {
            Some(output) => rows::linear(&output.rows(start, length), &normed),
            None => rows::product(&normed, &model.embeddings.weight.narrow(0, start, length)),
        };
        Tensor::cat(&self.token_ranges().into_iter().map(part).collect::<Vec<_>>(), -1)
    }

    fn token_line(&self) -> Line {
        let ranges = self.token_ranges().into_iter();
        let places: Vec<i64> = ranges.flat_map(|(start, length)| start..start + length).collect();
        if self.semantic_only {
            Line {
                ends: true,
                first: self.model.tokens.semantic_begin,
                repeatable: self.model.config.codebook_size,
                places: Some(places.clone()),
                ..Line::of(places.len() as i64)
            }
        } else {
            Line::of(places.len() as i64)
        }
    }
}

impl Decoder for DualArDecoder<'_> {
    /// Columns: [1 + K, T].
    type Prefix = Tensor;
    type Memory = DualArCaches;

    fn device(&self) -> Device {
        self.model.device()
    }

    /// A token and its codes.
    fn width(&self) -> i64 {
        self.model.config.num_codebooks + 1
    }

    /// The token, which contains the first code, and the codes of the other codebooks.
    fn lines(&self) -> Vec<Line> {
        let codebooks = self.model.config.num_codebooks;
        let entries = self.model.config.codebook_size.min(FAST_ENTRIES);
        let code = |place: i64| Line { column: place + 1, ..Line::of(entries) };
        std::iter::once(self.token_line()).chain((1..codebooks).map(code)).collect()
    }

    fn begin(&self, prefixes: &[&Tensor], steps: i64) -> (DualArCaches, Tensor) {
        self.model.prefill(prefixes, steps)
    }

    fn frame(&self, state: &Tensor, caches: &mut DualArCaches, draws: &Draws) -> Tensor {
        let model = self.model;
        let (begin, size) = (model.tokens.semantic_begin, model.config.codebook_size);
        let entry = draws.draw(0, &self.token_logits(state));
        let token = if self.semantic_only {
            (&entry + begin).masked_fill(&entry.ge(size), model.tokens.im_end)
        } else {
            entry
        };
        // Tokens that are not frames count as the nearest entry.
        let mut code = (&token - begin).clamp(0, size - 1);
        let mut frame = vec![token, code.shallow_clone()];
        // The first position gives no code: it is in the token.
        let first = model.begin_frame(state, caches);
        let _ = model.follow_fast(&first, caches);
        for line in 1..model.config.num_codebooks as usize {
            let x = rows::embedding(&model.fast_embeddings, &code);
            let state = model.follow_fast(&x, caches);
            code = draws.draw(line, &model.fast_step_logits(&state, FAST_ENTRIES.min(size)));
            frame.push(code.shallow_clone());
        }
        Tensor::stack(&frame, 1)
    }

    fn step(&self, frame: &Tensor, caches: &mut DualArCaches) -> Tensor {
        self.model.follow(frame, caches)
    }

    fn is_end(&self, frame: &[i64]) -> bool {
        frame.first() == Some(&self.model.tokens.im_end)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dual_ar::{DualArConfig, SpecialTokens};

    const CODEBOOKS: i64 = 10;

    /// A small model in bf16 with as many codebooks as the published one.
    fn half(scale_codebook_embeddings: bool) -> DualAr {
        let json = format!(
            r#"{{"model_type": "dual_ar", "vocab_size": 28, "n_layer": 1, "dim": 16, "n_head": 2,
                "n_local_heads": 2, "head_dim": 8, "intermediate_size": 24, "codebook_size": 8,
                "num_codebooks": {CODEBOOKS}, "n_fast_layer": 1, "max_seq_len": 64,
                "scale_codebook_embeddings": {scale_codebook_embeddings}}}"#
        );
        let config = DualArConfig::parse(json.as_bytes()).unwrap();
        let weights = DualAr::fresh(&config, 7);
        let weights = weights.moved(Device::Cpu, Some(Kind::BFloat16));
        DualAr::load(config, SpecialTokens { semantic_begin: 20, im_end: 3 }, weights).unwrap()
    }

    #[test]
    fn frames_in_half_precision_are_divided_by_a_root_that_is_not_rounded() {
        let _guard = tch::no_grad_guard();
        let rows: Vec<i64> = (0..8)
            .flat_map(|row| (0..=CODEBOOKS).map(move |line| (row * line + row) % 8))
            .collect();
        let frames = Tensor::from_slice(&rows).view([-1, CODEBOOKS + 1]);
        let _ = frames.narrow(1, 0, 1).f_add_scalar_(20).unwrap();
        let embedded = |model: &DualAr| {
            [model.embed(&frames.unsqueeze(-1), true), model.embed_frames(&frames)]
        };
        for (scaled, plain) in embedded(&half(true)).into_iter().zip(embedded(&half(false))) {
            assert_eq!(scaled.kind(), Kind::BFloat16);
            let exact = plain.to_kind(Kind::Double) / (CODEBOOKS as f64 + 1.0).sqrt();
            let error = scaled.to_kind(Kind::Double) / &exact - 1.0;
            // Roundings to 8 bits cancel out on average; a rounded root makes all quotients 0.12 % larger.
            let mean = error.mean(Kind::Double).double_value(&[]);
            assert!(mean.abs() < 6e-4, "{mean}");
        }
    }
}
