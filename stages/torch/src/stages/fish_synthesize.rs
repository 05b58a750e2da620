//! `fish.synthesize`: synthesises sentences with a text model and its codec.

use std::time::{Duration, Instant};

use stage_core::{
    Context, Item, ItemJob, Job, Kind, NewValue, Parameters, Reject, Setup, Stage, StageError,
};
use stage_families::dual_ar::kinds as fish;

use super::arrived::open_codec;
use super::codec::CodecUse;
use crate::device::Machine;
use crate::dual_ar::{
    DualArSampling, DualArSentence, DualArSpeech, Parity, PromptFormat, SeededNoise, SpokenText,
    Stop,
};
use crate::error::TorchError;
use crate::fish::clip::script;
use crate::fish::voice::{FishVoice, Voices};
use crate::model_slot::ModelSlot;
use crate::npy;
use crate::sound::codec::{Codec, Codes};
use crate::sound::measure::{Expectation, SpeakingRate};
use crate::sound::utterance::{
    SentenceResult, Utterance, redraw_seed, redraw_silent, sentence_seed, silent, speak_batches,
};
use crate::tune::NetworkSource;

pub struct FishSynthesize {
    pub machine: Machine,
}

impl Stage for FishSynthesize {
    fn kind(&self) -> &'static Kind {
        &fish::SYNTHESIZE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(self.job(&setup, context)?)))
    }
}

/// Synthesises several sentences at once.
struct FishSynthesizeJob {
    machine: Machine,
    voices: Voices,
    codec: Box<dyn Codec>,
    sampling: DualArSampling,
    expectation: Expectation,
    seed: u64,
}

impl FishSynthesize {
    fn job(
        &self,
        setup: &Setup,
        context: &mut dyn Context,
    ) -> Result<FishSynthesizeJob, StageError> {
        let parameters = &setup.parameters;
        let device = self.machine.open(setup.device)?;
        let how = CodecUse::new(&self.machine, setup.device);
        let codec = open_codec(setup, how, context)?;
        let format = codec.format();
        let parity = Parity::read(parameters)?;
        let frames_per_second = f64::from(format.rate) / format.hop as f64;
        let reference =
            setup.artifacts.get("reference").and_then(|artifacts| artifacts.first()).cloned();
        let source = NetworkSource::of(setup, device)?;
        let loaded = ModelSlot::default();
        let voices = Voices { source, reference, codec: format, parity, loaded };
        voices.check(context)?;
        Ok(FishSynthesizeJob {
            machine: self.machine.clone(),
            voices,
            codec,
            sampling: sampling(parameters, parity)?,
            expectation: expectation(parameters, frames_per_second)?,
            seed: parameters.integer("seed")? as u64,
        })
    }
}

fn sampling(parameters: &Parameters, parity: Parity) -> Result<DualArSampling, StageError> {
    let sampling = DualArSampling {
        temperature: parameters.number("temperature")?,
        top_p: parameters.number("top_p")?,
        repetition_penalty: parameters.number("repetition_penalty")?,
        semantic_only: parity == Parity::Correct,
    };
    sampling.of(parity).check()?;
    Ok(sampling)
}

fn expectation(parameters: &Parameters, frames_per_second: f64) -> Result<Expectation, StageError> {
    let most = parameters.integer("max_frames")?.max(0) as usize;
    Ok(Expectation {
        pace: SpeakingRate::read(parameters)?,
        frames_per_second,
        least: parameters.number("least")?,
        limit: parameters.number("limit")?,
        max_frames: (most > 0).then_some(most),
    })
}

impl ItemJob for FishSynthesizeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<SentenceResult>, StageError> {
        speak_batches(items, context, |items, weights, context| {
            self.voices.with(weights, context, |voice| self.speak(voice, items))?
        })
    }
}

/// A sentence that can be synthesised.
struct SentencePrompt<'a> {
    text: &'a str,
    prompt: Vec<i32>,
    seed: u64,
}

