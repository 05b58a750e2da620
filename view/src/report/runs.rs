//! The runs of a pipeline beside each other, with their settings and results.

use std::collections::BTreeMap;

use cache::Digest;
use engine::event::Status;
use engine::history;
use engine::record::{PortValue, RunRecord};
use engine::store::{ReadError, Store};

use super::compared::{ComparedColumns, ComparedRow};
use super::figures::figures;

/// Runs that are listed where none are chosen.
const LISTED: usize = 10;
/// Larger data sets are not read for their means.
const MOST_ITEMS: u64 = 2_000;

/// The runs that a page shows.
pub struct PageRuns {
    /// The one that the page is about.
    pub run: RunRecord,
    /// All that stand beside each other, that one too, by number.
    pub all: Vec<RunRecord>,
    /// Their curves are drawn in the same charts.
    pub is_overlaid: bool,
}

impl PageRuns {
    /// One run beside the last ones before it that executed something.
    pub fn one(run: RunRecord, runs: Vec<RunRecord>) -> PageRuns {
        let own = |other: &RunRecord| other.pipeline == run.pipeline && other.run < run.run;
        let worked = |run: &RunRecord| run.stages.values().any(|counts| counts.executed > 0);
        let mut all: Vec<RunRecord> =
            runs.into_iter().filter(|other| own(other) && worked(other)).collect();
        all.drain(..all.len().saturating_sub(LISTED - 1));
        all.push(run.clone());
        PageRuns { run, all, is_overlaid: false }
    }

    /// Several runs; the page is about the last of them. `None` where there are none.
    pub fn several(mut runs: Vec<RunRecord>) -> Option<PageRuns> {
        runs.sort_by_key(|run| run.run);
        runs.dedup_by_key(|run| run.run);
        let run = runs.last()?.clone();
        let is_overlaid = runs.len() > 1;
        Some(PageRuns { run, all: runs, is_overlaid })
    }
}

pub struct Run {
    pub number: u64,
    pub started: i64,
    pub seconds: f64,
    pub status: Status,
    pub executed: u64,
}

/// Runs, and the columns in which they differ.
pub struct Runs {
    pub runs: Vec<Run>,
    pub compared: ComparedColumns,
}

impl Runs {
    pub fn of(store: &Store, all: &[RunRecord]) -> Result<Runs, ReadError> {
        let mut known: BTreeMap<Digest, ComparedRow> = BTreeMap::new();
        let mut rows = Vec::new();
        for run in all {
            let mut row = ComparedRow::default();
            for (stage, key) in &run.keys {
                if !known.contains_key(key) {
                    known.insert(*key, read(store, key)?);
                }
                let Some(own) = known.get(key) else { continue };
                let named = |name: &String| format!("{stage}.{name}");
                row.parameters.extend(own.parameters.iter().map(|(n, v)| (named(n), v.clone())));
                let figures = own.figures.iter();
                row.figures.extend(figures.map(|(n, v)| (format!("{stage}: {n}"), *v)));
            }
            rows.push(row);
        }
        let run = |run: &RunRecord| Run {
            number: run.run,
            started: run.started,
            seconds: run.seconds,
            status: run.status,
            executed: run.stages.values().map(|counts| counts.executed).sum(),
        };
        Ok(Runs { runs: all.iter().map(run).collect(), compared: ComparedColumns::of(&rows) })
    }
}

/// The parameters of a key, and the figures of its outcome.
fn read(store: &Store, key: &Digest) -> Result<ComparedRow, ReadError> {
    let cache = store.cache();
    let mut row = ComparedRow { parameters: parameters(store, key)?, ..ComparedRow::default() };
    if let Some(outcome) = history::outcome_of(cache, key).map_err(ReadError::Cache)? {
        let is_small = |value: &PortValue| match value {
            PortValue::Dataset { items, .. } => *items <= MOST_ITEMS,
            PortValue::Artifact(_) => true,
        };
        row.figures = figures(store, &outcome, &is_small)?;
    }
    Ok(row)
}

/// The content parameters that a key was made of, as a manifest has them.
pub fn parameters(store: &Store, key: &Digest) -> Result<BTreeMap<String, String>, ReadError> {
    let made_of = history::made_of(store.cache(), key).map_err(ReadError::Cache)?;
    let Some((key, _)) = made_of else { return Ok(BTreeMap::new()) };
    let parameters = key.parameters.0.iter();
    Ok(parameters.map(|(name, value)| (name.to_string(), value.to_string())).collect())
}
