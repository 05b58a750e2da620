//! Names that are told by patterns, in which `*` stands for any characters.

use stage_formats::pattern::is_match;

use crate::error::TorchError;

/// How many things a pattern named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub pattern: String,
    pub count: usize,
}

/// How many of the names each pattern fits; `what` they are the names of. A pattern that fits
/// none is an error.
pub fn matches(patterns: &[String], what: &str, names: &[&str]) -> Result<Vec<Match>, TorchError> {
    let counted = |pattern: &String| {
        let count = names.iter().filter(|name| is_match(pattern, name)).count();
        if count == 0 {
            let known = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
            let more = if known.len() > 8 { ", …" } else { "" };
            let known = known[..known.len().min(8)].join(", ");
            let message = format!("`{pattern}` names no {what}; there are {known}{more}");
            return Err(TorchError::Input(message));
        }
        Ok(Match { pattern: pattern.clone(), count })
    };
    patterns.iter().map(counted).collect()
}
