//! The audio stages: parameters to options, a blob in, a blob or measures out. The functions of the
//! other modules do the work.

use super::check;
use super::clip::Clip;
use super::decode::{DecodeOptions, DecodedClip};
use super::long;
use super::loudness;
use super::measure::{self, Measures};
use super::mix::Mix;
use super::note::Note;
use super::resample::resample;
use super::source::ClipSource;
use super::trim;
use super::wav;
use crate::audio::kinds;
use stage_core::{
    Blob, Context, EachItem, Item, Job, Kind, NewValue, Output, ParameterValue, Parameters, Reject,
    Setup, Stage, StageError,
};
use std::sync::Arc;

/// The implementations of the family `audio`.
pub fn stages() -> Vec<Arc<dyn Stage>> {
    let on_clips: Vec<Arc<dyn Stage>> = vec![
        Arc::new(AudioStage { kind: &kinds::DECODE, work: |_| Ok(Box::new(Decode)) }),
        Arc::new(AudioStage { kind: &kinds::RESAMPLE, work: resampling }),
        Arc::new(AudioStage { kind: &kinds::LOUDNESS, work: levelling }),
        Arc::new(AudioStage { kind: &kinds::TRIM, work: trimming }),
        Arc::new(AudioStage { kind: &kinds::CHECK, work: checking }),
    ];
    [on_clips, long::stages()].concat()
}

struct AudioStage {
    kind: &'static Kind,
    work: fn(&Parameters) -> Result<Box<dyn ClipWork>, StageError>,
}

/// The work of one kind on a decoded recording.
trait ClipWork: Send + Sync {
    fn apply(&self, decoded: DecodedClip, source: &ClipSource) -> Result<Output, Reject>;
}

impl Stage for AudioStage {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(AudioJob {
            options: reading(self.kind, &setup.parameters)?,
            work: (self.work)(&setup.parameters)?,
        })))
    }
}

struct AudioJob {
    options: DecodeOptions,
    work: Box<dyn ClipWork>,
}

impl EachItem for AudioJob {
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let source = ClipSource::of(item, "audio", context)?;
        Ok(source.and_then(|source| self.read(source)))
    }
}

impl AudioJob {
    fn read(&self, source: ClipSource) -> Result<Output, Reject> {
        let decoded = source.decode(&self.options)?;
        let notes: Vec<_> = decoded.notes.iter().map(Note::tally).collect();
        let mut output = self.work.apply(decoded, &source)?;
        for (code, count) in notes {
            output.note(code, count);
        }
        Ok(output)
    }
}

/// The reading options from the kind's parameters.
fn reading(kind: &Kind, parameters: &Parameters) -> Result<DecodeOptions, StageError> {
    let mut options = DecodeOptions::default();
    if kind.parameter("channels").is_some() {
        options.mix = match parameters.text("channels")? {
            "left" => Mix::Left,
            "right" => Mix::Right,
            "error" => Mix::Reject,
            _ => Mix::Mean,
        };
    }
    if kind.parameter("allow_truncated").is_some() {
        options.has_allow_truncated = true;
        options.allow_truncated = parameters.flag("allow_truncated")?;
    }
    if kind.parameter("longest").is_some() {
        options.limits.seconds = parameters.seconds("longest")?;
    }
    Ok(options)
}

/// The clip in its stored form. A source in this form already is not stored again.
fn store(clip: Clip, source: &ClipSource) -> Result<Output, Reject> {
    let (bytes, clipped) = wav::write(clip)?;
    let value = if bytes == source.bytes {
        NewValue::blob(Blob { kind: wav::KIND.into(), ..Blob::clone(&source.blob) })
    } else {
        NewValue::bytes(wav::KIND, bytes)
    };
    let mut output = Output::default().with("audio", value);
    note_clipping(&mut output, clipped);
    Ok(output)
}

fn note_clipping(output: &mut Output, clipped: u64) {
    if clipped > 0 {
        output.note(Note::Clipped { samples: clipped }.code(), 1);
    }
}

struct Decode;

impl ClipWork for Decode {
    fn apply(&self, decoded: DecodedClip, source: &ClipSource) -> Result<Output, Reject> {
        let clip = decoded.clip;
        let (seconds, rate) = (clip.seconds(), f64::from(clip.rate));
        Ok(store(clip, source)?
            .with("seconds", NewValue::Number(seconds))
            .with("rate", NewValue::Number(rate)))
    }
}

struct Resample {
    rate: u32,
}

fn resampling(parameters: &Parameters) -> Result<Box<dyn ClipWork>, StageError> {
    let rate = parameters.integer("rate")?;
    let rate = u32::try_from(rate)
        .map_err(|_| StageError::failed(format!("parameter `rate` is out of range: {rate}")))?;
    Ok(Box::new(Resample { rate }))
}

