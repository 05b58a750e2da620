//! The figures of an outcome.

use std::collections::BTreeMap;

use cache::Digest;
use engine::record::{PortValue, StageRecord};
use engine::store::{ReadError, Store};

use super::training::TrainingResult;

/// The end of trainings, numbers of artifacts, and means over the items of data sets; only of the
/// wanted outputs.
pub fn figures(
    store: &Store,
    outcome: &StageRecord,
    is_wanted: &dyn Fn(&PortValue) -> bool,
) -> Result<BTreeMap<String, f64>, ReadError> {
    let mut measures = BTreeMap::new();
    if let Some(ended) = TrainingResult::read(store, outcome)? {
        measures.extend(ended.figures());
    }
    for value in outcome.outputs.values().filter(|value| is_wanted(value)) {
        match value {
            PortValue::Artifact(fields) => measures.extend(
                fields
                    .iter()
                    .filter_map(|(name, value)| Some((name.to_string(), value.as_number()?))),
            ),
            PortValue::Dataset { root, .. } => measures.extend(means(store, root)?),
        }
    }
    Ok(measures)
}

fn means(store: &Store, root: &Digest) -> Result<BTreeMap<String, f64>, ReadError> {
    let items = match store.items(root) {
        Err(ReadError::Lost(_)) => return Ok(BTreeMap::new()),
        other => other?,
    };
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (name, value) in items.iter().flat_map(|item| item.fields.iter()) {
        if let Some(number) = value.as_number().filter(|number| number.is_finite()) {
            let sum = sums.entry(name.to_string()).or_default();
            *sum = (sum.0 + number, sum.1 + 1.0);
        }
    }
    let mean = |(name, (sum, count))| (format!("mean of `{name}`"), sum / count);
    Ok(sums.into_iter().map(mean).collect())
}
