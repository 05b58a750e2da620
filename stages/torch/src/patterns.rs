//! Patterns for names, in which `*` means any characters.

use stage_formats::pattern::is_match;

use crate::error::TorchError;

/// The number of matches of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub pattern: String,
    pub count: usize,
}

/// The number of names that each pattern matches; `what` describes the names. A pattern without
/// matches is an error.
pub fn matches(patterns: &[String], what: &str, names: &[&str]) -> Result<Vec<Match>, TorchError> {
    let counted = |pattern: &String| {
        let count = names.iter().filter(|name| is_match(pattern, name)).count();
        if count == 0 {
            let known = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
            let more = if known.len() > 8 { ", …" } else { "" };
            let known = known[..known.len().min(8)].join(", ");
            let message = format!("`{pattern}` matches no {what}; known names: {known}{more}");
            return Err(TorchError::Input(message));
        }
        Ok(Match { pattern: pattern.clone(), count })
    };
    patterns.iter().map(counted).collect()
}
