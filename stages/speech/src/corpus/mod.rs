//! Readers of corpora: tables, speaker folders, JSON lines and Parquet files become rows.
//!
//! The readers work on bytes or listings that the caller brings and touch no file. A row that
//! cannot be used is a [`RowReject`] that says where it stands and what is wrong; only what makes
//! the whole file meaningless is a [`CorpusError`].

pub mod columns;
mod error;
pub mod folder;
mod found_tokens;
pub mod jsonl;
pub mod parquet;
mod parts;
pub mod path;
mod record;
mod sentences;
mod stage;
pub mod table;
pub mod transcript;

pub use error::{CorpusError, RowProblem};
pub use record::{RowRecord, RowReject, Rows, Value};
pub use stage::stages;

/// Longest row that a reader takes: a transcript of this size is an accident or an attack.
pub const MAX_ROW_BYTES: usize = 1 << 20;
