//! The kinds of artifacts that the stages of the catalogue give and take.
//!
//! A kind is a word; stages from elsewhere have words of their own. Where models have a family,
//! the word is that family, as the artifact says it in its field `family`.

/// A text model of Fish Speech.
pub const DUAL_AR: &str = "fish-dual-ar";
/// Adapters of such a model.
pub const LORA: &str = "fish-lora";
/// The codec of Fish Speech.
pub const DAC: &str = "fish-dac";
/// The codec that `vq.fit` fits.
pub const MEL_RVQ: &str = "mel-rvq";
/// A VITS model.
pub const VITS: &str = "vits";
/// A speech recogniser.
pub const WAV2VEC2: &str = "wav2vec2";
/// The log of a training.
pub const LOG: &str = "training-log";
/// Figures about a data set, as JSON.
pub const REPORT: &str = "report";
/// An event file of TensorBoard.
pub const EVENTS: &str = "events";
/// A data set in files of other projects.
pub const SHARDS: &str = "shards";
/// Files of other projects.
pub const FILES: &str = "files";
/// The fields of one item.
pub const ITEM: &str = "item";

pub const CODECS: &[&str] = &[MEL_RVQ, DAC];

/// Every kind of the catalogue with what it is, for the documentation.
pub const ALL: &[(&str, &str)] = &[
    (DUAL_AR, "a text model of Fish Speech"),
    (LORA, "adapters of such a model"),
    (DAC, "the codec of Fish Speech"),
    (MEL_RVQ, "the codec that `vq.fit` fits"),
    (VITS, "a VITS model"),
    (WAV2VEC2, "a speech recogniser"),
    (LOG, "the log of a training"),
    (REPORT, "figures about a data set, as JSON"),
    (EVENTS, "an event file of TensorBoard"),
    (SHARDS, "a data set in files of other projects"),
    (FILES, "files of other projects"),
    (ITEM, "the fields of one item"),
];
