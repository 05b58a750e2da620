//! What each model family is, without what it computes: its stage kinds, file layout, tokenizer,
//! sizes, and the formulas of its memory and time. The computation is in `stages/torch`.
//!
//! A family is a folder here with a unit struct that implements [`Family`], and a line in
//! [`FAMILIES`]; what can be done with models of several families, such as `model.import`, finds
//! it there. The word of its artifacts stands in [`artifact`], and the stage kinds of [`kinds`] list
//! the words that they take. Nothing is added anywhere else but to `stages/torch`.

pub mod artifact;
pub mod dac;
pub mod dual_ar;
pub mod export;
mod family;
mod fish;
pub mod import;
pub mod kinds;
mod mel_rvq;
pub mod model;
mod sizes;
mod symbols;
pub mod training;
pub mod vits;
pub mod wav2vec2;
pub mod xtts;

use stage_core::Catalogue;

pub use family::Family;

/// All families.
pub static FAMILIES: &[&dyn Family] = &[
    &dual_ar::DualAr,
    &dual_ar::Lora,
    &dac::Dac,
    &mel_rvq::MelRvq,
    &vits::Vits,
    &wav2vec2::Wav2Vec2,
    &xtts::Xtts,
];

/// The family of this name.
pub fn find(name: &str) -> Option<&'static dyn Family> {
    FAMILIES.iter().copied().find(|family| family.name() == name)
}

/// The family of weights of which nothing says another.
pub static USUAL_MODEL: &dyn Family = &dual_ar::DualAr;

/// The codec that a stage works with where nothing says another, which rates are for.
pub static USUAL_CODEC: &dyn Family = &dac::Dac;

/// All stage kinds: those that know no models, and those of the families.
pub fn catalogue() -> Catalogue {
    let general = stage_core::catalogue::KINDS.iter().chain(kinds::KINDS).copied();
    let own = FAMILIES.iter().map(|family| family.kinds());
    Catalogue::of(general.chain(own).flatten().copied())
}

/// Every kind of artifact with what it is.
pub fn artifacts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let models = FAMILIES.iter().map(|family| (family.name(), family.title()));
    models.chain(stage_core::artifact::ALL.iter().copied())
}
