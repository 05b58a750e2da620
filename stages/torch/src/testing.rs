//! The replacement of an engine for tests of stages.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use cache::Digest;
use camino::Utf8PathBuf;
use stage_core::course::Course;
use stage_core::{Blob, Context, Fields, Item, NewValue, Output, Reject, StageError, Value};

use crate::sound::wave;

/// Keeps blobs in memory and records reports.
#[derive(Default)]
pub struct Bench {
    blobs: HashMap<Digest, Bytes>,
    memos: HashMap<Digest, Fields>,
    pub progress: Vec<(u64, u64)>,
    pub reads: usize,
    /// All checkpoints, the newest last.
    pub checkpoints: Vec<Fields>,
    /// The progress of each checkpoint.
    pub saved_at: Vec<(u64, u64)>,
    /// The parent that training continues from.
    pub parent: Option<Fields>,
    /// The courses that trainings have reported.
    pub courses: Vec<Course>,
    /// By step, in the order of the reports.
    pub metrics: Vec<(u64, BTreeMap<String, f64>)>,
    /// Requests a stop after this number of questions.
    pub stop_after: Option<usize>,
    /// Quarantined items, by port and position.
    pub aside: Vec<(String, usize, Reject)>,
    /// Nothing may be quarantined.
    pub allows_none: bool,
    scratch: Option<tempfile::TempDir>,
}

impl Bench {
    pub fn keep(&mut self, kind: &str, bytes: &[u8]) -> Blob {
        let digest = Digest::of(bytes);
        self.blobs.insert(digest, Bytes::copy_from_slice(bytes));
        Blob { digest, size: bytes.len() as u64, kind: kind.into() }
    }

    /// Stores outputs as fields, as the engine does.
    pub fn keep_all(&mut self, output: Output) -> Fields {
        let values = output.values.into_iter().map(|(name, value)| {
            let value = match value {
                NewValue::Text(text) => Value::text(text),
                NewValue::Number(number) => Value::Number(number),
                NewValue::Bytes { kind, bytes } => Value::Blob(self.keep(&kind, &bytes).into()),
                NewValue::Kept(value) => value,
            };
            (name, value)
        });
        values.collect()
    }

    pub fn item(&mut self, number: usize, field: &str, kind: &str, bytes: &[u8]) -> Item {
        let blob = self.keep(kind, bytes);
        let fields: Fields = [(field, Value::Blob(blob.into()))].into_iter().collect();
        Item::new(format!("clip{number:03}"), fields)
    }
}

/// An item with audio.
pub fn wave_item(bench: &mut Bench, number: usize, rate: u32, samples: &[f32]) -> Item {
    let bytes = wave::write(rate, samples).unwrap_or_default();
    bench.item(number, "audio", wave::KIND, &bytes)
}

impl Context for Bench {
    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
        self.reads += 1;
        let bytes = self.blobs.get(&blob.digest).cloned();
        bytes.ok_or_else(|| StageError::failed("no such blob"))
    }

    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
        Ok(self.memos.get(key).cloned())
    }

    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError> {
        let fields = self.keep_all(output);
        self.memos.insert(*key, fields.clone());
        Ok(fields)
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
        Ok(Bench::keep(self, kind, &bytes))
    }

    fn checkpoint(&mut self, state: Output) -> Result<Fields, StageError> {
        let state = self.keep_all(state);
        self.checkpoints.push(state.clone());
        self.saved_at.extend(self.progress.last());
        Ok(state)
    }

    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError> {
        Ok(self.checkpoints.last().cloned())
    }

    fn parent(&mut self) -> Result<Option<Fields>, StageError> {
        Ok(self.parent.clone())
    }

    fn set_aside(&mut self, port: &str, rejects: Vec<(usize, Reject)>) -> Result<(), StageError> {
        let rejects = rejects.into_iter();
        self.aside.extend(rejects.map(|(place, reject)| (port.to_owned(), place, reject)));
        if self.allows_none && !self.aside.is_empty() {
            Err(StageError::failed("none may be set aside"))
        } else {
            Ok(())
        }
    }

    fn begins(&mut self, course: &Course) {
        self.courses.push(course.clone());
    }

    fn metrics(&mut self, step: u64, values: &[(&str, f64)]) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.metrics.push((step, values));
    }

    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        let made = tempfile::tempdir().map_err(|error| StageError::failed(error.to_string()))?;
        let folder = self.scratch.get_or_insert(made).path().to_owned();
        Utf8PathBuf::from_path_buf(folder)
            .map_err(|path| StageError::failed(format!("`{}` is not UTF-8", path.display())))
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.progress.push((done, total));
    }

    fn stopping(&mut self) -> bool {
        match &mut self.stop_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}
