//! `vq.encode`: audio to tokens.

use bytes::Bytes;
use cache::Digest;
use stage_core::{
    Context, Item, ItemJob, Job, Kind, NewValue, Output, Reject, Setup, Stage, StageError,
};
use stage_families::kinds::vq;

use super::arrived::{blob, check_length, check_rate, codec_port, open_codec};
use super::codec::{self, CodecUse};
use crate::device::Machine;
use crate::error::caught;
use crate::npy::{self, Width};
use crate::runtime::budget::MemoryBudget;
use crate::runtime::heap;
use crate::sound::codec::{Codec, Codes};
use crate::sound::wave::{self, Wave};

pub struct VqEncode {
    pub machine: Machine,
}

impl Stage for VqEncode {
    fn kind(&self) -> &'static Kind {
        &vq::ENCODE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let how = CodecUse::new(&self.machine, setup.device);
        let codec = open_codec(&setup, how, context)?;
        let model = self.machine.facts(setup.device).name;
        let key = codec::budget_key(codec_port(&setup)?, &model);
        heap::give_back();
        codec::probe(&*codec, how.device, &key, context)?;
        let width = match setup.parameters.text("integers")? {
            "i64" => Width::I64,
            _ => Width::U16,
        };
        Ok(Job::Item(Box::new(EncodeJob { codec, width, key })))
    }
}

pub(super) struct EncodeJob {
    pub codec: Box<dyn Codec>,
    pub width: Width,
    /// The key of the codec's remembered budget.
    pub key: Digest,
}

impl ItemJob for EncodeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let mut waves = Vec::with_capacity(items.len());
        for item in items {
            let bytes = context.read(blob(item, "audio")?)?;
            waves.push(self.read(&bytes));
        }
        let good: Vec<&[f32]> =
            waves.iter().flatten().map(|wave| wave.samples.as_slice()).collect();
        let mut codes = self.encode(&good, context)?.into_iter();
        let output = |wave: Result<Wave, Reject>| {
            wave.and_then(|_| self.write(codes.next().ok_or_else(lost)?))
        };
        Ok(waves.into_iter().map(output).collect())
    }
}

impl EncodeJob {
    /// A batch that did not fit also counts for later runs, whatever its result.
    fn encode(
        &self,
        waves: &[&[f32]],
        context: &mut dyn Context,
    ) -> Result<Vec<Codes>, StageError> {
        let before = self.codec.budget().map(MemoryBudget::scale);
        let codes = caught(|| self.codec.encode(waves));
        if let Some(budget) = self.codec.budget().filter(|budget| Some(budget.scale()) != before) {
            budget.remember(&self.key, context)?;
        }
        Ok(codes?)
    }

    fn read(&self, bytes: &Bytes) -> Result<Wave, Reject> {
        let wave = wave::read(bytes)?;
        check_rate(wave.rate, self.codec.format().rate, "codec")?;
        check_length(wave.samples.len(), &*self.codec)?;
        Ok(wave)
    }

    fn write(&self, codes: Codes) -> Result<Output, Reject> {
        let tokens = npy::write_as(&codes, self.width);
        let tokens = tokens.map_err(|error| Reject::new("codec", error.to_string()))?;
        Ok(Output::default()
            .with("tokens", NewValue::bytes(npy::KIND, tokens))
            .with("frames", NewValue::Number(codes.frames as f64)))
    }
}

