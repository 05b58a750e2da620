//! JSON as this project writes it.

use stage_core::StageError;

/// The kind of blobs that hold JSON.
pub const JSON: &str = "application/json";

/// Written with sorted keys and a final line break, so that equal content is equal bytes.
pub fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, StageError> {
    let failed =
        |error: serde_json::Error| StageError::failed(format!("cannot write JSON: {error}"));
    let mut json = serde_json::to_vec_pretty(value).map_err(failed)?;
    json.push(b'\n');
    Ok(json)
}
