//! Speech from prompts: frames are drawn until the model ends.

use tch::{IndexOp, Kind, Tensor};

use super::Parity;
use super::decode::DualArDecoder;
use super::model::DualAr;
use super::sampling::DualArSampling;
use crate::autoregressive::{Noise, RowFrames, RowRequest, Stop, generate};
use crate::error::TorchError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DualArSpeech {
    /// [K, N], row by row.
    pub codes: Vec<i32>,
    pub frames: usize,
    pub stop: Stop,
}

/// One sentence of a batch.
pub struct DualArSentence<'a> {
    /// [1 + K, T], row by row.
    pub prompt: &'a [i32],
    /// The largest number of frames, the end included.
    pub most: usize,
    /// The smallest number of frames before the end; needs `semantic_only`.
    pub least: usize,
    pub noise: &'a mut dyn Noise,
}

impl DualAr {
    /// Synthesises the continuation of each prompt. A sentence is the same in any batch: to the bit
    /// in f32 on a CPU.
    pub fn generate(
        &self,
        sentences: Vec<DualArSentence<'_>>,
        sampling: &DualArSampling,
    ) -> Result<Vec<DualArSpeech>, TorchError> {
        let drawn = self.draw(sentences, sampling)?;
        Ok(drawn.into_iter().map(|drawn| self.speech(drawn)).collect())
    }

    /// The columns that follow each prompt, the end included: a token and K codes each.
    pub fn draw(
        &self,
        sentences: Vec<DualArSentence<'_>>,
        sampling: &DualArSampling,
    ) -> Result<Vec<RowFrames>, TorchError> {
        let mut is_cut = Vec::with_capacity(sentences.len());
        let mut rows = Vec::with_capacity(sentences.len());
        for DualArSentence { prompt, most, least, noise } in sentences {
            let prefix = self.columns(prompt)?;
            let room = (self.config.max_seq_len - prefix.size()[1]) as usize;
            is_cut.push(most > room);
            rows.push(RowRequest { prefix, most: most.min(room), least, noise });
        }
        let speaker = DualArDecoder { model: self, semantic_only: sampling.semantic_only };
        let mut drawn = generate(&speaker, rows, &sampling.of(self.parity))?;
        for (drawn, is_cut) in drawn.iter_mut().zip(is_cut) {
            if is_cut && drawn.stop == Stop::Limit {
                drawn.stop = Stop::Full;
            }
        }
        Ok(drawn)
    }

    fn speech(&self, RowFrames { mut frames, stop }: RowFrames) -> DualArSpeech {
        // The original drops the last column even if it is not an end.
        if stop == Stop::End || self.parity == Parity::Upstream {
            frames.pop();
        }
        let line = |line: usize| frames.iter().map(move |frame| frame[line] as i32);
        let codes = (1..=self.config.num_codebooks as usize).flat_map(line).collect();
        DualArSpeech { codes, frames: frames.len(), stop }
    }

    /// Refuses a prompt that does not fit this model, or leaves no positions for speech.
    pub fn check_prompt(&self, prompt: &[i32]) -> Result<(), TorchError> {
        self.columns(prompt).map(drop)
    }

    fn columns(&self, columns: &[i32]) -> Result<Tensor, TorchError> {
        let height = self.config.num_codebooks + 1;
        if columns.is_empty() || columns.len() as i64 % height != 0 {
            let text = format!(
                "the prompt has {} numbers, which do not fill {height} lines",
                columns.len()
            );
            return Err(TorchError::Input(text));
        }
        let (length, longest) = (columns.len() as i64 / height, self.config.max_seq_len);
        if length >= longest {
            return Err(TorchError::Input(format!(
                "the prompt has {length} columns and leaves no room for speech: the model has \
                 {longest} positions; use a shorter text or reference"
            )));
        }
        let tensor = Tensor::from_slice(columns).view([height, -1]);
        let valid = |line: i64, count: i64| {
            let line = tensor.i(line);
            line.min().int64_value(&[]) >= 0 && line.max().int64_value(&[]) < count
        };
        let codes = (1..height).all(|line| valid(line, self.config.codebook_size));
        if valid(0, self.config.vocab_size) && codes {
            Ok(tensor.to_kind(Kind::Int64).to_device(self.device()))
        } else {
            Err(TorchError::Input(format!(
                "the prompt has tokens above {} or codes above {}: check that the tokenizer and \
                 the codec belong to this model",
                self.config.vocab_size, self.config.codebook_size
            )))
        }
    }
}
