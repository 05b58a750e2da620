//! The stages on recordings that are too long for the memory: `audio.pauses` and `audio.segment`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::audio::kinds;
use cache::Digest;
use stage_core::{
    Context, EachItem, FileParts, Item, Job, NewItem, NewValue, Output, Parameters, Reject, Setup,
    Stage, StageError,
};
use stage_formats::npy::{self, IntArray, Width};

use super::clip::{Clip, Samples};
use super::cuts::{CutParts, Lengths, cut};
use super::decode::DecodeOptions;
use super::fault::ReadError;
use super::note::Note;
use super::pauses::{Pause, PauseRule, Pauses};
use super::stream::{Stream, file_of};
use super::wav;
use crate::plain::stage;

/// The letters of a name: those of RFC 4648 in lower case.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The letters of the name of a segment: 50 bits.
const NAME: usize = 10;

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::PAUSES, open_pauses), stage(&kinds::SEGMENT, open_segment)]
}

struct PausesJob {
    /// Box, surroundings, shortest dip.
    seconds: [f64; 3],
    decibels: f64,
}

fn open_pauses(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    Ok(Job::Item(Box::new(PausesJob {
        seconds: [
            parameters.seconds("box")?,
            parameters.seconds("around")?,
            parameters.seconds("least")?,
        ],
        decibels: parameters.number("dip")?,
    })))
}

impl EachItem for PausesJob {
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let parts = match file_of(item, context)? {
            Ok(parts) => parts,
            Err(reject) => return Ok(Err(reject)),
        };
        match self.find(parts, context) {
            Ok(PauseScan { pauses, seconds, notes }) => {
                let mut output = Output::default()
                    .with("pauses", NewValue::bytes(kinds::PAUSES_KIND, encode(&pauses)?))
                    .with("seconds", NewValue::Number(seconds));
                tell(&mut output, &notes);
                Ok(Ok(output))
            }
            Err(CutError::Trouble(trouble)) => trouble.judge().map(Err),
            Err(CutError::Stage(error)) => Err(error),
        }
    }
}

impl PausesJob {
    fn find(
        &self,
        parts: Arc<dyn FileParts>,
        context: &mut dyn Context,
    ) -> Result<PauseScan, CutError> {
        let mut stream = Stream::open(parts, &DecodeOptions::default())?;
        let rule = PauseRule::new(stream.rate, self.seconds, self.decibels);
        let (mut pauses, mut samples) = (Pauses::new(rule), Vec::new());
        while stream.read_pcm(&mut samples)? {
            pauses.push(&samples, stream.channels);
            samples.clear();
            stop_if_asked(context)?;
        }
        let seconds = stream.frames as f64 / f64::from(stream.rate);
        Ok(PauseScan { pauses: pauses.finish(), seconds, notes: stream.take_notes() })
    }
}

/// The pauses of a recording.
struct PauseScan {
    pauses: Vec<Pause>,
    seconds: f64,
    notes: Vec<Note>,
}

/// The reason why the work on a recording ended early.
enum CutError {
    Trouble(ReadError),
    Stage(StageError),
}

impl From<ReadError> for CutError {
    fn from(trouble: ReadError) -> CutError {
        CutError::Trouble(trouble)
    }
}

impl From<StageError> for CutError {
    fn from(error: StageError) -> CutError {
        CutError::Stage(error)
    }
}

fn stop_if_asked(context: &mut dyn Context) -> Result<(), StageError> {
    if context.stopping() { Err(StageError::Stopped) } else { Ok(()) }
}

/// One row for each pause: start, end, quietest place.
fn encode(pauses: &[Pause]) -> Result<Vec<u8>, StageError> {
    let row = |pause: &Pause| [pause.start, pause.end, pause.quietest].map(|at| at as i64);
    let values: Vec<i64> = pauses.iter().flat_map(row).collect();
    let array = IntArray { shape: vec![pauses.len() as u64, 3], values };
    npy::write(&array, Width::I64).map_err(|error| StageError::failed(error.to_string()))
}

fn decode(bytes: &[u8]) -> Result<Vec<Pause>, StageError> {
    let array = npy::read(bytes).map_err(|error| StageError::failed(error.to_string()))?;
    let (rows, _) = array.values.as_chunks::<3>();
    let pause = |row: &[i64; 3]| {
        let [start, end, quietest] = row.map(|at| u64::try_from(at).unwrap_or(0));
        Pause { start, end: end.max(start), quietest }
    };
    Ok(rows.iter().map(pause).collect())
}

struct SegmentJob {
    cut_at: f64,
    wanted: f64,
    shortest: f64,
    longest: f64,
}

fn open_segment(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let seconds = |name: &str| Parameters::seconds(&setup.parameters, name);
    Ok(Job::Item(Box::new(SegmentJob {
        cut_at: seconds("cut_at")?,
        wanted: seconds("wanted")?,
        shortest: seconds("shortest")?,
        longest: seconds("longest")?,
    })))
}

impl EachItem for SegmentJob {
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let Some(pauses) = item.fields.blob("pauses").cloned() else {
            let reason = "the item has no field `pauses`: read items of `audio.pauses`";
            return Ok(Err(Reject::new("no-pause", reason)));
        };
        let pauses = decode(&context.read(&pauses)?)?;
        let parts = match file_of(item, context)? {
            Ok(parts) => parts,
            Err(reject) => return Ok(Err(reject)),
        };
        match self.segments(parts, &pauses, context) {
            Ok(Segments { children, left_out, .. }) if children.is_empty() => {
                let reason = format!(
                    "the recording has no pause within {left_out:.1} s, but a segment lasts at \
                     most {:.1} s",
                    self.longest
                );
                Ok(Err(Reject::new("no-pause", reason)))
            }
            Ok(Segments { children, left_out, notes }) => {
                let mut output = Output::of_children(children)?;
                tell(&mut output, &notes);
                if left_out > 0.0 {
                    output.note("seconds without a pause", left_out.ceil() as u64);
                }
                Ok(Ok(output))
            }
            Err(CutError::Trouble(trouble)) => trouble.judge().map(Err),
            Err(CutError::Stage(error)) => Err(error),
        }
    }
}

