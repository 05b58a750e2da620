//! `corpus.corrections`: applies the table of a person to segments.

use std::collections::HashSet;
use std::sync::Arc;

use crate::corpus::kinds;
use cache::Digest;
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Blob, Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, Output,
    PortOutput, Reject, Setup, StageError, Value,
};

use super::apply::{
    AudioEditor, CorrectableSegment, CorrectedSegment, CorrectionError, UnusedLine, apply,
};
use super::sound::{self, Piece};
use super::table::{Correction, CorrectionLine, CorrectionTable};
use super::{CORRECTED, DROPPED, name};
use crate::audio::wav;

const WHY: &str = "dropped by the table of corrections";
/// The fields that describe the audio of a whole segment, and not its parts.
const OF_THE_WHOLE: [&str; 12] = [
    "text",
    "words",
    "transcript",
    "emissions",
    "alphabet",
    "hop",
    "align_mean",
    "align_worst",
    "align_edge",
    "letters_per_second",
    CORRECTED,
    DROPPED,
];

struct Corrections {
    table: CorrectionTable,
    /// Dropped segments go on with a mark.
    marks: bool,
}

pub fn open(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let table = match setup.files.get("table") {
        Some(blob) => CorrectionTable::read(&context.read(blob)?).map_err(StageError::failed)?,
        None => CorrectionTable::default(),
    };
    let marks = setup.parameters.text("drops")? == kinds::MARK;
    Ok(Job::Gather(Box::new(Corrections { table, marks })))
}

/// An item, or a part of one, or several joined.
#[derive(Clone)]
struct ItemPart {
    /// The item that it has its fields from.
    at: usize,
    recording: Option<Arc<str>>,
    name: String,
    /// None for a part of an item, and for several joined.
    id: Option<Arc<str>>,
    start: f64,
    seconds: f64,
    audio: Option<Arc<Blob>>,
}

impl ItemPart {
    fn of(at: usize, item: &Item) -> ItemPart {
        let number = |name: &str| item.fields.number(name).filter(|number| number.is_finite());
        let audio = item.fields.blob("audio").cloned();
        let place = (item.fields.get("recording"), number("start"), number("seconds"));
        let (recording, start, seconds) = match place {
            (Some(Value::Text(recording)), Some(start), Some(seconds)) => {
                (Some(recording.clone()), start, seconds)
            }
            _ => (None, 0.0, 0.0),
        };
        let name = audio.as_ref().map(|audio| name(&audio.digest)).unwrap_or_default();
        ItemPart { at, recording, name, id: Some(item.id.clone()), start, seconds, audio }
    }

    fn with(&self, (audio, seconds): (Arc<Blob>, f64), start: f64) -> ItemPart {
        let name = name(&audio.digest);
        ItemPart { name, id: None, start, seconds, audio: Some(audio), ..self.clone() }
    }

    fn is_new(&self) -> bool {
        self.id.is_none()
    }
}

impl CorrectableSegment for ItemPart {
    fn name(&self) -> &str {
        &self.name
    }

    fn clip_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn place(&self) -> Option<(&str, f64, f64)> {
        let recording = self.recording.as_deref()?;
        Some((recording, self.start, self.start + self.seconds))
    }
}

struct Cutter<'c>(&'c mut dyn Context);

impl AudioEditor<ItemPart> for Cutter<'_> {
    type Fault = StageError;

    fn split(&mut self, part: &ItemPart, at: f64) -> Result<Option<[ItemPart; 2]>, StageError> {
        let Some(audio) = &part.audio else { return Ok(None) };
        let mut sink = HashSink::default();
        sink.digest("split", &audio.digest);
        sink.number("at", at);
        let made = self.made(&sink.finish(), |context| {
            let parts = sound::split(&context.read(audio)?, at).map_err(StageError::failed)?;
            Ok(parts.map(Vec::from).unwrap_or_default())
        })?;
        let parts = <[_; 2]>::try_from(made).ok();
        Ok(parts.map(|[first, second]| {
            let behind = part.start + first.1;
            [part.with(first, part.start), part.with(second, behind)]
        }))
    }

    fn join(&mut self, one: &ItemPart, other: &ItemPart) -> Result<Option<ItemPart>, StageError> {
        let (Some(first), Some(second)) = (&one.audio, &other.audio) else { return Ok(None) };
        let mut sink = HashSink::default();
        sink.digest("join", &first.digest);
        sink.digest("with", &second.digest);
        let made = self.made(&sink.finish(), |context| {
            let (first, second) = (context.read(first)?, context.read(second)?);
            let joined = sound::join(&first, &second).map_err(StageError::failed)?;
            Ok(joined.into_iter().collect())
        })?;
        Ok(made.into_iter().next().map(|joined| one.with(joined, one.start)))
    }
}

