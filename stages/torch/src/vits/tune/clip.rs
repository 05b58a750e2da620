//! Training clips, from the texts and the audio that arrive.

use bytes::Bytes;
use stage_core::{Context, Fields, Item, Reject, StageError};
use stage_families::vits::clip_identity;

use crate::error::TorchError;
use crate::sound::wave;
use crate::train::clips::{self, Clips, Sides, TrainingClip, begin};
use crate::train::notes::Notes;
use crate::train::order::{ClipEntry, Row};
use crate::train::run::{Data, Purpose};
use crate::vits::artifact::VitsModel;
use crate::vits::{Recording, VitsBatch, VitsConfig, mel_processing};

/// The memory for spectrograms in bytes; beyond it they are computed when needed, with the same
/// result.
const KEPT: u64 = 1 << 30;

/// The data of a training clip; its audio stays in its stored form.
#[derive(Clone, Debug)]
pub struct VitsClip {
    key: u64,
    tokens: Vec<i64>,
    audio: Bytes,
    spectrogram: Option<Bytes>,
    speaker: Option<i64>,
}

pub type VitsClips = Clips<VitsClip>;

/// The settings for reading clips.
pub struct VitsReading<'a> {
    pub model: &'a VitsModel,
    pub max_seconds: f64,
}

impl VitsReading<'_> {
    pub fn clips(
        &self,
        sides: &Sides<'_>,
        context: &mut dyn Context,
    ) -> Result<VitsClips, StageError> {
        let mut kept = 0;
        let mut clips = sides.clips(|item, notes| {
            let mut clip = match self.clip(item, notes, context)? {
                Ok(clip) => clip,
                Err(reject) => return Ok(Err(reject)),
            };
            kept += clip.content.spectrogram.as_ref().map_or(0, |bytes| bytes.len() as u64);
            if kept > KEPT {
                clip.content.spectrogram = None;
            }
            Ok(Ok(clip))
        })?;
        std::mem::take(&mut clips.aside).tell(context)?;
        clips.with_some_to_train_on()
    }

    fn clip(
        &self,
        item: &Item,
        notes: &mut Notes,
        context: &mut dyn Context,
    ) -> Result<Result<TrainingClip<VitsClip>, Reject>, StageError> {
        let missing = |field: &str| clips::missing(item, field);
        let text = item.fields.text("text").ok_or_else(|| missing("text"))?;
        let blob = item.fields.blob("audio").ok_or_else(|| missing("audio"))?;
        let tokens = match self.tokens(&item.fields, notes) {
            Ok(tokens) => tokens,
            Err(reject) => return Ok(Err(reject)),
        };
        let audio = context.read(blob)?;
        let frames = self.frames(&audio).map_err(|reject| unusable(text, &reject.reason))?;
        if let Some(reject) = self.misfit(frames, tokens.len()) {
            return Ok(Err(reject));
        }
        let speaker = item.fields.text("speaker");
        let number =
            self.model.speaker(speaker).map_err(|error| unusable(text, &error.to_string()))?;
        let spectrogram = item.fields.blob("spectrogram");
        let spectrogram = spectrogram.map(|blob| context.read(blob)).transpose()?;
        if let Some(bytes) = &spectrogram {
            self.check(bytes, frames).map_err(|error| unusable(text, &error.to_string()))?;
        }
        let digest = clip_identity(text, &blob.digest, speaker.filter(|_| number.is_some()));
        let entry = ClipEntry { id: digest.to_string(), length: frames, group: 0 };
        let key = digest.start();
        let content = VitsClip { key, tokens, audio, spectrogram, speaker: number };
        Ok(Ok(TrainingClip { entry, begin: begin(text), content }))
    }

    fn tokens(&self, fields: &Fields, notes: &mut Notes) -> Result<Vec<i64>, Reject> {
        let tokens = self.model.tokens_of(fields)?;
        let unknown = tokens.unknown.keys().filter(|character| character.is_alphanumeric());
        let unknown: Vec<String> = unknown.map(|character| format!("`{character}`")).collect();
        if !unknown.is_empty() {
            let reason = format!(
                "the model has no symbol for {} of the text: replace it, for example with \
                 `text.normalize`",
                unknown.join(", ")
            );
            return Err(Reject::new("unknown-letters", reason));
        }
        let marks: usize = tokens.unknown.values().sum();
        if marks > 0 {
            notes.add("marks without a symbol in the model, dropped from texts", marks as u64);
        }
        Ok(tokens.ids)
    }

    /// The number of frames of audio at the model's rate.
    fn frames(&self, audio: &[u8]) -> Result<usize, Reject> {
        let (wave, config) = (wave::read(audio)?, &self.model.config);
        let rate = config.sampling_rate;
        if i64::from(wave.rate) != rate {
            let advice = format!("put `audio.resample` with `rate = {rate}` before this stage");
            let reason =
                format!("its audio has {} Hz, but the model needs {rate} Hz; {advice}", wave.rate);
            return Err(Reject::new("rate", reason));
        }
        Ok(wave.samples.len() / config.hop() as usize)
    }

    /// The reason why a clip of this number of frames and tokens is unusable.
    fn misfit(&self, frames: usize, tokens: usize) -> Option<Reject> {
        let config = &self.model.config;
        let seconds =
            |frames: i64| frames as f64 * config.hop() as f64 / config.sampling_rate as f64;
        let (own, part) = (seconds(frames as i64), config.segment_frames());
        if own > self.max_seconds {
            let most = self.max_seconds;
            let reason = format!("{own:.2} s are longer than `max_seconds` = {most} s");
            return Some(Reject::new("too-long", reason));
        }
        if (frames as i64) < part {
            let part = seconds(part);
            let reason = format!("{own:.2} s are shorter than the part of {part:.2} s, `segment`");
            return Some(Reject::new("too-short", reason));
        }
        (frames < tokens).then(|| {
            let reason = format!(
                "the text has {tokens} symbols, but the recording has only {frames} frames: one \
                 of them is incomplete"
            );
            Reject::new("too-much-text", reason)
        })
    }

    fn check(&self, spectrogram: &[u8], frames: usize) -> Result<(), TorchError> {
        let own = mel_processing::read(spectrogram, &self.model.config)?.size()[1];
        if own == frames as i64 {
            Ok(())
        } else {
            Err(TorchError::Input(format!(
                "its spectrogram has {own} frames, but its audio has {frames}: it belongs to \
                 other audio"
            )))
        }
    }
}

