//! Compares the estimate of a run with its measured cost.

use std::collections::BTreeMap;

use crate::figure::Figure;
use cache::{Cache, CacheError};
use serde::{Deserialize, Serialize};

use crate::record::{COST, decode, encode, run_key};

/// The number of runs with stored costs.
const KEPT: u64 = 200;

/// The measured and the estimated cost of a stage in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageOutcome {
    pub expected_seconds: Option<Figure>,
    pub seconds: f64,
    pub expected_bytes: Option<Figure>,
    pub bytes: f64,
}

/// The same for a whole run, over the stages that finished in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Without the stages of unknown time.
    pub expected_seconds: Figure,
    pub seconds: f64,
    pub stages: BTreeMap<String, StageOutcome>,
}

impl RunOutcome {
    pub fn read(cache: &Cache, run: u64) -> Result<Option<RunOutcome>, CacheError> {
        Ok(cache.get(COST, &run_key(run))?.and_then(|bytes| decode(&bytes)))
    }

    /// The expected time of the run, if that of every stage with work was known. Otherwise it says
    /// nothing about the whole run.
    pub fn expected(&self) -> Option<Figure> {
        let is_known = self.stages.values().all(|stage| stage.expected_seconds.is_some());
        is_known.then_some(self.expected_seconds)
    }

    /// Stores it, and removes that of the oldest run.
    pub fn keep(&self, cache: &Cache, run: u64) -> Result<(), CacheError> {
        cache.record(COST, &run_key(run), encode(self))?;
        match run.checked_sub(KEPT).filter(|old| *old > 0) {
            Some(old) => cache.forget(COST, &run_key(old)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Access;
    use cache::fs::MemoryFs;
    use std::sync::Arc;

    #[test]
    fn what_runs_of_long_ago_took_is_forgotten() {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        let outcome = RunOutcome { seconds: 2.0, ..RunOutcome::default() };
        outcome.keep(&cache, 1).unwrap();
        assert_eq!(RunOutcome::read(&cache, 1).unwrap(), Some(outcome.clone()));
        outcome.keep(&cache, KEPT + 1).unwrap();
        assert_eq!(RunOutcome::read(&cache, 1).unwrap(), None);
    }

    #[test]
    fn a_run_with_a_stage_of_unknown_time_has_no_expected_time() {
        let known = StageOutcome {
            expected_seconds: Some(Figure::exact(2.0)),
            seconds: 3.0,
            ..Default::default()
        };
        let unknown = StageOutcome { seconds: 50.0, ..StageOutcome::default() };
        let of = |stages: &[(&str, StageOutcome)]| RunOutcome {
            expected_seconds: Figure::exact(2.0),
            seconds: 53.0,
            stages: stages.iter().map(|(name, stage)| ((*name).to_owned(), *stage)).collect(),
        };
        assert_eq!(of(&[("a", known)]).expected(), Some(Figure::exact(2.0)));
        assert_eq!(of(&[("a", known), ("b", unknown)]).expected(), None);
    }
}
