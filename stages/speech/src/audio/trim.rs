//! Cuts the silence before and after the speech, using a voice activity detector. Everything
//! between is left alone.

use super::clip::{Clip, Samples};
use super::fault::Fault;
use super::resample::resample;
use earshot::Detector;
use std::ops::Range;

/// The rate and the frame length of the detector.
const RATE: u32 = 16_000;
const FRAME: usize = 256;

/// The options for cutting.
#[derive(Debug, Clone, PartialEq)]
pub struct TrimOptions {
    /// The silence kept before and after the speech.
    pub keep_seconds: f64,
    /// The score, from 0 to 1, from which a frame counts as speech.
    pub threshold: f64,
    /// Shorter bursts are clicks.
    pub min_speech_seconds: f64,
}

impl Default for TrimOptions {
    fn default() -> Self {
        Self { keep_seconds: 0.25, threshold: 0.5, min_speech_seconds: 0.05 }
    }
}

/// A clip that was trimmed.
#[derive(Debug, Clone, PartialEq)]
pub struct TrimmedClip {
    pub clip: Clip,
    /// Frames cut at the start and at the end.
    pub before: usize,
    pub behind: usize,
}

/// Trims `clip`; a clip without speech is a fault.
pub fn trim(clip: Clip, options: &TrimOptions) -> Result<TrimmedClip, Fault> {
    let scores = scores(&clip)?;
    let speech = speech(&scores, options).ok_or(Fault::NoSpeech)?;
    let range = window(&clip, speech, options.keep_seconds);
    let (before, behind) = (range.start, clip.frames() - range.end);
    let mut clip = clip;
    clip.keep(range);
    Ok(TrimmedClip { clip, before, behind })
}

/// The frames of the clip to keep, around the detector's speech frames.
fn window(clip: &Clip, speech: Range<usize>, keep_seconds: f64) -> Range<usize> {
    let seconds = |frame: usize| (frame * FRAME) as f64 / f64::from(RATE);
    let rate = f64::from(clip.rate);
    let start = (seconds(speech.start) - keep_seconds).max(0.0) * rate;
    let end = (seconds(speech.end) + keep_seconds) * rate;
    start as usize..(end.ceil() as usize).min(clip.frames())
}

/// The detector's score of every frame.
fn scores(clip: &Clip) -> Result<Vec<f32>, Fault> {
    let (samples, _) = resample(first_channel(clip), RATE)?.clip.into_pcm();
    let mut detector = Detector::default();
    let mut padded = [0; FRAME];
    let scores = samples.chunks(FRAME).map(|frame| {
        padded[..frame.len()].copy_from_slice(frame);
        padded[frame.len()..].fill(0);
        detector.predict_i16(&padded)
    });
    Ok(scores.collect())
}

fn first_channel(clip: &Clip) -> Clip {
    let channels = usize::from(clip.channels);
    if channels == 1 {
        return clip.clone();
    }
    let samples = match &clip.samples {
        Samples::Pcm(samples) => Samples::Pcm(samples.iter().step_by(channels).copied().collect()),
        Samples::Wide(samples) => {
            Samples::Wide(samples.iter().step_by(channels).copied().collect())
        }
    };
    Clip { rate: clip.rate, channels: 1, samples }
}

/// From the first speech frame to the end of the last one.
fn speech(scores: &[f32], options: &TrimOptions) -> Option<Range<usize>> {
    let seconds = FRAME as f64 / f64::from(RATE);
    let shortest = (options.min_speech_seconds / seconds).ceil() as usize;
    let mut found: Option<Range<usize>> = None;
    let mut at = 0;
    for run in scores.chunk_by(|a, b| is_speech(*a, options) == is_speech(*b, options)) {
        let end = at + run.len();
        if run.len() >= shortest && is_speech(run[0], options) {
            let start = found.map_or(at, |found| found.start);
            found = Some(start..end);
        }
        at = end;
    }
    found
}

fn is_speech(score: f32, options: &TrimOptions) -> bool {
    f64::from(score) >= options.threshold
}
