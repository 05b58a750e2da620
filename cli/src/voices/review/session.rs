//! The state of a review: clips, the table of corrections, and what can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use bytes::Bytes;
use cache::fs::{Fs, RealFs};
use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use server::Refusal;
use stage_speech::corpus::corrections::{
    AudioEditor, CorrectableSegment, CorrectedRecordings, Correction, CorrectionError,
    CorrectionLine, CorrectionTable, apply, name_of,
};

use super::clips::Clip;
use super::parts::{Part, Sounds, Word};

/// The clips on the page; further ones are less doubtful.
const MOST: usize = 5_000;
/// The shortest part of a split, in seconds.
const SHORTEST: f64 = 0.05;

/// A clip on the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The clip that it begins in and the place there in milliseconds.
    pub key: String,
    pub id: String,
    /// The order on the page.
    rank: usize,
    from: f64,
    start: f64,
    seconds: f64,
    text: String,
    doubt: f64,
    why: String,
    verdict: Option<String>,
    /// The last correction.
    action: Option<&'static str>,
    is_new: bool,
}

/// A wish of the page, for the clip with a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum Wish {
    Text { key: String, text: String },
    Drop { key: String },
    Split { key: String, at: f64 },
    Join { key: String },
    Undo {},
}

/// The difference that a correction makes on the page.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct PageChange {
    gone: Vec<String>,
    rows: Vec<Row>,
    /// The number of lines in the table.
    corrections: usize,
    undoable: usize,
}

/// The lines that a correction replaced, by the names of their segments.
type Before = Vec<(String, Option<CorrectionLine>)>;

pub struct Session {
    clips: Vec<Clip>,
    sounds: Sounds,
    path: Utf8PathBuf,
    table: CorrectionTable,
    /// The bytes that were last read or written; None if there is no file.
    disk: Option<Vec<u8>>,
    /// The bytes of a write that failed. They may be on the disk nevertheless.
    failed: Option<Vec<u8>>,
    parts: BTreeMap<String, Part>,
    rows: Vec<Row>,
    undo: Vec<Before>,
}

