//! Speakers and reference clips, compared by sentences that a model speaks with them.

mod audition;
mod choose;
pub mod kinds;

use std::sync::Arc;

use stage_core::Stage;

use crate::plain::stage;

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::AUDITION, audition::open), stage(&kinds::CHOOSE, choose::open)]
}
