//! The catalogue: descriptions of stage kinds, without implementations. Kinds that belong to no
//! model family are here.

pub mod audio;
pub mod choice;
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod python;
pub mod quality;
pub mod report;
pub mod speaker;
pub mod text;
pub mod train;

use std::collections::BTreeMap;

use crate::kind::Kind;
use crate::parameter::{Default, Parameter, ParameterType, Role};

/// The kinds of this crate.
pub const KINDS: &[&[&Kind]] = &[
    corpus::KINDS,
    audio::KINDS,
    text::KINDS,
    dataset::KINDS,
    speaker::KINDS,
    quality::KINDS,
    report::KINDS,
    command::KINDS,
    python::KINDS,
];

/// The parameter of every training kind for a finished model with changed inputs. It enters no key
/// itself; the parent that it leads to does.
pub const ON_CHANGE: Parameter = Parameter {
    name: "on_change",
    parameter_type: ParameterType::Choice(&["retrain", "continue"]),
    default: Default::Text("retrain"),
    role: Role::Execution,
    doc: "The reaction to changed inputs or parameters of a finished stage: `retrain` starts from \
        scratch, `continue` continues from the last model, and the key of that model becomes part \
        of the new key.",
    ..Parameter::BASE
};

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
