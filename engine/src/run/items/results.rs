//! The results of a task over items, as threads hand them to the schedule.

use cache::Claim;

use super::intake::Delivery;
use crate::record::ItemRecord;
use crate::run::message::ItemOutcome;

/// The end of an item in a task.
pub enum ItemEnd {
    /// Its outcome existed already.
    Known(ItemRecord),
    /// Another process works on it.
    Elsewhere,
    /// A successful outcome is recorded; all others are left to the schedule.
    Executed(ItemOutcome),
}

/// The end of an item, and its output for the stages below, if it has one.
pub struct ItemResult {
    pub end: ItemEnd,
    pub delivery: Option<Delivery>,
}

/// The results of a task in the order of its items.
pub struct ItemResults {
    pub each: Vec<ItemResult>,
    /// They are kept until the recorded outcomes are durable.
    pub claims: Vec<Claim>,
}

impl ItemResults {
    /// The outcomes of the items that nothing was known of.
    pub fn executed(&self) -> impl Iterator<Item = &ItemOutcome> {
        self.each.iter().filter_map(|result| match &result.end {
            ItemEnd::Executed(outcome) => Some(outcome),
            ItemEnd::Known(_) | ItemEnd::Elsewhere => None,
        })
    }

    /// The seconds that an item of a task took beside its stage: to look it up, and to store, record
    /// and prepare what the stage has made. 0 if the time of the stage is not known for all.
    pub fn handling(&self, took: f64) -> f64 {
        let seconds = self.executed().map(|outcome| match outcome {
            ItemOutcome::Done { seconds, .. } => Some(f64::from(*seconds)),
            ItemOutcome::Rejected(_) | ItemOutcome::Failed(_) => None,
        });
        match seconds.collect::<Option<Vec<f64>>>() {
            Some(own) if !own.is_empty() => {
                (took - own.iter().sum::<f64>()).max(0.0) / own.len() as f64
            }
            _ => 0.0,
        }
    }
}
