//! The model families without their computation: stage kinds, file layout, tokenizer, sizes, and
//! formulas for memory and time. The computation is in `stages/torch`.
//!
//! A family is a folder here with a unit struct that implements [`Family`], and a line in
//! [`FAMILIES`]; stages for models of several families, such as `model.import`, find it there. The
//! word of its artifacts is in [`artifact`], and the stage kinds in [`kinds`] list the words that
//! they accept. Nothing else is added, except to `stages/torch`.

pub mod artifact;
pub mod clips;
pub mod dac;
pub mod dropped;
pub mod dual_ar;
pub mod export;
mod family;
mod fish;
pub mod import;
pub mod kinds;
mod mel_rvq;
pub mod model;
pub mod numbers;
pub mod onnx;
mod rewritten;
mod scope;
mod sizes;
pub mod speech;
mod symbols;
pub mod training;
pub mod vits;
pub mod wav2vec2;
pub mod working;
pub mod xtts;

use stage_core::Kind;

pub use family::Family;

/// All families.
pub static FAMILIES: &[&dyn Family] = &[
    &dual_ar::DualAr,
    &dual_ar::DualArLora,
    &dac::Dac,
    &mel_rvq::MelRvq,
    &vits::Vits,
    &wav2vec2::Wav2Vec2,
    &xtts::Xtts,
    &xtts::XttsLora,
    &xtts::Voice,
];

/// The family of this name.
pub fn find(name: &str) -> Option<&'static dyn Family> {
    FAMILIES.iter().copied().find(|family| family.name() == name)
}

/// The default family of weights.
pub static USUAL_MODEL: &dyn Family = &dual_ar::DualAr;

/// The default codec of a stage; rates are for this one.
pub static USUAL_CODEC: &dyn Family = &dac::Dac;

/// The stage kinds for models: those for several families, and those of each family.
pub fn every_kind() -> impl Iterator<Item = &'static Kind> {
    let own = FAMILIES.iter().map(|family| family.kinds());
    kinds::KINDS.iter().copied().chain(own).flatten().copied()
}

/// Every kind of artifact with its description.
pub fn artifacts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let models = FAMILIES.iter().map(|family| (family.name(), family.title()));
    models.chain(stage_core::artifact::ALL.iter().copied())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use stage_core::ParameterType;

    use super::*;
    use crate::kinds::model::{EXPORT, IMPORT};

    fn words(of: impl Fn(&dyn Family) -> bool) -> BTreeSet<&'static str> {
        FAMILIES.iter().filter(|family| of(**family)).map(|family| family.name()).collect()
    }

    fn listed(words: &[&'static str]) -> BTreeSet<&'static str> {
        words.iter().copied().collect()
    }

    #[test]
    fn lists_of_words_are_those_of_the_families() {
        let imported = words(|family| family.importer().is_some());
        assert_eq!(listed(IMPORT.outputs[0].gives), imported);
        let ParameterType::Choice(choices) = IMPORT.parameter("family").unwrap().parameter_type
        else {
            panic!("`family` is a choice");
        };
        assert_eq!(&listed(choices) - &["auto"].into(), imported);
        assert_eq!(listed(EXPORT.inputs[0].takes), words(|family| family.exporter().is_some()));
        assert_eq!(listed(artifact::CODECS), words(|family| family.codec().is_some()));
        assert_eq!(words(|_| true).len(), FAMILIES.len(), "each word is that of one family");
    }

    #[test]
    fn what_a_model_is_taken_for_has_its_published_size() {
        let parameters = |family: &dyn Family| family.assumed().unwrap().model.parameters();
        assert_eq!(parameters(&dual_ar::DualAr), 860_169_216);
        assert_eq!(parameters(&wav2vec2::Wav2Vec2), 94_395_552);
        assert_eq!(find("nothing").map(Family::name), None);
    }
}
