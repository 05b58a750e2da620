//! `asr.transcribe`: the transcript of a recording by a speech recogniser.

use stage_core::{
    Context, Item, ItemJob, Job, Kind, NewValue, Output, Reject, Setup, Stage, StageError,
};
use stage_families::wav2vec2::kinds as asr;
use tch::Device;

use super::arrived::{blob, check_rate};
use crate::device::Machine;
use crate::error::guarded;
use crate::loaded::Loaded;
use crate::wav2vec2::Wav2Vec2;
use crate::wav2vec2::artifact::Model;
use crate::wave::{self, Wave};

pub struct AsrTranscribe {
    pub machine: Machine,
}

impl Stage for AsrTranscribe {
    fn kind(&self) -> &'static Kind {
        &asr::TRANSCRIBE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let model = setup.artifacts.get("model").and_then(|artifacts| artifacts.first());
        Ok(Job::Item(Box::new(TranscribeJob {
            model: Model::read("model", model, context)?,
            loaded: Loaded::default(),
            device: guarded(|| self.machine.open(&setup.device))?,
            machine: self.machine.clone(),
            longest: setup.parameters.seconds("longest")?,
        })))
    }
}

/// Transcribes one recording after the other; a transcript depends on its recording alone.
struct TranscribeJob {
    model: Model,
    loaded: Loaded<Wav2Vec2>,
    device: Device,
    machine: Machine,
    /// In seconds.
    longest: f64,
}

impl ItemJob for TranscribeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let _shared = self.machine.share_threads(self.model.config.parameters(), 1);
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            let bytes = context.read(blob(item, "audio")?)?;
            outputs.push(match wave::read(&bytes).and_then(|wave| self.check(wave)) {
                Ok(samples) => Ok(guarded(|| self.transcribe(&samples, context))?),
                Err(reject) => Err(reject),
            });
        }
        Ok(outputs)
    }
}

impl TranscribeJob {
    fn check(&self, wave: Wave) -> Result<Vec<f32>, Reject> {
        let rate = self.model.preprocessor.sampling_rate as u32;
        check_rate(wave.rate, rate, "recogniser")?;
        let (count, least) = (wave.samples.len(), self.model.config.receptive_field());
        if count < least as usize {
            let reason = format!(
                "{count} samples, and the recogniser hears nothing in fewer than {least}; leave \
                 such clips out with `audio.check` and `min_duration`"
            );
            return Err(Reject::new("too-short", reason));
        }
        let (seconds, longest) = (count as f64 / f64::from(rate), self.longest);
        if seconds > longest {
            let reason = format!(
                "the audio lasts {seconds:.1} s, more than `longest` = {longest:.1} s; cut it into \
                 shorter clips"
            );
            return Err(Reject::new("too-long", reason));
        }
        Ok(wave.samples)
    }

    fn transcribe(&self, samples: &[f32], context: &mut dyn Context) -> Result<Output, StageError> {
        let load = || self.model.load(self.device, context);
        let best = self.loaded.with(None, load, |model| model.hear(samples))??;
        let text = self.model.vocabulary.spell(&best);
        Ok(Output::default().with("transcript", NewValue::Text(text)))
    }
}
