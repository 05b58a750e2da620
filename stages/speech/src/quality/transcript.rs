//! Compares the transcript of a recogniser with the expected text.

use unicode_normalization::char::is_combining_mark;

use super::edits::{Edits, edits};
use crate::text::normalize::{self, normalize};

/// Differences between two texts that are ignored.
#[derive(Debug, Clone)]
pub struct TranscriptOptions {
    pub text: normalize::NormalizeOptions,
    /// True if punctuation counts.
    pub punctuation: bool,
}

/// Texts that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptError {
    #[error("the item has no text to compare the recognised text with")]
    NoText,
    #[error(
        "{characters} characters are more than the limit of {LONGEST}; cut the text into sentences"
    )]
    TooLong { characters: usize },
}

impl TranscriptError {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        match self {
            TranscriptError::NoText => "no-text",
            TranscriptError::TooLong { .. } => "too-long",
        }
    }
}

/// Time grows with the product of the lengths; this is minutes of speech.
const LONGEST: usize = 10_000;

/// The edits between the two texts, and the lengths that they are relative to.
#[derive(Debug, Clone, PartialEq)]
pub struct Errors {
    /// The recognised text, in compared form.
    pub heard: String,
    pub characters: Edits,
    pub words: Edits,
    /// The expected text, in compared form: its length in characters with single spaces, and in
    /// words.
    pub length: usize,
    pub word_count: usize,
}

impl Errors {
    /// Above 1 if more is heard than expected.
    pub fn cer(&self) -> f64 {
        self.characters.total() as f64 / self.length as f64
    }

    pub fn wer(&self) -> f64 {
        self.words.total() as f64 / self.word_count as f64
    }
}

/// Counts the edits from the expected to the recognised text.
pub fn errors(
    wanted: &str,
    heard: &str,
    options: &TranscriptOptions,
) -> Result<Errors, TranscriptError> {
    let (wanted, heard) = (compared(wanted, options), compared(heard, options));
    let (length, heard_length) = (wanted.chars().count(), heard.chars().count());
    if length == 0 {
        return Err(TranscriptError::NoText);
    }
    if length.max(heard_length) > LONGEST {
        return Err(TranscriptError::TooLong { characters: length.max(heard_length) });
    }
    let characters = |text: &str| text.chars().collect::<Vec<_>>();
    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }
    Ok(Errors {
        characters: edits(&characters(&wanted), &characters(&heard)),
        words: edits(&words(&wanted), &words(&heard)),
        length,
        word_count: words(&wanted).len(),
        heard,
    })
}

/// A text as it is compared.
fn compared(text: &str, options: &TranscriptOptions) -> String {
    let text = normalize(text, &options.text).text;
    if options.punctuation {
        return text;
    }
    // Signs between words separate them, `linja-auto`; an apostrophe is part of a word, `vaa'an`.
    let letters = text.chars().filter(|character| *character != '\'');
    let spaced: String =
        letters.map(|character| if is_spoken(character) { character } else { ' ' }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Letters, digits, and combining marks of scripts such as Gujarati.
fn is_spoken(character: char) -> bool {
    let is_joiner = matches!(character, '\u{200C}' | '\u{200D}');
    character.is_alphanumeric() || is_combining_mark(character) || is_joiner
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::normalize::LetterCase;
    use crate::text::number::Language;

    fn options(punctuation: bool, case: LetterCase) -> TranscriptOptions {
        TranscriptOptions {
            text: normalize::NormalizeOptions { case, ..normalize::NormalizeOptions::default() },
            punctuation,
        }
    }

    fn rates(
        wanted: &str,
        heard: &str,
        options: &TranscriptOptions,
    ) -> Result<(f64, f64), TranscriptError> {
        errors(wanted, heard, options).map(|errors| (errors.cer(), errors.wer()))
    }

    #[test]
    fn case_punctuation_and_form_are_no_errors_unless_asked_for() {
        let loose = options(false, LetterCase::Lower);
        let (wanted, heard) =
            ("Hyvää päivää, \u{201D}linja-auto\u{201D}!", "hyva\u{308}a\u{308} päivää linja auto");
        assert_eq!(rates(wanted, heard, &loose), Ok((0.0, 0.0)));
        // One sign after `päivää`, two quotes, a hyphen, an exclamation mark, and a capital.
        let strict = errors(wanted, heard, &options(true, LetterCase::Keep));
        assert_eq!(strict.map(|errors| errors.characters.total()), Ok(6));
    }

    #[test]
    fn rates_are_edits_over_what_was_to_be_said() {
        let loose = options(false, LetterCase::Lower);
        // Two letters of 15, and one word of 3.
        assert_eq!(
            rates("Kissa istuu yxi.", "kissa istuu yksi", &loose),
            Ok((2.0 / 15.0, 1.0 / 3.0))
        );
        assert_eq!(rates("ab", "", &loose), Ok((1.0, 1.0)));
        assert_eq!(rates("ab", "ab ab ab", &loose), Ok((3.0, 2.0)));
        assert_eq!(rates("...", "jotain", &loose), Err(TranscriptError::NoText));
        let endless = rates("ab", &"ab ".repeat(5_000), &loose);
        assert_eq!(endless, Err(TranscriptError::TooLong { characters: 14_999 }));
    }

    #[test]
    fn signs_of_a_script_are_no_punctuation() {
        assert_eq!(compared("ક્ષ, હું.", &options(false, LetterCase::Lower)), "ક્ષ હું");
        assert_eq!(compared("vaa'an -- puu", &options(false, LetterCase::Lower)), "vaaan puu");
    }

    #[test]
    fn numbers_are_spelled_out_where_a_language_is_given() {
        let mut loose = options(false, LetterCase::Lower);
        loose.text.numbers = Language::of("fi");
        assert_eq!(rates("kolme kissaa", "3 kissaa", &loose), Ok((0.0, 0.0)));
    }
}
