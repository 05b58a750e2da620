//! `vq.decode`: tokens to audio.

use stage_core::{
    Blob, Context, Item, ItemJob, Job, Kind, NewValue, Output, Reject, Setup, Stage, StageError,
};
use stage_families::kinds::vq;

use super::arrived::{blob, check_length, open_codec};
use super::codec::CodecUse;
use crate::device::Machine;
use crate::error::TorchError;
use crate::nn::random::scramble;
use crate::npy;
use crate::runtime::threads::spread;
use crate::sound::codec::{Codec, Codes};
use crate::sound::wave;

pub struct VqDecode {
    pub machine: Machine,
}

impl Stage for VqDecode {
    fn kind(&self) -> &'static Kind {
        &vq::DECODE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let rounds = setup.parameters.integer("rounds")?.max(0) as usize;
        let how = CodecUse { rounds, ..CodecUse::new(&self.machine, setup.device) };
        let codec = open_codec(&setup, how, context)?;
        let threads = if codec.gains_by_threads() { how.threads } else { 1 };
        let seed = setup.parameters.integer("seed")? as u64;
        Ok(Job::Item(Box::new(DecodeJob { codec, threads, seed })))
    }
}

struct DecodeJob {
    codec: Box<dyn Codec>,
    threads: usize,
    seed: u64,
}

impl ItemJob for DecodeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let mut clips = Vec::with_capacity(items.len());
        for item in items {
            let blob = blob(item, "tokens")?;
            let codes = self.read(&context.read(blob)?);
            clips.push(codes.map(|codes| (codes, clip_seed(self.seed, blob))));
        }
        let work = |share: &[usize]| share.iter().map(|at| self.decode(&clips[*at])).collect();
        Ok(spread(self.threads, clips.len(), work)?)
    }
}

impl DecodeJob {
    fn read(&self, bytes: &[u8]) -> Result<Codes, Reject> {
        let codes = npy::read(bytes).and_then(|codes| {
            codes.check(&self.codec.format())?;
            Ok(codes)
        });
        let codes = codes.map_err(|error| Reject::new("tokens", error.to_string()))?;
        check_length(codes.frames * self.codec.format().hop, &*self.codec)?;
        Ok(codes)
    }

    fn decode(
        &self,
        clip: &Result<(Codes, u64), Reject>,
    ) -> Result<Result<Output, Reject>, TorchError> {
        let (codes, seed) = match clip {
            Ok(clip) => clip,
            Err(reject) => return Ok(Err(reject.clone())),
        };
        let samples = self.codec.decode(codes, *seed)?;
        let bytes = wave::write(self.codec.format().rate, &samples)
            .map_err(|error| TorchError::Input(format!("the audio cannot be written: {error}")))?;
        Ok(Ok(Output::default().with("audio", NewValue::bytes(wave::KIND, bytes))))
    }
}

/// A clip's own random numbers: the same for the same tokens, independent of other clips.
fn clip_seed(seed: u64, blob: &Blob) -> u64 {
    scramble(scramble(seed) ^ blob.digest.start())
}
