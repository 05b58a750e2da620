//! An artifact as files in the private folder of a program.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;

use bytes::Bytes;
use camino::Utf8Path;
use serde_json::{Map, Number, Value as Json, json};
use stage_core::{Blob, Context, Fields, StageError, Value};

use super::inputs::safe_name;
use super::private::{create, write};

/// The bytes of one write of a large file.
const PIECE: usize = 1 << 20;

/// A text or a number; None for others.
pub fn value(value: &Value) -> Option<Json> {
    match value {
        Value::Text(text) => Some(Json::from(&**text)),
        Value::Number(number) => Number::from_f64(*number).map(Json::Number),
        Value::Blob(_) => None,
    }
}

/// Writes a file in pieces: weights of a model may be larger than the memory.
pub fn copy(blob: &Blob, file: &Utf8Path, context: &mut dyn Context) -> Result<(), StageError> {
    let parts = context.open(blob)?;
    let failed = |error: std::io::Error| {
        StageError::of_io(format!("failed to copy a file to `{file}`: {error}"), &error)
    };
    if parts.size() <= PIECE as u64 {
        let bytes: Bytes = context.read(blob)?;
        return write(file, &bytes);
    }
    let mut copy = File::create(file).map_err(failed)?;
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    loop {
        let count = parts.read_at(&mut piece, at).map_err(failed)?;
        if count == 0 {
            break;
        }
        copy.write_all(&piece[..count]).map_err(failed)?;
        at += count as u64;
    }
    parts.verify().map_err(failed)
}

/// Writes the files of an artifact below a folder, and returns what a program is told of its fields.
pub fn lay_out(
    fields: &Fields,
    folder: &Utf8Path,
    context: &mut dyn Context,
) -> Result<Map<String, Json>, StageError> {
    create(folder)?;
    let (mut laid_out, mut taken) = (Map::new(), HashSet::new());
    for (name, own) in fields.iter() {
        let told = match own {
            Value::Blob(blob) => {
                let parts: Vec<String> = name.split('/').map(file_name).collect();
                let file = folder.join(parts.join("/"));
                if !taken.insert(file.clone()) {
                    let two = format!("the artifact has two files for `{}`", parts.join("/"));
                    return Err(StageError::failed(two));
                }
                create(file.parent().unwrap_or(folder))?;
                copy(blob, &file, context)?;
                json!({ "path": file.as_str(), "kind": &*blob.kind, "size": blob.size })
            }
            plain => value(plain).unwrap_or(Json::Null),
        };
        laid_out.insert(name.to_string(), told);
    }
    Ok(laid_out)
}

/// A part of a path as it is, if it names a file or a folder: names of artifacts may come from programs.
fn file_name(part: &str) -> String {
    const LONGEST: usize = 255;
    let is_name = !matches!(part, "" | "." | "..")
        && part.len() <= LONGEST
        && !part.chars().any(char::is_control);
    if is_name { part.to_owned() } else { format!("_{}", safe_name(part)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_and_what_is_no_name_leads_nowhere_else() {
        for name in ["conf .json", "äö.txt", "{id}", "con\\x", "a_b", "a b", "..."] {
            assert_eq!(file_name(name), name);
        }
        for (part, name) in [("", "_"), (".", "__"), ("..", "___"), ("a\nb", "_a_b"), ("\0", "__")]
        {
            assert_eq!(file_name(part), name);
        }
        assert_eq!(file_name(&"ä".repeat(128)), "_".repeat(129));
    }
}
