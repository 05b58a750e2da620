//! `text.align`: the words of segments from the script or the subtitles of their recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::text::kinds;
use cache::Digest;
use serde::Serialize;
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Blob, Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, Output,
    PortOutput, Reject, Setup, Stage, StageError,
};
use stage_families::wav2vec2::Alphabet;
use stage_formats::npy;

use super::recording::{
    AlignOptions, AlignedSegment, Alignment, RecordingSegment, ScriptText, UnheardSpan, align,
    align_text,
};
use super::romanise::{self, WORDS};
use super::text::Romanisation;
use super::viterbi::StopRequest;
use crate::corpus::corrections::{CORRECTED, DROPPED};
use crate::corpus::cues::Cue;
use crate::plain::{JSON, stage, to_json};

/// The longest shown beginning of a text that was not heard, in bytes.
const SHOWN: usize = 200;

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::ROMANISE, romanise::open), stage(&kinds::ALIGN, open)]
}

struct Align(AlignOptions);

fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let anchors = setup.parameters.integer("anchors")?;
    Ok(Job::Gather(Box::new(Align(AlignOptions {
        stars: setup.parameters.flag("star")?,
        anchors: usize::try_from(anchors).unwrap_or(1),
    }))))
}

/// A segment that can be aligned, with its place among the items.
struct PlacedSegment<'a> {
    at: usize,
    item: &'a Item,
    emissions: Arc<Blob>,
    start: f64,
    seconds: f64,
    hop: f64,
}

impl<'a> PlacedSegment<'a> {
    fn of(at: usize, item: &'a Item) -> Option<PlacedSegment<'a>> {
        let number = |name: &str| item.fields.number(name).filter(|number| number.is_finite());
        Some(PlacedSegment {
            at,
            item,
            emissions: item.fields.blob("emissions")?.clone(),
            start: number("start")?,
            seconds: number("seconds")?,
            hop: number("hop").filter(|hop| *hop > 0.0)?,
        })
    }
}

/// The text of a recording: a blob of one of two kinds, or none.
pub(super) enum TextSource {
    Cues(Arc<Blob>),
    Script(Arc<Blob>),
    Transcripts,
}

impl TextSource {
    pub(super) fn of(item: &Item) -> TextSource {
        match (item.fields.blob("cues"), item.fields.blob("script")) {
            (Some(cues), _) => TextSource::Cues(cues.clone()),
            (None, Some(script)) => TextSource::Script(script.clone()),
            (None, None) => TextSource::Transcripts,
        }
    }
}

/// A part of a script that no recording has.
#[derive(Serialize)]
struct Passage<'a> {
    recordings: &'a [String],
    /// Bytes of the text.
    start: usize,
    end: usize,
    words: usize,
    text: String,
}

/// A script with the recordings that share it, and what is unheard in each.
#[derive(Default)]
struct SharedScript {
    text: String,
    recordings: Vec<String>,
    unheard: Vec<Vec<UnheardSpan>>,
}

