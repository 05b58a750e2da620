//! Abbreviations as words.

use std::collections::BTreeMap;

use super::words;
use crate::rewritten::rewritten;

/// Expands a lower-case text.
pub fn expand(text: &str, code: &str) -> String {
    let Some(forms) = words::of(code).map(|words| &words.abbreviations) else {
        return text.to_owned();
    };
    rewritten(text, |rest, before, expanded| {
        if before.is_some_and(is_word) {
            return None;
        }
        let (length, word) = form(rest, forms, code)?;
        expanded.push_str(word);
        Some(length)
    })
}

/// The length and the meaning of an abbreviation at the start of a text.
fn form<'a>(
    text: &str,
    forms: &'a BTreeMap<String, String>,
    code: &str,
) -> Option<(usize, &'a str)> {
    forms.iter().find_map(|(form, word)| {
        let rest = text.strip_prefix(form.as_str())?;
        match code {
            "ru" => (!rest.starts_with(is_word)).then_some((form.len(), word.as_str())),
            _ => rest.starts_with('.').then_some((form.len() + 1, word.as_str())),
        }
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
