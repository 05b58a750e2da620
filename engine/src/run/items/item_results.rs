//! The share of the threads in the bookkeeping of items: they claim the items of a task, take over
//! known outcomes, record new ones, and prepare the outputs for the stages below.

use cache::{CacheError, Claim, Digest};
use stage_core::{Item, StageError};

use super::batch::BatchSize;
use super::intake::Route;
use super::queue::QueuedItem;
use super::results::{ItemEnd, ItemResult, ItemResults};
use crate::record::{ITEM, ItemRecord, encode};
use crate::run::context::EngineContext;
use crate::run::message::{Failure, ItemOutcome, ItemTask, Outcome};
use crate::run::shared::SharedState;
use crate::store::Store;

/// The size of what was executed of a task with these items.
pub fn batch(results: &ItemResults, items: &[QueuedItem]) -> BatchSize {
    let is_executed = |result: &ItemResult| matches!(result.end, ItemEnd::Executed(_));
    let mut batch = BatchSize::default();
    for (queued, _) in items.iter().zip(&results.each).filter(|(_, result)| is_executed(result)) {
        batch.items += 1;
        batch.bytes += queued.weight;
    }
    batch
}

impl ItemResult {
    fn elsewhere() -> ItemResult {
        ItemResult { end: ItemEnd::Elsewhere, delivery: None }
    }

    fn known(record: ItemRecord, queued: &QueuedItem, route: &Route) -> ItemResult {
        let delivery = match &record {
            ItemRecord::Done { fields, .. } => Some(route.pass(queued, fields)),
            ItemRecord::Rejected(_) => None,
        };
        ItemResult { end: ItemEnd::Known(record), delivery }
    }

    fn executed(outcome: ItemOutcome, queued: &QueuedItem, route: &Route) -> ItemResult {
        let delivery = match &outcome {
            ItemOutcome::Done { fields, .. } => Some(route.pass(queued, fields)),
            ItemOutcome::Rejected(_) | ItemOutcome::Failed(_) => None,
        };
        ItemResult { end: ItemEnd::Executed(outcome), delivery }
    }
}

/// Records the successful outcomes of items, and prepares their outputs.
pub fn keep<'a>(
    store: &Store,
    route: &Route,
    outcomes: impl Iterator<Item = (&'a QueuedItem, ItemOutcome)>,
) -> Result<Vec<ItemResult>, CacheError> {
    let (mut results, mut records) = (Vec::new(), Vec::new());
    for (queued, outcome) in outcomes {
        let outcome = match outcome {
            ItemOutcome::Done { fields, notes, seconds, bytes } => {
                let record = ItemRecord::Done { fields, notes, seconds };
                records.push((queued.key, encode(&record)));
                ItemOutcome::of(record, bytes)
            }
            other => other,
        };
        results.push(ItemResult::executed(outcome, queued, route));
    }
    store.cache().record_all(ITEM, records)?;
    Ok(results)
}

impl ItemTask {
    /// Items with only the fields that the stage reads.
    fn given<'a>(&self, items: impl Iterator<Item = &'a QueuedItem>) -> Vec<Item> {
        items.map(|queued| self.intake.reads.see(&queued.item).to_item()).collect()
    }
}

impl SharedState {
    /// Works on a task of items. `process` returns one outcome for each of the given items.
    pub fn run_items(
        &self,
        task: ItemTask,
        mut context: EngineContext,
        process: impl FnOnce(&[Item], &mut EngineContext) -> Vec<ItemOutcome>,
    ) {
        let outcome = match (self.is_late(task.ticket), &task.route) {
            (true, _) => {
                let stopped = ItemOutcome::Failed(Failure::Stage(StageError::Stopped));
                Outcome::Items(vec![stopped; task.items.len()])
            }
            (false, None) => Outcome::Items(process(&task.given(task.items.iter()), &mut context)),
            (false, Some(route)) => {
                let process = |given: &[Item]| process(given, &mut context);
                Outcome::Results(self.results(&task, route, process))
            }
        };
        // The schedule takes the items over.
        drop(task);
        self.done(outcome, context);
    }

    fn results(
        &self,
        task: &ItemTask,
        route: &Route,
        process: impl FnOnce(&[Item]) -> Vec<ItemOutcome>,
    ) -> Result<ItemResults, CacheError> {
        let claims = task.items.iter().map(|queued| self.store.cache().claim(&queued.key));
        let claims: Vec<Option<Claim>> = claims.collect::<Result<_, _>>()?;
        // Looked up after claiming, so that commits of others are seen.
        let keys: Vec<Digest> = task.items.iter().map(|queued| queued.key).collect();
        let known = self.store.known_items(&keys)?;
        let (mut todo, mut held) = (Vec::new(), Vec::new());
        let mut each: Vec<Option<ItemResult>> = Vec::with_capacity(task.items.len());
        for ((queued, claim), known) in task.items.iter().zip(claims).zip(known) {
            each.push(match (known, claim) {
                (Some(record), _) => Some(ItemResult::known(record, queued, route)),
                (None, None) => Some(ItemResult::elsewhere()),
                (None, Some(claim)) => {
                    todo.push(queued);
                    held.push(claim);
                    None
                }
            });
        }
        if !todo.is_empty() {
            let outcomes = process(&task.given(todo.iter().copied()));
            let executed = keep(&self.store, route, todo.into_iter().zip(outcomes))?;
            let open = each.iter_mut().filter(|result| result.is_none());
            open.zip(executed).for_each(|(open, result)| *open = Some(result));
        }
        Ok(ItemResults { each: each.into_iter().flatten().collect(), claims: held })
    }
}

#[cfg(test)]
mod tests {
    use stage_core::{Fields, Reject};

    use super::*;

    fn results(each: impl IntoIterator<Item = ItemEnd>) -> ItemResults {
        let result = |end| ItemResult { end, delivery: None };
        ItemResults { each: each.into_iter().map(result).collect(), claims: Vec::new() }
    }

    fn done(seconds: f32) -> ItemEnd {
        let (fields, notes) = (Fields::new(), Vec::new());
        ItemEnd::Executed(ItemOutcome::Done { fields, notes, seconds, bytes: 0 })
    }

    #[test]
    fn the_time_of_a_task_beside_its_stage_is_shared_by_what_it_executed() {
        let task = results([done(0.25), ItemEnd::Elsewhere, done(0.5)]);
        assert_eq!(task.handling(1.0), 0.125);
        assert_eq!(task.handling(0.5), 0.0, "a clock that is less exact");
        let rejected = ItemEnd::Executed(ItemOutcome::Rejected(Reject::new("bad", "is bad")));
        assert_eq!(results([done(0.25), rejected]).handling(1.0), 0.0);
        assert_eq!(results([ItemEnd::Elsewhere]).handling(1.0), 0.0);
    }
}
