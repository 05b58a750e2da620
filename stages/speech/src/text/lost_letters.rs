//! Marks in the place of letters: what a conversion to an encoding without these letters leaves.

use std::collections::BTreeMap;

use unicode_normalization::char::is_combining_mark;

/// Marks that programs write for a letter that they cannot.
const MARKS: [char; 9] = ['?', '\u{FFFD}', '\u{25A1}', '\u{A4}', '#', '~', '^', '*', '_'];
/// Those of them that also begin words: `#tag` and `*word*` are markup.
const OF_MARKUP: [char; 5] = ['#', '~', '^', '*', '_'];
/// Signs that a word may follow directly.
const OPENERS: &str = "'\u{2019}\"\u{AB}\u{201C}\u{201E}(-";

pub const ADVICE: &str = "read the texts again from a source with all letters, in UTF-8, or correct \
                          these words; `on_lost = \"report\"` accepts them";

/// The words named in the message of the gate.
const MAX_NAMED: usize = 10;

/// A mark in words.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LostLetters {
    pub mark: char,
    /// For example `U+003F`.
    pub code_point: String,
    pub occurrences: u64,
    pub clips: u64,
    /// The first words by the ids of their clips.
    pub examples: Vec<Example>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Example {
    pub clip: String,
    pub word: String,
}

#[derive(Default)]
struct Count {
    occurrences: u64,
    clips: u64,
    examples: Vec<Example>,
}

/// Counts such marks over texts.
#[derive(Default)]
pub struct Search {
    /// Marks inside or at the start of a word.
    certain: BTreeMap<char, Count>,
    /// Marks at the end of a word before a small letter or another sign. A sentence may end there.
    possible: BTreeMap<char, Count>,
}

impl Search {
    /// `limit`: the number of examples kept for each mark.
    pub fn add(&mut self, id: &str, text: &str, limit: usize) {
        let letters: Vec<char> = text.chars().collect();
        let mut seen = Vec::new();
        for (at, mark) in letters.iter().enumerate().filter(|(_, one)| MARKS.contains(one)) {
            let counts = match place(&letters, at) {
                Some(Place::InWord) => &mut self.certain,
                Some(Place::AfterWord) => &mut self.possible,
                None => continue,
            };
            let count = counts.entry(*mark).or_default();
            count.occurrences += 1;
            count.clips += u64::from(!seen.contains(mark));
            seen.push(*mark);
            let example = Example { clip: id.to_owned(), word: word(&letters, at) };
            let position = count.examples.partition_point(|other| *other < example);
            if position < limit {
                count.examples.insert(position, example);
                count.examples.truncate(limit);
            }
        }
    }

    /// The marks by their number. Those at the end of words count if the mark is also inside of some.
    pub fn found(mut self) -> Vec<LostLetters> {
        let lost = |(mark, mut count): (char, Count)| {
            if let Some(possible) = self.possible.remove(&mark) {
                count.occurrences += possible.occurrences;
                count.clips = count.clips.max(possible.clips);
            }
            LostLetters {
                mark,
                code_point: format!("U+{:04X}", mark as u32),
                occurrences: count.occurrences,
                clips: count.clips,
                examples: count.examples,
            }
        };
        let mut all: Vec<LostLetters> = self.certain.into_iter().map(lost).collect();
        all.sort_by_key(|lost| std::cmp::Reverse(lost.occurrences));
        all
    }
}

enum Place {
    InWord,
    AfterWord,
}

/// The place of a mark, if it may stand for a letter.
fn place(letters: &[char], at: usize) -> Option<Place> {
    let before = at.checked_sub(1).map(|at| letters[at]);
    let after = letters.get(at + 1).copied();
    let follows_letter = before.is_some_and(is_letter);
    let starts_word = !OF_MARKUP.contains(&letters[at])
        && before.is_none_or(|last| last.is_whitespace() || OPENERS.contains(last));
    if after.is_some_and(is_letter) && (follows_letter || starts_word) {
        return Some(Place::InWord);
    }
    let is_spaced = after.is_some_and(char::is_whitespace);
    // A sentence has one end: `?.` and `?,` are none, and `?...` is.
    let ends_elsewhere =
        after.is_some_and(|after| ".,;:".contains(after)) && letters.get(at + 2) != Some(&'.');
    let mut rest = letters[at + 1..].iter().filter(|letter| !letter.is_whitespace());
    let goes_on = rest.next().is_some_and(|letter| letter.is_lowercase());
    let may_be_lost = follows_letter && !OF_MARKUP.contains(&letters[at]);
    (may_be_lost && (is_spaced && goes_on || ends_elsewhere)).then_some(Place::AfterWord)
}

fn is_letter(character: char) -> bool {
    character.is_alphabetic() || is_combining_mark(character)
}

/// The word around a mark.
fn word(letters: &[char], at: usize) -> String {
    let is_part = |letter: &&char| is_letter(**letter) || MARKS.contains(letter);
    let before = letters[..at].iter().rev().take_while(is_part).count();
    let after = letters[at..].iter().take_while(is_part).count();
    letters[at - before..at + after].iter().collect()
}

/// The finding in words; None without any.
pub fn message(lost: &[LostLetters]) -> Option<String> {
    if lost.is_empty() {
        return None;
    }
    let places: u64 = lost.iter().map(|lost| lost.occurrences).sum();
    let examples = lost.iter().flat_map(|lost| &lost.examples).take(MAX_NAMED);
    let named =
        examples.map(|Example { clip, word }| format!("`{word}` in `{}`", clip.escape_default()));
    let named: Vec<String> = named.collect();
    let letters =
        if places == 1 { "1 letter is".to_owned() } else { format!("{places} letters are") };
    let marks: Vec<String> = lost.iter().map(|lost| format!("`{}`", lost.mark)).collect();
    let marks = marks.join(", ");
    Some(format!("{letters} lost, with {marks} in the place: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Vec<LostLetters> {
        let mut search = Search::default();
        for (at, text) in texts.iter().enumerate() {
            search.add(&format!("c{at}"), text, 5);
        }
        search.found()
    }

    #[test]
    fn a_mark_inside_or_at_the_start_of_a_word_stands_for_a_letter() {
        let lost = found(&[
            "Un ?tudiant dans les caf?s",
            "l'?cole, le caf? noir, un caf?.",
            "Quoi ? Oui?...",
        ]);
        let told = message(&lost).unwrap_or_default();
        assert_eq!(
            told,
            "5 letters are lost, with `?` in the place: `?tudiant` in `c0`, `caf?s` in `c0`, `?cole` \
             in `c1`"
        );
        assert_eq!((lost.len(), lost[0].code_point.as_str(), lost[0].clips), (1, "U+003F", 2));
        assert_eq!(found(&["na\u{FFFD}ve"])[0].mark, '\u{FFFD}');
    }

    #[test]
    fn questions_lose_no_letter() {
        let texts = [
            "Quoi? dit-il.",
            "¿Qué?",
            "Really?",
            "what ?!",
            "(why?)",
            "C# and a_",
            "?",
            "*so* #tag",
        ];
        assert_eq!(found(&texts), []);
        assert_eq!(message(&[]), None);
    }
}
