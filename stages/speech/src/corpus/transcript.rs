//! The text of a `.lab` or `.txt` file beside its audio.

use super::{MAX_ROW_BYTES, RowProblem};
use stage_formats::mark::unmarked;

/// Reads one transcript: UTF-8, with line breaks and runs of spaces as one space.
pub fn read(bytes: &[u8]) -> Result<String, RowProblem> {
    if bytes.len() > MAX_ROW_BYTES {
        return Err(RowProblem::TooLong { bytes: bytes.len() as u64 });
    }
    let bytes = unmarked(bytes);
    let text = std::str::from_utf8(bytes)
        .map_err(|error| RowProblem::NotUtf8 { at: error.valid_up_to() as u64 })?;
    super::parts::check_text("text", text)?;
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if joined.is_empty() {
        return Err(RowProblem::Empty { column: "text".to_owned() });
    }
    Ok(joined)
}
