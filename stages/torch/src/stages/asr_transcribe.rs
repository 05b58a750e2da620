//! `asr.transcribe` and `asr.emit`: the output of a speech recogniser for a recording, as a text or
//! frame by frame.

use stage_core::{
    Context, Item, ItemJob, Job, Kind, NewValue, Output, Reject, Setup, Stage, StageError,
};
use stage_families::wav2vec2::kinds as asr;
use stage_formats::npy::{self, FloatArray};
use tch::Device;

use super::arrived::{blob, check_rate};
use crate::device::Machine;
use crate::model_slot::ModelSlot;
use crate::sound::wave::{self, Wave};
use crate::wav2vec2::Wav2Vec2;
use crate::wav2vec2::artifact::Wav2Vec2Model;

pub struct AsrTranscribe {
    /// One of the two kinds.
    pub kind: &'static Kind,
    pub machine: Machine,
}

impl Stage for AsrTranscribe {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let model = setup.artifacts.get("model").and_then(|artifacts| artifacts.first());
        Ok(Job::Item(Box::new(TranscribeJob {
            model: Wav2Vec2Model::read("model", model, context)?,
            loaded: ModelSlot::default(),
            device: self.machine.open(setup.device)?,
            machine: self.machine.clone(),
            longest: setup.parameters.seconds("longest")?,
            emits: self.kind.name == asr::EMIT.name,
        })))
    }
}

/// Transcribes one recording after the other; a transcript depends on its recording alone.
struct TranscribeJob {
    model: Wav2Vec2Model,
    loaded: ModelSlot<Wav2Vec2>,
    device: Device,
    machine: Machine,
    /// In seconds.
    longest: f64,
    /// Keeps all symbols of each frame beside the text.
    emits: bool,
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
                Ok(samples) if self.emits => Ok(self.emit(&samples, context)?),
                Ok(samples) => Ok(self.transcribe(&samples, context)?),
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
                "the audio has {count} samples, but the recogniser needs at least {least}; leave \
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
        let best = self.loaded.with(None, load, |model| model.hear(samples))?;
        let text = self.model.vocabulary.spell(&best);
        Ok(Output::default().with("transcript", NewValue::Text(text)))
    }

    fn emit(&self, samples: &[f32], context: &mut dyn Context) -> Result<Output, StageError> {
        let load = || self.model.load(self.device, context);
        let (values, symbols) = self.loaded.with(None, load, |model| model.emit(samples))?;
        let best = |row: &[f32]| {
            let largest = row.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
            largest.map_or(0, |(at, _)| at as i64)
        };
        let best: Vec<i64> = values.chunks(symbols.max(1)).map(best).collect();
        let array = FloatArray { shape: vec![best.len() as u64, symbols as u64], values };
        let failed = |error: String| StageError::failed(error);
        let bytes = npy::write_halves(&array).map_err(|error| failed(error.to_string()))?;
        let alphabet = serde_json::to_string(&self.model.vocabulary.alphabet(symbols))
            .map_err(|error| failed(error.to_string()))?;
        let hop = self.model.config.conv_stride.iter().product::<i64>() as f64
            / self.model.preprocessor.sampling_rate as f64;
        Ok(Output::default()
            .with("emissions", NewValue::bytes(asr::EMISSIONS_KIND, bytes))
            .with("alphabet", NewValue::Text(alphabet))
            .with("hop", NewValue::Number(hop))
            .with("transcript", NewValue::Text(self.model.vocabulary.spell(&best))))
    }
}
