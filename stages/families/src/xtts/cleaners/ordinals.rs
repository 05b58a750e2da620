//! Ordinals as words: a number with a mark behind it, such as `1st`, `2ª` or `3.`.

use super::spelling;
use super::words::{self, Ordinals};

/// The length of the mark that a text behind a number begins with, and the ordinal.
pub fn ordinal(number: u64, text: &str, code: &str) -> Option<(usize, String)> {
    let own = words::of(code)?.ordinals.as_ref()?;
    let length = own.marks.iter().find_map(|mark| mark_length(text, mark))?;
    (number < own.limit).then(|| Some((length, own.spell(number, code)?))).flatten()
}

fn mark_length(text: &str, mark: &str) -> Option<usize> {
    let (mark, is_last) = match mark.strip_suffix('!') {
        Some(mark) => (mark, true),
        None => (mark, false),
    };
    let rest = text.strip_prefix(mark)?;
    let ends = rest.chars().next().is_none_or(char::is_whitespace);
    (!is_last || ends).then_some(mark.len())
}

impl Ordinals {
    fn spell(&self, number: u64, code: &str) -> Option<String> {
        if let Some(rules) = &self.rules {
            return spelling::by_rules(rules, number, code);
        }
        let exact = pairs(&self.exact).find(|(own, _)| own.parse() == Ok(number));
        if let Some((_, word)) = exact {
            return Some(word.to_owned());
        }
        let cardinal = spelling::cardinal(number, code)?;
        let mut endings = pairs(&self.endings);
        endings.find_map(|(end, other)| Some(format!("{}{other}", cardinal.strip_suffix(end)?)))
    }
}

fn pairs(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(';').filter_map(|pair| pair.split_once(' '))
}
