//! The receivers of the parts of a key: one hashes them, one writes them for people.

use std::fmt::Write;

use cache::{Digest, Hasher};

/// Receives the parts of a key in order.
pub trait Sink {
    /// A named group of parts follows.
    fn group(&mut self, name: &str, parts: usize);
    /// A text, such as the name of a kind.
    fn text(&mut self, name: &str, text: &str);
    /// A whole number; a flag is 0 or 1.
    fn integer(&mut self, name: &str, number: i64);
    /// A number, which the hasher takes by its bits: 0.0 and -0.0 are two parts.
    fn number(&mut self, name: &str, number: f64);
    /// A digest that stands for content, such as that of a file or a data set.
    fn digest(&mut self, name: &str, digest: &Digest);
    /// A field with a blob. `size` is in bytes; `kind` is a media type such as `audio/wav`.
    fn blob(&mut self, name: &str, digest: &Digest, size: u64, kind: &str);
}

/// The sink that hashes.
#[derive(Default)]
pub struct HashSink {
    /// Has got the earlier parts.
    hasher: Option<Hasher>,
    /// The last parts: many together are hashed faster than one after the other.
    parts: Vec<u8>,
}

/// The number of bytes that are hashed together.
const TOGETHER: usize = 64 << 10;

impl HashSink {
    /// The digest of all parts that were written.
    pub fn finish(self) -> Digest {
        match self.hasher {
            Some(mut hasher) => hasher.update(&self.parts).finish(),
            None => Digest::of(&self.parts),
        }
    }

    fn part(&mut self, tag: u8, name: &str) {
        if self.parts.len() >= TOGETHER {
            self.hasher.get_or_insert_default().update(&self.parts);
            self.parts.clear();
        }
        self.parts.push(tag);
        self.bytes(name.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.raw(&(bytes.len() as u64).to_le_bytes());
        self.raw(bytes);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.parts.extend_from_slice(bytes);
    }
}

impl Sink for HashSink {
    fn group(&mut self, name: &str, parts: usize) {
        self.part(1, name);
        self.raw(&(parts as u64).to_le_bytes());
    }

    fn text(&mut self, name: &str, text: &str) {
        self.part(2, name);
        self.bytes(text.as_bytes());
    }

    fn integer(&mut self, name: &str, number: i64) {
        self.part(3, name);
        self.raw(&number.to_le_bytes());
    }

    fn number(&mut self, name: &str, number: f64) {
        self.part(4, name);
        self.raw(&number.to_bits().to_le_bytes());
    }

    fn digest(&mut self, name: &str, digest: &Digest) {
        self.part(5, name);
        self.raw(digest.as_bytes());
    }

    fn blob(&mut self, name: &str, digest: &Digest, size: u64, kind: &str) {
        self.part(6, name);
        self.raw(digest.as_bytes());
        self.raw(&size.to_le_bytes());
        self.bytes(kind.as_bytes());
    }
}

/// The sink for people.
#[derive(Default)]
pub struct TextSink(pub String);

impl Sink for TextSink {
    fn group(&mut self, name: &str, parts: usize) {
        let _ = writeln!(self.0, "{name}: {parts}");
    }

    fn text(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.0, "  {name} = {text:?}");
    }

    fn integer(&mut self, name: &str, number: i64) {
        let _ = writeln!(self.0, "  {name} = {number}");
    }

    fn number(&mut self, name: &str, number: f64) {
        let _ = writeln!(self.0, "  {name} = {number}");
    }

    fn digest(&mut self, name: &str, digest: &Digest) {
        let _ = writeln!(self.0, "  {name} = {digest}");
    }

    fn blob(&mut self, name: &str, digest: &Digest, size: u64, kind: &str) {
        let _ = writeln!(self.0, "  {name} = {digest} ({kind}, {size} B)");
    }
}
