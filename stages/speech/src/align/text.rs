//! A text as the targets of an alignment. Each letter keeps its place in the text, so that a segment
//! has its words as they are written, with their punctuation.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use stage_families::wav2vec2::Alphabet;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::viterbi::{Label, Target};

/// A word, by its letters among the targets and its bytes in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub targets: Range<usize>,
    /// From the first letter to the last, without punctuation.
    pub bytes: Range<usize>,
    pub sentence: usize,
}

/// Words of other scripts, without the punctuation around them, and their Latin letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Romanisation(pub BTreeMap<String, String>);

impl Romanisation {
    /// Those of the words of a text.
    pub fn of(&self, text: &str) -> Romanisation {
        let known = foreign_words(text).filter_map(|word| self.0.get_key_value(word));
        Romanisation(known.map(|(word, latin)| (word.clone(), latin.clone())).collect())
    }
}

/// The words of a text with letters or digits beyond ASCII, without the punctuation around them.
pub fn foreign_words(text: &str) -> impl Iterator<Item = &str> {
    let is_foreign = |letter: char| letter.is_alphanumeric() && !letter.is_ascii();
    words(text).map(|(_, word)| &word[core(word)]).filter(move |word| word.contains(is_foreign))
}

/// The targets of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    pub targets: Vec<Target>,
    pub words: Vec<Word>,
    /// The number of sentences.
    pub sentences: usize,
}

/// Optional sound without a text, before the text, between sentences, and after it.
const PAUSE: Target = Target { is_optional: true, ..Target::of(Label::Gap) };

impl Script {
    pub fn new(
        text: &str,
        romanised: &Romanisation,
        alphabet: &Alphabet,
        with_stars: bool,
    ) -> Script {
        let symbols: HashMap<&str, usize> = alphabet
            .symbols
            .iter()
            .enumerate()
            .filter(|(_, symbol)| !symbol.is_empty())
            .map(|(at, symbol)| (symbol.as_str(), at))
            .collect();
        let mut script = Script::default();
        let mut ends_sentence = true;
        for (start, word) in words(text) {
            let letters = spelled(word, romanised, &symbols);
            // A dash or a quote by itself is no word.
            if !letters.is_empty() {
                if ends_sentence {
                    script.begin_sentence(with_stars);
                }
                let is_first = ends_sentence;
                if let (Some(space), false) = (symbols.get(" "), is_first) {
                    script.targets.push(Target::of(Label::Symbol(*space)));
                }
                script.push(start, &letters, is_first);
                ends_sentence = false;
            }
            ends_sentence |= ends(word) || is_paragraph_end(text, start + word.len());
        }
        script.end_sentence();
        if with_stars && !script.words.is_empty() {
            script.targets.push(PAUSE);
        }
        script
    }

    fn begin_sentence(&mut self, with_stars: bool) {
        self.end_sentence();
        self.sentences += 1;
        if with_stars {
            self.targets.push(PAUSE);
        }
    }

    fn end_sentence(&mut self) {
        if let Some(word) = self.words.last() {
            self.targets[word.targets.end - 1].ends = true;
        }
    }

    fn push(&mut self, start: usize, letters: &[(Range<usize>, Label)], begins: bool) {
        let from = self.targets.len();
        self.targets.extend(letters.iter().map(|(_, label)| Target::of(*label)));
        self.targets[from].begins = begins;
        let (first, last) = (&letters[0].0, &letters[letters.len() - 1].0);
        self.words.push(Word {
            targets: from..self.targets.len(),
            bytes: start + first.start..start + last.end,
            sentence: self.sentences.saturating_sub(1),
        });
    }

    /// The word of a target; None for a star or a space.
    pub fn word_of(&self, target: usize) -> Option<usize> {
        let at = self.words.partition_point(|word| word.targets.end <= target);
        self.words.get(at).filter(|word| word.targets.contains(&target)).map(|_| at)
    }