fn unusable(text: &str, why: &str) -> StageError {
    StageError::with_help(
        format!("the clip with the text `{}` does not fit the model: {why}", begin(text)),
        "clips need mono WAV at the model's rate, spectrograms of `vits.spectrogram` made for this \
         model, and a speaker that it knows",
    )
}

impl VitsClip {
    pub fn tokens(&self) -> &[i64] {
        &self.tokens
    }

    pub fn speaker(&self) -> Option<i64> {
        self.speaker
    }

    fn recording(&self) -> Result<Recording, TorchError> {
        let wave = wave::read(&self.audio).map_err(|reject| TorchError::Input(reject.reason))?;
        Ok(Recording {
            key: self.key,
            tokens: self.tokens.clone(),
            wave: wave.samples,
            spectrogram: self.spectrogram.clone(),
            speaker: self.speaker,
        })
    }
}

/// Makes batches of clips.
pub struct VitsData<'a> {
    clips: &'a [TrainingClip<VitsClip>],
    config: VitsConfig,
}

impl<'a> VitsData<'a> {
    pub fn new(clips: &'a VitsClips, config: &VitsConfig) -> VitsData<'a> {
        VitsData { clips: &clips.clips, config: config.clone() }
    }
}

impl Data<VitsBatch> for VitsData<'_> {
    fn batch(&self, rows: &[Row], _: Purpose) -> Result<VitsBatch, TorchError> {
        let clips = rows.iter().flatten().map(|clip| self.clips[*clip].content.recording());
        Ok(VitsBatch::new(clips.collect::<Result<_, _>>()?, self.config.hop()))
    }

    fn stage(&self, batch: VitsBatch, is_for_gpu: bool) -> Result<VitsBatch, TorchError> {
        batch.staged(&self.config, is_for_gpu)
    }

    fn name(&self, clip: usize) -> String {
        self.clips[clip].begin.clone()
    }
}
