//! Makes external text safe to print, and fits it into columns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::{UnicodeNormalization, is_nfc};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const ESCAPE: char = '\u{1b}';
const JOINER: char = '\u{200d}';

/// The text with every character that could move the cursor, change colours, or reorder its
/// neighbours escaped, on one line. Names in it that look alike are told apart.
pub fn clean(text: &str) -> Cow<'_, str> {
    match told_apart(text) {
        Cow::Borrowed(text) => stage_core::escape::clean(text),
        Cow::Owned(text) => Cow::Owned(stage_core::escape::cleaned(text)),
    }
}

/// The text with the decomposed letters of a word escaped (`a\u{308}`) if the same word is also in it
/// with composed letters (`ä`): a screen shows both alike.
pub fn told_apart(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) {
        return Cow::Borrowed(text);
    }
    let mut forms: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for word in words(text).filter(|word| !word.is_ascii()) {
        forms.entry(word.nfc().collect()).or_default().insert(word);
    }
    forms.retain(|_, forms| forms.len() > 1);
    if forms.is_empty() {
        return Cow::Borrowed(text);
    }
    let told = words(text).map(|word| {
        let composed: String = word.nfc().collect();
        if forms.contains_key(&composed) && word != composed {
            escaped(word, &composed)
        } else {
            word.to_owned()
        }
    });
    Cow::Owned(told.collect())
}

/// The words of a text, and single characters between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(is_between).flat_map(|part| match part.char_indices().next_back() {
        Some((at, last)) if is_between(last) => [&part[..at], &part[at..]],
        _ => [part, ""],
    })
}

fn is_between(letter: char) -> bool {
    letter.is_whitespace() || "`'\",;:/()[]".contains(letter)
}

/// The word with each character that its composed form lacks as a number.
fn escaped(word: &str, composed: &str) -> String {
    let shown = |letter: char| {
        if letter.is_ascii() || composed.contains(letter) {
            letter.to_string()
        } else {
            format!("\\u{{{:x}}}", u32::from(letter))
        }
    };
    word.chars().map(shown).collect()
}

/// Like [`clean`], for text of several lines: line breaks stay.
pub fn clean_lines(text: &str) -> String {
    told_apart(text).lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Shortens the text to this number of columns, with an ellipsis.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut kept = String::new();
    for cluster in clusters(text) {
        used += width(cluster);
        if used >= columns {
            break;
        }
        kept.push_str(cluster);
    }
    kept.push('…');
    if text.contains(ESCAPE) {
        kept.push_str("\u{1b}[0m");
    }
    Cow::Owned(kept)
}

/// The text in lines of at most this number of columns, broken at spaces if there are any. The lines
/// after the first begin with spaces.
pub fn wrap(text: &str, columns: usize, indent: usize) -> Vec<String> {
    let indent = if indent < columns / 2 { indent } else { 0 };
    let mut lines = vec![String::new()];
    let mut used = 0;
    for (at, word) in text.split(' ').enumerate() {
        let own = width(word);
        if at > 0 && used + 1 + own <= columns {
            push(&mut lines, " ");
            used += 1;
        } else if at > 0 {
            lines.push(" ".repeat(indent));
            used = indent;
        }
        if used + own <= columns {
            push(&mut lines, word);
            used += own;
            continue;
        }
        for cluster in clusters(word) {
            let own = width(cluster);
            if used + own > columns && used > indent {
                lines.push(" ".repeat(indent));
                used = indent;
            }
            push(&mut lines, cluster);
            used += own;
        }
    }
    lines
}

fn push(lines: &mut [String], part: &str) {
    if let Some(line) = lines.last_mut() {
        line.push_str(part);
    }
}

/// The number of terminal columns of the text, without codes for colours.
pub fn width(text: &str) -> usize {
    let mut parts = text.split(ESCAPE);
    let first = parts.next().map_or(0, UnicodeWidthStr::width);
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest));
    first + rest.map(UnicodeWidthStr::width).sum::<usize>()
}

/// The parts of a text that must not be torn apart: a letter with the marks on it, emoji that are
/// joined, a code for a colour with the letter behind it.
fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut letters = rest.char_indices();
        let mut is_code = false;
        let mut is_joined = true;
        let mut has_letter = false;
        let end = letters.find_map(|(at, letter)| {
            if is_code || letter == ESCAPE {
                let starts_next = has_letter && !is_code;
                is_code = letter != 'm';
                return starts_next.then_some(at);
            }
            let is_mark = letter.width().unwrap_or(0) == 0;
            if has_letter && !is_mark && !is_joined {
                return Some(at);
            }
            is_joined = letter == JOINER;
            has_letter |= !is_mark;
            None
        });
        let (cluster, left) = rest.split_at(end.unwrap_or(rest.len()));
        rest = left;
        (!cluster.is_empty()).then_some(cluster)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_text_stay_apart() {
        assert_eq!(clean_lines("one\n\u{7}two"), "one\n\\u{7}two");
    }

    #[test]
    fn names_that_look_alike_are_told_apart() {
        for (text, told) in [
            ("`ä.wav`, not `a\u{308}.wav`", "`ä.wav`, not `a\\u{308}.wav`"),
            ("a\u{308}/x and b/ä", "a\\u{308}/x and b/ä"),
            ("\u{212b} and Å", "\\u{212b} and Å"),
            ("한 and \u{1112}\u{1161}\u{11ab}", "한 and \\u{1112}\\u{1161}\\u{11ab}"),
            ("e\u{301}a\u{308} éa\u{308}", "e\\u{301}a\\u{308} éa\\u{308}"),
            // Alone, a name stays as it is, in every script.
            ("`a\u{308}.wav` is not there", "`a\u{308}.wav` is not there"),
            ("ä and o\u{308}", "ä and o\u{308}"),
            ("ગુજરાતી ક્‍ષ ગુજરાતી", "ગુજરાતી ક્‍ષ ગુજરાતી"),
        ] {
            assert_eq!(clean(text), told);
        }
        assert_eq!(clean_lines("ä\na\u{308}"), "ä\na\\u{308}");
    }

    #[test]
    fn texts_are_cut_by_columns_and_not_by_bytes() {
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(fit("\u{1b}[32mabcd\u{1b}[0m", 3), "\u{1b}[32mab…\u{1b}[0m");
    }

    #[test]
    fn lines_break_at_spaces_or_else_between_letters() {
        assert_eq!(wrap("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(wrap("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(wrap("漢字漢 字", 4, 0), ["漢字", "漢", "字"]);
        assert_eq!(wrap("", 4, 0), [""]);
        assert_eq!(wrap("漢字", 1, 3), ["漢", "字"], "too narrow for any letter");
    }

    #[test]
    fn letters_keep_their_marks_and_colours_take_no_room() {
        assert_eq!(wrap("e\u{301}e\u{301}e\u{301}", 2, 0), ["e\u{301}e\u{301}", "e\u{301}"]);
        assert_eq!(wrap("👩\u{200d}💻👩\u{200d}💻", 2, 0), ["👩\u{200d}💻", "👩\u{200d}💻"]);
        let coloured = "\u{1b}[32mdone\u{1b}[0m in 3 s";
        assert_eq!((width(coloured), wrap(coloured, 11, 0)), (11, vec![coloured.to_owned()]));
        let parts: Vec<&str> = clusters("\u{1b}[32mab\u{1b}[0m").collect();
        assert_eq!(parts, ["\u{1b}[32ma", "b", "\u{1b}[0m"]);
    }
}
