//! One page that shows a run: what ran and why, the data, training, samples, cost, and where
//! everything came from. All of it is read from the cache; nothing is computed anew, and the same
//! cache gives the same page.
//!
//! The page is one file without a network. It stays small whatever the data set: charts count
//! values, tables are cut, and recordings go in as long as there is room, samples first.

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
    /// How many recordings the page plays, and for how many there was no room.
    pub recordings: usize,
    pub left_out: usize,
}

/// What the page shows, as it was found.
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
