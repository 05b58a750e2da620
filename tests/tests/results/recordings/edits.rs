//! After any edits of recordings, scripts, subtitles and corrections, the segments, their texts and
//! all quarantined items are those of a run from nothing. A failing sequence prints its seed and its
//! edits; `REPLAY` runs one seed alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use super::oracle::{Oracle, pause, sentence, speech};
use super::world::{Outcome, RATE, World};

const REPLAY: Option<u64> = None;
const EDITS: usize = 6;
const NAMES: [&str; 3] = ["one", "two", "three"];
const TABLE: &str = "corrections.csv";

/// Short segments, so that a recording of a few sentences has several.
const MANIFEST: &str = r#"
[pipeline]
name = "long"

[stage.recordings]
use = "corpus.recordings"
folder = "data"
quarantine = 1.0

[stage.pauses]
use = "audio.pauses"
input = "recordings"
quarantine = 1.0

[stage.segments]
use = "audio.segment"
input = "pauses"
wanted = "2s"
longest = "7s"
quarantine = 1.0

[stage.corrected]
use = "corpus.corrections"
input = "segments"
table = "data/corrections.csv"
drops = "mark"
quarantine = 1.0

[stage.heard]
use = "test.emit"
input = "corrected"
quarantine = 1.0

[stage.aligned]
use = "text.align"
input = "heard"
segments = "corrected"
anchors = 3
quarantine = 1.0

[stage.fitting]
use = "quality.align"
input = "aligned"
quarantine = 1.0

[stage.timeline]
use = "report.recordings"
segments = "corrected"
input = ["recordings", "pauses", "aligned", "fitting"]
unheard = "aligned.unheard"
"#;

/// The files with texts that a recording has.
#[derive(Clone, Copy, PartialEq)]
enum Texts {
    None,
    Script,
    Cues,
    Both,
}

/// A text, with the seconds in which it is said, unless the recording was edited since.
#[derive(Clone)]
struct Line {
    text: String,
    start: f64,
    end: f64,
}

#[derive(Clone)]
struct Track {
    samples: Vec<i16>,
    lines: Vec<Line>,
    texts: Texts,
}

/// A table of corrections by the id of the segment: the cells behind it. Segments with the same sound
/// in several recordings have one: a run refuses two that differ.
type Corrections = BTreeMap<String, String>;

struct Sequence {
    random: StdRng,
    world: World,
    tracks: BTreeMap<&'static str, Track>,
    corrections: Corrections,
    /// The segments of the last run.
    segments: Vec<String>,
    /// The edits so far, as a person would say them.
    told: String,
}

/// The part of a segment's id that stands for its sound.
fn sound(segment: &str) -> &str {
    segment.rsplit('/').next().unwrap_or(segment)
}

fn seconds(samples: usize) -> f64 {
    samples as f64 / f64::from(RATE)
}

impl Track {
    fn new(random: &mut StdRng) -> Track {
        let mut track = Track { samples: pause(random), lines: Vec::new(), texts: Texts::Script };
        for _ in 0..random.random_range(2..6) {
            let at = track.samples.len();
            track.say(random, at);
        }
        if random.random_bool(0.5) {
            track.texts = Texts::Cues;
        }
        track
    }

    /// Inserts a sentence and a pause, and its text between those of its neighbours.
    fn say(&mut self, random: &mut StdRng, at: usize) {
        let text = sentence(random);
        let mut said = speech(random, &text);
        let (start, end) = (seconds(at), seconds(at + said.len()));
        said.extend(pause(random));
        self.samples.splice(at..at, said);
        let place = self.lines.partition_point(|line| line.start < start);
        self.lines.insert(place, Line { text, start, end });
    }

    /// A place in the sound, and one up to two seconds behind it.
    fn range(&self, random: &mut StdRng) -> (usize, usize) {
        let from = random.random_range(0..=self.samples.len());
        let to = from + random.random_range(0..2 * RATE as usize);
        (from, to.min(self.samples.len()))
    }

    fn script(&self) -> Vec<u8> {
        let texts: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        texts.join(" ").into_bytes()
    }

    fn subtitles(&self) -> Vec<u8> {
        let clock = |seconds: f64| {
            let all = (seconds.max(0.0) * 1000.0) as u64;
            format!("00:{:02}:{:02},{:03}", all / 60_000, all / 1000 % 60, all % 1000)
        };
        let mut told = String::new();
        for (at, line) in self.lines.iter().enumerate() {
            let (start, end) = (clock(line.start), clock(line.end));
            write!(told, "{}\n{start} --> {end}\n{}\n\n", at + 1, line.text).unwrap();
        }
        told.into_bytes()
    }
}

