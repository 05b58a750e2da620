//! Checks of the sizes that a `config.json` gives, before anything is made of them.

use stage_formats::FormatError;

/// No size of a model is larger; products of two still fit.
pub(crate) const LARGEST: i64 = 1 << 24;

pub(crate) fn in_range(name: &str, size: i64, least: i64, largest: i64) -> Result<(), FormatError> {
    match (least..=largest).contains(&size) {
        true => Ok(()),
        false => Err(refused(format!("`{name}` is {size}, expected {least} to {largest}"))),
    }
}

pub(crate) fn refused(why: impl Into<String>) -> FormatError {
    FormatError::damaged("config.json", why)
}
