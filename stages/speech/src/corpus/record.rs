//! A row of a corpus, the quarantined rows, and the check that ids are unique.

use std::collections::{BTreeMap, HashMap};

use super::error::RowProblem;

/// A typed field of a row beyond the file, the text and the speaker.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Number(f64),
}

/// One usable row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowRecord {
    /// Stable name of the clip: the `id` column, or the audio path without its extension.
    pub id: String,
    /// Audio path as written, with `/` between its parts.
    pub file: String,
    pub text: Option<String>,
    pub speaker: Option<String>,
    pub fields: BTreeMap<String, Value>,
    /// The line of the file where the row begins, from 1.
    pub row: u64,
    /// The byte of the file where the row begins.
    pub offset: u64,
}

/// One quarantined row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowReject {
    pub row: u64,
    pub offset: u64,
    /// The id, if the row has a readable one.
    pub id: Option<String>,
    pub problem: RowProblem,
}

/// The results of a reader: usable rows and rejects, each in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    pub records: Vec<RowRecord>,
    pub rejects: Vec<RowReject>,
}

impl RowRecord {
    fn same_content(&self, other: &Self) -> bool {
        self.file == other.file
            && self.text == other.text
            && self.speaker == other.speaker
            && self.fields == other.fields
    }

    fn reject(self, problem: RowProblem) -> RowReject {
        RowReject { row: self.row, offset: self.offset, id: Some(self.id), problem }
    }
}

impl Rows {
    pub(super) fn push(&mut self, row: u64, offset: u64, result: Result<RowRecord, RowProblem>) {
        match result {
            Ok(record) => self.records.push(record),
            Err(problem) => self.rejects.push(RowReject { row, offset, id: None, problem }),
        }
    }

    /// Quarantines every row with a repeated id.
    ///
    /// Exact repetitions of the first row lose nothing: the first stays. Different rows with the
    /// same id are all rejected, so that the result does not depend on their order.
    pub(super) fn reject_duplicates(&mut self) {
        let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(self.records.len());
        let mut verdicts: Vec<Option<RowProblem>> = vec![None; self.records.len()];
        for (index, record) in self.records.iter().enumerate() {
            let first_index = *first_of.entry(&record.id).or_insert(index);
            if first_index == index {
                continue;
            }
            let first = &self.records[first_index];
            if record.same_content(first) {
                verdicts[index] = Some(RowProblem::Repeated { first: first.row });
                continue;
            }
            let clash = RowProblem::DuplicateId {
                id: record.id.clone(),
                first: first.row,
                second: record.row,
            };
            verdicts[first_index].get_or_insert_with(|| clash.clone());
            verdicts[index] = Some(clash);
        }
        if verdicts.iter().all(Option::is_none) {
            return;
        }
        let records = std::mem::take(&mut self.records);
        for (record, verdict) in records.into_iter().zip(verdicts) {
            match verdict {
                None => self.records.push(record),
                Some(problem) => self.rejects.push(record.reject(problem)),
            }
        }
        self.rejects.sort_by_key(|reject| (reject.row, reject.offset));
    }
}
