//! Spells out numbers in digits: the common parts of all languages.
//!
//! A number is replaced only if its reading depends on nothing outside this module. Everything else
//! (ranges, versions, inflected numbers) keeps its digits and is counted.

mod finnish;
mod general;
mod gujarati;
mod one;
mod price;
mod telephone;
mod token;

pub use stage_families::numbers::Language;
use token::Token;

/// Replaces the numbers of a text by words; returns the number of replacements.
pub fn spell_out(text: &str, language: Language) -> (String, u32) {
    let joins_spaces = language.words().groups.contains(' ');
    let mut result = String::with_capacity(text.len());
    let mut count = 0;
    let mut rest_at = 0;
    while let Some(token) = Token::next(text, rest_at, joins_spaces) {
        result.push_str(&text[rest_at..token.start]);
        let is_part = token.is_part_of_other(joins_spaces);
        if let Some((words, end)) = telephone::read(&token, language).filter(|_| !is_part) {
            count += 1;
            result.push_str(&words);
            rest_at = end;
            continue;
        }
        let read = match language.code() {
            "fi" => finnish::read,
            "gu" => gujarati::read,
            _ => general::read,
        };
        let is_other = is_part || token.is_list() || price::is_price(&token);
        let spelled = if is_other { None } else { read(&token, language) };
        match spelled {
            Some(reading) => {
                count += 1;
                // Words are never joined to the text before a number, such as a currency sign.
                result.truncate(result.len() - reading.taken_before);
                result.push_str(&reading.words);
                rest_at = token.end + reading.taken_after;
            }
            None => {
                result.push_str(token.text());
                rest_at = token.end;
            }
        }
    }
    result.push_str(&text[rest_at..]);
    (result, count)
}

/// The words of a number, and the number of bytes around its digits that they replace.
struct Reading {
    words: String,
    taken_before: usize,
    taken_after: usize,
}

impl Reading {
    fn of(words: String) -> Reading {
        Reading { words, taken_before: 0, taken_after: 0 }
    }
}

#[cfg(test)]
mod tests;
