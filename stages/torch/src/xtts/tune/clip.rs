//! Training clips of the GPT, from the texts, codes and audio that arrive.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use cache::Digest;
use stage_core::{Context, Item, Reject, StageError};
use stage_families::xtts::{LanguageCode, XttsTokenizer, clip_identity};
use tch::Tensor;

use super::crop::{crop, padded};
use crate::error::TorchError;
use crate::npy;
use crate::sound::wave;
use crate::train::clips::{self, Clips, Sides, TrainingClip, begin};
use crate::train::order::{ClipEntry, Row};
use crate::train::run::{Data, Purpose};
use crate::xtts::batch::STOPS;
use crate::xtts::mel::LogMel;
use crate::xtts::{GptBatch, GptClip, GptConfig, Packer};

/// The data of a training clip; its audio stays in its stored form.
#[derive(Clone, Debug)]
pub struct XttsClip {
    key: u64,
    text: Vec<i64>,
    pub(super) codes: Vec<i64>,
    pub(super) audio: Bytes,
}

/// Grouped by language.
pub type XttsClips = Clips<XttsClip>;

/// The settings for reading clips.
#[derive(Clone, Debug)]
pub struct Limits {
    pub min_seconds: f64,
    pub max_seconds: f64,
    pub max_text_tokens: usize,
    /// The language of clips without one.
    pub language: Option<String>,
}

pub struct XttsReading<'a> {
    pub tokenizer: &'a XttsTokenizer,
    pub gpt: &'a GptConfig,
    pub limits: &'a Limits,
}

impl XttsReading<'_> {
    pub fn clips(
        &self,
        sides: &Sides<'_>,
        context: &mut dyn Context,
    ) -> Result<XttsClips, StageError> {
        let mut languages: BTreeMap<String, u64> = BTreeMap::new();
        let mut clips = sides.clips(|item, _| {
            let clip = self.clip(item, context)?;
            Ok(clip.map(|(clip, language)| {
                *languages.entry(language).or_default() += 1;
                clip
            }))
        })?;
        std::mem::take(&mut clips.aside).tell(context)?;
        for (language, count) in languages {
            clips.notes.add(&format!("clips in `{language}`"), count);
        }
        clips.with_some_to_train_on()
    }

    /// A clip and its language.
    fn clip(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<(TrainingClip<XttsClip>, String), Reject>, StageError> {
        let missing = |field: &str| clips::missing(item, field);
        let text = item.fields.text("text").ok_or_else(|| missing("text"))?;
        let audio = item.fields.blob("audio").ok_or_else(|| missing("audio"))?;
        let tokens = item.fields.blob("tokens").ok_or_else(|| missing("tokens"))?;
        let language = item.fields.text("language").or(self.limits.language.as_deref());
        let language = LanguageCode::of(language.ok_or_else(no_language)?);
        let ids = match self.ids(text, &language) {
            Ok(ids) => ids,
            Err(reject) => return Ok(Err(reject)),
        };
        let bytes = context.read(audio)?;
        let samples = match self.samples(&bytes) {
            Ok(samples) => samples,
            Err(reject) => return Ok(Err(reject)),
        };
        let codes = npy::read(&context.read(tokens)?);
        let codes = codes.and_then(|codes| self.codes(&codes, samples));
        let codes = codes.map_err(|error| unusable(text, &error.to_string()))?;
        let digest = clip_identity(text, &language, &tokens.digest, &audio.digest);
        let entry = ClipEntry {
            id: digest.to_string(),
            length: columns(self.gpt, ids.len(), codes.len()),
            group: Digest::of(language.code().as_bytes()).start(),
        };
        let content = XttsClip { key: digest.start(), text: ids, codes, audio: bytes };
        Ok(Ok((TrainingClip { entry, begin: begin(text), content }, language.code().to_owned())))
    }

    fn ids(&self, text: &str, language: &LanguageCode) -> Result<Vec<i64>, Reject> {
        let ids = self.tokenizer.encode(text, language)?;
        let most = self.limits.max_text_tokens.min(self.gpt.max_text_tokens as usize);
        if ids.len() > most {
            Err(Reject::new(
                "text-too-long",
                format!(
                    "the text has {} tokens, more than {most}: cut the recording, or raise \
                     `max_text_tokens` if the model allows it",
                    ids.len()
                ),
            ))
        } else {
            Ok(ids)
        }
    }

    /// The number of samples of audio that the model can use.
    fn samples(&self, audio: &[u8]) -> Result<usize, Reject> {
        let (wave, gpt) = (wave::read(audio)?, self.gpt);
        if i64::from(wave.rate) != gpt.sample_rate {
            let rate = gpt.sample_rate;
            let advice = format!("put `audio.resample` with `rate = {rate}` before `vq.encode`");
            let reason =
                format!("the audio has {} Hz, but the model needs {rate} Hz; {advice}", wave.rate);
            return Err(Reject::new("rate", reason));
        }
        let samples = wave.samples.len();
        let seconds = samples as f64 / gpt.sample_rate as f64;
        let Limits { min_seconds, max_seconds, .. } = self.limits;
        if seconds > *max_seconds {
            let reason = format!("{seconds:.2} s are longer than `max_seconds` = {max_seconds} s");
            return Err(Reject::new("too-long", reason));
        }
        if seconds < *min_seconds {
            let reason = format!("{seconds:.2} s are shorter than `min_seconds` = {min_seconds} s");
            return Err(Reject::new("too-short", reason));
        }
        let most = gpt.max_generated_tokens();
        let codes = samples.div_ceil(gpt.code_stride as usize);
        if codes as i64 > most {
            Err(Reject::new(
                "too-long",
                format!("{seconds:.2} s need {codes} codes, but the model has room for {most}"),
            ))
        } else {
            Ok(samples)
        }
    }

    fn codes(
        &self,
        codes: &crate::sound::codec::Codes,
        samples: usize,
    ) -> Result<Vec<i64>, TorchError> {
        let wanted = samples.div_ceil(self.gpt.code_stride as usize);
        if codes.codebooks != 1 || codes.frames != wanted {
            return Err(TorchError::Input(format!(
                "its tokens have {} codebooks of {} codes, but its audio needs one of {wanted}",
                codes.codebooks, codes.frames
            )));
        }
        let entries = self.gpt.start_audio_token;
        let values: Vec<i64> = codes.values.iter().map(|code| i64::from(*code)).collect();
        match values.iter().find(|code| **code >= entries) {
            None => Ok(values),
            Some(code) => Err(TorchError::Input(format!(
                "its tokens have the code {code}, but the model has {entries} codes"
            ))),
        }
    }
}

