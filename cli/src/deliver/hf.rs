//! A folder for `datasets.load_dataset("audiofolder", data_dir=…)`: files, and `metadata.jsonl`.

use cache::fs::{Fs, RealFs};
use camino::Utf8Path;
use serde_json::{Map, json};
use stage_core::Value;

use super::{Names, Set, extension, plain};
use crate::error::CliError;

const LIST: &str = "metadata.jsonl";

/// Returns the number of files.
pub fn hf(set: &Set, to: &Utf8Path) -> Result<usize, CliError> {
    let audio = set.audio();
    let (mut names, mut files, mut list) = (Names::default(), 0, String::new());
    for item in set.rows {
        let name = names.of(&item.id);
        let mut row = Map::new();
        row.insert("id".to_owned(), json!(&*item.id));
        for (field, value) in set.values(item) {
            let Value::Blob(blob) = value else {
                row.insert(field.to_owned(), plain(value).unwrap_or_default());
                continue;
            };
            let bytes = set.read(blob)?;
            let below = Names::default().of(field);
            RealFs.create_dir_all(&to.join(&below))?;
            let path = format!("{below}/{name}.{}", extension(&blob.kind, &bytes));
            RealFs.write_named(&to.join(&path), &bytes)?;
            files += 1;
            // The column that `datasets` turns into audio.
            let key = match audio == Some(field) {
                true => "file_name".to_owned(),
                false => format!("{field}_file_name"),
            };
            row.insert(key, json!(path));
        }
        list.push_str(&serde_json::Value::Object(row).to_string());
        list.push('\n');
    }
    RealFs.write_named(&to.join(LIST), list.as_bytes())?;
    Ok(files + 1)
}