impl GatherJob for Align {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        // Ids are those of the segments before they were resampled.
        let before = input.items("segments").unwrap_or_default();
        let before: BTreeMap<&str, &Item> = before.iter().map(|item| (&*item.id, item)).collect();
        let (recordings, mut rejects) = by_recording(items);
        let romanised = romanised(&input, context)?;
        let mut aligned: BTreeMap<usize, AlignedSegment> = BTreeMap::new();
        let mut scripts: BTreeMap<Digest, SharedScript> = BTreeMap::new();
        let mut misplaced = 0;
        let all = recordings.len() as u64;
        for (done, (recording, mut segments)) in recordings.into_iter().enumerate() {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            segments.sort_by(|one, other| {
                one.start.total_cmp(&other.start).then(one.item.id.cmp(&other.item.id))
            });
            let (outcome, text) = self.recording(&segments, &romanised, context)?;
            let heard = scripts.entry(Digest::of(text.text.as_bytes())).or_default();
            heard.text = text.text;
            heard.recordings.push(recording.to_owned());
            heard.unheard.push(outcome.unheard);
            misplaced += outcome.misplaced as u64;
            aligned.extend(segments.iter().map(|segment| segment.at).zip(outcome.segments));
            context.progress(done as u64 + 1, all);
        }
        let mut kept = Vec::new();
        for (at, aligned) in aligned {
            match aligned.reject {
                Some(reject) => rejects.push((at, reject)),
                None => {
                    let item = &items[at];
                    kept.push(with_text(before.get(&*item.id).unwrap_or(&item), aligned)?);
                }
            }
        }
        rejects.sort_by_key(|(at, _)| *at);
        context.set_aside("input", rejects)?;
        let passages = passages(&scripts);
        let unheard = vec![("unheard".to_owned(), NewValue::bytes(JSON, to_json(&passages)?))];
        let mut output = GatherOutput::default()
            .with("output", PortOutput::Dataset(kept))
            .with("unheard", PortOutput::Artifact(unheard));
        let words: usize = passages.iter().map(|passage| passage.words).sum();
        let notes = [
            ("words of the text that were not found", words as u64),
            ("cues whose words are heard more than five seconds away", misplaced),
        ];
        let notes = notes.into_iter().filter(|(_, count)| *count > 0);
        output.notes.extend(notes.map(|(note, count)| (note.to_owned(), count)));
        Ok(output)
    }
}

/// The segments of recordings by the names of these.
type Recordings<'a> = BTreeMap<&'a str, Vec<PlacedSegment<'a>>>;

/// The segments of each recording, and the items that are none.
fn by_recording(items: &[Item]) -> (Recordings<'_>, Vec<(usize, Reject)>) {
    let (mut recordings, mut rejects) = (Recordings::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        match (item.fields.text("recording"), PlacedSegment::of(at, item)) {
            (Some(recording), Some(placed)) => {
                recordings.entry(recording).or_default().push(placed);
            }
            _ => {
                let reason = "it has no `recording`, `start`, `seconds`, `emissions` or `hop`: \
                              segments come from `audio.segment` and `asr.emit`";
                rejects.push((at, Reject::new("no-emissions", reason)));
            }
        }
    }
    (recordings, rejects)
}

impl Align {
    /// The outcome of a recording with the corrections of its segments.
    fn recording(
        &self,
        segments: &[PlacedSegment],
        romanised: &Romanisation,
        context: &mut dyn Context,
    ) -> Result<(Alignment, ScriptText), StageError> {
        let (mut outcome, text) = self.by_text(segments, romanised, context)?;
        for (segment, aligned) in segments.iter().zip(&mut outcome.segments) {
            correct(segment, aligned, romanised, context)?;
        }
        Ok((outcome, text))
    }

    /// The outcome of a recording, remembered for as long as nothing of it changes.
    fn by_text(
        &self,
        segments: &[PlacedSegment],
        romanised: &Romanisation,
        context: &mut dyn Context,
    ) -> Result<(Alignment, ScriptText), StageError> {
        let mut text = read_text(segments, context)?;
        text.romanised = romanised.of(&text.text);
        let key = self.key(segments, &text);
        const OUTCOME: &str = "outcome";
        let known = context.recall(&key)?;
        if let Some(blob) = known.as_ref().and_then(|fields| fields.blob(OUTCOME).cloned())
            && let Ok(outcome) = serde_json::from_slice(&context.read(&blob)?)
        {
            return Ok((outcome, text));
        }
        let outcome = self.align(segments, &text, context)?;
        let value = NewValue::bytes(JSON, to_json(&outcome)?);
        context.remember(&key, Output::default().with(OUTCOME, value))?;
        Ok((outcome, text))
    }

