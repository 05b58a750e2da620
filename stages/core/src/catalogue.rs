//! The catalogue: descriptions of stage kinds, without implementations.

use std::collections::BTreeMap;

use crate::kind::Kind;

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
