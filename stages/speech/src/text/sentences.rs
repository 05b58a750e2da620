//! The sentences of a text, as ranges of its bytes.

use std::ops::Range;

use super::sentence_ends::{closing, ends, is_end};

/// Signs at which a sentence that is too long is split.
const PAUSES: &[char] =
    &[',', ';', ':', '—', '–', '،', '؛', '、', '，', '；', '：', '፣', '፤', '፥', '၊'];

/// The rules by which a text is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentenceOptions {
    /// The most characters of a sentence.
    pub longest: usize,
    /// Words with a dot that end no sentence, in small letters without the dot.
    pub abbreviations: Vec<String>,
}

/// The sentences of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentences {
    /// Without the spaces around them.
    pub ranges: Vec<Range<usize>>,
    /// The number of parts of sentences that were too long.
    pub parts: usize,
}

/// The first part of a text that is too long and has no place to split it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{characters} characters{script} from byte {from} have neither a space nor the end of a sentence; \
         put each sentence on a line of its own, with an empty line between them"
)]
pub struct NoSpaces {
    characters: usize,
    /// ` of Thai`, or nothing.
    script: String,
    from: usize,
}

pub fn sentences(text: &str, options: &SentenceOptions) -> Result<Sentences, NoSpaces> {
    let mut found = Sentences::default();
    for range in whole(text, &options.abbreviations) {
        if text[range.clone()].chars().count() <= options.longest {
            found.ranges.push(range);
            continue;
        }
        let parts = parts(text, range, options.longest)?;
        found.parts += parts.len();
        found.ranges.extend(parts);
    }
    Ok(found)
}

/// A sentence on one line, with one space for each run of spaces.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sentences of any length.
fn whole(text: &str, abbreviations: &[String]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(letter) = text[at..].chars().next() {
        let behind = at + letter.len_utf8();
        if is_end(letter) {
            let end = closing(text, behind);
            if ends(text, start, at, end, abbreviations) {
                found.extend(trimmed(text, start..end));
                start = end;
            }
            at = end;
        } else if letter == '\n' && is_empty_line(&text[behind..]) {
            found.extend(trimmed(text, start..at));
            (start, at) = (behind, behind);
        } else {
            at = behind;
        }
    }
    found.extend(trimmed(text, start..text.len()));
    found
}

fn is_empty_line(text: &str) -> bool {
    text.chars().take_while(|letter| letter.is_whitespace()).any(|letter| letter == '\n')
}

/// Without the spaces around it; None for nothing else.
fn trimmed(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let part = &text[range.clone()];
    let start = range.start + part.len() - part.trim_start().len();
    let end = start + part.trim().len();
    (start < end).then_some(start..end)
}

/// Splits a sentence behind its last pause within the limit, else at the last space within it.
fn parts(
    text: &str,
    sentence: Range<usize>,
    longest: usize,
) -> Result<Vec<Range<usize>>, NoSpaces> {
    let mut found = Vec::new();
    let mut rest = sentence;
    while text[rest.clone()].chars().count() > longest {
        let part = &text[rest.clone()];
        let limit = part.char_indices().nth(longest).map_or(part.len(), |(at, _)| at);
        let at = last_pause(part, limit).or_else(|| last_space(part, limit));
        let Some(at) = at else {
            let script = script(part).map_or_else(String::new, |script| format!(" of {script}"));
            return Err(NoSpaces { characters: longest, script, from: rest.start });
        };
        found.extend(trimmed(text, rest.start..rest.start + at));
        rest = trimmed(text, rest.start + at..rest.end).unwrap_or(rest.end..rest.end);
    }
    found.extend(trimmed(text, rest));
    Ok(found)
}

/// The place behind the last pause before a limit. A comma within a number is none.
fn last_pause(text: &str, limit: usize) -> Option<usize> {
    let pauses = text[..limit].rmatch_indices(PAUSES);
    let mut behind = pauses.map(|(at, sign)| (at + sign.len(), sign));
    let is_pause = |(at, sign): &(usize, &str)| {
        !sign.is_ascii() || text[*at..].starts_with(char::is_whitespace)
    };
    behind.find(is_pause).map(|(at, _)| at)
}

fn last_space(text: &str, limit: usize) -> Option<usize> {
    // A space behind the limit leaves a word that just fits.
    let behind = text[limit..].chars().next().map_or(limit, |letter| limit + letter.len_utf8());
    text[..behind].rfind(char::is_whitespace).filter(|at| *at > 0)
}

