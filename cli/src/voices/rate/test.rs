//! A listening test: its pairs, their order for a rater, and their recordings.

use std::sync::Arc;

use engine::pipeline::StageSpec;
use engine::store::Store;
use stage_core::{Blob, Item};
use stage_speech::rate::sheet::{Pair, Rules, Sheet, Trial};

use crate::error::CliError;

/// The pairs of a stage.
pub struct Test {
    pub stage: String,
    pub pairs: Vec<Pair>,
    /// The text of each pair.
    pub texts: Vec<String>,
    pub sheet: Sheet,
    pub tie: bool,
}

impl Test {
    /// The test of a stage `rate.pairs` with these items.
    pub fn of(spec: &StageSpec, items: &[Item]) -> Result<Test, CliError> {
        let damaged = |why: String| CliError::failed(why, "run the stage again");
        let rules = Rules::read(&spec.parameters).map_err(|error| damaged(error.to_string()))?;
        let pairs: Option<Vec<Pair>> = items.iter().map(Pair::of).collect();
        let pairs = pairs.ok_or_else(|| damaged("cannot read the pairs".to_owned()))?;
        let text = |item: &Item| item.fields.text("text").unwrap_or_default().to_owned();
        let (tie, sheet) = (rules.tie, Sheet::new(&pairs, rules));
        let texts = items.iter().map(text).collect();
        Ok(Test { stage: spec.name.clone(), pairs, texts, sheet, tie })
    }

    pub fn has(&self, pair: &str) -> bool {
        self.pairs.iter().any(|own| own.id == pair)
    }
}

/// The recordings of the pairs, by their positions.
pub struct Recordings {
    blobs: Vec<[Option<Arc<Blob>>; 2]>,
    store: Store,
}

impl Recordings {
    pub fn of(items: &[Item], store: Store) -> Recordings {
        let blobs =
            |item: &Item| ["one_audio", "other_audio"].map(|name| item.fields.blob(name).cloned());
        Recordings { blobs: items.iter().map(blobs).collect(), store }
    }

    /// The recordings on the left and on the right of a trial.
    pub fn blobs(&self, trial: Trial) -> Option<[Arc<Blob>; 2]> {
        let [one, other] = self.blobs.get(trial.pair)?.clone();
        let (one, other) = (one?, other?);
        Some(if trial.swapped { [other, one] } else { [one, other] })
    }

    pub fn read(&self, blob: &Blob) -> Result<Vec<u8>, String> {
        match self.store.read(&blob.digest) {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(error.to_string()),
        }
    }
}
