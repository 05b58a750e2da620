//! A folder for `datasets.load_dataset("audiofolder", data_dir=…)`: files, and `metadata.jsonl`.

use serde_json::{Map, json};
use stage_core::Value;

use super::{DeliveryFolder, DeliveryItems, FileNames, extension, plain};
use crate::error::CliError;

const LIST: &str = "metadata.jsonl";

/// Returns the number of files.
pub fn hf(set: &DeliveryItems, to: &DeliveryFolder) -> Result<usize, CliError> {
    let audio = set.audio();
    let (mut names, mut files, mut list) = (FileNames::default(), 0, String::new());
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
            let below = FileNames::default().of(field);
            let path = format!("{below}/{name}.{}", extension(&blob.kind, &bytes));
            to.write(&path, &bytes)?;
            files += 1;
            // The column that `datasets` turns into audio.
            let key = if audio == Some(field) {
                "file_name".to_owned()
            } else {
                format!("{field}_file_name")
            };
            row.insert(key, json!(path));
        }
        list.push_str(&serde_json::Value::Object(row).to_string());
        list.push('\n');
    }
    to.write(LIST, list.as_bytes())?;
    Ok(files + 1)
}