/// The script of the first letter that belongs to a script without spaces between words.
fn script(text: &str) -> Option<&'static str> {
    text.chars().find_map(|letter| {
        Some(match letter {
            '\u{0E00}'..='\u{0E7F}' => "Thai",
            '\u{0E80}'..='\u{0EFF}' => "Lao",
            '\u{0F00}'..='\u{0FFF}' => "Tibetan",
            '\u{1000}'..='\u{109F}' => "Burmese",
            '\u{1780}'..='\u{17FF}' => "Khmer",
            '\u{3040}'..='\u{30FF}' => "Japanese",
            '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' => "Chinese characters",
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn options(longest: usize) -> SentenceOptions {
        SentenceOptions { longest, abbreviations: vec!["kap".to_owned()] }
    }

    fn split(text: &str) -> Vec<&str> {
        let found = sentences(text, &options(400)).unwrap();
        found.ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_sentence_ends_with_its_sign_and_the_quotes_behind_it() {
        assert_eq!(split("One. Two!  Three?\nFour"), ["One.", "Two!", "Three?", "Four"]);
        assert_eq!(
            split("\u{201C}Really?\u{201D} he said. \"Yes.\" (It was.) So"),
            ["\u{201C}Really?\u{201D} he said.", "\"Yes.\"", "(It was.)", "So"]
        );
        assert_eq!(split("\u{AB}Oui.\u{BB} Non ?! Bon."), ["\u{AB}Oui.\u{BB}", "Non ?!", "Bon."]);
        assert_eq!(split(" \n\n "), Vec::<&str>::new());
    }

    #[test]
    fn an_empty_line_ends_a_sentence_and_a_line_break_does_not() {
        assert_eq!(
            split("Chapter one\n \nIt was\ndark. It"),
            ["Chapter one", "It was\ndark.", "It"]
        );
    }

    #[test]
    fn dots_of_numbers_and_short_words_end_no_sentence() {
        for whole in [
            "Pi is 3.14 and www.example.org is e.g. London.",
            "Mr. Smith met Dr. J. R. R. Tolkien in St. Albans, No. 5.",
            "In the U.S. law is law etc. and so on.",
            "Am 3. 4. 1926, siehe Kap. Zwei, z.B. Bonn.",
            "1. First things are first.",
            "Joulukuun 3. päivänä hän tuli.",
            "Wait ... what?",
            "Yahoo! was a name, and \"Stop!\" he cried.",
        ] {
            assert_eq!(split(whole), [whole]);
        }
        assert_eq!(split("He left the U.S. She stayed."), ["He left the U.S.", "She stayed."]);
        assert_eq!(split("Apples etc. Then pears."), ["Apples etc.", "Then pears."]);
        assert_eq!(split("So did I. Then she."), ["So did I.", "Then she."]);
        assert_eq!(split("He said no. Then he left."), ["He said no.", "Then he left."]);
        assert_eq!(split("It was 1990. Then 5 came."), ["It was 1990.", "Then 5 came."]);
        assert_eq!(split("Well\u{2026} No."), ["Well\u{2026}", "No."]);
    }

    #[test]
    fn other_scripts_end_sentences_with_their_signs() {
        assert_eq!(
            split("今日は。明日は！「はい。」と"),
            ["今日は。", "明日は！", "「はい。」", "と"]
        );
        assert_eq!(split("ሰላም።እንዴት ነህ፧"), ["ሰላም።", "እንዴት ነህ፧"]);
        assert_eq!(split("नमस्ते। कैसे हो? ठीक"), ["नमस्ते।", "कैसे हो?", "ठीक"]);
        assert_eq!(split("كيف حالك؟ بخير."), ["كيف حالك؟", "بخير."]);
    }

    #[test]
    fn a_long_sentence_is_split_at_pauses_and_then_between_words() {
        let text = "one two, three 1,000 four; five six seven";
        let split = |longest: usize| -> Vec<&str> {
            let found = sentences(text, &options(longest)).unwrap();
            found.ranges.into_iter().map(|range| &text[range]).collect()
        };
        assert_eq!(split(30), ["one two, three 1,000 four;", "five six seven"]);
        assert_eq!(split(13), ["one two,", "three 1,000", "four;", "five six", "seven"]);
        assert_eq!(sentences(text, &options(30)).unwrap().parts, 2);
    }

    #[test]
    fn a_script_without_spaces_and_ends_is_named() {
        let thai = "สวัสดีครับผมชื่อสมชาย";
        let told = sentences(thai, &options(10)).unwrap_err().to_string();
        assert!(told.starts_with("10 characters of Thai from byte 0 have neither"), "{told}");
        let spaced = "สวัสดี ครับผม ชื่อ";
        assert_eq!(sentences(spaced, &options(10)).unwrap().parts, 3);
        let told = sentences(&"x".repeat(11), &options(10)).unwrap_err().to_string();
        assert!(told.starts_with("10 characters from byte 0"), "{told}");
    }

    proptest! {
        #[test]
        fn sentences_are_in_order_and_lose_nothing(
            text in "[a-zA-Z0-9 .,!?\"()\n\u{e4}。「」—]{0,200}",
            longest in 10..60_usize,
        ) {
            let Ok(found) = sentences(&text, &options(longest)) else { return Ok(()) };
            let mut at = 0;
            for range in &found.ranges {
                prop_assert!(text[at..range.start].trim().is_empty());
                let own = &text[range.clone()];
                prop_assert!(!own.is_empty() && own.trim() == own);
                prop_assert!(own.chars().count() <= longest);
                at = range.end;
            }
            prop_assert!(text[at..].trim().is_empty());
        }
    }
}
