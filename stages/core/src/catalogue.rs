//! The catalogue: descriptions of stage kinds, without implementations.

use std::collections::BTreeMap;

use crate::kind::Kind;

/// All kinds that a manifest may use, by name.
#[derive(Clone)]
pub struct Catalogue(BTreeMap<&'static str, &'static Kind>);

impl Catalogue {
    /// The catalogue of a program: the kinds of all stages that it was built with. Of two kinds
    /// with one name, the later one counts.
    pub fn of(kinds: impl IntoIterator<Item = &'static Kind>) -> Catalogue {
        Catalogue(kinds.into_iter().map(|kind| (kind.name, kind)).collect())
    }

    /// Adds a kind from another crate; it replaces one of the same name.
    pub fn add(&mut self, kind: &'static Kind) {
        self.0.insert(kind.name, kind);
    }

    /// The kind that a manifest names in `use`; None if no crate has added it.
    pub fn get(&self, name: &str) -> Option<&'static Kind> {
        self.0.get(name).copied()
    }

    /// All kinds, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.0.values().copied()
    }
}
