//! Readers of corpora: tables, speaker folders, JSON lines and Parquet files become rows.
//!
//! The readers work on bytes or listings from the caller and touch no file. An unusable row is a
//! [`QuarantinedRow`] with its position and the problem; only an error that makes the whole file
//! meaningless is a [`CorpusError`].

pub mod columns;
pub mod corrections;
pub mod cues;
mod cut;
mod error;
pub mod folder;
mod found_tokens;
mod items;
pub mod jsonl;
pub mod kinds;
mod lhotse;
mod listed;
mod misplaced;
pub mod parquet;
pub mod part;
mod parts;
pub mod path;
mod record;
mod recordings;
mod row_file;
mod sentences;
mod stage;
pub mod table;
mod text;
pub mod transcript;

pub use error::{CorpusError, RowProblem};
pub use record::{QuarantinedRow, RowRecord, Rows, Value};
pub use stage::stages;

/// The longest accepted row: a transcript of this size is an accident or an attack.
pub const MAX_ROW_BYTES: usize = 1 << 20;