/// A text with another word in the place of one, without it, or with one more.
fn misread(random: &mut StdRng, text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let at = random.random_range(0..words.len());
    let other = sentence(random).to_lowercase().replace('.', "");
    let other = other.split(' ').next().unwrap().to_owned();
    match random.random_range(0..3) {
        0 => words[at] = other,
        1 => drop(words.remove(at)),
        _ => words.insert(at, other),
    }
    words.join(" ")
}

impl Sequence {
    fn new(seed: u64) -> Sequence {
        let world = World::new(MANIFEST, Arc::new(Oracle));
        let mut sequence = Sequence {
            random: StdRng::seed_from_u64(seed),
            world,
            tracks: BTreeMap::new(),
            corrections: Corrections::new(),
            segments: Vec::new(),
            told: String::new(),
        };
        for name in &NAMES[..2] {
            let track = Track::new(&mut sequence.random);
            sequence.tracks.insert(name, track);
        }
        sequence.write();
        sequence
    }

    fn run(&mut self) {
        self.world.run();
        let segments = self.world.items("segments");
        self.segments = segments.into_iter().map(|segment| segment.id.to_string()).collect();
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn tell(&mut self, name: &str, what: impl std::fmt::Display) {
        writeln!(self.told, "{name}: {what}").unwrap();
    }

    /// Writes the files that differ.
    fn write(&mut self) {
        for name in NAMES {
            let track = self.tracks.get(name);
            let texts = track.map_or(Texts::None, |track| track.texts);
            let script = track.filter(|_| matches!(texts, Texts::Script | Texts::Both));
            let cues = track.filter(|_| matches!(texts, Texts::Cues | Texts::Both));
            let (script, cues) = (script.map(Track::script), cues.map(Track::subtitles));
            let samples = track.map(|track| track.samples.clone()).unwrap_or_default();
            if samples.is_empty() {
                self.world.remove(&format!("{name}.wav"))
            } else {
                self.world.record(&format!("{name}.wav"), &samples)
            }
            for (ending, bytes) in [("txt", script), ("srt", cues)] {
                let file = format!("{name}.{ending}");
                match bytes {
                    None => self.world.remove(&file),
                    Some(bytes) if self.world.files.get(&file) == Some(&bytes) => {}
                    Some(bytes) => self.world.write(&file, bytes),
                }
            }
        }
        let lines = self.corrections.iter().map(|(segment, cells)| format!("{segment},{cells}\n"));
        let table = format!("segment,action,text,at,with\n{}", lines.collect::<String>());
        if self.world.files.get(TABLE).is_none_or(|before| *before != table.as_bytes()) {
            self.world.write(TABLE, table.into_bytes());
        }
    }

    fn edit(&mut self) {
        let at = self.below(NAMES.len());
        let name = NAMES[at];
        let Some(mut track) = self.tracks.remove(name) else {
            let track = Track::new(&mut self.random);
            self.tell(name, "new");
            self.tracks.insert(name, track);
            return;
        };
        match self.below(10) {
            0..=3 => self.edit_sound(name, &mut track),
            4..=6 => self.edit_texts(name, &mut track),
            7 => {
                let other = NAMES[(at + 1) % NAMES.len()];
                self.tell(name, format!("copied to `{other}`"));
                self.tracks.insert(other, track.clone());
            }
            8 => {
                let other = NAMES[(at + 1) % NAMES.len()];
                self.tell(name, format!("renamed to `{other}`"));
                self.tracks.insert(other, track);
                return;
            }
            _ => {
                self.correct();
            }
        }
        self.tracks.insert(name, track);
    }

    fn edit_sound(&mut self, name: &str, track: &mut Track) {
        let random = &mut self.random;
        let (from, to) = track.range(random);
        let told = match random.random_range(0..7) {
            0 | 1 => {
                track.say(random, from);
                format!("a sentence inserted at {from}")
            }
            2 => {
                track.say(random, track.samples.len());
                "a sentence appended".to_owned()
            }
            3 => {
                track.samples.drain(from..to);
                format!("samples {from} to {to} cut out")
            }
            4 => {
                let part = track.samples[from..to].to_vec();
                let at = random.random_range(0..=track.samples.len());
                track.samples.splice(at..at, part);
                format!("samples {from} to {to} repeated at {at}")
            }
            5 => {
                let other = sentence(random);
                let part = speech(random, &other);
                track.samples.splice(from..to, part);
                format!("samples {from} to {to} replaced by other words")
            }
            _ => {
                track.samples.clear();
                "its sound removed".to_owned()
            }
        };
        self.tell(name, told);
    }

    fn edit_texts(&mut self, name: &str, track: &mut Track) {
        let random = &mut self.random;
        let count = track.lines.len();
        let at = random.random_range(0..count.max(1));
        let told = match random.random_range(0..8) {
            0 | 1 if count > 0 => {
                track.lines[at].text = misread(random, &track.lines[at].text);
                format!("text {at} is now `{}`", track.lines[at].text)
            }
            2 if count > 0 => {
                track.lines.remove(at);
                format!("text {at} removed")
            }
            3 if count > 0 => {
                track.lines.swap(0, at);
                format!("texts 0 and {at} swapped")
            }
            4 | 5 => {
                let by = random.random_range(-8.0..8.0_f64).round();
                for line in &mut track.lines[at.min(count)..] {
                    (line.start, line.end) = (line.start + by, line.end + by);
                }
                format!("subtitles from {at} on moved by {by} s")
            }
            _ => {
                let kinds = [Texts::None, Texts::Script, Texts::Cues, Texts::Both];
                let kind = random.random_range(0..kinds.len());
                track.texts = kinds[kind];
                format!("texts of kind {kind}")
            }
        };
        self.tell(name, told);
    }

    /// A correction of a segment of the last run, or one less.
    fn correct(&mut self) {
        if self.segments.is_empty() || self.random.random_bool(0.2) {
            let first = self.corrections.pop_first();
            return self.tell("corrections", format!("without {first:?}"));
        }
        let at = self.below(self.segments.len());
        let cells = match self.below(4) {
            0 => {
                let text = sentence(&mut self.random);
                format!("text,{text},,")
            }
            1 => "drop,,,".to_owned(),
            2 => format!("split,,{:.2},", self.random.random_range(0.2..3.0)),
            _ => "join,,,".to_owned(),
        };
        let segment = self.segments[at].clone();
        self.tell("corrections", format!("{segment}: {cells}"));
        self.corrections.retain(|other, _| sound(other) != sound(&segment));
        self.corrections.insert(segment, cells);
    }
}

/// The number of quarantined items by code, over all sequences, and of texts.
type Counts = BTreeMap<String, usize>;

/// A sequence that differs from a run from nothing.
fn sequence(seed: u64) -> Result<Counts, String> {
    let mut sequence = Sequence::new(seed);
    sequence.run();
    for number in 0..EDITS {
        sequence.edit();
        sequence.write();
        // Several edits between two runs, too.
        if number % 3 != 1 {
            sequence.run();
        }
    }
    let outcome = sequence.world.outcome();
    let afresh = sequence.world.afresh();
    afresh.run();
    let differs = difference(&outcome, &afresh.outcome());
    let again = sequence.world.run();
    let problem = match (differs, again.nothing_executed()) {
        (Some(difference), _) => difference,
        (None, false) => format!("a run without an edit executes {:?}", again.all_executed()),
        (None, true) => return Ok(counts(&outcome)),
    };
    Err(format!("seed {seed}:\n{}{problem}", sequence.told))
}

fn difference(one: &Outcome, other: &Outcome) -> Option<String> {
    let stages = one.items.iter().chain(&other.items).map(|(name, _)| name);
    for name in stages {
        let (one, other) = (one.items.get(name), other.items.get(name));
        if one != other {
            return Some(format!("`{name}`:\n{one:#?}\nfrom nothing:\n{other:#?}"));
        }
    }
    (one != other).then(|| {
        let told = |outcome: &Outcome| format!("{:#?}{:#?}", outcome.artifacts, outcome.rejects);
        format!("{}\nfrom nothing:\n{}", told(one), told(other))
    })
}

fn counts(outcome: &Outcome) -> Counts {
    let mut counts = Counts::new();
    for (.., code, _) in &outcome.rejects {
        *counts.entry(code.clone()).or_default() += 1;
    }
    let kept = outcome.items["fitting.output"].len();
    counts.insert("texts".to_owned(), kept);
    counts
}

/// Runs sequences in parallel, and adds up their counts.
fn sequences(count: u64) {
    let seeds = REPLAY.map_or(0..count, |seed| seed..seed + 1);
    let all: Vec<Result<Counts, String>> = seeds.into_par_iter().map(sequence).collect();
    let mut sums = Counts::new();
    for counts in all {
        for (what, count) in counts.unwrap_or_else(|problem| panic!("{problem}")) {
            *sums.entry(what).or_default() += count;
        }
    }
    if REPLAY.is_none() {
        for what in
            ["texts", "no-text", "cut-word", "bad-transcript", "dropped", "two-texts", "orphan"]
        {
            assert!(sums.get(what).is_some_and(|sum| *sum > 5), "`{what}` in {sums:?}");
        }
    }
}

#[test]
fn random_edits_give_what_a_run_from_nothing_gives() {
    sequences(200);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_random_edits_of_recordings_and_texts() {
    sequences(5_000);
}
