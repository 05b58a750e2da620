//! The catalogue: the description of every stage kind, without any implementation.

pub mod asr;
pub mod audio;
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod fish;
pub mod model;
pub mod quality;
pub mod report;
pub mod speaker;
pub mod text;
mod train;
pub mod vits;
pub mod vits_tune;
pub mod vq;

use std::collections::BTreeMap;

use crate::kind::Kind;
use crate::parameter::{Default, Parameter, ParameterType, Role};

const FAMILIES: &[&[&Kind]] = &[
    corpus::KINDS,
    audio::KINDS,
    text::KINDS,
    dataset::KINDS,
    speaker::KINDS,
    asr::KINDS,
    quality::KINDS,
    report::KINDS,
    vq::KINDS,
    model::KINDS,
    fish::KINDS,
    vits::KINDS,
    vits_tune::KINDS,
    command::KINDS,
];

/// The parameter of every kind that trains: what becomes of a finished model when its inputs
/// change. It enters no key itself; the parent that it leads to does.
pub const ON_CHANGE: Parameter = Parameter {
    name: "on_change",
    parameter_type: ParameterType::Choice(&["retrain", "continue"]),
    default: Default::Text("retrain"),
    role: Role::Execution,
    doc: "What to do when an input or a parameter changes after the stage has finished: `retrain` \
          begins anew, `continue` goes on from the model that it gave last, whose key becomes \
          part of the new one.",
    ..Parameter::BASE
};

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
