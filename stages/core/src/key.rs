//! Keys: the identity of work.
//!
//! One traversal, [`StageKey::parts`], gives the parts of a key. They are written into a [`Sink`]:
//! the hasher is one, the text of `why` another. Two keys are compared part by part, so hash, text
//! and reasons cannot disagree. A stage gets an item as a [`Seen`], which also writes its key, so
//! the stage sees nothing outside the key.
//!
//! The byte encoding that is hashed: for every part a type tag of one byte, then for texts and
//! bytes the length as 8 bytes little-endian and the contents; numbers by their bits,
//! little-endian; blobs as digest, size and kind; lists and maps begin with their length, maps are
//! sorted by key. No part depends on paths, times, locale, worker count or the order of items.

mod sink;

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::Digest;
use serde::{Deserialize, Serialize};

use crate::item::{Fields, Item, Parts, Value};
use crate::parameter::{ParameterValue, Parameters};

pub use self::sink::{HashSink, Sink, TextSink};

/// The value of one reference on an input port, by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKey {
    /// The digest of the data set, or of the part of it that the stage reads.
    Dataset(Digest),
    /// The fields of an artifact, which are few: the key lists them all.
    Artifact(Fields),
    /// For a port that also reads the name of the upstream stage.
    Named {
        /// The name of the upstream stage in the manifest.
        stage: String,
        /// The content that arrives from it.
        input: Box<InputKey>,
    },
}

impl InputKey {
    fn parts<'a>(&'a self, each: &mut dyn FnMut(InputPart<'a>)) {
        match self {
            InputKey::Dataset(digest) => each(InputPart::Dataset(digest)),
            InputKey::Artifact(fields) => {
                each(InputPart::Artifact(fields.len()));
                fields.iter().for_each(|(name, value)| each(InputPart::Field(name, value)));
            }
            InputKey::Named { stage, input } => {
                each(InputPart::Stage(stage));
                input.parts(each);
            }
        }
    }
}