impl Cutter<'_> {
    /// Sounds with their lengths, remembered for the next run.
    fn made(
        &mut self,
        key: &Digest,
        make: impl FnOnce(&mut dyn Context) -> Result<Vec<Piece>, StageError>,
    ) -> Result<Vec<(Arc<Blob>, f64)>, StageError> {
        let fields = |at: usize| (format!("audio{at}"), format!("seconds{at}"));
        let known = match self.0.recall(key)? {
            Some(known) => known,
            None => {
                let mut output = Output::default();
                for (at, piece) in make(self.0)?.into_iter().enumerate() {
                    let (audio, seconds) = fields(at);
                    output = output
                        .with(audio, NewValue::bytes(wav::KIND, piece.bytes))
                        .with(seconds, NewValue::Number(piece.seconds));
                }
                self.0.remember(key, output)?
            }
        };
        let found = (0..).map(fields).map_while(|(audio, seconds)| {
            Some((known.blob(&audio)?.clone(), known.number(&seconds)?))
        });
        Ok(found.collect())
    }
}

/// The number of each outcome, for the notes.
#[derive(Default)]
struct Counts {
    corrected: u64,
    dropped: u64,
    cut: u64,
    without_text: u64,
    /// Ids of clips whose text in the source changed behind their correction.
    outdated: Vec<String>,
    /// Ids of clips that the line of another clip with the same sound corrects.
    shared: Vec<String>,
}

/// The number of clips that a note names.
const MAX_NAMED_CLIPS: usize = 5;

/// A note with the first of some clips.
fn named(what: &str, ids: &[String]) -> (String, u64) {
    let shown: Vec<String> = ids.iter().take(MAX_NAMED_CLIPS).map(|id| format!("`{id}`")).collect();
    let such_as = if ids.len() > MAX_NAMED_CLIPS { ", such as" } else { ":" };
    (format!("{what}{such_as} {}", shown.join(", ")), ids.len() as u64)
}

impl Counts {
    /// Compares a line with the clip that it corrects, as the source has it now.
    fn compare(&mut self, item: &Item, part: &ItemPart, line: &CorrectionLine) {
        let text = item.fields.text("text").unwrap_or_default();
        let is_text = matches!(line.correction, Correction::Text(_));
        let is_other = |before: &String| before != text && !part.is_new();
        if is_text && line.before.as_ref().is_some_and(is_other) {
            self.outdated.push(item.id.to_string());
        }
        // A clip by itself is named in front of its sound.
        let clip = line.segment.rsplit_once('/').map(|(clip, _)| clip);
        if part.recording.is_none()
            && *line.segment != *item.id
            && clip.is_some_and(|clip| !clip.is_empty() && *clip != *item.id)
        {
            self.shared.push(item.id.to_string());
        }
    }
}

