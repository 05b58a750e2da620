//! Aligns one recording: the emissions of its segments in order, and its text.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use stage_core::Reject;
use stage_families::wav2vec2::Alphabet;

use super::anchors::{Anchor, WordPosition, anchors};
use super::text::{Romanisation, Script};
use super::viterbi::{Aligner, Band, Emissions, Label, Path, StopRequest, Stopping, Target};
use crate::corpus::cues::Cue;

/// The words of a cue are said within this time of it, in seconds.
const NEAR_CUE: f64 = 5.0;
/// Letters beside anchors that an alignment may use.
const MARGIN: usize = 40;
/// No voice says more letters in a frame of 20 ms.
const FASTEST: f64 = 0.8;
/// The cost of leaving out the sentences between two others.
const LEAVE_OUT: f64 = 5.0;
/// The frames of the window for the worst part of a path.
const WINDOW: usize = 10;
/// The states of all frames that are compared at most, about a minute of work, and those of the rows
/// that are kept, 512 MB.
const MOST_STATES: f64 = 4e9;
const MOST_KEPT: f64 = 64e6;
/// Letters in a row that count as a word where the recogniser knows no words.
const LETTERS_OF_A_WORD: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct AlignOptions {
    /// Allow sound without a text between sentences.
    pub stars: bool,
    /// The words in a row of an anchor.
    pub anchors: usize,
}

/// A segment of a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordingSegment {
    pub frames: usize,
    /// In seconds.
    pub start: f64,
    pub seconds: f64,
    pub hop: f64,
}

/// A text, and rough times of its parts if they are known.
#[derive(Clone, Debug, Default)]
pub struct ScriptText {
    pub text: String,
    /// Bytes of the text, and seconds in the recording.
    pub times: Vec<(Range<usize>, Range<f64>)>,
    /// Latin letters of its words in other scripts.
    pub romanised: Romanisation,
}

impl ScriptText {
    /// The texts of cues in a row. A long silence between two ends a sentence.
    pub fn of_cues(cues: &[Cue]) -> ScriptText {
        const SILENCE: u64 = 2_000;
        let mut all = ScriptText::default();
        let mut before: Option<u64> = None;
        for cue in cues {
            match before {
                Some(end) if cue.start > end + SILENCE => all.text.push_str("\n\n"),
                Some(_) => all.text.push(' '),
                None => {}
            }
            let from = all.text.len();
            all.text.push_str(&cue.text);
            let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
            all.times.push((from..all.text.len(), seconds(cue.start)..seconds(cue.end)));
            before = Some(cue.end);
        }
        all
    }
}

/// The words of a segment and how well they fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlignedSegment {
    pub text: String,
    /// Means of the logarithm of the probability: of all frames, and of the worst ten in a row.
    pub mean: f64,
    pub worst: f64,
    /// The lower probability of the first and the last letter.
    pub edge: f64,
    pub letters_per_second: f64,
    /// Start and end in the segment in seconds, and the word.
    pub words: Vec<(f64, f64, String)>,
    pub reject: Option<Reject>,
}

/// A part of the text that was not heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnheardSpan {
    pub start: usize,
    pub end: usize,
    pub words: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    pub segments: Vec<AlignedSegment>,
    pub unheard: Vec<UnheardSpan>,
    /// Cues that are too far from their words to find them by the times.
    pub misplaced: usize,
}