    fn key(&self, segments: &[PlacedSegment], text: &ScriptText) -> Digest {
        let mut sink = HashSink::default();
        sink.integer("stars", i64::from(self.0.stars));
        sink.integer("anchors", self.0.anchors as i64);
        sink.text("text", &text.text);
        for (bytes, times) in &text.times {
            sink.integer("from", bytes.start as i64);
            sink.integer("start", times.start.to_bits() as i64);
            sink.integer("end", times.end.to_bits() as i64);
        }
        for (word, latin) in &text.romanised.0 {
            sink.text("word", word);
            sink.text("latin", latin);
        }
        for segment in segments {
            sink.digest("emissions", &segment.emissions.digest);
            sink.text("alphabet", segment.item.fields.text("alphabet").unwrap_or_default());
            sink.integer("seconds", segment.seconds.to_bits() as i64);
            sink.integer("hop", segment.hop.to_bits() as i64);
            // Without times only the order counts.
            if !text.times.is_empty() {
                sink.integer("start", segment.start.to_bits() as i64);
            }
        }
        sink.finish()
    }

    fn align(
        &self,
        segments: &[PlacedSegment],
        text: &ScriptText,
        context: &mut dyn Context,
    ) -> Result<Alignment, StageError> {
        let (alphabet, values, segments) = heard(segments, context)?;
        let mut stopping = || context.stopping();
        align(&values, &alphabet, &segments, text, (&self.0, &mut stopping))
            .map_err(|StopRequest| StageError::Stopped)
    }
}

/// A text of a person replaces that of the script. A dropped segment is quarantined only here, since
/// its neighbours cannot be aligned without it.
fn correct(
    segment: &PlacedSegment,
    aligned: &mut AlignedSegment,
    romanised: &Romanisation,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    if let Some(why) = segment.item.fields.text(DROPPED) {
        aligned.reject = Some(Reject::new(Reject::DROPPED, why));
        return Ok(());
    }
    let Some(text) = segment.item.fields.text(CORRECTED) else { return Ok(()) };
    let (alphabet, values, placed) = heard(std::slice::from_ref(segment), context)?;
    if let [placed] = &placed[..] {
        let (romanised, text) = (romanised.of(text), text.to_owned());
        let text = ScriptText { text, romanised, ..ScriptText::default() };
        *aligned = align_text(&values, &alphabet, placed, text, &mut || context.stopping())
            .map_err(|StopRequest| StageError::Stopped)?;
    }
    Ok(())
}

/// The alphabet, and the emissions of segments in a row with their places.
fn heard(
    segments: &[PlacedSegment],
    context: &mut dyn Context,
) -> Result<(Alphabet, Vec<f32>, Vec<RecordingSegment>), StageError> {
    let alphabet: Alphabet = match segments.first().and_then(|one| one.item.fields.text("alphabet"))
    {
        Some(alphabet) => serde_json::from_str(alphabet)
            .map_err(|error| StageError::failed(format!("`alphabet` is damaged: {error}")))?,
        None => {
            return Err(StageError::failed(
                "segments have no `alphabet`: read them from `asr.emit`",
            ));
        }
    };
    let symbols = alphabet.symbols.len();
    let (mut values, mut placed) = (Vec::new(), Vec::new());
    for segment in segments {
        let id = &segment.item.id;
        let damaged = |what: String| StageError::failed(format!("the emissions of `{id}`: {what}"));
        let array = npy::read_halves(&context.read(&segment.emissions)?)
            .map_err(|error| damaged(error.to_string()))?;
        let [frames, columns] = array.shape[..] else {
            return Err(damaged("expected two dimensions".to_owned()));
        };
        if columns != symbols as u64 || alphabet.blank >= symbols {
            return Err(damaged(format!("{columns} symbols, but the alphabet has {symbols}")));
        }
        values.extend(array.values);
        let frames = frames as usize;
        let PlacedSegment { start, seconds, hop, .. } = *segment;
        placed.push(RecordingSegment { frames, start, seconds, hop });
    }
    Ok((alphabet, values, placed))
}