fn lost() -> Reject {
    Reject::new("codec", "the codec gave no tokens for this clip")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::TorchError;
    use crate::sound::codec::CodecFormat;
    use crate::testing::{Bench, wave_item};

    /// Has memory for this number of samples per batch, and panics or fails beyond it.
    struct Narrow {
        limit: usize,
        panics: bool,
        budget: Option<MemoryBudget>,
        /// The number of batches that did not fit.
        failed: Arc<AtomicUsize>,
    }

    impl Codec for Narrow {
        fn format(&self) -> CodecFormat {
            CodecFormat { rate: 16_000, entries: vec![2], hop: 100 }
        }

        fn frames(&self, samples: usize) -> usize {
            samples.div_ceil(100)
        }

        fn longest(&self) -> Option<usize> {
            Some(32_000)
        }

        fn budget(&self) -> Option<&MemoryBudget> {
            self.budget.as_ref()
        }

        fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
            match &self.budget {
                None => self.encode_all(waves),
                Some(budget) => {
                    let frames: Vec<usize> = waves.iter().map(|wave| wave.len()).collect();
                    budget.in_batches(&frames, |range| self.encode_all(&waves[range]))
                }
            }
        }

        fn decode(&self, codes: &Codes, _: u64) -> Result<Vec<f32>, TorchError> {
            Ok(vec![0.0; codes.frames * 100])
        }
    }

    impl Narrow {
        fn encode_all(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
            let text = "CUDA out of memory. Tried to allocate 2.00 GiB";
            if waves.iter().map(|wave| wave.len()).sum::<usize>() > self.limit {
                self.failed.fetch_add(1, Ordering::Relaxed);
                if self.panics {
                    panic!("{text}")
                } else {
                    return Err(TorchError::from_library(text));
                }
            }
            let codes = |wave: &&[f32]| {
                let frames = self.frames(wave.len());
                Codes { codebooks: 1, frames, values: vec![1; frames] }
            };
            Ok(waves.iter().map(codes).collect())
        }
    }

    fn job(limit: usize, panics: bool) -> EncodeJob {
        planned(limit, panics, None, &Arc::default())
    }

    fn planned(
        limit: usize,
        panics: bool,
        budget: Option<MemoryBudget>,
        failed: &Arc<AtomicUsize>,
    ) -> EncodeJob {
        let codec = Box::new(Narrow { limit, panics, budget, failed: failed.clone() });
        EncodeJob { codec, width: Width::U16, key: Digest::of(b"narrow") }
    }

    #[test]
    fn a_budget_that_was_too_large_is_halved_here_and_smaller_in_the_next_run() {
        let mut bench = Bench::default();
        let items: Vec<Item> =
            (0..8).map(|at| wave_item(&mut bench, at, 16_000, &[0.1; 600])).collect();
        let mut failures = Vec::new();
        for _ in 0..2 {
            let failed = Arc::default();
            // Memory for 8 clips by estimate, and actually for one.
            let budget = MemoryBudget::new(Some(5_000), |samples| samples as u64);
            let job = planned(1_000, false, Some(budget), &failed);
            if let Some(budget) = job.codec.budget() {
                budget.recall(&job.key, &mut bench).unwrap();
            }
            let results = job.process(&items, &mut bench).unwrap();
            assert!(results.iter().all(Result::is_ok));
            failures.push(failed.load(Ordering::Relaxed));
        }
        // 8, 4 and 2 clips did not fit.
        assert_eq!(failures, [3, 0]);
    }

    #[test]
    fn a_batch_that_does_not_fit_says_so_and_its_halves_succeed() {
        for panics in [false, true] {
            let job = job(1_000, panics);
            let mut bench = Bench::default();
            let items: Vec<Item> =
                (0..2).map(|at| wave_item(&mut bench, at, 16_000, &[0.1; 600])).collect();
            let error = job.process(&items, &mut bench).unwrap_err();
            assert!(matches!(error, StageError::OutOfMemory { .. }), "{error:?}");
            for half in items.chunks(1) {
                assert!(job.process(half, &mut bench).unwrap()[0].is_ok());
            }
        }
    }

    #[test]
    fn a_bad_clip_is_set_aside_and_the_others_keep_their_own_tokens() {
        let job = job(10_000, false);
        let mut bench = Bench::default();
        let items = [
            wave_item(&mut bench, 0, 16_000, &[0.1; 100]),
            wave_item(&mut bench, 1, 22_050, &[0.1; 100]),
            bench.item(2, "audio", "audio/wav", b"<html>"),
            wave_item(&mut bench, 3, 16_000, &[0.1; 300]),
            wave_item(&mut bench, 4, 16_000, &[0.1; 33_600]),
        ];
        let results = job.process(&items, &mut bench).unwrap();
        let frames = |at: usize| {
            let output = results[at].as_ref().map_err(|reject| reject.code.clone());
            output.map(|output| output.values[1].1.clone())
        };
        assert_eq!(frames(0), Ok(NewValue::Number(1.0)));
        assert_eq!(frames(1), Err("rate".into()));
        assert_eq!(frames(2), Err("not-wav".into()));
        assert_eq!(frames(3), Ok(NewValue::Number(3.0)));
        assert_eq!(frames(4), Err("too-long".into()));
        assert_eq!(
            results[1].as_ref().unwrap_err().reason,
            "the audio has 22050 Hz, but the codec needs 16000 Hz; put `audio.resample` with \
             `rate = 16000` before this stage"
        );
        assert_eq!(
            results[4].as_ref().unwrap_err().reason,
            "the audio lasts 2.1 s, but the codec takes at most 2.0 s; cut the recording into \
             shorter clips"
        );
    }
}