/// Aligns a recording. `values` has the emissions of all segments, one after the other.
pub fn align(
    values: &[f32],
    alphabet: &Alphabet,
    segments: &[RecordingSegment],
    text: &ScriptText,
    (options, stopping): (&AlignOptions, Stopping),
) -> Result<Alignment, StopRequest> {
    let script = Script::new(&text.text, &text.romanised, alphabet, options.stars);
    let symbols = alphabet.symbols.len();
    let emissions = Emissions { symbols, blank: alphabet.blank, values };
    let found = if script.words.is_empty() {
        SearchResult::Nothing
    } else {
        search(emissions, alphabet, segments, (text, &script), (options, stopping))?
    };
    let mut reason = "no part of the text was found in the recording".to_owned();
    match found {
        SearchResult::Path(path) => return Ok(told(emissions, segments, (text, &script), &path)),
        SearchResult::Nothing => {}
        SearchResult::TooMuch => {
            let is_letter = |target: &&Target| matches!(target.label, Label::Symbol(_));
            let letters = script.targets.iter().filter(is_letter).count();
            let seconds: f64 = segments.iter().map(|segment| segment.seconds).sum();
            reason += &format!(": {letters} letters are too many for {seconds:.0} s of audio");
        }
    }
    let reject = Reject::new("no-text", reason);
    let segment = AlignedSegment { reject: Some(reject), ..AlignedSegment::default() };
    let all = UnheardSpan { start: 0, end: text.text.len(), words: script.words.len() };
    Ok(Alignment { segments: vec![segment; segments.len()], unheard: vec![all], misplaced: 0 })
}

/// The measures of a text that no path fits.
const NO_PATH: f64 = -100.0;

/// Aligns a segment with the text that a person has heard in it: all of it is said there.
pub fn align_text(
    values: &[f32],
    alphabet: &Alphabet,
    segment: &RecordingSegment,
    text: ScriptText,
    stopping: Stopping,
) -> Result<AlignedSegment, StopRequest> {
    let script = Script::new(&text.text, &text.romanised, alphabet, false);
    let emissions = Emissions { symbols: alphabet.symbols.len(), blank: alphabet.blank, values };
    let last = script.targets.len();
    let band = |_| (0, last);
    let path = if !script.words.is_empty() && is_affordable(emissions.frames(), &band) {
        Aligner::new(emissions, &script.targets, None).path(&band, stopping)?
    } else {
        None
    };
    let aligned = path.map(|path| {
        told(emissions, std::slice::from_ref(segment), (&text, &script), &path)
            .segments
            .swap_remove(0)
    });
    Ok(match aligned.filter(|aligned| aligned.reject.is_none()) {
        Some(aligned) => AlignedSegment { text: text.text, ..aligned },
        None => {
            let letters = text.text.chars().filter(|letter| letter.is_alphanumeric()).count();
            let letters_per_second = letters as f64 / segment.seconds.max(1e-9);
            let (mean, worst) = (NO_PATH, NO_PATH);
            AlignedSegment {
                text: text.text,
                mean,
                worst,
                letters_per_second,
                ..AlignedSegment::default()
            }
        }
    })
}

enum SearchResult {
    Path(Path),
    Nothing,
    /// There is too much text to compare it with the sound.
    TooMuch,
}

fn search(
    emissions: Emissions,
    alphabet: &Alphabet,
    segments: &[RecordingSegment],
    (text, script): (&ScriptText, &Script),
    (options, stopping): (&AlignOptions, Stopping),
) -> Result<SearchResult, StopRequest> {
    let aligner = Aligner::new(emissions, &script.targets, Some(LEAVE_OUT));
    let mut is_too_much = false;
    let mut path = |band: Band| {
        let fits = is_affordable(emissions.frames(), band);
        is_too_much |= !fits;
        if fits { aligner.path(band, stopping) } else { Ok(None) }
    };
    let (frames, last) = (emissions.frames(), script.targets.len());
    let found = anchors(
        &words_of(script, alphabet),
        &heard(emissions, alphabet),
        if alphabet.symbols.iter().any(|symbol| symbol == " ") {
            options.anchors
        } else {
            options.anchors * LETTERS_OF_A_WORD
        },
    );
    if !text.times.is_empty() {
        let band = band_of_times(frames, segments, text, script);
        if !contradicts(&found, &band)
            && let Some(path) = path(&|frame| band[frame])?
        {
            return Ok(SearchResult::Path(path));
        }
    }
    if !found.is_empty() {
        let band = band_of_anchors(frames, &found, script);
        if let Some(path) = path(&|frame| band[frame])? {
            return Ok(SearchResult::Path(path));
        }
    }
    Ok(match path(&|_| (0, last))? {
        Some(path) => SearchResult::Path(path),
        None if is_too_much => SearchResult::TooMuch,
        None => SearchResult::Nothing,
    })
}

