//! Cuts parts out of a recording, sample by sample, in one pass over it.

use std::sync::Arc;

use stage_core::FileParts;

use super::RowProblem;
use super::part::Part;
use crate::audio::clip::{Clip, Samples};
use crate::audio::decode::DecodeOptions;
use crate::audio::fault::ReadError;
use crate::audio::stream::Stream;
use crate::audio::wav;

/// A part may end this far behind the recording, by rounding.
const TOLERANCE_SECONDS: f64 = 0.1;
/// The longest part: its samples are in memory.
const MAX_PART_SECONDS: u64 = 3600;

/// The clip of a part.
#[derive(Debug, PartialEq)]
pub struct PartClip {
    pub seconds: f64,
    /// The part as WAV; None if it is the whole recording.
    pub bytes: Option<Vec<u8>>,
}

/// Reads a recording and hands over each part with its place in the list, in the order of their ends.
pub fn cut(
    recording: Arc<dyn FileParts>,
    parts: &[Part],
    each: &mut dyn FnMut(usize, Result<PartClip, RowProblem>),
) -> Result<(), ReadError> {
    let mut stream = Stream::open(recording, &DecodeOptions::default())?;
    let mut window =
        SampleWindow { rate: stream.rate, channels: stream.channels, start: 0, held: vec![] };
    let mut open: Vec<Open> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match Open::new(at, *part, &window) {
            Ok(one) => open.push(one),
            Err(problem) => each(at, Err(problem)),
        }
    }
    open.sort_by_key(|one| std::cmp::Reverse(one.end.unwrap_or(u64::MAX)));
    while !open.is_empty() {
        let more = stream.read_pcm(&mut window.held)?;
        // Behind the end of a part, there must be a sample: else it may be the whole recording.
        while let Some(one) = open.pop_if(|one| one.end.is_some_and(|end| end < stream.frames)) {
            each(one.at, one.clip(&window, None));
        }
        if !more {
            open.drain(..)
                .rev()
                .for_each(|one| each(one.at, one.clip(&window, Some(stream.frames))));
        }
        let needed = open.iter().map(|one| one.start).min().unwrap_or(stream.frames);
        window.drop_before(needed.min(stream.frames));
        let longest = MAX_PART_SECONDS * u64::from(stream.rate);
        let is_long = |one: &mut Open| one.start + longest < stream.frames;
        for one in open.extract_if(.., is_long) {
            each(one.at, Err(RowProblem::LongPart { most: MAX_PART_SECONDS }));
        }
    }
    Ok(())
}

/// The samples of a recording that parts still need.
struct SampleWindow {
    rate: u32,
    channels: u16,
    /// The frame of the first sample.
    start: u64,
    held: Vec<i16>,
}

impl SampleWindow {
    fn drop_before(&mut self, frame: u64) {
        let frames = frame.saturating_sub(self.start);
        // Moving the rest is cheap if it is less than what goes.
        let samples = frames as usize * usize::from(self.channels.max(1));
        if samples * 2 >= self.held.len() {
            self.held.drain(..samples.min(self.held.len()));
            self.start += frames;
        }
    }

    /// The frames of a range, of one channel or of all.
    fn samples(&self, start: u64, end: u64, channel: Option<u16>) -> Vec<i16> {
        let channels = usize::from(self.channels.max(1));
        let place = |frame: u64| {
            (frame.saturating_sub(self.start) as usize * channels).min(self.held.len())
        };
        let samples = &self.held[place(start)..place(end)];
        match channel {
            Some(channel) => {
                samples.iter().skip(channel.into()).step_by(channels).copied().collect()
            }
            None => samples.to_vec(),
        }
    }
}

/// A part whose end has not been reached.
struct Open {
    at: usize,
    start: u64,
    /// None: the end of the recording.
    end: Option<u64>,
    channel: Option<u16>,
}

impl Open {
    fn new(at: usize, part: Part, window: &SampleWindow) -> Result<Open, RowProblem> {
        let Part { start, seconds, channel } = part;
        if let Some(channel) = channel.filter(|channel| *channel >= window.channels) {
            return Err(RowProblem::NoChannel { channel, found: window.channels });
        }
        if seconds.is_some_and(|seconds| seconds > MAX_PART_SECONDS as f64) {
            return Err(RowProblem::LongPart { most: MAX_PART_SECONDS });
        }
        let frame = |seconds: f64| (seconds * f64::from(window.rate)).round() as u64;
        let start = frame(start);
        let end = seconds.map(|seconds| start + frame(seconds));
        if let Some(end) = end.filter(|end| *end <= start) {
            let seconds = |frame: u64| frame as f64 / f64::from(window.rate);
            return Err(RowProblem::NoLength { start: seconds(start), end: seconds(end) });
        }
        let channel = channel.filter(|_| window.channels > 1);
        Ok(Open { at, start, end, channel })
    }