impl SegmentJob {
    fn segments(
        &self,
        parts: Arc<dyn FileParts>,
        pauses: &[Pause],
        context: &mut dyn Context,
    ) -> Result<Segments, CutError> {
        let (frames, notes) = length(parts.clone(), context)?;
        let mut stream = Stream::open(parts, &DecodeOptions::default())?;
        let (rate, channels) = (stream.rate, usize::from(stream.channels.max(1)));
        let CutParts { parts: ranges, left_out } = cut(pauses, frames, &self.lengths(rate));
        let (mut held, mut start) = (Vec::new(), 0);
        let mut names = SegmentNames::default();
        let mut children = Vec::new();
        for range in ranges {
            while (stream.frames < range.end) && stream.read_pcm(&mut held)? {
                // Nothing before the segment is needed.
                let before = range.start.saturating_sub(start).min(stream.frames - start);
                held.drain(..before as usize * channels);
                start += before;
                stop_if_asked(context)?;
            }
            let before = range.start.saturating_sub(start);
            let count = (range.end - range.start) as usize * channels;
            held.drain(..(before as usize * channels).min(held.len()));
            let samples: Vec<i16> = held.drain(..count.min(held.len())).collect();
            start = range.end;
            let at = (range.start as f64, range.end as f64);
            let seconds = [at.0 / f64::from(rate), (at.1 - at.0) / f64::from(rate)];
            let clip = Clip { rate, channels: channels as u16, samples: Samples::Pcm(samples) };
            children.push(child(clip, seconds, &mut names, context)?);
        }
        let out: u64 = left_out.iter().map(|range| range.end - range.start).sum();
        Ok(Segments { children, left_out: out as f64 / f64::from(rate), notes })
    }

    fn lengths(&self, rate: u32) -> Lengths {
        let frames = |seconds: f64| (seconds * f64::from(rate)).round() as u64;
        Lengths {
            cut_at: frames(self.cut_at),
            wanted: frames(self.wanted),
            shortest: frames(self.shortest),
            longest: frames(self.longest),
        }
    }
}

/// The segments of a recording.
struct Segments {
    children: Vec<NewItem>,
    /// The seconds that are in none.
    left_out: f64,
    notes: Vec<Note>,
}

fn tell(output: &mut Output, notes: &[Note]) {
    for (code, count) in notes.iter().map(Note::tally) {
        output.note(code, count);
    }
}

/// The frames of a recording, which no header tells for certain, and the notes on it.
fn length(
    parts: Arc<dyn FileParts>,
    context: &mut dyn Context,
) -> Result<(u64, Vec<Note>), CutError> {
    let mut stream = Stream::open(parts, &DecodeOptions::default())?;
    let mut samples = Vec::new();
    while stream.read_pcm(&mut samples)? {
        samples.clear();
        stop_if_asked(context)?;
    }
    Ok((stream.frames, stream.take_notes()))
}

fn child(
    clip: Clip,
    [start, seconds]: [f64; 2],
    names: &mut SegmentNames,
    context: &mut dyn Context,
) -> Result<NewItem, CutError> {
    let (bytes, _) = wav::write(clip).map_err(ReadError::Fault)?;
    let blob = context.keep(wav::KIND, bytes.into())?;
    let id = names.next(&blob.digest);
    let values = vec![
        ("audio".to_owned(), NewValue::blob(blob)),
        ("start".to_owned(), NewValue::Number(start)),
        ("seconds".to_owned(), NewValue::Number(seconds)),
    ];
    Ok(NewItem { id, values })
}

/// Names by content; equal segments of one recording are numbered.
#[derive(Default)]
pub struct SegmentNames(HashMap<String, u32>);

impl SegmentNames {
    pub fn next(&mut self, digest: &Digest) -> String {
        let name = name(digest);
        let count = self.0.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name}-{count}") }
    }
}

/// The first bits of a digest in base 32.
pub fn name(digest: &Digest) -> String {
    let mut bits = 0_u64;
    for byte in &digest.as_bytes()[..8] {
        bits = bits << 8 | u64::from(*byte);
    }
    let letter = |at: usize| char::from(LETTERS[(bits >> (59 - 5 * at)) as usize & 31]);
    (0..NAME).map(letter).collect()
}

/// Tests if [`name`] may have given this name.
pub fn is_name(text: &str) -> bool {
    text.len() == NAME && text.bytes().all(|byte| LETTERS.contains(&byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_the_first_bits_in_base_32() {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&[0xFF, 0x00, 0x84, 0x21]);
        let digest = Digest::from_bytes(bytes);
        // 11111 11100 00000 01000 01000 01000 01000 and zeros.
        assert_eq!(name(&digest), "74aiiiiaaa");
        let mut names = SegmentNames::default();
        let twice = [names.next(&digest), names.next(&digest)];
        assert_eq!(twice[1], format!("{}-2", twice[0]));
    }

    #[test]
    fn pauses_survive_a_round_trip() {
        let pauses = vec![Pause { start: 1, end: 9, quietest: 4 }];
        assert_eq!(decode(&encode(&pauses).unwrap()).unwrap(), pauses);
        assert_eq!(decode(&encode(&[]).unwrap()).unwrap(), []);
    }
}