impl Session {
    /// # Errors
    ///
    /// If the table cannot be read or its lines undo each other.
    pub fn open(clips: Vec<Clip>, sounds: Sounds, path: Utf8PathBuf) -> Result<Session, Refusal> {
        let (table, parts, rows) = Default::default();
        let (disk, failed, undo) = (None, None, Vec::new());
        let mut session = Session { clips, sounds, path, table, disk, failed, parts, rows, undo };
        session.disk = session.bytes()?;
        session.table = session.read()?;
        let (parts, rows) = session.seen(&session.table.clone())?;
        (session.parts, session.rows) = (parts, rows);
        Ok(session)
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.rank < MOST)
    }

    pub fn all(&self) -> usize {
        self.rows.len()
    }

    pub fn corrections(&self) -> usize {
        self.table.lines().len()
    }

    pub fn sound(&self, key: &str) -> Result<Bytes, Refusal> {
        self.sounds.bytes(self.part(key)?).map_err(|why| Refusal::new(500, why))
    }

    pub fn words(&self, key: &str) -> Result<Vec<Word>, Refusal> {
        Ok(self.sounds.words(self.part(key)?, &self.clips))
    }

    fn part(&self, key: &str) -> Result<&Part, Refusal> {
        let unknown = || Refusal::new(404, "this clip no longer exists: reload the page");
        self.parts.get(key).ok_or_else(unknown)
    }

    /// Does what the page wishes. When this returns, the table is on the disk.
    pub fn wish(&mut self, wish: Wish) -> Result<PageChange, Refusal> {
        let lines = match wish {
            Wish::Undo {} => return self.undo(),
            Wish::Text { key, text } => self.text(&key, &text)?,
            Wish::Drop { key } => self.toggled_drop(&key)?,
            Wish::Split { key, at } => self.split(&key, at)?,
            Wish::Join { key } => self.join(&key)?,
        };
        let mut table = self.table.clone();
        let change = |(id, correction): (String, Option<Correction>)| {
            let name = name_of(&id);
            let of_source = || self.clips.iter().find(|clip| clip.name == name)?.of_source.clone();
            let known = self.table.line(&name).and_then(|(_, line)| line.before.clone());
            let before = match correction {
                Some(correction) => table.set(&id, correction, known.or_else(of_source).as_deref()),
                None => table.put(&name, None),
            };
            (name, before)
        };
        let before: Before = lines.into_iter().map(change).collect();
        let changed = self.save(table)?;
        self.undo.push(before);
        Ok(PageChange { undoable: self.undo.len(), ..changed })
    }

    fn undo(&mut self) -> Result<PageChange, Refusal> {
        let Some(before) = self.undo.last().cloned() else {
            return Err(Refusal::new(422, "nothing to undo"));
        };
        let mut table = self.table.clone();
        for (name, line) in before {
            table.put(&name, line);
        }
        let changed = self.save(table)?;
        self.undo.pop();
        Ok(PageChange { undoable: self.undo.len(), ..changed })
    }

    fn text(&self, key: &str, text: &str) -> Result<Vec<(String, Option<Correction>)>, Refusal> {
        let words = text.split_whitespace().map(|word| word.replace(char::is_control, ""));
        let text = words.collect::<Vec<_>>().join(" ");
        if !text.chars().any(char::is_alphanumeric) {
            return Err(Refusal::new(
                422,
                "the text has no words: drop the clip if it has no speech",
            ));
        }
        Ok(vec![(self.id(self.part(key)?), Some(Correction::Text(text)))])
    }

    fn toggled_drop(&self, key: &str) -> Result<Vec<(String, Option<Correction>)>, Refusal> {
        let part = self.part(key)?;
        let is_dropped = self.table.get(&part.name) == Some(&Correction::Drop);
        Ok(vec![(self.id(part), (!is_dropped).then_some(Correction::Drop))])
    }

    fn split(&mut self, key: &str, at: f64) -> Result<Vec<(String, Option<Correction>)>, Refusal> {
        let part = self.part(key)?.clone();
        // Tenths of a millisecond.
        let at = (at * 1e4).round() / 1e4;
        if !(SHORTEST..=part.seconds - SHORTEST).contains(&at) {
            let reason = "move the cursor into the clip: a split needs audio on both sides";
            return Err(Refusal::new(422, reason));
        }
        let halves = self.sounds.split(&part, at).map_err(|why| Refusal::new(500, why))?;
        let [first, second] =
            halves.ok_or_else(|| Refusal::new(422, "the clip cannot be split there"))?;
        // The same cut was joined before.
        if let Some(Correction::Join { with }) = self.table.get(&first.name)
            && with.as_ref().is_none_or(|with| *with == second.name)
        {
            return Ok(vec![(self.id(&first), None)]);
        }
        Ok(vec![(self.id(&part), Some(Correction::Split { at }))])
    }

    fn join(&mut self, key: &str) -> Result<Vec<(String, Option<Correction>)>, Refusal> {
        let part = self.part(key)?.clone();
        let none = || Refusal::new(422, "no clip follows this one directly");
        let next = self.next(&part).ok_or_else(none)?.clone();
        let joined = self.sounds.join(&part, &next).map_err(|why| Refusal::new(500, why))?;
        let joined = joined.ok_or_else(none)?;
        // The same cut was made by a split.
        if let Some(Correction::Split { at }) = self.table.get(&joined.name).cloned() {
            let halves = self.sounds.split(&joined, at).map_err(|why| Refusal::new(500, why))?;
            if halves.is_some_and(|[first, _]| first.name == part.name) {
                return Ok(vec![(self.id(&joined), None)]);
            }
        }
        let with = Correction::Join { with: Some(next.name.clone()) };
        let mut lines = vec![(self.id(&part), Some(with))];
        if self.table.get(&next.name).is_some() {
            lines.push((self.id(&next), None));
        }
        Ok(lines)
    }

    /// The part of the same recording that begins where this one ends.
    fn next(&self, part: &Part) -> Option<&Part> {
        const NEAR: f64 = 1e-4;
        let (recording, _, end) = part.place()?;
        self.parts.values().find(|other| {
            let place = other.place().filter(|(own, ..)| *own == recording);
            place.is_some_and(|(_, start, _)| (start - end).abs() < NEAR)
        })
    }

    fn id(&self, part: &Part) -> String {
        self.clips[part.begins().0].id_of(&part.name)
    }

    /// The bytes of the table on the disk; None if there is no file.
    fn bytes(&self) -> Result<Option<Vec<u8>>, Refusal> {
        match RealFs.read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Refusal::new(500, error.whole())),
        }
    }

    /// The table of the bytes that were read; empty if there is no file.
    fn read(&self) -> Result<CorrectionTable, Refusal> {
        let bytes = self.disk.as_deref().unwrap_or_default();
        CorrectionTable::read(bytes)
            .map_err(|why| Refusal::new(409, format!("`{}`: {why}", self.path)))
    }

    /// Writes the table, and then takes it over.
    fn save(&mut self, table: CorrectionTable) -> Result<PageChange, Refusal> {
        let (parts, rows) = self.seen(&table)?;
        let bytes = table.write().map_err(|why| Refusal::new(500, why))?;
        self.write(bytes)?;
        let changed = difference(&self.rows, &rows);
        (self.table, self.parts, self.rows) = (table, parts, rows);
        Ok(PageChange { corrections: self.corrections(), ..changed })
    }

    /// Replaces the table on the disk, unless another program has changed it.
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), Refusal> {
        let disk = self.bytes()?;
        let is_own = disk == self.disk || (disk.is_some() && disk == self.failed);
        if !is_own {
            let reason = format!(
                "nothing was saved: `{}` was changed by another program; start `throstle review` \
                 again",
                self.path
            );
            return Err(Refusal::new(409, reason));
        }
        self.disk = disk;
        if let Err(error) = RealFs.write_named(&self.path, &bytes) {
            self.failed = Some(bytes);
            return Err(Refusal::new(500, format!("nothing was saved: {}", error.whole())));
        }
        (self.disk, self.failed) = (Some(bytes), None);
        Ok(())
    }

    /// The rows and the parts of clips on the page, with a table of corrections applied.
    fn seen(
        &mut self,
        table: &CorrectionTable,
    ) -> Result<(BTreeMap<String, Part>, Vec<Row>), Refusal> {
        let parts = self.clips.iter().enumerate().map(|(at, clip)| Part::of(at, clip)).collect();
        let applied: Result<CorrectedRecordings<Part>, CorrectionError<String>> =
            apply(table, parts, &mut self.sounds);
        let applied = applied.map_err(|trouble| Refusal::new(409, trouble.to_string()))?;
        let (mut parts, mut rows) = (BTreeMap::new(), Vec::new());
        for one in applied.segments {
            let row = self.row(&one.segment, one.correction());
            parts.insert(row.key.clone(), one.segment);
            rows.push(row);
        }
        rows.sort_by(|one, other| one.rank.cmp(&other.rank).then(one.from.total_cmp(&other.from)));
        Ok((parts, rows))
    }

    fn row(&self, part: &Part, correction: Option<&Correction>) -> Row {
        let (rank, from) = part.begins();
        let clip = &self.clips[rank];
        let (text, action) = match correction {
            Some(Correction::Text(text)) => (text.clone(), Some("text")),
            Some(_) => (self.heard(part, clip), Some("drop")),
            None => (self.heard(part, clip), None),
        };
        Row {
            key: format!("{rank}-{:.0}", from * 1000.0),
            id: if part.is_new() { clip.id_of(&part.name) } else { clip.id.to_string() },
            rank,
            from,
            start: part.start,
            seconds: part.seconds,
            text,
            doubt: clip.doubt.score,
            why: clip.doubt.why.clone(),
            verdict: clip.verdict.clone(),
            action,
            is_new: part.is_new(),
        }
    }

    fn heard(&self, part: &Part, clip: &Clip) -> String {
        if part.is_new() { self.sounds.text(part, &self.clips) } else { clip.text.clone() }
    }
}

fn difference(old: &[Row], new: &[Row]) -> PageChange {
    let known: BTreeMap<&str, &Row> = old.iter().map(|row| (row.key.as_str(), row)).collect();
    let there: BTreeSet<&str> = new.iter().map(|row| row.key.as_str()).collect();
    let gone = known.keys().filter(|key| !there.contains(*key));
    let rows = new.iter().filter(|row| known.get(row.key.as_str()) != Some(row));
    PageChange {
        gone: gone.map(|key| (*key).to_owned()).collect(),
        rows: rows.cloned().collect(),
        ..PageChange::default()
    }
}
