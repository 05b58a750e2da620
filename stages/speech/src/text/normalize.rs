//! `text.normalize`: one spelling for texts with the same pronunciation, and a count of each
//! change.
//!
//! Applying it twice changes nothing more. Text that it cannot read unambiguously is left and
//! counted, so that `text.audit` can stop on it.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

use super::case::{self, Letters};
use super::characters::{self, Kind};
use super::number::{self, Language};

/// The options of the normalisation.
#[derive(Debug, Clone)]
pub struct NormalizeOptions {
    pub form: UnicodeForm,
    pub case: LetterCase,
    /// The rules for upper and lower case.
    pub letters: Letters,
    /// Categories of characters that do not change.
    pub keep: Vec<Kind>,
    pub joiners: Joiners,
    /// The language of spelled-out numbers; None leaves digits alone.
    pub numbers: Option<Language>,
}

/// The Unicode form of the result: that of the target tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnicodeForm {
    #[default]
    Nfc,
    Nfd,
    Nfkc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LetterCase {
    #[default]
    Keep,
    Lower,
    Upper,
}

/// The treatment of the zero-width joiner and non-joiner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Joiners {
    /// Kept after a character of an Indic script, removed elsewhere.
    #[default]
    Indic,
    Keep,
    Remove,
}

impl Default for NormalizeOptions {
    fn default() -> Self {
        NormalizeOptions {
            form: UnicodeForm::Nfc,
            case: LetterCase::Keep,
            letters: Letters::Usual,
            keep: Vec::new(),
            joiners: Joiners::Indic,
            numbers: None,
        }
    }
}

/// A text in its normal form, and the changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NormalText {
    pub text: String,
    /// The number of times that each character was replaced or removed.
    pub replaced: BTreeMap<char, u32>,
    /// True if the Unicode form differed.
    pub recomposed: bool,
    /// True if letters changed their case.
    pub recased: bool,
    pub numbers_spelled: u32,
    /// Digits that no rule reads unambiguously.
    pub digits_left: u32,
}

/// The number of passes after which a text is certainly in its normal form: each pass only handles
/// what the previous one uncovered, such as a letter that composes once an invisible character is
/// removed.
const MAX_PASSES: usize = 4;

/// Normalises one text.
pub fn normalize(text: &str, options: &NormalizeOptions) -> NormalText {
    let mut result = NormalText { text: text.to_owned(), ..NormalText::default() };
    for _ in 0..MAX_PASSES {
        let before = result.text.clone();
        pass(&mut result, options);
        if result.text == before {
            break;
        }
    }
    result.digits_left =
        result.text.chars().filter(|character| character.is_numeric()).count() as u32;
    result
}

fn pass(result: &mut NormalText, options: &NormalizeOptions) {
    let formed = to_form(&result.text, options);
    result.recomposed |= formed != result.text;
    let replaced = replace_characters(&formed, options, &mut result.replaced);
    let spelled = match options.numbers {
        None => replaced,
        Some(language) => {
            let (spelled, count) = number::spell_out(&replaced, language);
            result.numbers_spelled += count;
            spelled
        }
    };
    let cased = match options.case {
        LetterCase::Keep => spelled.clone(),
        LetterCase::Lower => case::lower(&spelled, options.letters),
        LetterCase::Upper => case::upper(&spelled, options.letters),
    };
    result.recased |= cased != spelled;
    let spaced = if options.keep.contains(&Kind::Space) {
        cased
    } else {
        cased.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    result.text = to_form(&spaced, options);
}

fn to_form(text: &str, options: &NormalizeOptions) -> String {
    match options.form {
        UnicodeForm::Nfc => text.nfc().collect(),
        UnicodeForm::Nfd => text.nfd().collect(),
        UnicodeForm::Nfkc if options.numbers.is_none() => text.nfkc().collect(),
        // `5½` and `10²` would become the digits 51⁄2 and 102, which are other numbers.
        UnicodeForm::Nfkc => {
            let parts = text.split_inclusive(is_written_small);
            let form =
                |part: &str| match part.chars().next_back().filter(|it| is_written_small(*it)) {
                    Some(small) => {
                        let before: String = part[..part.len() - small.len_utf8()].nfkc().collect();
                        before + small.encode_utf8(&mut [0; 4])
                    }
                    None => part.nfkc().collect(),
                };
            parts.map(form).collect()
        }
    }
}

/// Tests for a fraction, a raised or lowered digit, or a number in a circle.
fn is_written_small(character: char) -> bool {
    let is_wide = ('０'..='９').contains(&character);
    character.is_numeric() && !is_wide && std::iter::once(character).nfkc().ne([character])
}

fn replace_characters(
    text: &str,
    options: &NormalizeOptions,
    counts: &mut BTreeMap<char, u32>,
) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        let change = if characters::is_joiner(character) {
            drops_joiner(options.joiners, result.chars().next_back()).then_some("")
        } else {
            characters::replacement(character)
                .filter(|(_, kind)| !options.keep.contains(kind))
                .map(|(replacement, _)| replacement)
        };
        match change {
            None => result.push(character),
            Some(replacement) => {
                *counts.entry(character).or_default() += 1;
                result.push_str(replacement);
            }
        }
    }
    result
}

