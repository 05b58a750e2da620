//! A row of a corpus, the quarantined rows, and the check that ids are unique.

use std::collections::{BTreeMap, HashMap};

use super::error::RowProblem;
use super::part::{Part, Times};

/// A typed field of a row beyond the file, the text and the speaker.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Number(f64),
}

/// One usable row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowRecord {
    /// Stable name of the clip: the `id` column, or the audio path without its extension.
    pub id: String,
    /// Audio path as written, with `/` between its parts.
    pub file: String,
    pub text: Option<String>,
    pub speaker: Option<String>,
    pub fields: BTreeMap<String, Value>,
    /// Times and channel as written.
    pub times: Times,
    /// The part of the file that is the clip; None: all of it.
    pub part: Option<Part>,
    /// True if the row gives the id.
    pub has_id: bool,
    /// The line of the file where the row begins, from 1.
    pub row: u64,
    /// The byte of the file where the row begins.
    pub offset: u64,
    /// The number of the clip in the row, from 1; 0 for the only one.
    pub number: u32,
}

/// One quarantined row.
#[derive(Debug, Clone, PartialEq)]
pub struct QuarantinedRow {
    pub row: u64,
    pub offset: u64,
    /// The number of the clip in the row, from 1; 0 for the only one.
    pub number: u32,
    /// The id, if the row has a readable one.
    pub id: Option<String>,
    pub problem: RowProblem,
}

/// The results of a reader: usable rows and rejects, each in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    pub records: Vec<RowRecord>,
    pub rejects: Vec<QuarantinedRow>,
    /// The columns of the table have no names, and no evidence for their order.
    pub are_columns_assumed: bool,
    /// The columns of the table, if none of them is the text.
    pub columns_without_text: Option<String>,
    /// The audio paths of rejected rows, as far as they are known.
    pub rejected_files: Vec<String>,
}

impl RowRecord {
    fn same_content(&self, other: &Self) -> bool {
        self.file == other.file
            && self.text == other.text
            && self.speaker == other.speaker
            && self.fields == other.fields
            && self.part == other.part
    }

    pub(super) fn reject(self, problem: RowProblem) -> QuarantinedRow {
        let RowRecord { row, offset, number, id, .. } = self;
        QuarantinedRow { row, offset, number, id: Some(id), problem }
    }
}

impl Rows {
    pub(super) fn push(&mut self, row: u64, offset: u64, result: Result<RowRecord, RowProblem>) {
        self.push_one_of((row, offset), 0, result);
    }

    /// Adds one of several clips of a row.
    pub(super) fn push_one_of(
        &mut self,
        (row, offset): (u64, u64),
        number: u32,
        result: Result<RowRecord, RowProblem>,
    ) {
        match result {
            Ok(record) => self.records.push(RowRecord { number, ..record }),
            Err(problem) => {
                self.rejects.push(QuarantinedRow { row, offset, number, id: None, problem });
            }
        }
    }

    /// Gives each clip its part of the file, and each of several parts of a file its name.
    pub(super) fn assign_parts(&mut self) {
        let has_place = self.records.iter().any(|record| record.times.has_place());
        let parts = |record: &RowRecord| record.times.part(has_place);
        self.judge(|records| records.iter().map(|record| parts(record).err()).collect());
        let mut files: HashMap<String, u32> = HashMap::new();
        for record in &mut self.records {
            // Others were rejected.
            record.part = record.times.part(has_place).unwrap_or_default();
            if record.part.is_some() {
                files.insert(record.file.clone(), 0);
            }
        }
        for record in &self.records {
            if let Some(count) = files.get_mut(&record.file) {
                *count += 1;
            }
        }
        for record in &mut self.records {
            let is_one_of_several = files.get(&record.file).is_some_and(|count| *count > 1);
            if let Some(part) = record.part.filter(|_| is_one_of_several && !record.has_id) {
                record.id += &part.name();
            }
        }
        self.judge(whole_recordings);
    }

    /// Quarantines the records that a function has a problem for.
    fn judge(&mut self, verdicts: impl Fn(&[RowRecord]) -> Vec<Option<RowProblem>>) {
        let verdicts = verdicts(&self.records);
        if verdicts.iter().all(Option::is_none) {
            return;
        }
        let records = std::mem::take(&mut self.records);
        for (record, verdict) in records.into_iter().zip(verdicts) {
            match verdict {
                None => self.records.push(record),
                Some(problem) => {
                    self.rejected_files.push(record.file.clone());
                    self.rejects.push(record.reject(problem));
                }
            }
        }
        self.rejects.sort_by_key(|reject| (reject.row, reject.offset, reject.number));
    }

    /// Quarantines every row with a repeated id.
    ///
    /// Exact repetitions of the first row lose nothing: the first stays. Different rows with the
    /// same id are all rejected, so that the result does not depend on their order.
    pub(super) fn reject_duplicates(&mut self) {
        self.judge(duplicates);
    }
}

fn duplicates(records: &[RowRecord]) -> Vec<Option<RowProblem>> {
    let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(records.len());
    let mut verdicts: Vec<Option<RowProblem>> = vec![None; records.len()];
    for (index, record) in records.iter().enumerate() {
        let first_index = *first_of.entry(&record.id).or_insert(index);
        if first_index == index {
            continue;
        }
        let first = &records[first_index];
        if record.same_content(first) {
            verdicts[index] = Some(RowProblem::Repeated { first: first.row });
            continue;
        }
        let clash =
            RowProblem::DuplicateId { id: record.id.clone(), first: first.row, second: record.row };
        verdicts[first_index].get_or_insert_with(|| clash.clone());
        verdicts[index] = Some(clash);
    }
    verdicts
}

/// Rows with ids of their own that are the whole of one recording, though another row has another
/// text or speaker for it: their parts have names that are not known here.
fn whole_recordings(records: &[RowRecord]) -> Vec<Option<RowProblem>> {
    let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(records.len());
    let mut verdicts: Vec<Option<RowProblem>> = vec![None; records.len()];
    for (index, record) in records.iter().enumerate() {
        let first_index = *first_of.entry(&record.file).or_insert(index);
        let first = &records[first_index];
        if record.id == first.id || (&record.text, &record.speaker) == (&first.text, &first.speaker)
        {
            continue;
        }
        for whole in [first_index, index].into_iter().filter(|at| records[*at].part.is_none()) {
            verdicts[whole].get_or_insert_with(|| RowProblem::SharedRecording {
                file: record.file.clone(),
                first: first.row,
                second: record.row,
            });
        }
    }
    verdicts
}