/// A part of a stage's key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// A named group of parts follows.
    Group(&'static str, usize),
    /// The name of the kind, such as `audio.resample`.
    Kind(&'a str),
    /// The behaviour version of the kind.
    Version(u32),
    /// A content parameter and its value.
    Parameter(&'a str, &'a ParameterValue),
    /// The name of a `File` parameter, and the digest of the file.
    File(&'a str, &'a Digest),
    /// A port, and the number of its inputs, which follow.
    Port(&'a str, usize),
    /// A part of one of them.
    Input(&'a str, usize, InputPart<'a>),
    /// The text that forces new work; empty if there is none.
    Salt(&'a str),
    /// The key of the outcome that a training continues from.
    Parent(&'a Digest),
}

/// A part of one input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InputPart<'a> {
    /// The name of the upstream stage, if it is read.
    Stage(&'a str),
    /// The digest of a data set, or of the part of it that the stage reads.
    Dataset(&'a Digest),
    /// The number of fields that follow.
    Artifact(usize),
    /// A field of an artifact, and its value.
    Field(&'a str, &'a Value),
}

impl<'a> Part<'a> {
    fn write(self, sink: &mut dyn Sink) {
        match self {
            Part::Group(name, parts) | Part::Port(name, parts) => sink.group(name, parts),
            Part::Kind(kind) => sink.text("kind", kind),
            Part::Version(version) => sink.integer("version", i64::from(version)),
            Part::Parameter(name, value) => write_parameter(name, value, sink),
            Part::File(name, digest) => sink.digest(name, digest),
            Part::Input(_, _, InputPart::Stage(name)) => sink.text("stage", name),
            Part::Input(_, _, InputPart::Dataset(digest)) => sink.digest("dataset", digest),
            Part::Input(_, _, InputPart::Artifact(fields)) => sink.group("artifact", fields),
            Part::Input(_, _, InputPart::Field(name, value)) => write_value(name, value, sink),
            Part::Salt(salt) => sink.text("salt", salt),
            Part::Parent(parent) => sink.digest("parent", parent),
        }
    }

    /// Equal for two parts with the same meaning. In the order in which differences are listed.
    fn place(self) -> (u8, &'a str, usize, u8, &'a str) {
        match self {
            Part::Kind(_) => (0, "", 0, 0, ""),
            Part::Version(_) => (1, "", 0, 0, ""),
            Part::Parameter(name, _) => (2, name, 0, 0, ""),
            Part::File(name, _) => (3, name, 0, 0, ""),
            Part::Parent(_) => (4, "", 0, 0, ""),
            Part::Salt(_) => (5, "", 0, 0, ""),
            Part::Port(port, _) => (6, port, 0, 0, ""),
            Part::Input(port, at, InputPart::Stage(_)) => (6, port, at, 1, ""),
            Part::Input(port, at, InputPart::Dataset(_)) => (6, port, at, 2, ""),
            Part::Input(port, at, InputPart::Artifact(_)) => (6, port, at, 3, ""),
            Part::Input(port, at, InputPart::Field(name, _)) => (6, port, at, 4, name),
            Part::Group(name, _) => (7, name, 0, 0, ""),
        }
    }
}

/// A part that two keys do not share: its old and its new value.
pub type Difference<'a> = (Option<Part<'a>>, Option<Part<'a>>);

/// All differences between two keys. There are none exactly if the keys have the same digest.
pub fn differences<'a>(old: &'a StageKey, new: &'a StageKey) -> Vec<Difference<'a>> {
    let mut parts: BTreeMap<_, Difference<'a>> = BTreeMap::new();
    old.parts(&mut |part| parts.entry(part.place()).or_default().0 = Some(part));
    new.parts(&mut |part| parts.entry(part.place()).or_default().1 = Some(part));
    parts.into_values().filter(|(old, new)| old != new).collect()
}

/// Everything that determines the output of a stage. Stored with every run, so that the next one
/// can explain changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageKey {
    /// The name of the kind, such as `audio.resample`.
    pub kind: String,
    /// The behaviour version of the kind: see [`Kind::version`](crate::Kind::version).
    pub version: u32,
    /// Content parameters only, defaults filled in.
    pub parameters: Parameters,
    /// The content of `File` parameters.
    pub files: BTreeMap<String, Digest>,
    /// The content that arrives on each port, in the order of its references. In the key of one
    /// item, the port with the items is missing.
    pub inputs: BTreeMap<String, Vec<InputKey>>,
    /// Changing it forces the work to run again.
    pub salt: Option<String>,
    /// The key of the outcome that a training continues from.
    pub parent: Option<Digest>,
}

impl StageKey {
    /// All parts of the key, in order.
    pub fn parts<'a>(&'a self, each: &mut dyn FnMut(Part<'a>)) {
        each(Part::Group("stage", 6 + usize::from(self.parent.is_some())));
        each(Part::Kind(&self.kind));
        each(Part::Version(self.version));
        each(Part::Group("parameters", self.parameters.0.len()));
        self.parameters.0.iter().for_each(|(name, value)| each(Part::Parameter(name, value)));
        each(Part::Group("files", self.files.len()));
        self.files.iter().for_each(|(name, digest)| each(Part::File(name, digest)));
        each(Part::Group("inputs", self.inputs.len()));
        for (port, inputs) in &self.inputs {
            each(Part::Port(port, inputs.len()));
            for (at, input) in inputs.iter().enumerate() {
                input.parts(&mut |part| each(Part::Input(port, at, part)));
            }
        }
        each(Part::Salt(self.salt.as_deref().unwrap_or("")));
        self.parent.iter().for_each(|parent| each(Part::Parent(parent)));
    }

    /// Writes all parts of the key into a sink.
    pub fn write(&self, sink: &mut dyn Sink) {
        self.parts(&mut |part| part.write(sink));
    }

    /// The digest under which the cache records the outcome of the stage.
    pub fn digest(&self) -> Digest {
        let mut sink = HashSink::default();
        self.write(&mut sink);
        sink.finish()
    }

    /// The key without the input of one port: the part that all items of an item stage share.
    pub fn without(&self, port: &str) -> StageKey {
        let mut key = self.clone();
        key.inputs.remove(port);
        key
    }

    /// The key without all that arrives: what the stage itself is.
    pub fn without_inputs(&self) -> StageKey {
        StageKey { inputs: BTreeMap::new(), parent: None, ..self.clone() }
    }
}

/// One value of an item or artifact.
pub fn write_value(name: &str, value: &Value, sink: &mut dyn Sink) {
    match value.parts() {
        Parts::Text(text) => sink.text(name, text),
        Parts::Number(bits) => sink.number(name, f64::from_bits(bits)),
        Parts::Blob { digest, size, kind } => sink.blob(name, digest, size, kind),
    }
}

fn write_parameter(name: &str, value: &ParameterValue, sink: &mut dyn Sink) {
    match value {
        ParameterValue::Absent => sink.group(name, 0),
        ParameterValue::Text(text) => sink.text(name, text),
        ParameterValue::Integer(number) => sink.integer(name, *number),
        ParameterValue::Number(number) => sink.number(name, *number),
        ParameterValue::Share(share) => {
            sink.group(name, 1);
            sink.number("share", *share);
        }
        ParameterValue::Flag(flag) => sink.integer(name, i64::from(*flag)),
        ParameterValue::Seconds(seconds) => sink.number(name, *seconds),
        ParameterValue::Bytes(bytes) => sink.integer(name, *bytes as i64),
        ParameterValue::Device(device) => sink.text(name, &device.to_string()),
        ParameterValue::List(values) => {
            sink.group(name, values.len());
            values.iter().for_each(|value| write_parameter("", value, sink));
        }
        ParameterValue::Map(values) => {
            sink.group(name, values.len());
            values.iter().for_each(|(name, value)| write_parameter(name, value, sink));
        }
    }
}

/// The fields of a data set that a stage reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemReads {
    /// Sorted by name; optional fields count as missing if absent.
    pub names: Vec<String>,
    /// True if the stage reads the id, so that it is part of the key.
    pub id: bool,
}

impl ItemReads {
    /// Fields by name, which must be sorted, and the id if `id` is true.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>, id: bool) -> ItemReads {
        ItemReads { names: names.into_iter().map(Into::into).collect(), id }
    }

    /// The item reduced to what is read.
    pub fn see<'a>(&'a self, item: &'a Item) -> Seen<'a> {
        Seen { reads: self, item }
    }
}

/// An item as a stage sees it: the same view for its key and for the item that the stage gets.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    reads: &'a ItemReads,
    item: &'a Item,
}

impl<'a> Seen<'a> {
    fn id(&self) -> Option<&'a Arc<str>> {
        self.reads.id.then_some(&self.item.id)
    }

    /// In the order of the names that are read; None for a field that the item lacks.
    fn fields(&self) -> impl Iterator<Item = (&'a str, Option<(&'a Arc<str>, &'a Value)>)> {
        let item = self.item;
        self.reads.names.iter().map(|name| (name.as_str(), item.fields.pair(name)))
    }

    /// Writes the parts of the item that are read, without the job: see [`Seen::key`].
    pub fn write(&self, sink: &mut dyn Sink) {
        if let Some(id) = self.id() {
            sink.text("id", id);
        }
        for (name, field) in self.fields() {
            match field {
                Some((_, value)) => write_value(name, value, sink),
                None => sink.group(name, 0),
            }
        }
    }

    /// The key of the work on the item, from the key of the job.
    pub fn key(&self, job: &Digest) -> Digest {
        let mut sink = HashSink::default();
        sink.digest("job", job);
        self.write(&mut sink);
        sink.finish()
    }

    /// The item that the stage gets.
    pub fn to_item(&self) -> Item {
        let fields = self.fields().filter_map(|(_, field)| field);
        let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        Item::new(self.id().cloned().unwrap_or_else(|| "".into()), fields)
    }
}

