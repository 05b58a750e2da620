//! Items: the rows of a data set.

use std::fmt;
use std::sync::Arc;

use cache::Digest;
use serde::{Deserialize, Serialize};

/// Bytes in the store or in the user's own files, identified by their content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The BLAKE3 digest of the bytes, which identifies them in the store.
    pub digest: Digest,
    /// The number of bytes.
    pub size: u64,
    /// A media type such as `audio/wav` or `tokens/npy`, which tells how to read the bytes.
    pub kind: Arc<str>,
}

impl Blob {
    /// The kind of a recording as it was found: its bytes determine its format.
    pub const RECORDING: &str = "audio";
}

/// One field of an item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Value {
    /// A text in UTF-8, such as a transcript.
    Text(Arc<str>),
    /// A number, such as a duration in seconds. Compared by its bits: NaN equals itself.
    Number(f64),
    /// Bytes that are stored elsewhere, such as a recording.
    Blob(Arc<Blob>),
}

impl Value {
    /// A text as a value.
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// The text; None for a number or a blob.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number; None for a text or a blob. Texts of digits are not converted.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The blob; None for a text or a number. It has the digest, not the bytes.
    pub fn as_blob(&self) -> Option<&Arc<Blob>> {
        match self {
            Value::Blob(blob) => Some(blob),
            _ => None,
        }
    }
}

/// All parts of a value. Keys are made of them and values are compared by them, so that two values
/// that a stage could tell apart never count as the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts<'a> {
    Text(&'a str),
    /// Compares by bits: NaN equals itself, 0.0 differs from -0.0.
    Number(u64),
    Blob {
        digest: &'a Digest,
        size: u64,
        kind: &'a str,
    },
}

impl Value {
    pub(crate) fn parts(&self) -> Parts<'_> {
        match self {
            Value::Text(text) => Parts::Text(text),
            Value::Number(number) => Parts::Number(number.to_bits()),
            Value::Blob(blob) => {
                // All fields are named: a new one must be added here as well.
                let Blob { digest, size, kind } = &**blob;
                Parts::Blob { digest, size: *size, kind }
            }
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Value {}

/// Shows a value to people: blobs by kind and the start of their digest.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(formatter, "{text:?}"),
            Value::Number(number) => write!(formatter, "{number}"),
            Value::Blob(blob) => {
                write!(formatter, "{} {} ({} B)", blob.kind, blob.digest.short(), blob.size)
            }
        }
    }
}

/// Named values, sorted by name, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields(Vec<(Arc<str>, Value)>);

impl Fields {
    /// No values.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// The value of this name, whatever its type.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    /// A value with its name as stored here.
    pub fn pair(&self, name: &str) -> Option<(&Arc<str>, &Value)> {
        self.position(name).ok().map(|at| (&self.0[at].0, &self.0[at].1))
    }

    /// The text of this name; None if there is no such field or it is no text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_text)
    }

    /// The number of this name; None if there is no such field or it is no number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_number)
    }

    /// The blob of this name; None if there is no such field or it is no blob.
    /// [`Context::read`](crate::Context::read) returns its bytes.
    pub fn blob(&self, name: &str) -> Option<&Arc<Blob>> {
        self.get(name).and_then(Value::as_blob)
    }

    /// Adds a value, or replaces the one of the same name.
    pub fn set(&mut self, name: impl Into<Arc<str>>, value: Value) {
        let name = name.into();
        match self.position(&name) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Removes a value and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    /// All values with their names, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has_names_of(&self, other: &Fields) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.len() == other.len() && pairs.all(|((one, _), (two, _))| one == two)
    }

    /// All the blobs among the values.
    pub fn blobs(&self) -> impl Iterator<Item = &Arc<Blob>> {
        self.0.iter().filter_map(|(_, value)| value.as_blob())
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| (**own).cmp(name))
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(values: I) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in values {
            fields.set(name, value);
        }
        fields
    }
}

/// One member of a data set: a stable id and its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Unique within the data set; empty if the stage does not read ids, see
    /// [`InputPort::reads_id`](crate::InputPort::reads_id).
    pub id: Arc<str>,
    /// The fields; in a stage only those that its input port reads.
    pub fields: Fields,
}

impl Item {
    /// An item with this id. A stage returns a [`NewItem`](crate::NewItem); items themselves are
    /// made by sources and tests.
    pub fn new(id: impl Into<Arc<str>>, fields: Fields) -> Item {
        Item { id: id.into(), fields }
    }
}
