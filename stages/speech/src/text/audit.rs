//! `text.audit`: characters that the target tokenizer does not know, as a table and a gate.
//!
//! Tokenizers silently drop such characters, and the model learns to skip sounds.

use std::collections::BTreeMap;

use stage_core::StageError;

use super::lost_letters::{LostLetters, Search};
use super::reader::Reader;

/// A clip to be checked.
#[derive(Debug, Clone, Copy)]
pub struct ClipText<'a> {
    pub id: &'a str,
    pub text: &'a str,
    pub language: Option<&'a str>,
}

/// The options of the check.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Characters that may be dropped, such as punctuation.
    pub allow: Vec<char>,
    /// The number of ids kept for each unknown character.
    pub examples: usize,
}

impl Default for AuditOptions {
    fn default() -> Self {
        AuditOptions { allow: Vec::new(), examples: 5 }
    }
}

/// One character outside the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unknown {
    pub character: char,
    /// For example `U+0A85`.
    pub code_point: String,
    pub kind: &'static str,
    pub occurrences: u64,
    pub clips: u64,
    /// The first ids in sorted order, independent of the order of the clips.
    pub examples: Vec<String>,
    pub is_allowed: bool,
}

/// A date, a time or the like, whose parts the model would read as numbers of their own.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Misread {
    pub digits: String,
    pub occurrences: u64,
    /// The first ids in sorted order.
    pub examples: Vec<String>,
}

/// The table of a whole data set; the most frequent unknown character first.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Audit {
    pub clips: u64,
    pub characters: u64,
    pub digits: u64,
    /// Texts in a native script, if the model was made for romanised ones.
    #[serde(skip_serializing_if = "is_nought")]
    pub not_romanised: u64,
    pub unknown: Vec<Unknown>,
    /// Marks in the place of letters; the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostLetters>,
    /// Dates, times and the like; the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misread: Vec<Misread>,
}

fn is_nought(count: &u64) -> bool {
    *count == 0
}

/// The gate: problems to solve before a model is trained on the texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {named}{}", counted(.characters, .occurrences), more(.unnamed))]
pub struct Gate {
    pub characters: usize,
    pub occurrences: u64,
    /// The characters by name, the most frequent first.
    pub named: String,
    /// The number of characters that the message does not name.
    pub unnamed: usize,
}

/// The advice of the gate.
pub const ADVICE: &str = "spell out numbers and write texts in one way with `text.normalize`, correct \
                          the texts, give a new model these `characters`, or list characters that may be \
                          dropped in `allow`";

/// The advice about dates and times.
pub const MISREAD_ADVICE: &str =
    "write them out in words, in the texts or by a stage before, such as `command` or `python`";

/// The number of dates and times that a message names.
const MAX_NAMED_DIGITS: usize = 5;

/// The number of characters named in the message of the gate: more than the alphabet of a language
/// are another vocabulary.
const MAX_NAMED_CHARACTERS: usize = 60;

fn counted(characters: &usize, occurrences: &u64) -> String {
    let one = |count: u64, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let is = if *characters == 1 { "is" } else { "are" };
    let (characters, places) = (one(*characters as u64, "character"), one(*occurrences, "place"));
    format!("{characters} in {places} {is} unknown to the tokenizer")
}

fn more(unnamed: &usize) -> String {
    match unnamed {
        0 => String::new(),
        count => format!(", and {count} more in the report"),
    }
}

#[derive(Default)]
struct Count {
    occurrences: u64,
    clips: u64,
    examples: Vec<String>,
}

