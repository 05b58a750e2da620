//! A checkpoint as an item of a data set, and the file that lists its parts.
//!
//! The item has the fields of a model or of adapters, each tensor one of them, which keeps the
//! tensors in the store. The file in [`WEIGHTS`] lists the same fields by their digests: a stage
//! that reads only this file is keyed by the whole checkpoint, and need not carry hundreds of
//! fields through the pipeline.

use stage_core::{Fields, NewItem, NewValue, Value};

use crate::error::FormatError;

/// The file that lists the fields of the checkpoint.
pub const WEIGHTS: &str = "weights";
/// The training step that the checkpoint was taken after.
pub const STEP: &str = "step";
/// The loss on held-out clips, if it was measured.
pub const HELD_OUT: &str = "held_out";

/// The kind of the blobs in [`WEIGHTS`].
pub const WEIGHTS_KIND: &str = "model/weights";

const FORMAT: &str = "weights";

/// The item of a checkpoint, from the fields of its model with all blobs stored.
///
/// # Errors
///
/// If a value has not been stored yet.
pub fn item(
    step: u64,
    held_out: Option<f64>,
    model: Vec<(String, NewValue)>,
) -> Result<NewItem, FormatError> {
    let weights = write(&model)?;
    let item = NewItem { id: format!("step-{step}"), values: model }
        .with(STEP, NewValue::Number(step as f64))
        .with(WEIGHTS, NewValue::bytes(WEIGHTS_KIND, weights));
    Ok(match held_out {
        Some(loss) => item.with(HELD_OUT, NewValue::Number(loss)),
        None => item,
    })
}

/// The file that lists the fields; equal fields give equal bytes.
fn write(model: &[(String, NewValue)]) -> Result<Vec<u8>, FormatError> {
    let stored = |(name, value): &(String, NewValue)| match value {
        NewValue::Text(text) => Ok((name.clone(), Value::text(text.as_str()))),
        NewValue::Number(number) => Ok((name.clone(), Value::Number(*number))),
        NewValue::Kept(value) => Ok((name.clone(), value.clone())),
        NewValue::Bytes { .. } => {
            Err(FormatError::unwritable(FORMAT, format!("`{name}` is not stored yet")))
        }
    };
    let fields: Fields = model.iter().map(stored).collect::<Result<_, FormatError>>()?;
    serde_json::to_vec(&fields).map_err(|error| FormatError::unwritable(FORMAT, error.to_string()))
}

/// The fields listed in a file of the kind [`WEIGHTS_KIND`].
///
/// # Errors
///
/// If the bytes are not such a file.
pub fn read(bytes: &[u8]) -> Result<Fields, FormatError> {
    serde_json::from_slice(bytes).map_err(|error| FormatError::damaged(FORMAT, error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use cache::Digest;
    use stage_core::Blob;

    use super::*;

    fn model(bytes: &[u8]) -> Vec<(String, NewValue)> {
        let blob = Blob { digest: Digest::of(bytes), size: 7, kind: "tensor".into() };
        vec![
            ("tensor/b".to_owned(), NewValue::Kept(Value::Blob(Arc::new(blob)))),
            ("family".to_owned(), NewValue::Text("lora".to_owned())),
        ]
    }

    fn weights(item: &NewItem) -> Vec<u8> {
        let value = item.values.iter().find(|(name, _)| name == WEIGHTS).unwrap();
        match &value.1 {
            NewValue::Bytes { bytes, .. } => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_list_gives_back_the_fields_of_the_model_and_nothing_of_the_training() {
        let early = item(40, Some(2.5), model(b"one")).unwrap();
        let late = item(80, None, model(b"one")).unwrap();
        assert_eq!((early.id.as_str(), late.id.as_str()), ("step-40", "step-80"));
        assert_eq!(weights(&early), weights(&late), "the same weights are the same file");
        assert_ne!(weights(&early), weights(&item(40, None, model(b"two")).unwrap()));
        let fields = read(&weights(&early)).unwrap();
        assert_eq!((fields.len(), fields.text("family")), (2, Some("lora")));
        assert_eq!(fields.blob("tensor/b").unwrap().digest, Digest::of(b"one"));
    }

    #[test]
    fn what_is_not_stored_is_refused_and_so_are_other_files() {
        let unstored = vec![("config".to_owned(), NewValue::bytes("x", b"{}".to_vec()))];
        assert!(item(1, None, unstored).is_err());
        for bytes in [&b""[..], b"{}", b"[[\"a\"]]", b"[[\"a\",{\"Blob\":{}}]]"] {
            assert!(read(bytes).is_err());
        }
    }
}
