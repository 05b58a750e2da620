//! Gujarati numbers in texts: percents, rupees, and case endings after digits.

use stage_families::numbers::Language;

use super::Reading;
use super::token::{Token, first_word};

/// Endings directly after the digits that do not change the cardinal.
const ENDINGS: [&str; 12] =
    ["માં", "ના", "ની", "નું", "નો", "નાં", "ને", "થી", "એ", "માંથી", "માંના", "નીં"];

pub(super) fn read(token: &Token<'_>, gujarati: Language) -> Option<Reading> {
    let (words, amount) = super::general::number(&token.plain, gujarati)?;
    if let Some(reading) = rupees(token, &words) {
        return Some(reading);
    }
    if token.is_glued_left() {
        return None;
    }
    let after = token.after();
    if let Some(rest) = after.strip_prefix(' ').unwrap_or(after).strip_prefix('%') {
        return Some(Reading {
            words: gujarati.percent(&words, amount),
            taken_before: 0,
            taken_after: after.len() - rest.len(),
        });
    }
    match after.chars().next() {
        // The first ordinals are irregular, so only case endings can follow.
        Some(next) if next.is_alphanumeric() => {
            let ending = first_word(after);
            (amount.is_some() && ENDINGS.contains(&ending.as_str())).then(|| Reading::of(words))
        }
        Some(next) if "-/:°$£€_*^=+".contains(next) => None,
        _ => Some(Reading::of(words)),
    }
}

/// An amount with the rupee sign before it.
fn rupees(token: &Token<'_>, words: &str) -> Option<Reading> {
    let before = token.before();
    let bare = before.strip_suffix(' ').unwrap_or(before).strip_suffix('₹')?;
    let ends_well =
        !token.after().starts_with(|next: char| next.is_alphanumeric() || "-/%:".contains(next));
    ends_well.then(|| Reading {
        words: format!("{words} રૂપિયા"),
        taken_before: before.len() - bare.len(),
        taken_after: 0,
    })
}