    /// The text of some words in a row, with the punctuation that belongs to them.
    pub fn slice<'t>(&self, text: &'t str, words: Range<usize>) -> &'t str {
        let (Some(first), Some(last)) =
            (self.words.get(words.start), self.words.get(words.end - 1))
        else {
            return "";
        };
        let is_space = |letter: char| letter.is_whitespace();
        let before = &text[..first.bytes.start];
        let start = before
            .rfind(is_space)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let end =
            text[last.bytes.end..].find(is_space).map_or(text.len(), |at| last.bytes.end + at);
        &text[start..end]
    }
}

/// Runs of characters that are no space, with their places.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// A word without the punctuation around it, as bytes.
fn core(word: &str) -> Range<usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || is_combining_mark(letter);
    let from = word.find(char::is_alphanumeric).unwrap_or(word.len());
    let end = |at: usize| at + word[at..].chars().next().map_or(0, char::len_utf8);
    from..word.rfind(is_part).map_or(from, end).max(from)
}

/// The letters of a word. Where the alphabet lacks some, those of its romanisation, each with the
/// bytes of the whole word.
fn spelled(
    word: &str,
    romanised: &Romanisation,
    symbols: &HashMap<&str, usize>,
) -> Vec<(Range<usize>, Label)> {
    let own = letters(word, symbols);
    if own.iter().all(|(_, label)| *label != Label::Star) {
        return own;
    }
    let core = core(word);
    let latin = romanised.0.get(&word[core.clone()]).map(|latin| letters(latin, symbols));
    match latin.filter(|latin| !latin.is_empty()) {
        Some(latin) => latin.into_iter().map(|(_, label)| (core.clone(), label)).collect(),
        None => own,
    }
}

/// The letters of a word, each with its bytes. A letter or digit that the alphabet lacks is any
/// sound: dropped, it would have no time at all.
fn letters(word: &str, symbols: &HashMap<&str, usize>) -> Vec<(Range<usize>, Label)> {
    let mut found: Vec<(Range<usize>, Label)> = Vec::new();
    for (at, letter) in word.char_indices() {
        let bytes = at..at + letter.len_utf8();
        let labels = spell(letter, symbols);
        let is_sound = letter.is_alphanumeric();
        if labels.is_empty() && is_sound {
            // Several in a row, such as the digits of a number, are one.
            match found.last_mut() {
                Some((before, Label::Star)) => before.end = bytes.end,
                _ => found.push((bytes.clone(), Label::Star)),
            }
        }
        let is_letter = is_sound || letter == '\'' || letter == '\u{2019}';
        if is_letter {
            found.extend(labels.into_iter().map(|label| (bytes.clone(), Label::Symbol(label))));
        }
    }
    // Quotes around a word are not spoken.
    let is_spoken =
        |letter: &(Range<usize>, Label)| word[letter.0.clone()].chars().all(char::is_alphanumeric);
    let from = found.iter().position(is_spoken).unwrap_or(found.len());
    let to = found.iter().rposition(is_spoken).map_or(from, |at| at + 1);
    found[from..to].to_vec()
}

/// A letter in the symbols of the recogniser: as it is, in either case, or without its marks.
fn spell(letter: char, symbols: &HashMap<&str, usize>) -> Vec<usize> {
    let all = |text: String| -> Option<Vec<usize>> {
        let found: Option<Vec<usize>> =
            text.chars().map(|one| symbols.get(one.to_string().as_str()).copied()).collect();
        found.filter(|found| !found.is_empty())
    };
    let plain = if letter == '\u{2019}' { '\'' } else { letter };
    let forms = [
        plain.to_string(),
        plain.to_lowercase().collect(),
        plain.to_uppercase().collect(),
        plain.to_lowercase().nfd().filter(|mark| !is_mark(*mark)).collect(),
        plain.to_uppercase().nfd().filter(|mark| !is_mark(*mark)).collect(),
    ];
    forms.into_iter().find_map(all).unwrap_or_default()
}

