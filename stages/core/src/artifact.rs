//! The kinds of artifacts that stages of the catalogue output and accept.
//!
//! A kind is a word; other crates have words of their own. The word of a model is its family, which
//! the artifact has in its field `family`: the families list those words.

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
/// The ranks of voices by people who listened, as JSON.
pub const RATED: &str = "ratings";
/// The fields of one item.
pub const ITEM: &str = "item";

/// The field in which an item carries an artifact: a file with its fields.
pub const WEIGHTS: &str = "weights";

/// Every kind except models, with its description for the documentation.
pub const ALL: &[(&str, &str)] = &[
    (LOG, "the log of a training"),
    (REPORT, "figures about a data set, as JSON"),
    (EVENTS, "an event file of TensorBoard"),
    (SHARDS, "a data set in files of other projects"),
    (FILES, "files of other projects"),
    (RATED, "the ranks of voices by people who listened, as JSON"),
    (ITEM, "the fields of one item"),
];
