//! The meaning of three columns without names, from the cells of the first rows.
//!
//! A normalised text is like the raw text beside it. A speaker is not; it repeats, or has fewer
//! words than the text. Evidence that is missing or that disagrees is an error: a wrong guess would
//! train a voice on the names of its speakers. A few rows train no voice, and rarely have evidence:
//! they are taken in the documented order, and a note says so.

use std::collections::{HashMap, HashSet};

use super::TableRow;
use crate::corpus::CorpusError;

type Names = [&'static str; 3];

const LJSPEECH: Names = ["file", "raw_text", "text"];
const SPEAKER_LAST: Names = ["file", "text", "speaker"];
const SPEAKER_FIRST: Names = ["file", "speaker", "text"];

/// The mean similarity from which two columns are the same text, written in two ways. Numbers and
/// abbreviations in words leave LJSpeech above 0.9; names and sentences stay below 0.15.
const SAME_TEXT: f64 = 0.3;
/// Up to this number of rows, each clip may have its own speaker.
const FEW_ROWS: usize = 8;

/// The names of the columns; true if they are the documented order, without evidence.
pub(super) fn names(lines: &[TableRow]) -> Result<(Names, bool), CorpusError> {
    let rows: Vec<[String; 2]> = lines.iter().filter_map(cells).collect();
    let [second, third] = [0, 1].map(|column| Evidence::of(rows.iter().map(|row| &row[column])));
    if third.filled == 0 {
        return Ok((SPEAKER_LAST, false));
    }
    if second.filled == 0 {
        return Ok((SPEAKER_FIRST, false));
    }
    let are_alike = similarity(&rows) >= SAME_TEXT;
    let reading = if are_alike {
        third.is_normalised(&second).then_some(LJSPEECH)
    } else {
        match (third.is_speaker_of(&second), second.is_speaker_of(&third)) {
            (true, false) => Some(SPEAKER_LAST),
            (false, true) => Some(SPEAKER_FIRST),
            _ => None,
        }
    };
    match reading {
        Some(names) => Ok((names, false)),
        None if !are_alike && third.may_name_speakers_of_few(&second) => Ok((SPEAKER_LAST, true)),
        None => Err(CorpusError::UnclearColumns { proposal: super::proposal::columns(lines, 3) }),
    }
}

/// The second and the third cell of a row with three.
fn cells(line: &TableRow) -> Option<[String; 2]> {
    let cell = |index| line.cells.get(index).map(String::from_utf8_lossy);
    let (second, third) = (cell(1)?, cell(2)?);
    (line.cells.len() == 3).then(|| [second.trim().to_owned(), third.trim().to_owned()])
}

/// Facts about one column. Empty cells are ignored.
struct Evidence {
    filled: usize,
    distinct: usize,
    words: usize,
    fractions: usize,
}

impl Evidence {
    fn of<'a>(cells: impl Iterator<Item = &'a String>) -> Evidence {
        let cells: Vec<&str> = cells.map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        let is_fraction = |cell: &&&str| cell.contains('.') && cell.parse::<f64>().is_ok();
        Evidence {
            filled: cells.len(),
            distinct: cells.iter().collect::<HashSet<_>>().len(),
            words: cells.iter().map(|cell| words(cell)).sum(),
            fractions: cells.iter().filter(is_fraction).count(),
        }
    }

    fn repeats_more_than(&self, other: &Evidence) -> bool {
        self.distinct * 2 <= other.distinct
    }

    /// True if a cell has one and a half times the words of a cell of the other column.
    fn is_longer_than(&self, other: &Evidence) -> bool {
        self.words * other.filled * 2 >= other.words * self.filled * 3
    }

    fn is_speaker_of(&self, text: &Evidence) -> bool {
        let speaks_for = self.repeats_more_than(text) || text.is_longer_than(self);
        let speaks_against = text.repeats_more_than(self) || self.is_longer_than(text);
        speaks_for && !speaks_against && self.may_be_speaker() && text.has_sentences()
    }

    /// Speakers repeat: in a longer table, at least a quarter of the clips repeat one. Numbers of
    /// seconds are no speakers.
    fn may_be_speaker(&self) -> bool {
        let comes_again = self.distinct * 4 <= self.filled * 3;
        (comes_again || self.filled <= FEW_ROWS) && self.fractions * 2 <= self.filled
    }

    /// True if nothing speaks against it in a table of a few rows.
    fn may_name_speakers_of_few(&self, text: &Evidence) -> bool {
        let is_shorter = self.words * text.filled <= text.words * self.filled;
        // Nobody records the same words only.
        let may_be_text = text.fractions == 0 && (text.distinct > 1 || text.filled == 1);
        self.filled <= FEW_ROWS && is_shorter && self.may_be_speaker() && may_be_text
    }

    /// A column of single words can be either.
    fn has_sentences(&self) -> bool {
        self.words * 2 >= self.filled * 3
    }

    /// Writing out numbers makes a text longer, not shorter, and keeps different texts different.
    fn is_normalised(&self, raw: &Evidence) -> bool {
        let is_long_enough = self.words * raw.filled * 3 >= raw.words * self.filled * 2;
        is_long_enough && self.distinct * raw.filled * 2 > raw.distinct * self.filled
    }
}

/// The number of words. A letter of a script without spaces counts as one.
pub(super) fn words(cell: &str) -> usize {
    let of_word = |word: &str| match word.chars().filter(|letter| is_unspaced(*letter)).count() {
        0 => 1,
        letters => letters,
    };
    cell.split_whitespace().map(of_word).sum()
}

/// Chinese, Japanese, Thai, Lao, Burmese and Khmer.
fn is_unspaced(letter: char) -> bool {
    matches!(letter,
        '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{20000}'..='\u{323AF}')
}

/// The mean similarity of the cells of a row, where both have something.
fn similarity(rows: &[[String; 2]]) -> f64 {
    let filled = rows.iter().filter(|row| row.iter().all(|cell| !cell.is_empty()));
    let each: Vec<f64> = filled.map(|[second, third]| dice(second, third)).collect();
    each.iter().sum::<f64>() / each.len().max(1) as f64
}

/// The Dice coefficient of the letter pairs of two texts, without case, spaces and punctuation.
fn dice(one: &str, other: &str) -> f64 {
    let (one, other) = (letters(one), letters(other));
    if one == other {
        return 1.0;
    }
    let total = one.len().saturating_sub(1) + other.len().saturating_sub(1);
    let mut pairs: HashMap<&[char], usize> = HashMap::new();
    one.windows(2).for_each(|pair| *pairs.entry(pair).or_default() += 1);
    let mut shared = 0;
    for pair in other.windows(2) {
        if let Some(left) = pairs.get_mut(pair).filter(|left| **left > 0) {
            *left -= 1;
            shared += 1;
        }
    }
    2.0 * f64::from(shared) / total.max(1) as f64
}

fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
