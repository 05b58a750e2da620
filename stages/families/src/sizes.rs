//! Checks of the sizes in a `config.json`, before they are used.

use stage_formats::FormatError;

/// The largest allowed size; products of two still fit.
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