fn is_affordable(frames: usize, band: Band) -> bool {
    let of_frame = |frame| {
        let (from, to) = band(frame);
        (2 * to.saturating_sub(from) + 3) as f64
    };
    let states: f64 = (0..frames).map(of_frame).sum();
    states <= MOST_STATES && states / (frames as f64).sqrt() <= MOST_KEPT
}

/// True if words are heard outside of the band of their times. A few may be words that are said again.
fn contradicts(anchors: &[Anchor], band: &[(usize, usize)]) -> bool {
    const FEW: usize = 3;
    let is_outside = |anchor: &&Anchor| {
        let (from, to) = band[anchor.frame];
        !(from..=to).contains(&anchor.target)
    };
    anchors.iter().filter(is_outside).count() >= FEW
}

/// The words of a script as numbers, or its letters if the alphabet has no space.
fn words_of(script: &Script, alphabet: &Alphabet) -> Vec<WordPosition> {
    let has_space = alphabet.symbols.iter().any(|symbol| symbol == " ");
    let mut found = Vec::new();
    for word in &script.words {
        let letters = word.targets.clone().map(|target| match script.targets[target].label {
            Label::Symbol(symbol) => symbol,
            Label::Star | Label::Gap => symbol_of_star(alphabet),
        });
        if has_space {
            found.push(WordPosition { word: number(letters), at: word.targets.start })
        } else {
            let placed = letters.zip(word.targets.clone());
            found.extend(placed.map(|(letter, at)| WordPosition { word: letter as u32, at }));
        }
    }
    found
}

fn symbol_of_star(alphabet: &Alphabet) -> usize {
    alphabet.symbols.len()
}

/// A hash of some letters.
fn number(letters: impl Iterator<Item = usize>) -> u32 {
    letters.fold(2_166_136_261, |hash: u32, letter| (hash ^ letter as u32).wrapping_mul(16_777_619))
}

/// The words that greedy decoding gives, with the frames of their first letters.
fn heard(emissions: Emissions, alphabet: &Alphabet) -> Vec<WordPosition> {
    let space = alphabet.symbols.iter().position(|symbol| symbol == " ");
    let mut found = Vec::new();
    let mut word: Vec<usize> = Vec::new();
    let (mut start, mut before) = (0, alphabet.blank);
    for frame in 0..emissions.frames() {
        let row = emissions.row(frame).iter().enumerate();
        let best = row.max_by(|one, other| one.1.total_cmp(other.1)).map_or(0, |(at, _)| at);
        let is_new = best != before && best != alphabet.blank;
        before = best;
        if !is_new {
            continue;
        }
        match space {
            None => found.push(WordPosition { word: best as u32, at: frame }),
            Some(space) if best == space => {
                if !word.is_empty() {
                    found.push(WordPosition { word: number(word.drain(..)), at: start });
                }
            }
            Some(_) => {
                if word.is_empty() {
                    start = frame;
                }
                word.push(best);
            }
        }
    }
    if !word.is_empty() {
        found.push(WordPosition { word: number(word.drain(..)), at: start });
    }
    found
}

