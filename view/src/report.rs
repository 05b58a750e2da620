//! One page about a run: reasons, data, training, samples, cost, and provenance. All of it is read
//! from the cache; nothing is computed anew, and the same cache gives the same page.
//!
//! The page is one file that needs no network. Its size is bounded for any data set: charts count
//! values, tables are cut, the list of clips has at most 20,000, and recordings are included up to
//! a limit, samples first.

mod audio;
mod chart;
mod clips;
mod compared;
mod cost;
pub mod figures;
mod gain;
mod overlay;
mod page;
mod provenance;
mod quarantine;
mod rated;
mod recordings;
mod regression;
mod run_data;
mod runs;
mod samples;
mod sheet;
pub mod training;
mod view;

use engine::pipeline::Pipeline;
use engine::store::{ReadError, Store};

use audio::{PageAudio, ROOM};
pub use page::STYLE;
use run_data::RunData;
pub use runs::PageRuns;
pub use sheet::Sheet;

/// A finished page.
pub struct Report {
    pub html: String,
    /// The number of recordings on the page, and of those that did not fit.
    pub recordings: usize,
    pub left_out: usize,
}

/// The contents of the page.
struct PageContents<'a> {
    seen: &'a RunData<'a>,
    corpora: Vec<clips::Corpus>,
    timelines: Vec<recordings::Timelines>,
    aside: Vec<quarantine::QuarantinedItem<'a>>,
    trainings: Vec<overlay::Group>,
    runs: runs::Runs,
    grids: Vec<samples::Grid>,
    findings: Vec<regression::Finding>,
    comparisons: Vec<gain::GainTable>,
    ratings: Vec<rated::Test>,
    cost: cost::Cost,
    provenance: provenance::Provenance,
}

impl Report {
    /// The page of a run of a pipeline, with others beside it.
    pub fn of(pipeline: &Pipeline, store: &Store, chosen: PageRuns) -> Result<Report, ReadError> {
        let seen = RunData::look(pipeline, store, chosen.run.clone())?;
        let found = PageContents {
            corpora: clips::corpora(&seen)?,
            timelines: recordings::timelines(&seen)?,
            aside: quarantine::quarantined(&seen)?,
            trainings: overlay::groups(&seen, &chosen)?,
            runs: runs::Runs::of(store, &chosen.all)?,
            grids: samples::grids(&seen)?,
            findings: regression::findings(&seen)?,
            comparisons: gain::comparisons(&seen)?,
            ratings: rated::tests(&seen)?,
            cost: cost::Cost::of(&seen).map_err(ReadError::Cache)?,
            provenance: provenance::Provenance::of(&seen),
            seen: &seen,
        };
        let mut page_audio = PageAudio::new(store, ROOM);
        let html = page::render(&found, &mut page_audio);
        Ok(Report {
            html,
            recordings: page_audio.recordings().len(),
            left_out: page_audio.left_out,
        })
    }
}