fn drops_joiner(joiners: Joiners, before: Option<char>) -> bool {
    match joiners {
        Joiners::Keep => false,
        Joiners::Remove => true,
        Joiners::Indic => !before.is_some_and(characters::is_indic),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fractions_and_powers_do_not_become_other_numbers() {
        let numbers = number::Language::all().find(|language| language.code() == "en");
        let options =
            NormalizeOptions { form: UnicodeForm::Nfkc, numbers, ..NormalizeOptions::default() };
        for text in ["5½ cups", "10² metres", "①② and 3"] {
            let read = normalize(text, &options).text;
            assert!(
                !read.contains("fifty") && !read.contains("hundred") && !read.contains("twelve"),
                "{read}"
            );
        }
        assert_eq!(normalize("５ ﬁne", &options).text, "five fine");
    }

    fn plain(text: &str) -> String {
        normalize(text, &NormalizeOptions::default()).text
    }

    #[test]
    fn what_sounds_the_same_is_written_the_same() {
        assert_eq!(plain("\u{201D}Hei\u{201D}, sano\u{2019}a\u{2026}"), "\"Hei\", sano'a...");
        assert_eq!(plain("a\u{308}iti\u{00A0}\u{2013}\tisa\u{308}\r\n"), "äiti - isä");
        assert_eq!(
            plain("kuu\u{00AD}sama\u{200B}\u{FEFF} \u{202E}x\u{0007}\u{1F600}"),
            "kuusama x"
        );
    }

    #[test]
    fn joiners_stay_where_they_are_spelling() {
        assert_eq!(plain("ક્\u{200D}ષ"), "ક્\u{200D}ષ");
        assert_eq!(plain("a\u{200D}b\u{200C}"), "ab");
        let remove = NormalizeOptions { joiners: Joiners::Remove, ..NormalizeOptions::default() };
        assert_eq!(normalize("ક્\u{200D}ષ", &remove).text, "ક્ષ");
    }

    #[test]
    fn each_change_is_counted() {
        let found = normalize(
            "A\u{308}\u{2019}\u{2019} 3.4.5",
            &NormalizeOptions { case: LetterCase::Lower, ..NormalizeOptions::default() },
        );
        assert_eq!(found.text, "ä'' 3.4.5");
        assert_eq!(found.replaced, BTreeMap::from([('\u{2019}', 2)]));
        assert!(found.recomposed && found.recased);
        assert_eq!(found.digits_left, 3);
    }

    #[test]
    fn a_kind_can_be_kept() {
        let options = NormalizeOptions { keep: vec![Kind::Dash], ..NormalizeOptions::default() };
        assert_eq!(normalize("a \u{2013} \u{201C}b\u{201D}", &options).text, "a \u{2013} \"b\"");
    }

    fn any_options() -> impl Strategy<Value = NormalizeOptions> {
        let languages: Vec<Option<Language>> =
            std::iter::once(None).chain(Language::all().map(Some)).collect();
        let numbers = proptest::sample::select(languages);
        let letters =
            proptest::sample::select(vec![Letters::Usual, Letters::Turkic, Letters::Lithuanian]);
        (0..3usize, 0..3usize, 0..3usize, numbers, letters).prop_map(
            |(form, case, joiners, numbers, letters)| NormalizeOptions {
                form: [UnicodeForm::Nfc, UnicodeForm::Nfd, UnicodeForm::Nfkc][form],
                case: [LetterCase::Keep, LetterCase::Lower, LetterCase::Upper][case],
                joiners: [Joiners::Indic, Joiners::Keep, Joiners::Remove][joiners],
                numbers,
                letters,
                keep: Vec::new(),
            },
        )
    }

    /// Characters that the rules cover, and others.
    const TEXTS: &str = "([a-zäöÅiIİı0-9૦-૯٠-٩.,:%€₹ ;'-]|klo |st |ኛ|年|번째|\u{308}|[\u{a0}-\u{ff}\u{300}-\u{320}\u{2000}-\u{206f}\u{1f00}-\u{1fff}\u{a80}-\u{aff}]|\\PC|\\pC){0,24}";

    proptest! {
        #[test]
        fn a_second_time_changes_nothing(text in TEXTS, options in any_options()) {
            let once = normalize(&text, &options);
            let twice = normalize(&once.text, &options);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert!(twice.replaced.is_empty() && !twice.recomposed && twice.numbers_spelled == 0);
        }
    }
}