    /// The clip; `frames` is the length of the recording, if it has ended.
    fn clip(&self, window: &SampleWindow, frames: Option<u64>) -> Result<PartClip, RowProblem> {
        let rate = f64::from(window.rate.max(1));
        let end = match (self.end, frames) {
            (Some(end), Some(frames)) => {
                let is_beyond = end as f64 > frames as f64 + TOLERANCE_SECONDS * rate;
                if is_beyond || self.start >= frames {
                    let seconds = frames as f64 / rate;
                    return Err(RowProblem::BeyondEnd { end: end as f64 / rate, seconds });
                }
                end.min(frames)
            }
            (end, frames) => end.or(frames).unwrap_or(self.start),
        };
        let seconds = (end - self.start) as f64 / rate;
        if self.start == 0 && frames == Some(end) && self.channel.is_none() {
            return Ok(PartClip { seconds, bytes: None });
        }
        let channels = if self.channel.is_some() { 1 } else { window.channels };
        let samples = window.samples(self.start, end, self.channel);
        let clip = Clip { rate: window.rate, channels, samples: Samples::Pcm(samples) };
        let (bytes, _) =
            wav::write(clip).map_err(|_| RowProblem::LongPart { most: MAX_PART_SECONDS })?;
        Ok(PartClip { seconds, bytes: Some(bytes) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use super::*;

    const RATE: u32 = 8_000;

    fn recording(channels: u16, samples: Vec<i16>) -> Arc<dyn FileParts> {
        let samples = Samples::Pcm(samples);
        Arc::new(Bytes::from(wav::write(Clip { rate: RATE, channels, samples }).unwrap().0))
    }

    fn part(start: f64, seconds: f64) -> Part {
        Part { start, seconds: Some(seconds), channel: None }
    }

    /// The samples of each part; none for the whole recording.
    fn cuts(from: Arc<dyn FileParts>, parts: &[Part]) -> Vec<Result<Option<Vec<i16>>, RowProblem>> {
        let mut found: Vec<_> = parts.iter().map(|_| None).collect();
        cut(from, parts, &mut |at, cut| {
            let samples = |bytes: Vec<u8>| {
                let mut reader = hound::WavReader::new(&bytes[..]).unwrap();
                reader.samples::<i16>().map(Result::unwrap).collect()
            };
            assert!(found[at].replace(cut.map(|cut| cut.bytes.map(samples))).is_none());
        })
        .unwrap();
        found.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn parts_have_exactly_their_samples_in_any_order_and_overlapping() {
        let samples: Vec<i16> =
            (0..1_000_000).map(|at| (at * 31 % 60_000 - 30_000) as i16).collect();
        let parts =
            [part(60.0, 2.5), part(0.0, 1.0), part(0.5, 100.0), part(124.0, 1.0), part(0.0, 125.0)];
        let found = cuts(recording(1, samples.clone()), &parts);
        let own = |range: std::ops::Range<usize>| Ok(Some(samples[range].to_vec()));
        assert_eq!(found[0], own(480_000..500_000));
        assert_eq!(found[1], own(0..8_000));
        assert_eq!(found[2], own(4_000..804_000));
        assert_eq!(found[3], own(992_000..1_000_000));
        assert_eq!(found[4], Ok(None), "the whole recording");
    }

    #[test]
    fn a_channel_is_taken_and_one_that_is_not_there_is_refused() {
        let samples: Vec<i16> = (0..16_000).collect();
        let channel = |seconds, channel| Part { start: 0.0, seconds, channel: Some(channel) };
        let parts = [channel(None, 0), channel(Some(0.5), 1), channel(None, 2)];
        let found = cuts(recording(2, samples.clone()), &parts);
        let every = |from: usize, to: usize| {
            Ok(Some(samples[..to].iter().skip(from).step_by(2).copied().collect::<Vec<i16>>()))
        };
        assert_eq!(found[0], every(0, 16_000));
        assert_eq!(found[1], every(1, 8_000));
        assert_eq!(found[2], Err(RowProblem::NoChannel { channel: 2, found: 2 }));
        let mono = cuts(recording(1, samples), &[channel(None, 0), channel(None, 1)]);
        assert_eq!(mono[0], Ok(None));
        assert!(mono[1].is_err());
    }

    #[test]
    fn a_part_may_end_behind_the_recording_only_by_rounding() {
        let found =
            cuts(recording(1, vec![1; 8_000]), &[part(0.5, 0.55), part(0.5, 0.7), part(1.0, 0.05)]);
        assert_eq!(found[0], Ok(Some(vec![1; 4_000])));
        assert_eq!(found[1], Err(RowProblem::BeyondEnd { end: 1.2, seconds: 1.0 }));
        assert!(found[2].is_err(), "it has no sample");
    }
}