impl FishSynthesizeJob {
    /// Synthesises sentences together, without those that are refused.
    fn speak(&self, voice: &FishVoice, items: &[Item]) -> Result<Vec<SentenceResult>, StageError> {
        let _shared = self.machine.share_threads(voice.model.config().parameters(), 1);
        let begin = Instant::now();
        let asked: Vec<Result<SentencePrompt, Reject>> =
            items.iter().map(|item| self.ask(voice, item)).collect::<Result<_, StageError>>()?;
        let sentences: Vec<&SentencePrompt> = asked.iter().flatten().collect();
        let mut speeches = self.generate(voice, &sentences, |sentence| sentence.seed)?;
        let is_silent = |speech: &DualArSpeech| speech.frames == 0;
        redraw_silent(&mut speeches, is_silent, |places, attempt| {
            let again: Vec<&SentencePrompt> = places.iter().map(|at| sentences[*at]).collect();
            self.generate(voice, &again, |sentence| redraw_seed(sentence.seed, attempt))
        })?;
        let mut speeches = speeches.into_iter();
        let work = begin.elapsed() / sentences.len().max(1) as u32;
        let utter = |asked: Result<SentencePrompt, Reject>| match asked {
            Ok(asked) => match speeches.next() {
                Some(speech) => self.utter(voice, &asked, &speech, work),
                None => Err(StageError::failed("a sentence of a batch was not spoken")),
            },
            Err(reject) => Ok(Err(reject)),
        };
        asked.into_iter().map(utter).collect()
    }

    fn ask<'a>(
        &self,
        voice: &FishVoice,
        item: &'a Item,
    ) -> Result<Result<SentencePrompt<'a>, Reject>, StageError> {
        let text = item.fields.text("text").unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(Err(Reject::new("empty", "there is no text to speak")));
        }
        let reference = voice.reference.iter().map(|(text, codes)| SpokenText { text, codes });
        let reference: Vec<SpokenText> = reference.collect();
        let prompt = script(&voice.vocabulary)
            .prompt(PromptFormat::Interleave, &reference, text)
            .and_then(|prompt| voice.model.check_prompt(&prompt).map(|()| prompt));
        match prompt {
            Ok(prompt) => {
                Ok(Ok(SentencePrompt { text, prompt, seed: sentence_seed(self.seed, text) }))
            }
            Err(TorchError::Input(reason)) => Ok(Err(Reject::new("prompt", reason))),
            Err(error) => Err(error.into()),
        }
    }

    fn generate(
        &self,
        voice: &FishVoice,
        asked: &[&SentencePrompt],
        seed: impl Fn(&SentencePrompt) -> u64,
    ) -> Result<Vec<DualArSpeech>, TorchError> {
        let mut noises: Vec<SeededNoise> =
            asked.iter().map(|asked| SeededNoise::new(seed(asked))).collect();
        let sentences = asked.iter().zip(&mut noises).map(|(asked, noise)| DualArSentence {
            prompt: &asked.prompt,
            most: self.expectation.limit(asked.text),
            least: self.expectation.least(asked.text),
            noise,
        });
        voice.model.generate(sentences.collect(), &self.sampling)
    }

    /// `work` is the sentence's share of the time of its batch.
    fn utter(
        &self,
        voice: &FishVoice,
        asked: &SentencePrompt,
        speech: &DualArSpeech,
        work: Duration,
    ) -> Result<SentenceResult, StageError> {
        if speech.frames == 0 {
            return Ok(Err(silent(None)));
        }
        let begin = Instant::now();
        let values = speech.codes.iter().map(|code| *code as u16).collect();
        let codes =
            Codes { codebooks: voice.vocabulary.codebooks(), frames: speech.frames, values };
        let codes = clamped(codes, &self.codec.format().entries);
        let samples = self.codec.decode(&codes, asked.seed)?;
        let utterance = Utterance {
            text: asked.text,
            samples: &samples,
            rate: self.codec.format().rate,
            frames: codes.frames,
            pace: self.expectation.pace,
            work: work + begin.elapsed(),
        };
        let tokens = NewValue::bytes(npy::KIND, npy::write(&codes)?);
        let stop = stop(speech.stop);
        Ok(utterance.output()?.map(|output| {
            let mut output =
                output.with("tokens", tokens).with("stop", NewValue::Text(stop.to_owned()));
            output.note(format!("ended by {stop}"), 1);
            output
        }))
    }
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "end",
        Stop::Limit | Stop::Full => "limit",
    }
}

/// Residual codebooks may be smaller than the semantic one, which the model need not know.
fn clamped(mut codes: Codes, entries: &[usize]) -> Codes {
    for (row, entries) in codes.values.chunks_mut(codes.frames.max(1)).zip(entries) {
        let most = entries.saturating_sub(1) as u16;
        row.iter_mut().for_each(|code| *code = (*code).min(most));
    }
    codes
}