/// A combining mark of Latin, Greek and Cyrillic letters.
fn is_mark(letter: char) -> bool {
    ('\u{300}'..='\u{36F}').contains(&letter)
}

/// Tests if a word ends a sentence: `end.`, `end?"`.
fn ends(word: &str) -> bool {
    let bare = word.trim_end_matches(['"', '\'', ')', ']', '\u{201D}', '\u{2019}', '\u{BB}']);
    bare.ends_with(['.', '!', '?', '\u{2026}', '\u{3002}', '\u{0964}', '\u{06D4}', '\u{061F}'])
}

/// Tests if an empty line follows.
fn is_paragraph_end(text: &str, at: usize) -> bool {
    let space = text[at..].chars().take_while(|letter| letter.is_whitespace());
    space.filter(|letter| *letter == '\n').count() > 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn alphabet(letters: &str) -> Alphabet {
        let symbols = std::iter::once(String::new()).chain(letters.chars().map(String::from));
        Alphabet { blank: 0, symbols: symbols.collect() }
    }

    fn told(script: &Script, alphabet: &Alphabet) -> String {
        let symbol = |target: &Target| match (target.label, target.is_optional) {
            (Label::Symbol(at), _) => alphabet.symbols[at].clone(),
            (Label::Gap, _) => "~".to_owned(),
            (Label::Star, _) => "*".to_owned(),
        };
        script.targets.iter().map(symbol).collect()
    }

    #[test]
    fn a_text_becomes_targets_and_keeps_its_places() {
        let english = alphabet(" abcdefghijklmnopqrstuvwxyz'");
        let text = "\u{201C}Caf\u{E9}s,\u{201D} said Tom's \u{2018}friend\u{2019} \u{2014} 42 of them!\n\nChapter two";
        let script = Script::new(text, &Romanisation::default(), &english, true);
        assert_eq!(told(&script, &english), "~cafes said tom's friend * of them~chapter two~");
        assert_eq!(script.sentences, 2);
        let words: Vec<&str> = script.words.iter().map(|word| &text[word.bytes.clone()]).collect();
        assert_eq!(
            words,
            ["Caf\u{E9}s", "said", "Tom's", "friend", "42", "of", "them", "Chapter", "two"]
        );
        assert_eq!(script.slice(text, 0..2), "\u{201C}Caf\u{E9}s,\u{201D} said");
        assert_eq!(script.slice(text, 4..7), "42 of them!");
        let sentences: Vec<usize> = script.words.iter().map(|word| word.sentence).collect();
        assert_eq!(sentences, [0, 0, 0, 0, 0, 0, 0, 1, 1]);
        for (at, word) in script.words.iter().enumerate() {
            assert!(word.targets.clone().all(|target| script.word_of(target) == Some(at)));
        }
        assert_eq!(script.word_of(0), None);
    }

    #[test]
    fn capitals_and_alphabets_without_a_space_are_read_alike() {
        let capitals = alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        let script = Script::new("Stra\u{DF}e. It is.", &Romanisation::default(), &capitals, false);
        assert_eq!(told(&script, &capitals), "STRASSEITIS");
        let ends: Vec<bool> = script.targets.iter().map(|target| target.ends).collect();
        assert_eq!(ends.iter().filter(|end| **end).count(), 2);
        assert!(ends[6] && ends[10] && script.targets[0].begins && script.targets[7].begins);
    }

    #[test]
    fn a_text_in_other_letters_is_any_sound() {
        let english = alphabet(" abc");
        let none = Romanisation::default();
        let script = Script::new("\u{5D0}\u{5D1} a", &none, &english, true);
        assert_eq!(told(&script, &english), "~* a~");
        assert_eq!(Script::new(" \u{2014} \n", &none, &english, true), Script::default());
    }
}
