//! Clips, parts of clips, and several joined: their sounds and words, as far as the run before knows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use engine::store::Store;
use stage_core::Blob;
use stage_speech::corpus::corrections::{
    AudioEditor, CorrectableSegment, Piece, join, name, split,
};

use super::clips::Clip;

/// A word with its start and end in seconds.
pub type Word = (f64, f64, String);

/// The sound of a part. It is made when somebody listens, so that no sounds stay in memory.
#[derive(Clone, Debug)]
enum PartSound {
    Whole(Arc<Blob>),
    First(Arc<PartSound>, f64),
    Second(Arc<PartSound>, f64),
    Both(Arc<PartSound>, Arc<PartSound>),
}

/// A piece of a clip in a part.
#[derive(Clone, Debug)]
struct Span {
    clip: usize,
    /// In the clip, in seconds.
    range: Range<f64>,
}

#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    /// None for a part of a clip, and for several joined.
    id: Option<Arc<str>>,
    recording: Option<Arc<str>>,
    pub start: f64,
    pub seconds: f64,
    sound: Arc<PartSound>,
    spans: Vec<Span>,
}

impl Part {
    pub fn of(at: usize, clip: &Clip) -> Part {
        Part {
            name: clip.name.clone(),
            id: Some(clip.id.clone()),
            recording: clip.recording.clone(),
            start: clip.start,
            seconds: clip.seconds,
            sound: Arc::new(PartSound::Whole(clip.audio.clone())),
            spans: vec![Span { clip: at, range: 0.0..clip.seconds }],
        }
    }

    pub fn is_new(&self) -> bool {
        self.id.is_none()
    }

    /// The clip that it begins in, and the place there in seconds.
    pub fn begins(&self) -> (usize, f64) {
        self.spans.first().map_or((0, 0.0), |span| (span.clip, span.range.start))
    }

    /// The part of the first or the second half of its time.
    fn spans(&self, at: f64) -> [Vec<Span>; 2] {
        let (mut first, mut second, mut before) = (Vec::new(), Vec::new(), 0.0);
        for span in &self.spans {
            let cut = (span.range.start + at - before).clamp(span.range.start, span.range.end);
            let with = |range: Range<f64>| Span { clip: span.clip, range };
            if cut > span.range.start {
                first.push(with(span.range.start..cut));
            }
            if cut < span.range.end {
                second.push(with(cut..span.range.end));
            }
            before += span.range.end - span.range.start;
        }
        [first, second]
    }
}

impl CorrectableSegment for Part {
    fn name(&self) -> &str {
        &self.name
    }

    fn clip_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn place(&self) -> Option<(&str, f64, f64)> {
        Some((self.recording.as_deref()?, self.start, self.start + self.seconds))
    }
}

/// Reads, cuts and joins sounds, and knows the names of those that it has made.
pub struct Sounds {
    store: Store,
    halves: HashMap<(String, u64), Option<[NamedPart; 2]>>,
    joined: HashMap<(String, String), Option<NamedPart>>,
}

#[derive(Clone, Debug)]
struct NamedPart {
    name: String,
    seconds: f64,
}

impl From<Piece> for NamedPart {
    fn from(piece: Piece) -> NamedPart {
        NamedPart { name: name(&cache::Digest::of(&piece.bytes)), seconds: piece.seconds }
    }
}

impl Sounds {
    pub fn new(store: Store) -> Sounds {
        Sounds { store, halves: HashMap::new(), joined: HashMap::new() }
    }

    /// The sound of a part as a file.
    pub fn bytes(&self, part: &Part) -> Result<Bytes, String> {
        self.read(&part.sound)
    }

    fn read(&self, sound: &PartSound) -> Result<Bytes, String> {
        let halves = |of: &PartSound, at: f64| {
            let halves = split(&self.read(of)?, at)?;
            halves.ok_or_else(|| format!("the clip ends before {at} s"))
        };
        match sound {
            PartSound::Whole(blob) => {
                self.store.read(&blob.digest).map_err(|error| error.to_string())
            }
            PartSound::First(of, at) => halves(of, *at).map(|[first, _]| first.bytes.into()),
            PartSound::Second(of, at) => halves(of, *at).map(|[_, second]| second.bytes.into()),
            PartSound::Both(one, other) => {
                let joined = join(&self.read(one)?, &self.read(other)?)?;
                joined
                    .map(|joined| joined.bytes.into())
                    .ok_or_else(|| "the clips have different sample rates".to_owned())
            }
        }
    }