/// Checks the texts of clips.
///
/// # Errors
///
/// If the reader cannot read the language of a clip.
pub fn audit<'a>(
    clips: impl IntoIterator<Item = ClipText<'a>>,
    reader: &Reader,
    options: &AuditOptions,
) -> Result<Audit, StageError> {
    let mut audit = Audit::default();
    let mut counts: BTreeMap<char, Count> = BTreeMap::new();
    let mut misread: BTreeMap<&str, Count> = BTreeMap::new();
    let mut lost = Search::default();
    for clip in clips {
        let text = clip.text;
        audit.clips += 1;
        audit.characters += text.chars().count() as u64;
        audit.digits += text.chars().filter(|character| character.is_numeric()).count() as u64;
        lost.add(clip.id, text, options.examples);
        audit.not_romanised += u64::from(reader.needs_uroman(text));
        for (character, occurrences) in reader.unknown(&clip)? {
            counts.entry(character).or_default().add(clip.id, occurrences, options.examples);
        }
        for digits in reader.misread(text) {
            misread.entry(digits).or_default().add(clip.id, 1, options.examples);
        }
    }
    audit.unknown = counts
        .into_iter()
        .map(|(character, count)| count.into_unknown(character, options))
        .collect();
    audit.unknown.sort_by_key(|unknown| std::cmp::Reverse(unknown.occurrences));
    audit.lost = lost.found();
    let one = |(digits, count): (&str, Count)| Misread {
        digits: digits.to_owned(),
        occurrences: count.occurrences,
        examples: count.examples,
    };
    audit.misread = misread.into_iter().map(one).collect();
    audit.misread.sort_by_key(|misread| std::cmp::Reverse(misread.occurrences));
    Ok(audit)
}

impl Count {
    fn add(&mut self, id: &str, occurrences: u64, limit: usize) {
        self.occurrences += occurrences;
        self.clips += 1;
        let place = self.examples.partition_point(|example| example.as_str() < id);
        if place < limit {
            self.examples.insert(place, id.to_owned());
            self.examples.truncate(limit);
        }
    }

    fn into_unknown(self, character: char, options: &AuditOptions) -> Unknown {
        Unknown {
            character,
            code_point: format!("U+{:04X}", character as u32),
            kind: kind(character),
            occurrences: self.occurrences,
            clips: self.clips,
            examples: self.examples,
            is_allowed: options.allow.contains(&character),
        }
    }
}

impl Audit {
    /// Fails if a character is neither known nor allowed.
    pub fn gate(&self) -> Result<(), Gate> {
        let forbidden: Vec<&Unknown> =
            self.unknown.iter().filter(|unknown| !unknown.is_allowed).collect();
        if forbidden.is_empty() {
            return Ok(());
        }
        let named = forbidden.iter().take(MAX_NAMED_CHARACTERS).map(|unknown| unknown.to_string());
        Err(Gate {
            characters: forbidden.len(),
            occurrences: forbidden.iter().map(|unknown| unknown.occurrences).sum(),
            named: named.collect::<Vec<_>>().join(", "),
            unnamed: forbidden.len().saturating_sub(MAX_NAMED_CHARACTERS),
        })
    }
}

/// The message about dates, times and the like.
pub fn misread_message(misread: &[Misread]) -> Option<String> {
    let first = misread.first()?;
    let named = misread.iter().take(MAX_NAMED_DIGITS).map(|one| format!("`{}`", one.digits));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match misread.len().saturating_sub(MAX_NAMED_DIGITS) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let example = first.examples.first().map_or("", String::as_str).escape_default();
    Some(format!(
        "the model reads the parts of {named}{more} as numbers of their own (the first in `{example}`)"
    ))
}

impl std::fmt::Display for Unknown {
    /// Invisible characters are named by their code point alone.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = &self.code_point;
        let example = self.examples.first().map_or("", String::as_str);
        match self.kind {
            "control" | "space" | "mark" => {
                write!(formatter, "{code} (")?;
            }
            _ => write!(formatter, "`{}` {code} (", self.character)?,
        }
        match self.occurrences {
            1 => formatter.write_str("once")?,
            times => write!(formatter, "{times} times")?,
        }
        write!(formatter, ", as in `{}`)", example.escape_default())
    }
}

