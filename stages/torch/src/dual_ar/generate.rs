//! Speaks: one frame after the other, until the model says that it is at the end.

use serde::{Deserialize, Serialize};
use tch::{IndexOp, Kind, Tensor};

use super::model::{Caches, DualAr, Parity};
use super::sampler::{Noise, Sampling, on};
use crate::error::TorchError;
use crate::layers::Pass;

/// Over how many frames repetition is penalised.
const WINDOW: usize = 16;

/// The original draws codes behind the first codebook from that many entries only.
const FAST_ENTRIES: i64 = 1024;

/// Why speech ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model said so.
    End,
    /// All frames that were asked for are there.
    Limit,
    /// The model knows no positions beyond.
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speech {
    /// [K, N], row by row.
    pub codes: Vec<i32>,
    pub frames: usize,
    pub stop: Stop,
}

/// Columns as they were drawn, the end included: a token and K codes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub columns: Vec<Vec<i64>>,
    pub stop: Stop,
}

impl DualAr {
    /// Speaks what the prompt, [1 + K, T], leads up to, in at most `most` frames.
    pub fn generate(
        &self,
        prompt: &[i32],
        most: usize,
        sampling: &Sampling,
        noise: &mut dyn Noise,
    ) -> Result<Speech, TorchError> {
        let Drawn { mut columns, stop } = self.draw(prompt, most, sampling, noise)?;
        // The original drops the last column even where it is no end.
        if stop == Stop::End || self.parity == Parity::Upstream {
            columns.pop();
        }
        let line = |line: usize| columns.iter().map(move |column| column[line] as i32);
        let codes = (1..=self.config.num_codebooks as usize).flat_map(line).collect();
        Ok(Speech { codes, frames: columns.len(), stop })
    }

    /// The columns that follow a prompt. Nothing is remembered longer than this lasts.
    pub fn draw(
        &self,
        prompt: &[i32],
        most: usize,
        sampling: &Sampling,
        noise: &mut dyn Noise,
    ) -> Result<Drawn, TorchError> {
        let _guard = tch::no_grad_guard();
        sampling.check()?;
        let prompt = self.columns(prompt)?;
        let (length, longest) = (prompt.size()[1], self.config.max_seq_len);
        if length >= longest {
            return Err(TorchError::Input(format!(
                "a prompt of {length} columns leaves no room for speech: the model has {longest} \
                 positions; take a shorter text or reference"
            )));
        }
        let room = (longest - length) as usize;
        let reached = if most <= room { Stop::Limit } else { Stop::Full };
        let most = most.min(room);
        let mut voice = Voice {
            model: self,
            sampling: sampling.as_in(self.parity),
            noise,
            caches: self.caches(length + most as i64),
            columns: Vec::new(),
        };
        let mut next = prompt;
        while voice.columns.len() < most {
            let column = voice.speak(&next)?;
            let end = column[0] == self.tokens.im_end;
            next = Tensor::f_from_slice(&column)?.f_view([-1, 1])?.f_to_device(self.device())?;
            voice.columns.push(column);
            if end {
                return Ok(Drawn { columns: voice.columns, stop: Stop::End });
            }
        }
        Ok(Drawn { columns: voice.columns, stop: reached })
    }

    fn columns(&self, columns: &[i32]) -> Result<Tensor, TorchError> {
        let height = self.config.num_codebooks + 1;
        if columns.is_empty() || columns.len() as i64 % height != 0 {
            let text = format!("a prompt of {} numbers, expected {height} lines", columns.len());
            return Err(TorchError::Input(text));
        }
        let tensor = Tensor::f_from_slice(columns)?.f_view([height, -1])?;
        let valid = |line: i64, count: i64| {
            let line = tensor.i(line);
            line.min().int64_value(&[]) >= 0 && line.max().int64_value(&[]) < count
        };
        let codes = (1..height).all(|line| valid(line, self.config.codebook_size));
        match valid(0, self.config.vocab_size) && codes {
            true => Ok(tensor.f_to_kind(Kind::Int64)?.f_to_device(self.device())?),
            false => Err(TorchError::Input(format!(
                "a prompt with tokens beyond {} or codes beyond {}: is the tokenizer or the codec \
                 that of this model?",
                self.config.vocab_size, self.config.codebook_size
            ))),
        }
    }
}

/// One utterance under way.
struct Voice<'a> {
    model: &'a DualAr,
    sampling: Sampling,
    noise: &'a mut dyn Noise,
    caches: Caches,
    columns: Vec<Vec<i64>>,
}

