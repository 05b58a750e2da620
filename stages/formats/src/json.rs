//! JSON of other tools as it is read, and JSON as this project writes it.

use serde::de::DeserializeOwned;
use stage_core::StageError;

use crate::mark::unmarked;

/// The kind of blobs that hold JSON.
pub const JSON: &str = "application/json";

/// Reads JSON that another tool wrote, with or without a byte order mark.
pub fn from_outside<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(unmarked(text))
}

/// Written with sorted keys and a final line break, so that equal content is equal bytes.
pub fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, StageError> {
    let failed =
        |error: serde_json::Error| StageError::failed(format!("cannot write JSON: {error}"));
    let mut json = serde_json::to_vec_pretty(value).map_err(failed)?;
    json.push(b'\n');
    Ok(json)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_byte_order_mark_before_json_is_no_part_of_it() {
        for text in [&b"[1]"[..], b"\xEF\xBB\xBF[1]"] {
            assert_eq!(from_outside::<Vec<u8>>(text).unwrap(), [1]);
        }
        assert!(from_outside::<Vec<u8>>(b"\xEF\xBB\xBF\xEF\xBB\xBF[1]").is_err());
    }
}
