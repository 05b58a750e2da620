//! One page about a run: reasons, data, training, samples, cost, and provenance. All of it is read
//! from the cache; nothing is computed anew, and the same cache gives the same page.
//!
//! The page is one file that needs no network. It stays small for any data set: charts count
//! values, tables are cut, and recordings are included up to a limit, samples first.

mod audio;
mod chart;
mod clips;
mod cost;
mod page;
mod provenance;
mod quarantine;
mod regression;
mod samples;
mod seen;
pub mod training;
mod view;

use crate::pipeline::Pipeline;
use crate::record::RunRecord;
use crate::store::{ReadError, Store};

use audio::{Album, ROOM};
use seen::Seen;

/// A finished page.
pub struct Report {
    pub html: String,
    /// The number of recordings on the page, and of those that did not fit.
    pub recordings: usize,
    pub left_out: usize,
}

/// The contents of the page.
struct Found<'a> {
    seen: &'a Seen<'a>,
    corpora: Vec<clips::Corpus>,
    aside: Vec<quarantine::Aside<'a>>,
    trainings: Vec<training::Training>,
    grids: Vec<samples::Grid>,
    findings: Vec<regression::Finding>,
    cost: cost::Cost,
    provenance: provenance::Provenance,
}

impl Report {
    /// The page of a run of a pipeline.
    pub fn of(pipeline: &Pipeline, store: &Store, run: RunRecord) -> Result<Report, ReadError> {
        let seen = Seen::look(pipeline, store, run)?;
        let found = Found {
            corpora: clips::corpora(&seen)?,
            aside: quarantine::aside(&seen)?,
            trainings: training::trainings(&seen)?,
            grids: samples::grids(&seen)?,
            findings: regression::findings(&seen)?,
            cost: cost::Cost::of(&seen).map_err(ReadError::Cache)?,
            provenance: provenance::Provenance::of(&seen),
            seen: &seen,
        };
        let mut album = Album::new(store, ROOM);
        let html = page::render(&found, &mut album);
        Ok(Report { html, recordings: album.recordings().len(), left_out: album.left_out })
    }
}