/// The targets that each frame may be at, by the rough times of their words.
fn band_of_times(
    frames: usize,
    segments: &[RecordingSegment],
    text: &ScriptText,
    script: &Script,
) -> Vec<(usize, usize)> {
    let parts: Vec<(Range<usize>, &Range<f64>)> = text
        .times
        .iter()
        .filter_map(|(bytes, times)| {
            let from = script.words.partition_point(|word| word.bytes.end <= bytes.start);
            let to = script.words.partition_point(|word| word.bytes.start < bytes.end);
            let (first, last) = (script.words.get(from)?, script.words.get(to.checked_sub(1)?)?);
            (from < to).then_some((first.targets.start..last.targets.end, times))
        })
        .collect();
    let end = script.targets.len();
    let mut band = Vec::with_capacity(frames);
    let (mut first, mut last) = (0, 0);
    for time in times(segments) {
        while parts.get(first).is_some_and(|(_, times)| times.end + NEAR_CUE < time) {
            first += 1;
        }
        while parts.get(last).is_some_and(|(_, times)| times.start - NEAR_CUE <= time) {
            last += 1;
        }
        let from = parts.get(first).map_or(end, |(targets, _)| targets.start);
        let to = last.checked_sub(1).map_or(0, |last| parts[last].0.end);
        // Sound without a text before and after.
        let (from, to) = (from.saturating_sub(2), to + 1);
        band.push((from.min(to), to.max(from)));
    }
    band.resize(frames, (end.saturating_sub(2), end));
    band
}

/// The time of each frame in the recording.
fn times(segments: &[RecordingSegment]) -> impl Iterator<Item = f64> {
    segments.iter().flat_map(|segment| {
        (0..segment.frames).map(move |frame| segment.start + frame as f64 * segment.hop)
    })
}

/// The targets that each frame may be at: between those of the anchors around it.
fn band_of_anchors(frames: usize, anchors: &[Anchor], script: &Script) -> Vec<(usize, usize)> {
    let mut band = Vec::with_capacity(frames);
    let mut next = 0;
    for frame in 0..frames {
        while anchors.get(next).is_some_and(|anchor| anchor.frame <= frame) {
            next += 1;
        }
        let before = next.checked_sub(1).map(|at| anchors[at]);
        let behind = anchors.get(next);
        let reach = |anchor: Anchor| (anchor.frame.abs_diff(frame) as f64 * FASTEST) as usize;
        let from = match (before, behind) {
            (Some(before), _) => before.target,
            (None, Some(first)) => first.target.saturating_sub(reach(*first)),
            (None, None) => 0,
        };
        let to = match (behind, before) {
            (Some(behind), _) => behind.target,
            (None, Some(last)) => last.target + reach(last),
            (None, None) => script.targets.len(),
        };
        let from = from.saturating_sub(MARGIN);
        let to = (to + MARGIN).min(script.targets.len());
        // A path begins with a sentence and ends with one.
        let (from, to) = match (before, behind) {
            (None, _) => (begin_of_sentence(script, from), to),
            (_, None) => (from, end_of_sentence(script, to)),
            _ => (from, to),
        };
        band.push((from, to));
    }
    band
}

fn begin_of_sentence(script: &Script, from: usize) -> usize {
    let begins = script.targets[..from.min(script.targets.len())].iter();
    begins.rev().position(|target| target.begins).map_or(0, |back| from - back - 1)
}

fn end_of_sentence(script: &Script, to: usize) -> usize {
    let ends = script.targets.get(to..).unwrap_or_default().iter();
    let found = ends.into_iter().position(|target| target.ends);
    found.map_or(script.targets.len(), |on| (to + on + 1).min(script.targets.len()))
}

/// The place at which a word is heard.
#[derive(Clone, Copy)]
struct WordSpan {
    first: usize,
    last: usize,
}

fn told(
    emissions: Emissions,
    segments: &[RecordingSegment],
    (text, script): (&ScriptText, &Script),
    path: &Path,
) -> Alignment {
    let heard = heard_words(script, path);
    let mut outcome = Alignment {
        segments: Vec::with_capacity(segments.len()),
        unheard: unheard(script, &heard),
        misplaced: misplaced(segments, text, script, &heard),
    };
    let scores = scores(emissions, script, path);
    let mut start = 0;
    // Words are in order of their frames.
    let by_frame: Vec<(usize, WordSpan)> =
        heard.iter().enumerate().filter_map(|(at, heard)| Some((at, (*heard)?))).collect();
    for segment in segments {
        let frames = start..start + segment.frames;
        start = frames.end;
        let from = by_frame.partition_point(|(_, heard)| heard.last < frames.start);
        let to = by_frame.partition_point(|(_, heard)| heard.first < frames.end);
        let words = &by_frame[from..to.max(from)];
        outcome.segments.push(one_segment(segment, frames, words, (text, script), &scores));
    }
    outcome
}

