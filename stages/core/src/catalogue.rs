//! The catalogue: the description of every stage kind, without any implementation.

pub mod audio;
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod fish;
pub mod report;
pub mod speaker;
pub mod text;
mod train;
pub mod vq;

use std::collections::BTreeMap;

use crate::kind::Kind;

const FAMILIES: &[&[&Kind]] = &[
    corpus::KINDS,
    audio::KINDS,
    text::KINDS,
    dataset::KINDS,
    speaker::KINDS,
    report::KINDS,
    vq::KINDS,
    fish::KINDS,
    command::KINDS,
];

/// All kinds that a manifest may use, by name.
#[derive(Clone)]
pub struct Catalogue(BTreeMap<&'static str, &'static Kind>);

impl Catalogue {
    pub fn built_in() -> Catalogue {
        let kinds = FAMILIES.iter().flat_map(|family| family.iter());
        Catalogue(kinds.map(|kind| (kind.name, *kind)).collect())
    }

    /// Adds a kind from outside; one of the same name is replaced.
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
