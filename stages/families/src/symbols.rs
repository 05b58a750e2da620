//! `vocab.json` of a tokenizer: symbols and their rows in the model.

use serde_json::{Map, Value};

use crate::sizes::LARGEST;
use stage_formats::FormatError;

/// Symbols with their rows, in the order of the file.
///
/// # Errors
///
/// If the file is not such a list, or a number in it is not a valid row.
pub(crate) fn rows(vocabulary: &[u8]) -> Result<Vec<(String, i64)>, FormatError> {
    let map: Map<String, Value> =
        serde_json::from_slice(vocabulary).map_err(|error| damaged(error.to_string()))?;
    let row = |(symbol, row): (String, Value)| match row.as_i64() {
        Some(row) if (0..LARGEST).contains(&row) => Ok((symbol, row)),
        _ => Err(damaged(format!("`{symbol}` has no number of a row"))),
    };
    map.into_iter().map(row).collect()
}

pub(crate) fn damaged(why: impl Into<String>) -> FormatError {
    FormatError::damaged("vocab.json", why)
}
