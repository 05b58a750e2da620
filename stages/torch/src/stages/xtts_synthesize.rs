//! `xtts.synthesize`: synthesises sentences with an XTTS model in a voice.

use std::time::{Duration, Instant};

use stage_core::{
    Blob, Context, Fields, Item, ItemJob, Job, Kind, NewValue, Parameters, Reject, Setup, Stage,
    StageError,
};
use stage_families::dropped::{self, Dropped};
use stage_families::numbers::compounds;
use stage_families::xtts::{
    DECODER_PREFIX, LanguageCode, SamplingConfig, XttsTokenizer, pieces, speech,
};
use tch::{Device, Tensor};

use crate::autoregressive::{SeededNoise, Stop};
use crate::device::Machine;
use crate::error::TorchError;
use crate::model_slot::ModelSlot;
use crate::sound::measure::SpeakingRate;
use crate::sound::mel::to_vec;
use crate::sound::utterance::{
    SentenceResult, Utterance, own_speed, redraw_seed, redraw_silent, sentence_seed, silent,
    speak_batches,
};
use crate::tune::NetworkSource;
use crate::xtts::artifact::XttsModel;
use crate::xtts::decode::{GptSampling, GptSentence, SentenceCodes};
use crate::xtts::decoder::WaveformDecoder;
use crate::xtts::voice::VoiceLatents;
use crate::xtts::{Gpt, Parity};

pub struct XttsSynthesize {
    pub machine: Machine,
}

impl Stage for XttsSynthesize {
    fn kind(&self) -> &'static Kind {
        &speech::SYNTHESIZE
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(self.job(&setup, context)?)))
    }
}

struct XttsSynthesizeJob {
    source: NetworkSource,
    voice: Fields,
    loaded: ModelSlot<XttsSynthesizer>,
    settings: XttsOverrides,
    pace: SpeakingRate,
    seed: u64,
    /// Pieces of texts that are spoken at once.
    batch: usize,
}

/// The settings in the manifest; the model has the others.
struct XttsOverrides {
    language: Option<String>,
    temperature: Option<f64>,
    top_k: Option<i64>,
    top_p: Option<f64>,
    repetition_penalty: Option<f64>,
    most_codes: Option<i64>,
    speed: f64,
    parity: Parity,
    /// Characters that the vocabulary lacks are left out.
    leaves_out: bool,
}

/// A model ready to synthesise in the voice.
struct XttsSynthesizer {
    gpt: Gpt,
    decoder: WaveformDecoder,
    tokenizer: XttsTokenizer,
    voice: VoiceLatents,
    sampling: GptSampling,
    most_text_tokens: usize,
    most_codes: usize,
    sample_rate: u32,
}

/// A part of a text that is synthesised at once.
struct Piece {
    /// The index of its item.
    item: usize,
    text: String,
    tokens: Vec<i64>,
    seed: u64,
    /// The factor of its item on the speed of the stage.
    speed: f64,
}

/// The audio of a piece, or of all pieces of an item.
#[derive(Default)]
struct SynthesizedAudio {
    samples: Vec<f32>,
    codes: usize,
    pieces: usize,
    is_cut: bool,
    /// The first piece with letters or digits that the model did not speak.
    silent: Option<String>,
    dropped: Dropped,
    work: Duration,
}

impl XttsSynthesize {
    fn job(
        &self,
        setup: &Setup,
        context: &mut dyn Context,
    ) -> Result<XttsSynthesizeJob, StageError> {
        let parameters = &setup.parameters;
        let voice = setup.artifacts.get("voice").and_then(|artifacts| artifacts.first());
        let missing = || StageError::failed("no voice arrived on port `voice`");
        let job = XttsSynthesizeJob {
            source: NetworkSource::of(setup, self.machine.open(setup.device)?)?,
            voice: voice.ok_or_else(missing)?.clone(),
            loaded: ModelSlot::default(),
            settings: XttsOverrides::of(parameters)?,
            pace: SpeakingRate::read(parameters)?,
            seed: parameters.integer("seed")? as u64,
            batch: parameters.integer("batch")?.max(1) as usize,
        };
        // Checked before the first sentence, and without loading the model.
        if let Some(model) = job.source.base::<XttsModel>(context)? {
            VoiceLatents::read("voice", Some(&job.voice), &model.config, Device::Cpu, context)?;
        }
        Ok(job)
    }
}

impl XttsOverrides {
    fn of(parameters: &Parameters) -> Result<XttsOverrides, StageError> {
        let number = |name: &str| parameters.if_set(name, Parameters::number);
        let count = |name: &str| parameters.if_set(name, Parameters::integer);
        let language = parameters.if_set("language", Parameters::text)?.map(str::to_owned);
        Ok(XttsOverrides {
            language,
            temperature: number("temperature")?,
            top_k: count("top_k")?,
            top_p: number("top_p")?,
            repetition_penalty: number("repetition_penalty")?,
            most_codes: count("max_codes")?,
            speed: parameters.number("speed")?,
            parity: Parity::read(parameters)?,
            leaves_out: parameters.text("on_unknown")? == "report",
        })
    }

