//! Data sets in the files of other programs: `items --format hf|webdataset|shar --to DIR`, and the
//! places of their bytes for programs that map the cache.

mod folder;
mod hf;
mod output;
mod shar;
mod tar;
mod webdataset;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use camino::Utf8Path;
use engine::store::Store;
use serde_json::{Map, Value as Json, json};
use stage_core::{Blob, Item, Value};
use stage_speech::audio::sniff;

use crate::error::CliError;
pub use folder::DeliveryFolder;
pub use hf::hf;
pub use shar::shar;
pub use webdataset::webdataset;

/// Items with the fields that are wanted.
pub struct DeliveryItems<'a> {
    pub store: &'a Store,
    pub rows: &'a [Item],
    pub fields: &'a [Arc<str>],
}

impl DeliveryItems<'_> {
    fn read(&self, blob: &Blob) -> Result<Bytes, CliError> {
        Ok(self.store.read(&blob.digest)?)
    }

    /// The wanted values of an item.
    fn values<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.fields.iter().filter_map(|name| Some((&**name, item.fields.get(name)?)))
    }

    /// The first field with recordings.
    fn audio(&self) -> Option<&str> {
        let is_audio = |name: &&Arc<str>| {
            self.rows.iter().any(|row| row.fields.blob(name).is_some_and(|blob| is_sound(blob)))
        };
        self.fields.iter().find(is_audio).map(|name| &**name)
    }
}

fn is_sound(blob: &Blob) -> bool {
    &*blob.kind == Blob::RECORDING || blob.kind.starts_with("audio/")
}

/// The texts and numbers of an item.
fn plain(value: &Value) -> Option<Json> {
    match value {
        Value::Text(text) => Some(json!(&**text)),
        Value::Number(number) if number.is_finite() => Some(json!(number)),
        Value::Number(number) => Some(json!(number.to_string())),
        Value::Blob(_) => None,
    }
}

/// The extension of a file: recordings are known by their bytes, others by their kind.
fn extension(kind: &str, bytes: &[u8]) -> String {
    if let Some(known) = sniff::extension(bytes) {
        return known.to_owned();
    }
    let last = kind.rsplit('/').next().unwrap_or_default();
    let letters: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    if letters.is_empty() { "bin".to_owned() } else { letters }
}

/// Names of files for ids: without dots and slashes, not too long, each once.
#[derive(Default)]
struct FileNames(BTreeSet<String>);

/// The longest name in bytes.
const LONGEST: usize = 80;

impl FileNames {
    fn of(&mut self, id: &str) -> String {
        let is_safe = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
        let mut name: String = id.chars().map(|one| if is_safe(one) { one } else { '_' }).collect();
        let is_long = name.len() > LONGEST;
        while name.len() > LONGEST {
            name.pop();
        }
        if is_long || name.is_empty() || self.0.contains(&name) {
            name = format!("{name}-{}", Digest::of(id.as_bytes()).short());
        }
        self.0.insert(name.clone());
        name
    }
}

/// The path for programs that run in other folders.
pub fn absolute(path: &Utf8Path) -> String {
    match std::path::absolute(path) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => path.to_string(),
    }
}

/// JSON lines with the file and the position of each blob; the first line has the fields.
pub fn places(set: &DeliveryItems) -> Result<Vec<u8>, CliError> {
    let blobs = |row: &Item| -> Vec<Digest> {
        set.values(row).filter_map(|(_, value)| Some(value.as_blob()?.digest)).collect()
    };
    let mut digests: Vec<Digest> = set.rows.iter().flat_map(blobs).collect();
    digests.sort_unstable();
    digests.dedup();
    let places = set.store.places(&digests)?;
    let fields: Vec<&str> = set.fields.iter().map(|name| &**name).collect();
    let mut text = json!({ "fields": fields }).to_string();
    text.push('\n');
    for row in set.rows {
        let mut own = Map::new();
        for (name, value) in set.values(row) {
            let told = match value {
                Value::Blob(blob) => {
                    let mut told = json!({
                        "digest": blob.digest.to_string(), "size": blob.size, "kind": &*blob.kind,
                    });
                    let at = digests.binary_search(&blob.digest).ok();
                    if let Some((file, offset)) = at.and_then(|at| places[at].as_ref()) {
                        told["file"] = json!(absolute(file));
                        told["offset"] = json!(offset);
                    }
                    told
                }
                // A list, so that it is no text.
                Value::Number(number) if !number.is_finite() => json!([number.to_string()]),
                other => plain(other).unwrap_or_default(),
            };
            own.insert(name.to_owned(), told);
        }
        text.push_str(&json!({ "id": &*row.id, "fields": own }).to_string());
        text.push('\n');
    }
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_safe_and_each_is_used_once() {
        let mut names = FileNames::default();
        assert_eq!(names.of("äiti-1"), "äiti-1");
        assert_eq!(names.of("a/b.c"), "a_b_c");
        let second = names.of("a.b/c");
        assert!(second.starts_with("a_b_c-") && second.len() > 6, "{second}");
        let long = names.of(&"ä".repeat(200));
        assert!(long.len() <= LONGEST + 20, "{long}");
        assert!(names.of("").len() > 1);
    }

    #[test]
    fn an_extension_is_that_of_the_kind_unless_the_bytes_are_a_recording() {
        assert_eq!(extension("tokens/npy", b"x"), "npy");
        assert_eq!(extension("a/..", b"x"), "bin");
        assert_eq!(extension("audio", b"RIFF\0\0\0\0WAVE"), "wav");
    }
}
