//! `rate.pairs`: every two voices in some sentences, at the same loudness.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cache::Digest;
use stage_core::{
    Blob, Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortOutput,
    Setup, StageError,
};

use super::loudness::{dull, matched, trimmed};
use super::sheet::PairRole;
use crate::audio::Fault;
use crate::audio::clip::Clip;
use crate::audio::decode::{DecodeOptions, decode};
use crate::audio::wav;
use crate::dataset::{is_held, stable_order};

struct Pairs {
    by: String,
    sentences: usize,
    hold: f64,
    loudness: f64,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    Ok(Job::Gather(Box::new(Pairs {
        by: parameters.text("by")?.to_owned(),
        sentences: usize::try_from(parameters.integer("sentences")?).unwrap_or_default(),
        hold: parameters.number("hold")?,
        loudness: parameters.number("loudness")?,
    })))
}

/// A recording of a sentence.
struct SpokenSentence<'a> {
    voice: &'a str,
    blob: &'a Blob,
    /// The recording as it is played.
    bytes: Bytes,
}

/// The items by sentence and voice.
type Table<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Item>>;

impl GatherJob for Pairs {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let table = self.table(input.items("input")?)?;
        let voices: BTreeSet<&str> = table.values().flat_map(|own| own.keys().copied()).collect();
        if voices.len() < 2 {
            return Err(StageError::with_help(
                format!("fewer than two voices to compare by the field `{}`", self.by),
                "let several models speak the same sentences with `model.audition`; `by` names \
                 the field with the voice",
            ));
        }
        let chosen = self.chosen(&table)?;
        let (mut items, mut lacking) = (Vec::new(), 0);
        for (at, sentence) in chosen.iter().enumerate() {
            let spoken = &table[sentence];
            lacking += voices.len() - spoken.len();
            items.extend(self.sentence(sentence, spoken, at, context)?);
            context.progress(at as u64 + 1, chosen.len() as u64);
        }
        let mut output = GatherOutput::default().with("output", PortOutput::Dataset(items));
        if lacking > 0 {
            output.notes.push(("recordings that a voice lacks".to_owned(), lacking as u64));
        }
        Ok(output)
    }
}

impl Pairs {
    fn table<'a>(&self, items: &'a [Item]) -> Result<Table<'a>, StageError> {
        let mut table = Table::new();
        for item in items {
            let text = |name: &str| item.fields.text(name).unwrap_or_default();
            let (voice, sentence) = (text(&self.by), text("sentence"));
            if table.entry(sentence).or_default().insert(voice, item).is_some() {
                let message = format!("`{voice}` has the sentence `{sentence}` twice");
                return Err(StageError::failed(message));
            }
        }
        Ok(table)
    }

    /// Sentences that two voices speak at least, selected by a hash.
    fn chosen<'a>(&self, table: &Table<'a>) -> Result<Vec<&'a str>, StageError> {
        let spoken = table.iter().filter(|(_, voices)| voices.len() > 1);
        let free = spoken.map(|(sentence, _)| *sentence);
        let free = free.filter(|sentence| !is_held("choice", sentence, self.hold));
        let mut chosen: Vec<&str> = free.collect();
        if chosen.is_empty() {
            return Err(StageError::with_help(
                "no sentence was spoken by two voices",
                "speak more sentences, or lower `hold`",
            ));
        }
        stable_order("rating", &mut chosen);
        chosen.truncate(self.sentences);
        Ok(chosen)
    }

    /// The pairs and the traps of a sentence.
    fn sentence(
        &self,
        sentence: &str,
        spoken: &BTreeMap<&str, &Item>,
        number: usize,
        context: &mut dyn Context,
    ) -> Result<Vec<NewItem>, StageError> {
        let failed = |voice: &str, why: &dyn std::fmt::Display| {
            StageError::failed(format!("`{sentence}` of `{voice}` cannot be played: {why}"))
        };
        let (mut blobs, mut clips) = (Vec::new(), Vec::new());
        for (voice, item) in spoken {
            let blob = item.fields.blob("audio");
            let blob = blob.ok_or_else(|| failed(voice, &"it has no `audio`"))?;
            let bytes = context.read(blob)?;
            let decoded =
                decode(&bytes, &DecodeOptions::default()).map_err(|why| failed(voice, &why))?;
            clips.push(trimmed(decoded.clip));
            blobs.push((*voice, blob));
        }
        // One of the voices by turns.
        let trapped = number % clips.len();
        let muffled = dull(&clips[trapped]);
        clips.extend(muffled);
        let whole = |why: Fault| failed("all", &why);
        let mut played = Vec::new();
        for clip in matched(clips, self.loudness).map_err(whole)? {
            played.push(written(clip).map_err(whole)?);
        }
        let voices = blobs.iter().zip(&played);
        let voices: Vec<SpokenSentence> = voices
            .map(|((voice, blob), bytes)| SpokenSentence { voice, blob, bytes: bytes.clone() })
            .collect();
        let text = spoken.values().find_map(|item| item.fields.text("text")).unwrap_or_default();
        let item = |role: PairRole, one: &SpokenSentence, other: &SpokenSentence| {
            item(role, (sentence, text), one, other)
        };
        let mut items = Vec::new();
        for (at, one) in voices.iter().enumerate() {
            items.extend(voices[at + 1..].iter().map(|other| item(PairRole::Pair, one, other)));
        }
        let trapped = &voices[trapped];
        items.push(item(PairRole::Same, trapped, trapped));
        if let Some(bytes) = played.get(voices.len()) {
            let muffled = SpokenSentence { bytes: bytes.clone(), ..*trapped };
            items.push(item(PairRole::Dull, trapped, &muffled));
        }
        Ok(items)
    }
}

fn written(clip: Clip) -> Result<Bytes, Fault> {
    Ok(wav::write(clip)?.0.into())
}

/// Its id is a hash, so that neither it nor the order of the pairs names a voice. The loudness is no
/// part of it: a further voice may change it, and votes stay.
fn item(
    role: PairRole,
    (sentence, text): (&str, &str),
    one: &SpokenSentence,
    other: &SpokenSentence,
) -> NewItem {
    let identity = [
        role.name(),
        sentence,
        one.voice,
        other.voice,
        &one.blob.digest.to_string(),
        &other.blob.digest.to_string(),
    ];
    let written = |text: &str| NewValue::Text(text.to_owned());
    let sound = |spoken: &SpokenSentence| NewValue::bytes(wav::KIND, spoken.bytes.clone());
    let values = [
        ("role", written(role.name())),
        ("sentence", written(sentence)),
        ("text", written(text)),
        ("one", written(one.voice)),
        ("other", written(other.voice)),
        ("one_audio", sound(one)),
        ("other_audio", sound(other)),
    ];
    NewItem {
        id: Digest::of(identity.join("\n").as_bytes()).short(),
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}