    fn sampling(&self, own: &SamplingConfig) -> GptSampling {
        GptSampling {
            temperature: self.temperature.unwrap_or(own.temperature),
            top_k: self.top_k.unwrap_or(own.top_k),
            top_p: self.top_p.unwrap_or(own.top_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(own.repetition_penalty),
        }
    }
}

impl ItemJob for XttsSynthesizeJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<SentenceResult>, StageError> {
        speak_batches(items, context, |items, weights, context| {
            // Loading needs the context, and so does synthesis.
            self.loaded.with(weights, || self.load(weights, context), |_| ())?;
            let never = || Err(StageError::failed("the model is not loaded"));
            self.loaded.with(weights, never, |speaker| self.speak(speaker, items, context))?
        })
    }
}

impl XttsSynthesizeJob {
    fn load(
        &self,
        weights: Option<&Blob>,
        context: &mut dyn Context,
    ) -> Result<XttsSynthesizer, StageError> {
        let (model, gpt): (XttsModel, Gpt) = self.source.load(weights, context)?;
        let device = self.source.device;
        let sampling = self.settings.sampling(&model.config.sampling);
        sampling.check()?;
        let most = model.config.gpt.max_generated_tokens();
        Ok(XttsSynthesizer {
            tokenizer: model.tokenizer("model", context)?,
            voice: VoiceLatents::read("voice", Some(&self.voice), &model.config, device, context)?,
            sampling,
            most_text_tokens: model.config.gpt.max_text_tokens.max(0) as usize,
            most_codes: self.settings.most_codes.unwrap_or(most).clamp(1, most) as usize,
            sample_rate: model.config.decoder.sample_rate as u32,
            decoder: WaveformDecoder::load(
                &model.config.decoder,
                (model.config.gpt.code_stride as f64, model.config.gpt.sample_rate as f64),
                model.part(DECODER_PREFIX, context)?,
                device,
            )?,
            gpt,
        })
    }

    /// Items of one model; the pieces of all of them are synthesised together.
    fn speak(
        &self,
        speaker: &XttsSynthesizer,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<SentenceResult>, StageError> {
        let mut all = Vec::new();
        let mut results: Vec<Result<SynthesizedAudio, Reject>> = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let pieces = self.pieces(speaker, place, item);
            results.push(pieces.map(|(pieces, dropped)| {
                all.extend(pieces);
                SynthesizedAudio { dropped, ..SynthesizedAudio::default() }
            }));
        }
        for pieces in all.chunks(self.batch) {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            let places: Vec<usize> = pieces.iter().map(|piece| piece.item).collect();
            let parts = speaker.speak(pieces, &self.settings)?;
            for (place, part) in places.into_iter().zip(parts) {
                if let Ok(spoken) = &mut results[place] {
                    spoken.add(part);
                }
            }
        }
        let said = |(item, result)| match result {
            Ok(spoken) => self.said(item, spoken, speaker.sample_rate),
            Err(reject) => Ok(Err(reject)),
        };
        items.iter().zip(results).map(said).collect()
    }

    /// The pieces of a text, each with its own noise, and the characters that are left out.
    fn pieces(
        &self,
        speaker: &XttsSynthesizer,
        place: usize,
        item: &Item,
    ) -> Result<(Vec<Piece>, Dropped), Reject> {
        let text = item.fields.text("text").unwrap_or_default();
        let code = self.settings.language.as_deref().or_else(|| item.fields.text("language"));
        let Some(code) = code else {
            let advice = "set `language` of the stage or of each sentence";
            return Err(Reject::new("no-language", format!("its language is unknown; {advice}")));
        };
        let language = LanguageCode::of(code);
        let encode = |piece: &str| {
            if self.settings.leaves_out {
                speaker.tokenizer.encode_known(piece, &language)
            } else {
                speaker.tokenizer.encode(piece, &language)
            }
        };
        // Unknown characters are reported for the whole text.
        encode(text)?;
        let dropped = speaker.tokenizer.unknown(text, &language)?;
        let fits = |piece: &str| {
            let tokens = encode(piece).map(|piece| piece.len());
            piece.chars().count() <= language.character_limit()
                && tokens.is_ok_and(|tokens| tokens <= speaker.most_text_tokens)
        };
        let (seed, speed) = (sentence_seed(self.seed, text), own_speed(item)?);
        let mut all = Vec::new();
        for (at, piece) in pieces(text, &fits).iter().enumerate() {
            // A text of signs only may be empty after cleaning.
            let Ok(tokens) = encode(piece) else { continue };
            let seed = sentence_seed(seed, &at.to_string());
            all.push(Piece { item: place, text: piece.clone(), tokens, seed, speed });
        }
        Ok((all, dropped))
    }