impl Voice<'_> {
    /// The column that follows `next`. The device is waited for once.
    fn speak(&mut self, next: &Tensor) -> Result<Vec<i64>, TorchError> {
        let model = self.model;
        let (size, codebooks) = (model.config.codebook_size, model.config.num_codebooks);
        let begin = model.tokens.semantic_begin;
        let state = model.follow(next, &mut self.caches);
        let token = self.draw_token(&state)?;
        // Whatever is no frame counts as the entry that is nearest.
        let mut code = (&token - begin).clamp(0, size - 1);
        let mut column = vec![token, code.shallow_clone()];
        // The place of the state gives no code: that is in the token.
        let _ = model.follow_fast(&model.hand_over(&state, Pass::Evaluate), 0, &mut self.caches);
        for place in 1..codebooks {
            let x = model.fast_embeddings.forward(&code);
            let logits = model.follow_fast(&x, place, &mut self.caches);
            code = self.draw_code(&logits, place)?;
            column.push(code.shallow_clone());
        }
        Ok(Vec::try_from(Tensor::f_cat(&column, 0)?)?)
    }

    fn draw_token(&mut self, state: &Tensor) -> Result<Tensor, TorchError> {
        let model = self.model;
        let (begin, size) = (model.tokens.semantic_begin, model.config.codebook_size);
        if !self.sampling.semantic_only {
            let logits = model.logits(state, Pass::Evaluate).view(-1);
            let repeated = self.repeated(0, Some);
            return self.draw(&logits, repeated, None);
        }
        // The entries of the first codebook, then the end.
        let end = model.tokens.im_end;
        let may_end = self.columns.len() >= self.sampling.least_frames;
        let ends = if may_end { Vec::from([(end, 1)]) } else { Vec::new() };
        let spans: Vec<(i64, i64)> = [(begin, size)].into_iter().chain(ends).collect();
        let entries: Vec<i64> = spans.iter().flat_map(|(at, count)| *at..at + count).collect();
        let logits = model.logits_of(state, &spans).view(-1);
        let frame = |token: i64| (begin..begin + size).contains(&token).then(|| token - begin);
        let drawn = self.draw(&logits, self.repeated(0, frame), Some(&entries))?;
        Ok((&drawn + begin)
            .where_self(&drawn.lt(size), &Tensor::from(end).to_device(model.device())))
    }

    fn draw_code(&mut self, logits: &Tensor, place: i64) -> Result<Tensor, TorchError> {
        let logits = logits.narrow(0, 0, FAST_ENTRIES.min(logits.size()[0]));
        self.draw(&logits, self.repeated(place as usize + 1, Some), None)
    }

    fn draw(
        &mut self,
        logits: &Tensor,
        repeated: Option<Vec<i64>>,
        entries: Option<&[i64]>,
    ) -> Result<Tensor, TorchError> {
        let device = logits.device();
        let noise = on(device, &self.noise.exponentials(logits.size()[0], entries))?;
        let repeated =
            repeated.map(|repeated| Tensor::f_from_slice(&repeated)?.f_to_device(device));
        Ok(self.sampling.draw(logits, repeated.transpose()?.as_ref(), &noise))
    }

    /// What line `line` of the last frames had.
    fn repeated(&self, line: usize, entry: impl Fn(i64) -> Option<i64>) -> Option<Vec<i64>> {
        let repeated = match self.model.parity {
            Parity::Correct => {
                let start = self.columns.len().saturating_sub(WINDOW);
                self.columns[start..].iter().map(|column| column[line]).collect()
            }
            Parity::Upstream => self.repeated_upstream(line),
        };
        let repeated: Vec<i64> = repeated.into_iter().filter_map(entry).collect();
        (!repeated.is_empty()).then_some(repeated)
    }

    /// As the original has it: the first frame is not in the window; while there are fewer frames
    /// than the window is long, noughts fill it; and a token is held against all numbers of the
    /// oldest frame instead of the tokens of all frames.
    fn repeated_upstream(&self, line: usize) -> Vec<i64> {
        let Some(later) = self.columns.get(1..) else { return Vec::new() };
        let start = later.len().saturating_sub(WINDOW);
        let nought = vec![0; self.model.config.num_codebooks as usize + 1];
        let at = |place: usize| later.get(start + place).unwrap_or(&nought);
        match line {
            0 => at(0).clone(),
            _ => (0..WINDOW).map(|place| at(place)[line]).collect(),
        }
    }
}