fn one_segment(
    segment: &RecordingSegment,
    frames: Range<usize>,
    words: &[(usize, WordSpan)],
    (text, script): (&ScriptText, &Script),
    scores: &PathScores,
) -> AlignedSegment {
    let is_inside =
        |heard: &WordSpan| frames.contains(&heard.first) && frames.contains(&heard.last);
    let mut aligned = AlignedSegment::default();
    let stars = scores.stars[frames.clone()].iter().filter(|star| **star).count();
    let reject = |code: &str, reason: String| Some(Reject::new(code, reason));
    if let Some((cut, _)) = words.iter().find(|(_, heard)| !is_inside(heard)) {
        let word = &text.text[script.words[*cut].bytes.clone()];
        aligned.reject = reject("cut-word", format!("the segment begins or ends inside `{word}`"));
        return aligned;
    }
    let is_spelled = |(word, _): &(usize, WordSpan)| {
        let mut letters = script.words[*word].targets.clone();
        letters.any(|letter| matches!(script.targets[letter].label, Label::Symbol(_)))
    };
    let is_without = !words.iter().any(is_spelled);
    if is_without || 2 * stars > frames.len() {
        let percent = 100 * stars / frames.len().max(1);
        let reason = if is_without {
            "no word of the text was heard in it".to_owned()
        } else {
            format!("{percent} % of it has no text")
        };
        aligned.reject = reject("no-text", reason);
        return aligned;
    }
    let values = &scores.values[frames.clone()];
    aligned.mean = mean(values);
    let windows = values.windows(WINDOW.min(values.len()));
    aligned.worst = windows.map(mean).fold(0.0, f64::min);
    let letters: usize = words.iter().map(|(word, _)| script.words[*word].targets.len()).sum();
    aligned.letters_per_second = letters as f64 / segment.seconds.max(1e-9);
    aligned.edge = edge(script, words, scores);
    aligned.text = joined(script, &text.text, words);
    let second = |frame: f64| (frame - frames.start as f64) * segment.hop;
    for (at, (word, heard)) in words.iter().enumerate() {
        // Between words the middle is the edge.
        let middle = |one: &WordSpan, other: &WordSpan| (one.last + 1 + other.first) as f64 / 2.0;
        let before = at.checked_sub(1).map(|before| middle(&words[before].1, heard));
        let behind = words.get(at + 1).map(|(_, behind)| middle(heard, behind));
        let from = second(before.unwrap_or(heard.first as f64));
        let to = second(behind.unwrap_or((heard.last + 1) as f64));
        let word = text.text[script.words[*word].bytes.clone()].to_owned();
        aligned.words.push((from, to, word));
    }
    aligned
}

/// The text of words that may have left-out ones between them.
fn joined(script: &Script, text: &str, words: &[(usize, WordSpan)]) -> String {
    let runs = words.chunk_by(|(one, _), (other, _)| one + 1 == *other);
    let slices = runs.map(|run| {
        let (from, to) = (run[0].0, run[run.len() - 1].0 + 1);
        let slice = script.slice(text, from..to).split_whitespace();
        slice.collect::<Vec<_>>().join(" ")
    });
    slices.collect::<Vec<_>>().join(" ")
}