impl ClipWork for Resample {
    fn apply(&self, decoded: DecodedClip, source: &ClipSource) -> Result<Output, Reject> {
        let raised = (decoded.clip.rate < self.rate).then(|| raised(&decoded.clip, self.rate));
        let resampled = resample(decoded.clip, self.rate)?;
        let mut output = store(resampled.clip, source)?;
        note_clipping(&mut output, resampled.clipped);
        if let Some(note) = raised {
            output.note(note, 1);
        }
        Ok(output)
    }
}

/// The note on a recording with a lower rate: a higher one adds no sound. The bandwidth is in whole
/// kilohertz, so that clips from one source have one note.
fn raised(clip: &Clip, rate: u32) -> String {
    let kilohertz = |rate: u32| f64::from(rate) / 1_000.0;
    let sound = measure::bandwidth_hz(clip).map_or(String::new(), |hertz| {
        format!(", with sound up to {} kHz", (hertz / 1_000.0).ceil())
    });
    format!("raised from {} to {} kHz{sound}", kilohertz(clip.rate), kilohertz(rate))
}

struct Level(loudness::LoudnessTarget);

fn levelling(parameters: &Parameters) -> Result<Box<dyn ClipWork>, StageError> {
    Ok(Box::new(Level(loudness::LoudnessTarget {
        target_lufs: parameters.number("target")?,
        max_gain_db: parameters.number("max_gain")?,
        peak_ceiling_dbtp: parameters.number("peak_ceiling")?,
    })))
}

impl ClipWork for Level {
    fn apply(&self, decoded: DecodedClip, source: &ClipSource) -> Result<Output, Reject> {
        let levelled = loudness::level(decoded.clip, &self.0)?;
        let mut output =
            store(levelled.clip, source)?.with("gain_db", NewValue::Number(levelled.gain_db));
        match levelled.held_by {
            Some(loudness::Hold::Gain) => output.note("held-by-gain", 1),
            Some(loudness::Hold::Peak) => output.note("held-by-peak", 1),
            None => {}
        }
        Ok(output)
    }
}

struct Trim(trim::TrimOptions);

fn trimming(parameters: &Parameters) -> Result<Box<dyn ClipWork>, StageError> {
    Ok(Box::new(Trim(trim::TrimOptions {
        keep_seconds: parameters.seconds("keep")?,
        threshold: parameters.number("threshold")?,
        min_speech_seconds: parameters.seconds("shortest")?,
    })))
}

impl ClipWork for Trim {
    fn apply(&self, decoded: DecodedClip, source: &ClipSource) -> Result<Output, Reject> {
        let trimmed = trim::trim(decoded.clip, &self.0)?;
        let seconds = trimmed.clip.seconds();
        let cut = trimmed.before + trimmed.behind > 0;
        let mut output = store(trimmed.clip, source)?.with("seconds", NewValue::Number(seconds));
        if cut {
            output.note("trimmed", 1);
        }
        Ok(output)
    }
}

struct Check(check::ClipLimits);

fn checking(parameters: &Parameters) -> Result<Box<dyn ClipWork>, StageError> {
    let number = |name: &str| match parameters.get(name) {
        ParameterValue::Absent => Ok(None),
        _ => parameters.number(name).map(Some),
    };
    let seconds = |name: &str| match parameters.get(name) {
        ParameterValue::Absent => Ok(None),
        _ => parameters.seconds(name).map(Some),
    };
    Ok(Box::new(Check(check::ClipLimits {
        min_duration: seconds("min_duration")?,
        max_duration: seconds("max_duration")?,
        min_peak: number("min_peak")?,
        max_clipped: number("max_clipped")?,
        max_dc_offset: number("max_dc_offset")?,
        max_silence: number("max_silence")?,
        min_snr: number("min_snr")?,
        min_bandwidth: number("min_bandwidth")?,
        min_correlation: number("min_correlation")?,
    })))
}

impl ClipWork for Check {
    fn apply(&self, decoded: DecodedClip, _: &ClipSource) -> Result<Output, Reject> {
        let report = check::check(&decoded.clip, decoded.correlation, &self.0);
        match report.failures.first() {
            None => Ok(measured(&report.measures)),
            Some(first) => {
                let reasons: Vec<String> =
                    report.failures.iter().map(|failure| failure.to_string()).collect();
                Err(Reject::new(first.rule.code, reasons.join("; ")))
            }
        }
    }
}

/// The measures as fields; missing measures are 0.
fn measured(measures: &Measures) -> Output {
    let fields = [
        ("seconds", Some(measures.seconds)),
        ("peak_dbfs", Some(measures.peak_dbfs)),
        ("rms_dbfs", Some(measures.rms_dbfs)),
        ("clipped_share", Some(measures.clipped_share)),
        ("dc_offset", Some(measures.dc_offset)),
        ("silence_share", Some(measures.silence_share)),
        ("snr", measures.snr_db),
        ("bandwidth_hz", measures.bandwidth_hz),
        ("rolloff_hz", measures.rolloff_hz),
    ];
    fields.into_iter().fold(Output::default(), |output, (name, value)| {
        output.with(name, NewValue::Number(value.unwrap_or(0.0)))
    })
}