/// The category of a character.
fn kind(character: char) -> &'static str {
    match character {
        _ if character.is_control() => "control",
        '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}' => "control",
        _ if character.is_whitespace() => "space",
        _ if character.is_numeric() => "digit",
        'a'..='z' | 'A'..='Z' => "latin letter",
        '\u{0A80}'..='\u{0AFF}' => "gujarati letter",
        _ if unicode_normalization::char::is_combining_mark(character) => "mark",
        _ if character.is_alphabetic() => "letter",
        _ => "sign",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::vocabulary::Vocabulary;
    use super::*;

    fn vocabulary() -> Vocabulary {
        Vocabulary::from_bytes(br#"{"<unk>": 0, "a": 1, "b": 2, " ": 3}"#).unwrap()
    }

    fn audit(clips: &[(&str, &str)], reader: &Reader, options: &AuditOptions) -> Audit {
        let clips = clips.iter().map(|(id, text)| ClipText { id, text, language: None });
        super::audit(clips, reader, options).unwrap()
    }

    fn reader(lower_case: bool) -> Reader {
        Reader::Listed { vocabulary: vocabulary(), lower_case }
    }

    #[test]
    fn unknown_characters_are_counted_with_the_first_ids() {
        let clips = [("c3", "a-b 7"), ("c1", "A B--"), ("c2", "ab")];
        let audit = audit(&clips, &reader(true), &AuditOptions::default());
        let brief: Vec<_> = audit
            .unknown
            .iter()
            .map(|unknown| {
                (unknown.character, unknown.occurrences, unknown.clips, unknown.examples.join(","))
            })
            .collect();
        assert_eq!(brief, [('-', 3, 2, "c1,c3".to_owned()), ('7', 1, 1, "c3".to_owned())]);
        assert_eq!((audit.clips, audit.characters, audit.digits), (3, 12, 1));
    }

    #[test]
    fn the_gate_opens_when_every_unknown_character_is_allowed() {
        let clips = [("c1", "a-b")];
        let closed = audit(&clips, &reader(true), &AuditOptions::default()).gate().unwrap_err();
        assert_eq!(
            closed.to_string(),
            "1 character in 1 place is unknown to the tokenizer: `-` U+002D (once, as in `c1`)"
        );
        let allowed = AuditOptions { allow: vec!['-'], ..AuditOptions::default() };
        assert_eq!(audit(&clips, &reader(true), &allowed).gate(), Ok(()));
    }

    #[test]
    fn the_message_names_every_character_of_a_text_and_counts_those_of_another_script() {
        let gate = |text: String| {
            let closed = audit(&[("c1", &text)], &reader(true), &AuditOptions::default()).gate();
            closed.unwrap_err().to_string()
        };
        let few: String = "cdefghijklmnopq".to_owned();
        let told = gate(few.clone());
        assert!(told.starts_with("15 characters in 15 places are"), "{told}");
        assert!(few.chars().all(|own| told.contains(&format!("`{own}`"))), "{told}");
        assert!(!told.contains("more"), "{told}");
        let many: String = ('\u{4E00}'..='\u{4E63}').collect();
        assert!(gate(many).ends_with(", and 40 more in the report"));
    }

    #[test]
    fn upper_case_counts_as_unknown_where_the_tokenizer_does_not_lower() {
        let strict = audit(&[("c", "Ab")], &reader(false), &AuditOptions::default());
        assert_eq!(strict.unknown.len(), 1);
    }

    #[test]
    fn vocabularies_come_as_objects_lists_texts_and_tokenizer_files() {
        for bytes in [
            &b"ab \n"[..],
            br#"["a","b"," ","<s>"]"#,
            br#"{"model":{"vocab":{"a":0,"b":1," ":2}}}"#,
        ] {
            assert_eq!(Vocabulary::from_bytes(bytes), Ok(vocabulary()));
        }
        assert_eq!(
            Vocabulary::from_bytes(b"{\"abc\": 1}"),
            Err(super::super::vocabulary::VocabularyError::NoCharacters)
        );
        assert!(Vocabulary::from_bytes(b"{").is_err());
    }
}
