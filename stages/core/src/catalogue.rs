//! The catalogue: descriptions of stage kinds, without implementations. Kinds that belong to no
//! model family are here.

pub mod audio;
mod change;
pub mod choice;
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod python;
pub mod quality;
pub mod rate;
pub mod report;
pub mod speaker;
pub mod text;
pub mod torchscript;
pub mod train;
pub mod voice;

use std::collections::BTreeMap;

pub use change::ON_CHANGE;

use crate::kind::Kind;

/// The kinds of this crate.
pub const KINDS: &[&[&Kind]] = &[
    corpus::KINDS,
    audio::KINDS,
    text::KINDS,
    dataset::KINDS,
    speaker::KINDS,
    quality::KINDS,
    rate::KINDS,
    voice::KINDS,
    report::KINDS,
    command::KINDS,
    python::KINDS,
    torchscript::KINDS,
];

/// All kinds that a manifest may use, by name.
#[derive(Clone)]
pub struct Catalogue(BTreeMap<&'static str, &'static Kind>);

impl Catalogue {
    pub fn of(kinds: impl IntoIterator<Item = &'static Kind>) -> Catalogue {
        Catalogue(kinds.into_iter().map(|kind| (kind.name, kind)).collect())
    }

    /// Adds a kind from another crate; it replaces one of the same name.
    pub fn add(&mut self, kind: &'static Kind) {
        self.0.insert(kind.name, kind);
    }

    pub fn get(&self, name: &str) -> Option<&'static Kind> {
        self.0.get(name).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.0.values().copied()
    }
}