impl GatherJob for Corrections {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let parts = items.iter().enumerate().map(|(at, item)| ItemPart::of(at, item)).collect();
        let applied = apply(&self.table, parts, &mut Cutter(context));
        let applied = applied.map_err(|trouble| match trouble {
            CorrectionError::AudioEditor(error) => error,
            CorrectionError::Circle(_) => StageError::failed(trouble.to_string()),
        })?;
        let mut counts = Counts::default();
        let (mut kept, mut rejects) = (Vec::new(), Vec::new());
        let mut ids: HashSet<String> =
            applied.segments.iter().filter(|one| !one.segment.is_new()).map(id_of(items)).collect();
        for one in &applied.segments {
            match self.output(items, one, &mut ids, &mut counts) {
                Some(item) => kept.push(item),
                // A part is no item that could be set aside.
                None if one.segment.is_new() => {}
                None => rejects.push((one.segment.at, Reject::new(Reject::DROPPED, WHY))),
            }
        }
        rejects.sort_by_key(|(at, _)| *at);
        context.set_aside("input", rejects)?;
        let unused: Vec<NewItem> = applied.unused.iter().map(unused).collect();
        let count_of_unused = unused.len() as u64;
        let mut output = GatherOutput::default()
            .with("output", PortOutput::Dataset(kept))
            .with("unused", PortOutput::Dataset(unused));
        for (note, count) in [
            ("corrected texts", counts.corrected),
            ("dropped segments", counts.dropped),
            ("segments with other cuts", counts.cut),
            ("parts without text, left out", counts.without_text),
            ("lines of corrections without effect (see the output `unused`)", count_of_unused),
        ] {
            if count > 0 {
                output.notes.push((note.to_owned(), count));
            }
        }
        for (what, ids) in [
            ("the source has another text since the correction, which stays", &counts.outdated),
            ("corrected by the line of another clip with the same sound", &counts.shared),
        ] {
            if !ids.is_empty() {
                output.notes.push(named(what, ids));
            }
        }
        Ok(output)
    }
}

/// A line without effect, as an item.
fn unused(UnusedLine { line, why }: &UnusedLine) -> NewItem {
    let values = [
        ("line", NewValue::Number(line.number as f64)),
        ("segment", NewValue::Text(line.segment.clone())),
        ("correction", NewValue::Text(line.correction.to_string())),
        ("reason", NewValue::Text((*why).to_owned())),
    ];
    let values = values.map(|(name, value)| (name.to_owned(), value)).to_vec();
    NewItem { id: format!("line-{:04}", line.number), values }
}

fn id_of<'a>(items: &'a [Item]) -> impl Fn(&CorrectedSegment<ItemPart>) -> String + use<'a> {
    |one| items[one.segment.at].id.to_string()
}

impl Corrections {
    /// The item of a segment; None if it is dropped.
    fn output(
        &self,
        items: &[Item],
        one: &CorrectedSegment<ItemPart>,
        ids: &mut HashSet<String>,
        counts: &mut Counts,
    ) -> Option<NewItem> {
        let CorrectedSegment { segment: part, line } = one;
        let item = &items[part.at];
        let correction = one.correction();
        if let Some(line) = line {
            counts.compare(item, part, line);
        }
        let mut new = if part.is_new() {
            counts.cut += 1;
            cut(item, part, ids)?
        } else {
            NewItem::kept(item)
        };
        match correction {
            Some(Correction::Text(text)) => {
                counts.corrected += 1;
                new = new
                    .with("text", NewValue::Text(text.clone()))
                    .with(CORRECTED, NewValue::Text(text.clone()));
            }
            Some(Correction::Drop) => {
                counts.dropped += 1;
                if !self.marks {
                    return None;
                }
                new = new.with(DROPPED, NewValue::Text(WHY.to_owned()));
            }
            _ if part.is_new() && item.fields.get("text").is_some() => {
                counts.without_text += 1;
                return None;
            }
            _ => {}
        }
        Some(new)
    }
}

/// A part as an item, with an id that no other one has.
fn cut(item: &Item, part: &ItemPart, ids: &mut HashSet<String>) -> Option<NewItem> {
    let own = item.fields.blob("audio").map(|audio| name(&audio.digest));
    // The id of a segment is its recording and the name of its sound.
    let is_own = |last: &str| own.as_ref().is_some_and(|own| last.starts_with(own.as_str()));
    let above = match item.id.rsplit_once('/') {
        Some((above, last)) if is_own(last) => above,
        _ => &*item.id,
    };
    let mut numbers = (2..).map(|number| format!("{above}/{}-{number}", part.name));
    let plain = format!("{above}/{}", part.name);
    let id = std::iter::once(plain).chain(&mut numbers).find(|id| !ids.contains(id))?;
    ids.insert(id.clone());
    let mut new = NewItem { id, ..NewItem::kept(item) };
    new.values.retain(|(name, _)| !OF_THE_WHOLE.contains(&name.as_str()));
    new = new.with("audio", NewValue::Kept(Value::Blob(part.audio.clone()?)));
    if part.recording.is_some() {
        new = new.with("start", NewValue::Number(part.start));
    }
    Some(new.with("seconds", NewValue::Number(part.seconds)))
}