/// The romanisations that `text.romanise` has given.
fn romanised(input: &GatherInput, context: &mut dyn Context) -> Result<Romanisation, StageError> {
    let Some(fields) = input.artifact("romanised") else { return Ok(Romanisation::default()) };
    let blob = fields.blob(WORDS).ok_or_else(|| {
        StageError::failed("`romanised` has no `words`: it is the output of `text.romanise`")
    })?;
    serde_json::from_slice(&context.read(blob)?)
        .map_err(|error| StageError::failed(format!("`romanised` is damaged: {error}")))
}

fn read_text(
    segments: &[PlacedSegment],
    context: &mut dyn Context,
) -> Result<ScriptText, StageError> {
    let Some(first) = segments.first() else { return Ok(ScriptText::default()) };
    if let Some(text) = written(first.item, context)? {
        return Ok(text);
    }
    let milliseconds = |seconds: f64| (seconds.max(0.0) * 1000.0) as u64;
    let cue = |segment: &PlacedSegment| Cue {
        start: milliseconds(segment.start),
        end: milliseconds(segment.start + segment.seconds),
        text: segment.item.fields.text("transcript").unwrap_or_default().to_owned(),
    };
    Ok(ScriptText::of_cues(&segments.iter().map(cue).collect::<Vec<_>>()))
}

/// The script or the subtitles of a recording; None if it has only transcripts.
pub(super) fn written(
    item: &Item,
    context: &mut dyn Context,
) -> Result<Option<ScriptText>, StageError> {
    match TextSource::of(item) {
        TextSource::Script(blob) => {
            let text = String::from_utf8(context.read(&blob)?.to_vec());
            let text = text.map_err(|_| StageError::failed("a text is not UTF-8"))?;
            Ok(Some(ScriptText { text, ..ScriptText::default() }))
        }
        TextSource::Cues(blob) => {
            let cues: Vec<Cue> = serde_json::from_slice(&context.read(&blob)?)
                .map_err(|error| StageError::failed(format!("`cues` are damaged: {error}")))?;
            Ok(Some(ScriptText::of_cues(&cues)))
        }
        TextSource::Transcripts => Ok(None),
    }
}

fn with_text(item: &Item, aligned: AlignedSegment) -> Result<NewItem, StageError> {
    Ok(NewItem::kept(item)
        .with("text", NewValue::Text(aligned.text))
        .with("align_mean", NewValue::Number(aligned.mean))
        .with("align_worst", NewValue::Number(aligned.worst))
        .with("align_edge", NewValue::Number(aligned.edge))
        .with("letters_per_second", NewValue::Number(aligned.letters_per_second))
        .with("words", NewValue::bytes(JSON, to_json(&aligned.words)?)))
}

/// The passages that no recording of a script has.
fn passages(scripts: &BTreeMap<Digest, SharedScript>) -> Vec<Passage<'_>> {
    let mut found = Vec::new();
    for heard in scripts.values() {
        let (first, others) = match heard.unheard.split_first() {
            Some(split) => split,
            None => continue,
        };
        for part in first {
            // Words that another recording lacks as well.
            let is_lost = others.iter().all(|other| {
                other.iter().any(|other| other.start < part.end && part.start < other.end)
            });
            if is_lost {
                let (start, end) =
                    others.iter().flatten().fold((part.start, part.end), |range, other| {
                        let overlaps = other.start < range.1 && range.0 < other.end;
                        if overlaps {
                            (range.0.max(other.start), range.1.min(other.end))
                        } else {
                            range
                        }
                    });
                let passage = heard.text.get(start..end).unwrap_or_default();
                let shown =
                    (0..=SHOWN.min(passage.len())).rev().find(|at| passage.is_char_boundary(*at));
                found.push(Passage {
                    recordings: &heard.recordings,
                    start,
                    end,
                    words: passage.split_whitespace().count(),
                    text: passage[..shown.unwrap_or(0)].to_owned(),
                });
            }
        }
    }
    found
}
