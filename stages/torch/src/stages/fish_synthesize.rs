//! `fish.synthesize`: sentences spoken by a text model and its codec.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cache::Digest;
use stage_core::catalogue::fish;
use stage_core::{
    Context, Fields, Item, ItemJob, Job, Kind, NewValue, Output, Parameters, Reject, Setup, Stage,
    StageError,
};

use super::codec::{self, CodecUse};
use crate::codec::{Codec, Codes};
use crate::dual_ar::{DualAr, Parity, PromptFormat, Sampling, Seeded, Speech, Spoken, Stop};
use crate::error::{TorchError, guarded};
use crate::fish::clip::script;
use crate::fish::lineage::AdapterLineage;
use crate::fish::measure::{Expectation, loudness_slope};
use crate::fish::model::{Model, adapted};
use crate::fish::plan;
use crate::fish::vocabulary::Vocabulary;
use crate::machine::Machine;
use crate::npy;
use crate::random::scramble;
use crate::train::lora;
use crate::wave;

pub struct FishSynthesize {
    pub machine: Machine,
}

impl Stage for FishSynthesize {
    fn kind(&self) -> &'static Kind {
        &fish::SYNTHESIZE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        guarded(|| Ok(Job::Item(Box::new(self.job(&setup, context)?))))
    }
}

/// Speaks one sentence after the other.
struct SynthesizeJob {
    /// A tensor must not be shared by threads; the engine gives one item at a time.
    model: Mutex<DualAr>,
    vocabulary: Vocabulary,
    codec: Box<dyn Codec>,
    reference: Option<(String, Vec<i32>)>,
    sampling: Sampling,
    expectation: Expectation,
    seed: u64,
}

impl FishSynthesize {
    fn job(&self, setup: &Setup, context: &mut dyn Context) -> Result<SynthesizeJob, StageError> {
        let parameters = &setup.parameters;
        let device = self.machine.open(&setup.device)?;
        let model = Model::read("model", port(setup, "model"), context)?;
        let codec = port(setup, "codec");
        let codec = codec.ok_or_else(|| StageError::failed("no codec arrived on port `codec`"))?;
        let codec = codec::open(codec, CodecUse::new(&self.machine, &setup.device)?, context)?;
        let format = codec.format();
        model.vocabulary.check_codec(&format)?;
        let kind = match parameters.text("precision")? {
            "f32" => tch::Kind::Float,
            "bf16" => tch::Kind::BFloat16,
            "fp16" => tch::Kind::Half,
            _ if device.is_cuda() => model.kind(context)?,
            _ => tch::Kind::Float,
        };
        let parity = plan::parity(parameters)?;
        let mut loaded = model.load(device, kind, parity, context)?;
        if let Some(adapters) = port(setup, "adapters") {
            AdapterLineage::of(adapters)?.check_base(&model.fields)?;
            adapted(&mut loaded, adapters, context)?;
            lora::merge(&mut loaded, kind)?;
        }
        let reference = match port(setup, "reference") {
            Some(fields) => Some(reference(fields, &model.vocabulary, context)?),
            None => None,
        };
        Ok(SynthesizeJob {
            model: Mutex::new(loaded),
            vocabulary: model.vocabulary,
            reference,
            sampling: sampling(parameters, parity)?,
            expectation: expectation(parameters, f64::from(format.rate) / format.hop as f64)?,
            seed: parameters.integer("seed")? as u64,
            codec,
        })
    }
}

fn port<'a>(setup: &'a Setup, name: &str) -> Option<&'a Fields> {
    setup.artifacts.get(name)?.first()
}

fn sampling(parameters: &Parameters, parity: Parity) -> Result<Sampling, StageError> {
    let sampling = Sampling {
        temperature: parameters.number("temperature")?,
        top_p: parameters.number("top_p")?,
        repetition_penalty: parameters.number("repetition_penalty")?,
        semantic_only: parity == Parity::Correct,
        least_frames: 0,
    };
    sampling.check()?;
    Ok(sampling)
}

fn expectation(parameters: &Parameters, frames_per_second: f64) -> Result<Expectation, StageError> {
    let most = parameters.integer("max_frames")?.max(0) as usize;
    Ok(Expectation {
        characters_per_second: parameters.number("characters_per_second")?,
        frames_per_second,
        least: parameters.number("least")?,
        limit: parameters.number("limit")?,
        max_frames: (most > 0).then_some(most),
    })
}