/// The key of the work on a whole bucket: the job's key and the chunk with the items.
pub fn chunk_key(job: &Digest, chunk: &Digest) -> Digest {
    let mut sink = HashSink::default();
    sink.group("chunk", 2);
    sink.digest("job", job);
    sink.digest("chunk", chunk);
    sink.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Blob;

    fn key() -> StageKey {
        StageKey {
            kind: "audio.resample".into(),
            version: 1,
            parameters: Parameters([("rate".to_owned(), ParameterValue::Integer(16000))].into()),
            files: BTreeMap::new(),
            inputs: [("input".to_owned(), vec![InputKey::Dataset(Digest::of(b"data"))])].into(),
            salt: None,
            parent: None,
        }
    }

    /// The encoding of the module's description, without a buffer.
    #[test]
    fn many_parts_hash_like_their_bytes_in_a_row() {
        for count in [0, 1, 1_456, 1_457, 1_458, 20_000] {
            let (mut sink, mut bytes) = (HashSink::default(), Vec::new());
            for number in 0..count {
                let digest = Digest::of(&[number as u8]);
                sink.digest("item", &digest);
                bytes.push(5);
                bytes.extend_from_slice(&4u64.to_le_bytes());
                bytes.extend_from_slice(b"item");
                bytes.extend_from_slice(digest.as_bytes());
            }
            assert_eq!(sink.finish(), Digest::of(&bytes), "{count}");
        }
    }

    #[test]
    fn the_same_content_has_the_same_key() {
        assert_eq!(key().digest(), key().digest());
    }

    fn with(change: impl FnOnce(&mut StageKey)) -> StageKey {
        let mut key = key();
        change(&mut key);
        key
    }

    #[test]
    fn every_part_changes_the_key_and_is_named_as_a_difference() {
        let text = |name: &str| (name.to_owned(), Value::text(name));
        let fields = |names: &[&str]| names.iter().map(|name| text(name)).collect::<Fields>();
        let input =
            |inputs: Vec<InputKey>| with(|key| _ = key.inputs.insert("input".to_owned(), inputs));
        let artifact = |names: &[&str]| InputKey::Artifact(fields(names));
        let named = |stage: &str| InputKey::Named {
            stage: stage.into(),
            input: Box::new(artifact(&["a"])),
        };
        let parameter = |value| with(|key| _ = key.parameters.0.insert("rate".to_owned(), value));
        let keys = [
            key(),
            with(|key| key.kind = "audio.trim".to_owned()),
            with(|key| key.version = 2),
            parameter(ParameterValue::Number(16000.0)),
            parameter(ParameterValue::Share(16000.0)),
            parameter(ParameterValue::Absent),
            with(|key| key.parameters.0.clear()),
            with(|key| _ = key.files.insert("vocabulary".to_owned(), Digest::of(b"file"))),
            with(|key| _ = key.files.insert("vocabulary".to_owned(), Digest::of(b"other"))),
            with(|key| key.salt = Some("again".to_owned())),
            with(|key| key.parent = Some(Digest::of(b"parent"))),
            key().without("input"),
            input(Vec::new()),
            input(vec![InputKey::Dataset(Digest::of(b"other"))]),
            input(vec![InputKey::Dataset(Digest::of(b"data")); 2]),
            input(vec![artifact(&["a"])]),
            input(vec![artifact(&["a", "b"])]),
            input(vec![artifact(&["a"]), artifact(&["b"])]),
            input(vec![named("x")]),
            input(vec![named("y")]),
        ];
        for (at, old) in keys.iter().enumerate() {
            for (other, new) in keys.iter().enumerate() {
                assert_eq!(old.digest() == new.digest(), at == other, "{old:?} {new:?}");
                assert_eq!(differences(old, new).is_empty(), at == other, "{old:?} {new:?}");
            }
        }
        let no_salt = with(|key| key.salt = Some(String::new()));
        assert_eq!(no_salt.digest(), key().digest());
        assert!(differences(&no_salt, &key()).is_empty());
    }

    fn blob(content: &[u8], size: u64, kind: &str) -> Value {
        let digest = Digest::of(content);
        Value::Blob(Arc::new(Blob { digest, size, kind: kind.into() }))
    }

    #[test]
    fn an_item_key_depends_on_what_is_read_and_on_nothing_else() {
        let job = Digest::of(b"job");
        let key = |names: &[&str], id: bool, item: &Item| {
            ItemReads::new(names.iter().copied(), id).see(item).key(&job)
        };
        let fields: Fields =
            [("audio", Value::text("a")), ("text", Value::text("t"))].into_iter().collect();
        let first = Item::new("one", fields.clone());
        let mut second = Item::new("two", fields);
        second.fields.set("text", Value::text("other"));
        assert_eq!(key(&["audio"], false, &first), key(&["audio"], false, &second));
        assert_ne!(key(&["audio"], true, &first), key(&["audio"], true, &second));
        assert_ne!(key(&["text"], false, &first), key(&["text"], false, &second));
    }

    #[test]
    fn what_a_stage_is_handed_has_another_key_whenever_it_is_another() {
        let values = [
            blob(b"a", 1, "audio/wav"),
            blob(b"a", 1, "audio/flac"),
            blob(b"a", 2, "audio/wav"),
            blob(b"b", 1, "audio/wav"),
            Value::text("a"),
            Value::Number(0.0),
            Value::Number(-0.0),
            Value::Number(f64::NAN),
        ];
        let mut items: Vec<Item> = values
            .iter()
            .map(|value| Item::new("i", [("x", value.clone())].into_iter().collect()))
            .collect();
        items.push(Item::new("i", Fields::new()));
        items.push(Item::new("j", Fields::new()));
        let hidden = [("x", values[0].clone()), ("y", Value::text("not read"))];
        items.push(Item::new("i", hidden.into_iter().collect()));
        for reads in [ItemReads::new(["x"], true), ItemReads::new(["x"], false)] {
            for one in &items {
                for other in &items {
                    let (one, other) = (reads.see(one), reads.see(other));
                    let job = Digest::of(b"job");
                    let same = one.to_item() == other.to_item();
                    assert_eq!(
                        same,
                        one.key(&job) == other.key(&job),
                        "{:?} {:?}",
                        one.to_item(),
                        other.to_item()
                    );
                }
            }
        }
    }

    #[test]
    fn the_kind_of_an_artifact_and_the_name_of_a_stage_that_is_read_change_the_key() {
        let with = |input: InputKey| {
            let mut key = key();
            key.inputs.insert("model".into(), vec![input]);
            key.digest()
        };
        let artifact =
            |kind| InputKey::Artifact([("weights", blob(b"w", 1, kind))].into_iter().collect());
        let named =
            |stage: &str| InputKey::Named { stage: stage.into(), input: Box::new(artifact("a")) };
        let keys = [with(artifact("a")), with(artifact("b")), with(named("x")), with(named("y"))];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn the_text_shows_every_part() {
        let mut sink = TextSink::default();
        key().write(&mut sink);
        for part in ["audio.resample", "rate = 16000", "dataset = "] {
            assert!(sink.0.contains(part), "{part} is missing in {}", sink.0);
        }
    }
}
