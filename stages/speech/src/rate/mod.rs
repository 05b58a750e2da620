//! Listening tests: the pairs of a blind test, the order in which a rater hears
//! them, the file of their votes, and the resulting ranks.
//!
//! The program that plays the pairs decides what a rater sees and hears.

pub mod kinds;
mod loudness;
mod pairs;
mod ranks;
mod rater_checks;
mod report;
mod result;
pub mod sheet;
mod source;
pub mod votes;

use std::sync::Arc;

use stage_core::Stage;

use crate::plain::stage;
pub(crate) use report::RatingReport;

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::PAIRS, pairs::open),
        stage(&kinds::VOTES, source::open),
        stage(&kinds::RESULT, result::open),
    ]
}