/// The text and the codes of the clip whose voice is to be spoken in.
fn reference(
    fields: &Fields,
    vocabulary: &Vocabulary,
    context: &mut dyn Context,
) -> Result<(String, Vec<i32>), StageError> {
    let (Some(text), Some(blob)) = (fields.text("text"), fields.blob("tokens")) else {
        return Err(StageError::with_help(
            "what arrived on `reference` has no `text` or no `tokens`",
            "give it a `dataset.item` stage over clips with tokens",
        ));
    };
    let codes = npy::read(&context.read(blob)?)?;
    vocabulary.check_codes(&codes)?;
    Ok((text.to_owned(), codes.values.iter().map(|code| i32::from(*code)).collect()))
}

impl ItemJob for SynthesizeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            outputs.push(guarded(|| self.speak(item.fields.text("text").unwrap_or_default()))?);
        }
        Ok(outputs)
    }
}

impl SynthesizeJob {
    fn speak(&self, text: &str) -> Result<Result<Output, Reject>, StageError> {
        if text.trim().is_empty() {
            return Ok(Err(Reject::new("empty", "there is no text to speak")));
        }
        let begin = Instant::now();
        let seed = sentence_seed(self.seed, text);
        let speech = match self.generate(text, seed) {
            Err(TorchError::Input(reason)) => return Ok(Err(Reject::new("prompt", reason))),
            speech => speech?,
        };
        if speech.frames == 0 {
            let reason = "the model ended before it spoke: it is not trained enough for this text";
            return Ok(Err(Reject::new("silent", reason)));
        }
        let values = speech.codes.iter().map(|code| *code as u16).collect();
        let codes = Codes { codebooks: self.vocabulary.codebooks(), frames: speech.frames, values };
        let codes = clamped(codes, &self.codec.format().entries);
        let samples = self.codec.decode(&codes, seed)?;
        let rate = self.codec.format().rate;
        let seconds = samples.len() as f64 / f64::from(rate);
        let audio = wave::write(rate, &samples)
            .map_err(|error| TorchError::Input(format!("the audio cannot be written: {error}")))?;
        let mut output = Output::default()
            .with("audio", NewValue::bytes(wave::KIND, audio))
            .with("tokens", NewValue::bytes(npy::KIND, npy::write(&codes)?))
            .with("frames", NewValue::Number(codes.frames as f64))
            .with("seconds", NewValue::Number(seconds))
            .with("stop", NewValue::Text(stop(speech.stop).to_owned()))
            .with("duration_ratio", NewValue::Number(self.expectation.ratio(text, seconds)))
            .with("loudness_slope", NewValue::Number(loudness_slope(&samples, rate)));
        output.note("milliseconds of audio", (seconds * 1000.0).round() as u64);
        output.note("milliseconds of work", begin.elapsed().as_millis() as u64);
        output.note(format!("ended by {}", stop(speech.stop)), 1);
        Ok(Ok(output))
    }

    fn generate(&self, text: &str, seed: u64) -> Result<Speech, TorchError> {
        let reference = self.reference.iter().map(|(text, codes)| Spoken { text, codes });
        let reference: Vec<Spoken> = reference.collect();
        let prompt = script(&self.vocabulary).prompt(PromptFormat::Interleave, &reference, text)?;
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let mut noise = Seeded::new(seed);
        let least_frames = self.expectation.least(text);
        let sampling = Sampling { least_frames, ..self.sampling };
        model.generate(&prompt, self.expectation.limit(text), &sampling, &mut noise)
    }
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "end",
        Stop::Limit | Stop::Full => "limit",
    }
}

/// Residual codebooks may be smaller than the semantic one; the model need not know.
fn clamped(mut codes: Codes, entries: &[usize]) -> Codes {
    for (row, entries) in codes.values.chunks_mut(codes.frames.max(1)).zip(entries) {
        let most = entries.saturating_sub(1) as u16;
        row.iter_mut().for_each(|code| *code = (*code).min(most));
    }
    codes
}

/// A sentence's own random numbers: the same for the same text, whatever else is spoken.
fn sentence_seed(seed: u64, text: &str) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&Digest::of(text.as_bytes()).as_bytes()[..8]);
    scramble(scramble(seed) ^ u64::from_le_bytes(head))
}
