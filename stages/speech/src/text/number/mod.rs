//! Spells out numbers in digits: the common parts of all languages.
//!
//! A number is replaced only if its reading depends on nothing outside this module. Everything else
//! (ranges, versions, inflected numbers) keeps its digits and is counted.

mod finnish;
mod gujarati;
mod token;

use token::Token;

/// The supported languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Finnish,
    Gujarati,
}

/// Replaces the numbers of a text by words; returns the number of replacements.
pub fn spell_out(text: &str, language: Language) -> (String, u32) {
    let mut result = String::with_capacity(text.len());
    let mut count = 0;
    let mut rest_at = 0;
    while let Some(token) = Token::next(text, rest_at) {
        result.push_str(&text[rest_at..token.start]);
        let spelled = match language {
            Language::Finnish => finnish::read(&token),
            Language::Gujarati => gujarati::read(&token),
        };
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

/// A cardinal number in words; None beyond the language's table.
pub fn cardinal(number: u64, language: Language) -> Option<String> {
    match language {
        Language::Finnish => finnish::cardinal(number),
        Language::Gujarati => gujarati::cardinal(number),
    }
}

/// A Finnish ordinal in the nominative.
pub fn finnish_ordinal(number: u64) -> Option<String> {
    finnish::ordinal(number)
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

/// The digits of a decimal fraction, one by one.
fn digit_by_digit(digits: &str, language: Language) -> Option<String> {
    let words: Option<Vec<String>> =
        digits.chars().map(|digit| cardinal(u64::from(digit.to_digit(10)?), language)).collect();
    Some(words?.join(" "))
}

#[cfg(test)]
mod tests;