    fn said(
        &self,
        item: &Item,
        spoken: SynthesizedAudio,
        rate: u32,
    ) -> Result<SentenceResult, StageError> {
        match &spoken.silent {
            _ if spoken.codes == 0 => return Ok(Err(silent(None))),
            Some(part) => return Ok(Err(silent(Some(part)))),
            None => {}
        }
        let utterance = Utterance {
            text: item.fields.text("text").unwrap_or_default(),
            samples: &spoken.samples,
            rate,
            frames: spoken.codes,
            pace: self.pace,
            work: spoken.work,
        };
        let stop = if spoken.is_cut { "limit" } else { "end" };
        Ok(utterance.output()?.map(|output| {
            let mut output = output
                .with("stop", NewValue::Text(stop.to_owned()))
                .with("pieces", NewValue::Number(spoken.pieces as f64));
            output.note(format!("ended by {stop}"), 1);
            for (character, count) in &spoken.dropped {
                output.note(dropped::note(*character), *count);
            }
            for digits in compounds(item.fields.text("text").unwrap_or_default()) {
                output.note(format!("`{digits}` read as several numbers"), 1);
            }
            if spoken.pieces > 1 {
                output.note("cut into pieces", 1);
            }
            output
        }))
    }
}

/// Tests if the model ended a piece before it spoke: there is nothing but the end.
fn is_silent(drawn: &SentenceCodes) -> bool {
    drawn.stop == Stop::End && drawn.codes.len() <= 1
}

impl XttsSynthesizer {
    /// The codes of some pieces, each with its own noise.
    fn draw(
        &self,
        mut pieces: Vec<(&Piece, SeededNoise)>,
        latents: &Tensor,
        parity: Parity,
    ) -> Result<Vec<SentenceCodes>, TorchError> {
        let sentences = pieces.iter_mut().map(|(piece, noise)| GptSentence {
            latents,
            text: &piece.tokens,
            most: self.most_codes,
            noise,
        });
        self.gpt.speak(sentences.collect(), &self.sampling, parity)
    }

    /// The audio of some pieces, and their share of the common time.
    fn speak(
        &self,
        pieces: &[Piece],
        settings: &XttsOverrides,
    ) -> Result<Vec<SynthesizedAudio>, TorchError> {
        let _guard = tch::no_grad_guard();
        let begin = Instant::now();
        let latents = self.voice.latents.squeeze_dim(0);
        let parity = settings.parity;
        let first = pieces.iter().map(|piece| (piece, SeededNoise::new(piece.seed)));
        let mut drawn = self.draw(first.collect(), &latents, parity)?;
        redraw_silent(&mut drawn, is_silent, |places, attempt| {
            let again = places.iter().map(|at| {
                let piece = &pieces[*at];
                (piece, SeededNoise::new(redraw_seed(piece.seed, attempt)))
            });
            self.draw(again.collect(), &latents, parity)
        })?;
        let mut spoken = Vec::with_capacity(pieces.len());
        for (piece, drawn) in pieces.iter().zip(drawn) {
            let hidden = self.gpt.hidden_states(&latents, &piece.tokens, &drawn.codes)?;
            let hidden = hidden.to_kind(tch::Kind::Float).unsqueeze(0);
            let speed = settings.speed * piece.speed;
            let wave = self.decoder.forward(&hidden, &self.voice.vector, speed);
            let is_cut = drawn.stop != Stop::End;
            spoken.push(SynthesizedAudio {
                samples: to_vec(&wave.view(-1)),
                codes: drawn.codes.len() - usize::from(!is_cut),
                pieces: 1,
                is_cut,
                silent: (is_silent(&drawn) && piece.text.contains(char::is_alphanumeric))
                    .then(|| piece.text.clone()),
                dropped: Dropped::new(),
                work: Duration::ZERO,
            });
        }
        let total: usize = spoken.iter().map(|spoken| spoken.codes).sum();
        let took = begin.elapsed();
        for spoken in &mut spoken {
            spoken.work = took.mul_f64(spoken.codes as f64 / total.max(1) as f64);
        }
        Ok(spoken)
    }
}

impl SynthesizedAudio {
    /// Appends another piece. One that the model ended immediately is silent.
    fn add(&mut self, piece: SynthesizedAudio) {
        self.is_cut |= piece.is_cut;
        self.silent = self.silent.take().or(piece.silent);
        self.work += piece.work;
        self.pieces += 1;
        if piece.codes > 0 {
            self.samples.extend(piece.samples);
            self.codes += piece.codes;
        }
    }
}
