//! Values that a stage makes, before they are stored.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::item::{Blob, Item, Value};

/// A new value of a stage that is not stored yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewValue {
    /// A text in UTF-8.
    Text(String),
    /// A number, which may be NaN.
    Number(f64),
    /// Bytes that the engine stores when the stage returns them.
    Bytes {
        /// Their media type, such as `audio/wav`, which tells readers and `export` the format.
        kind: String,
        /// The content.
        bytes: Bytes,
    },
    /// An existing value, blobs included.
    Kept(Value),
}

impl NewValue {
    /// An object that was stored before.
    pub fn blob(blob: Blob) -> NewValue {
        NewValue::Kept(Value::Blob(Arc::new(blob)))
    }

    /// Bytes with their media type, such as `audio/wav`.
    pub fn bytes(kind: impl Into<String>, bytes: impl Into<Bytes>) -> NewValue {
        NewValue::Bytes { kind: kind.into(), bytes: bytes.into() }
    }
}

/// The output of a stage for one item, or the content of an artifact: named values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Names and values. A name that occurs twice has its last value.
    pub values: Vec<(String, NewValue)>,
    /// Notes, such as `odd-byte` or `quotes replaced`, with their counts; summed in reports.
    pub notes: Vec<(String, u64)>,
}

impl Output {
    /// Adds a value, such as a field that the kind [writes](crate::OutputPort::writes).
    pub fn with(mut self, name: impl Into<String>, value: NewValue) -> Output {
        self.values.push((name.into(), value));
        self
    }

    /// Adds a note about this item; `count` is the number of occurrences.
    pub fn note(&mut self, name: impl Into<String>, count: u64) {
        self.notes.push((name.into(), count));
    }
}

/// An output item of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewItem {
    /// Unique within the output data set; for a child of an item, the name among its siblings.
    pub id: String,
    /// All fields of the item: nothing is passed on from the input.
    pub values: Vec<(String, NewValue)>,
}

impl NewItem {
    /// An unchanged item, with all its fields.
    pub fn kept(item: &Item) -> NewItem {
        let keep =
            |(name, value): (&Arc<str>, &Value)| (name.to_string(), NewValue::Kept(value.clone()));
        NewItem { id: item.id.to_string(), values: item.fields.iter().map(keep).collect() }
    }

    /// Adds a value, or replaces the one of the same name.
    pub fn with(mut self, name: &str, value: NewValue) -> NewItem {
        self.values.retain(|(own, _)| own != name);
        self.values.push((name.to_owned(), value));
        self
    }
}
