//! The kinds of artifacts that the stages of the catalogue give and take.
//!
//! A kind is a word; stages from elsewhere have words of their own. The word of a model is its
//! family, as the artifact says it in its field `family`: those are listed where the families are.

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

/// Every kind that is no model, with what it is, for the documentation.
pub const ALL: &[(&str, &str)] = &[
    (LOG, "the log of a training"),
    (REPORT, "figures about a data set, as JSON"),
    (EVENTS, "an event file of TensorBoard"),
    (SHARDS, "a data set in files of other projects"),
    (FILES, "files of other projects"),
    (ITEM, "the fields of one item"),
];
