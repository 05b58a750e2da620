//! The model card: the file in which a model on a hub names its licence.

use stage_core::{Context, Fields, NewValue, StageError};
use stage_families::artifact::LICENSE;
use stage_families::import::AssetFiles;

const FILE: &str = "README.md";
const KIND: &str = "text/markdown";
/// The number of bytes that are read.
const HEAD: usize = 64 << 10;

/// The card of a model with a licence: it has the licence on one line, as the import reads it.
pub fn of(model: &Fields) -> Option<(String, NewValue)> {
    let license: Vec<&str> = model.text(LICENSE)?.split_whitespace().collect();
    let card = format!("---\nlicense: {}\n---\n", license.join(" "));
    (!license.is_empty()).then(|| (FILE.to_owned(), NewValue::bytes(KIND, card)))
}

/// The licence in the header of a model card: lines of `key: value` between two lines of dashes.
pub fn license(
    files: &AssetFiles<'_>,
    context: &mut dyn Context,
) -> Result<Option<String>, StageError> {
    let Some(bytes) = files.head(FILE, HEAD, context)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().map(str::trim_end);
    if lines.next() != Some("---") {
        return Ok(None);
    }
    let head = lines.take_while(|line| *line != "---");
    let mut named = head.filter_map(|line| line.strip_prefix("license:"));
    let name = named.next().map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
    Ok(name.filter(|name| !name.is_empty()))
}