/// Columns of a row: latents, START and text, START and codes and the silence after them.
fn columns(gpt: &GptConfig, text: usize, codes: usize) -> usize {
    gpt.latents as usize + 1 + text + 1 + codes + STOPS
}

fn no_language() -> StageError {
    StageError::with_help(
        "a clip has no language",
        "set `language` of this stage if all clips have the same one, or add a field `language` \
         to the clips",
    )
}

fn unusable(text: &str, why: &str) -> StageError {
    StageError::with_help(
        format!("the clip with the text `{}` does not fit the model: {why}", begin(text)),
        "encode the audio that this stage reads with the DVAE of this model",
    )
}

/// Converts clips to batches.
pub struct XttsData<'a> {
    clips: &'a [TrainingClip<XttsClip>],
    packer: Packer<'a>,
    /// Of one thread at a time, as its tensors are.
    mel: Mutex<LogMel>,
}

impl<'a> XttsData<'a> {
    pub fn new(clips: &'a XttsClips, packer: Packer<'a>, mel_stats: &Tensor) -> XttsData<'a> {
        let mel = LogMel::conditioning(packer.config.sample_rate, mel_stats);
        XttsData { clips: &clips.clips, packer, mel: Mutex::new(mel) }
    }

    fn clip(&self, clip: &XttsClip, purpose: Purpose) -> Result<GptClip, TorchError> {
        let wave = wave::read(&clip.audio).map_err(|reject| TorchError::Input(reject.reason))?;
        let crop = crop(wave.samples.len(), clip.key, purpose);
        let part = padded(&wave.samples, crop.clone());
        let mel = self.mel.lock().unwrap_or_else(PoisonError::into_inner);
        let mel = mel.forward(&Tensor::from_slice(&part).unsqueeze(0))?;
        Ok(GptClip {
            text: clip.text.clone(),
            codes: clip.codes.clone(),
            mel: Vec::try_from(mel.contiguous().view(-1))?,
            crop: Some(crop),
        })
    }
}

impl Data<GptBatch> for XttsData<'_> {
    fn batch(&self, rows: &[Row], purpose: Purpose) -> Result<GptBatch, TorchError> {
        let _guard = tch::no_grad_guard();
        let clips =
            rows.iter().flatten().map(|clip| self.clip(&self.clips[*clip].content, purpose));
        let clips: Vec<GptClip> = clips.collect::<Result<_, TorchError>>()?;
        self.packer.pack(&clips.iter().collect::<Vec<_>>(), purpose)
    }

    fn name(&self, clip: usize) -> String {
        self.clips[clip].begin.clone()
    }
}