    /// The words of a part with their times in it.
    pub fn words(&self, part: &Part, clips: &[Clip]) -> Vec<Word> {
        let (mut words, mut before) = (Vec::new(), 0.0);
        for span in &part.spans {
            for (from, to, word) in self.words_of(&clips[span.clip]) {
                if span.range.contains(&((from + to) / 2.0)) {
                    let moved = |time: f64| {
                        time.clamp(span.range.start, span.range.end) - span.range.start + before
                    };
                    words.push((moved(from), moved(to), word));
                }
            }
            before += span.range.end - span.range.start;
        }
        words
    }

    fn words_of(&self, clip: &Clip) -> Vec<Word> {
        let Some(blob) = &clip.words else { return Vec::new() };
        // A clip without its words can still be heard.
        let bytes = self.store.read(&blob.digest).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// The text of a part, as it follows from the words in it.
    pub fn text(&self, part: &Part, clips: &[Clip]) -> String {
        let texts = part.spans.iter().map(|span| {
            let clip = &clips[span.clip];
            let words = self.words_of(clip);
            let is_in = |(from, to, _): &&Word| span.range.contains(&((from + to) / 2.0));
            let before = words.iter().take_while(|word| !is_in(word)).count();
            let count = words.iter().filter(is_in).count();
            slice(&clip.text, &words, before..before + count).to_owned()
        });
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The text from a word to another one, with its punctuation.
fn slice<'t>(text: &'t str, words: &[Word], range: Range<usize>) -> &'t str {
    let (mut at, mut from, mut to) = (0, 0, text.len());
    for (place, (_, _, word)) in words.iter().enumerate() {
        let Some(found) = text.get(at..).and_then(|rest| rest.find(word.as_str())) else {
            continue;
        };
        // Quotes and the like belong to the word behind them.
        let begin = text[..at + found].rfind(char::is_whitespace).map_or(0, |space| space + 1);
        if place == range.start {
            from = begin;
        }
        if place == range.end {
            to = begin;
        }
        at += found + word.len();
    }
    if range.is_empty() { "" } else { text.get(from..to).unwrap_or_default().trim() }
}

impl AudioEditor<Part> for Sounds {
    type Fault = String;

    fn split(&mut self, part: &Part, at: f64) -> Result<Option<[Part; 2]>, String> {
        let key = (part.name.clone(), at.to_bits());
        let named = match self.halves.get(&key) {
            Some(known) => known.clone(),
            None => {
                let halves = split(&self.bytes(part)?, at)?;
                let named = halves.map(|halves| halves.map(NamedPart::from));
                self.halves.insert(key, named.clone());
                named
            }
        };
        let Some([first, second]) = named else { return Ok(None) };
        let [before, behind] = part.spans(at);
        let start = part.start + first.seconds;
        let made = |named: NamedPart, start: f64, sound: PartSound, spans: Vec<Span>| Part {
            name: named.name,
            recording: part.recording.clone(),
            start,
            seconds: named.seconds,
            id: None,
            sound: Arc::new(sound),
            spans,
        };
        Ok(Some([
            made(first, part.start, PartSound::First(part.sound.clone(), at), before),
            made(second, start, PartSound::Second(part.sound.clone(), at), behind),
        ]))
    }

    fn join(&mut self, one: &Part, other: &Part) -> Result<Option<Part>, String> {
        let key = (one.name.clone(), other.name.clone());
        let named = match self.joined.get(&key) {
            Some(known) => known.clone(),
            None => {
                let named = join(&self.bytes(one)?, &self.bytes(other)?)?.map(NamedPart::from);
                self.joined.insert(key, named.clone());
                named
            }
        };
        Ok(named.map(|named| Part {
            name: named.name,
            seconds: named.seconds,
            id: None,
            sound: Arc::new(PartSound::Both(one.sound.clone(), other.sound.clone())),
            spans: one.spans.iter().chain(&other.spans).cloned().collect(),
            ..one.clone()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_words_and_keeps_its_punctuation() {
        let text = "Yes, said he; \"no\" is no answer.";
        let words = ["Yes", "said", "he", "no", "is", "no", "answer"];
        let words = words.map(|word| (0.0, 0.0, word.to_owned()));
        assert_eq!(slice(text, &words, 0..3), "Yes, said he;");
        assert_eq!(slice(text, &words, 3..7), "\"no\" is no answer.");
        assert_eq!(slice(text, &words, 5..6), "no");
        assert_eq!(slice(text, &words, 2..2), "");
        assert_eq!(slice("other words", &words, 0..3), "other words");
    }
}