/// The lower probability of the first and the last letter. In the place of a letter that is misheard
/// there is another sound, and its neighbour is heard; where an end is clipped there is none.
fn edge(script: &Script, words: &[(usize, WordSpan)], scores: &PathScores) -> f64 {
    let (Some((first, _)), Some((last, _))) = (words.first(), words.last()) else { return 0.0 };
    let (first, last) = (&script.words[*first].targets, &script.words[*last].targets);
    let ends = [(first.start, first.start + 1), (last.end - 1, last.end.saturating_sub(2))];
    let heard = |target: usize| scores.best.get(&target).map_or(0.0, |best| best.own.exp());
    let sound = |target: usize| scores.best.get(&target).map_or(0.0, |best| best.any.exp());
    let end = |(end, neighbour)| heard(end).max(sound(end).min(heard(neighbour)));
    ends.map(end).into_iter().fold(1.0, f64::min)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The scores of a path.
struct PathScores {
    values: Vec<f64>,
    stars: Vec<bool>,
    best: HashMap<usize, Best>,
}

/// The best frames of a target.
#[derive(Clone, Copy)]
struct Best {
    own: f64,
    /// For any letter.
    any: f64,
}

fn scores(emissions: Emissions, script: &Script, path: &Path) -> PathScores {
    let mut scores = PathScores { values: Vec::new(), stars: Vec::new(), best: HashMap::new() };
    for frame in 0..path.states.len() {
        let target = path.target(frame);
        let label = target.map(|target| script.targets[target]);
        let value = f64::from(match label.map(|target| target.label) {
            None => emissions.row(frame)[emissions.blank],
            Some(Label::Symbol(symbol)) => emissions.row(frame)[symbol],
            Some(Label::Star) => emissions.best_sound(frame),
            // A letter that no text has is as bad as one that is not said.
            Some(Label::Gap) => emissions.row(frame)[emissions.blank],
        });
        scores.values.push(value);
        scores.stars.push(label.is_some_and(|target| !matches!(target.label, Label::Symbol(_))));
        if let Some(target) = target {
            let any = f64::from(emissions.best_sound(frame));
            let best = scores.best.entry(target).or_insert(Best { own: value, any });
            *best = Best { own: best.own.max(value), any: best.any.max(any) };
        }
    }
    scores
}

/// The first and the last frame of each word; None if it is left out.
fn heard_words(script: &Script, path: &Path) -> Vec<Option<WordSpan>> {
    let mut heard: Vec<Option<WordSpan>> = vec![None; script.words.len()];
    for frame in 0..path.states.len() {
        let word = path.target(frame).and_then(|target| script.word_of(target));
        if let Some(word) = word {
            let first = heard[word].map_or(frame, |heard| heard.first);
            heard[word] = Some(WordSpan { first, last: frame });
        }
    }
    heard
}

/// The number of cues that are far from their first heard word.
fn misplaced(
    segments: &[RecordingSegment],
    text: &ScriptText,
    script: &Script,
    heard: &[Option<WordSpan>],
) -> usize {
    let times: Vec<f64> = times(segments).collect();
    let is_far = |(bytes, cue): &&(Range<usize>, Range<f64>)| {
        let from = script.words.partition_point(|word| word.bytes.end <= bytes.start);
        let to = script.words.partition_point(|word| word.bytes.start < bytes.end);
        let said = heard.get(from..to).and_then(|words| words.iter().flatten().next());
        let time = said.and_then(|word| times.get(word.first));
        time.is_some_and(|time| !(cue.start - NEAR_CUE..cue.end + NEAR_CUE).contains(time))
    };
    text.times.iter().filter(is_far).count()
}

/// The runs of words that are not heard.
fn unheard(script: &Script, heard: &[Option<WordSpan>]) -> Vec<UnheardSpan> {
    let mut found: Vec<UnheardSpan> = Vec::new();
    let mut before = None;
    for (at, word) in script.words.iter().enumerate().filter(|(at, _)| heard[*at].is_none()) {
        match found.last_mut().filter(|_| before == at.checked_sub(1) && at > 0) {
            Some(last) => {
                last.end = word.bytes.end;
                last.words += 1;
            }
            None => {
                found.push(UnheardSpan { start: word.bytes.start, end: word.bytes.end, words: 1 });
            }
        }
        before = Some(at);
    }
    found
}
