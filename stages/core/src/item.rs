//! Items: the rows of a data set.

use std::fmt;
use std::sync::Arc;

use cache::Digest;
use serde::{Deserialize, Serialize};

/// Bytes in the store or in the user's own files, identified by their content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub digest: Digest,
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
    Text(Arc<str>),
    Number(f64),
    Blob(Arc<Blob>),
}

impl Value {
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

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
pub enum Parts<'a> {
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
    pub fn parts(&self) -> Parts<'_> {
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
    pub fn new() -> Fields {
        Fields::default()
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    /// A value with its name as stored here.
    pub fn pair(&self, name: &str) -> Option<(&Arc<str>, &Value)> {
        self.position(name).ok().map(|at| (&self.0[at].0, &self.0[at].1))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_text)
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_number)
    }

    pub fn blob(&self, name: &str) -> Option<&Arc<Blob>> {
        self.get(name).and_then(Value::as_blob)
    }

    pub fn set(&mut self, name: impl Into<Arc<str>>, value: Value) {
        let name = name.into();
        match self.position(&name) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

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
    pub id: Arc<str>,
    pub fields: Fields,
}

impl Item {
    pub fn new(id: impl Into<Arc<str>>, fields: Fields) -> Item {
        Item { id: id.into(), fields }
    }
}
