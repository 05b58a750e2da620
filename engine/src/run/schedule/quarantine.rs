//! Quarantines items, unless the user's program is to blame.

use crate::event::Event;
use stage_core::{Reject, StageError, Verdicts};

use super::Schedule;
use crate::engine::EngineError;
use crate::pipeline::StageId;
use crate::record::{ITEM, ItemRecord, encode};
use crate::run::items::item_stage::Slot;
use crate::run::items::program_check::{CheckResult, QuarantinedItem};
use crate::run::items::queue::QueuedItem;

impl Schedule<'_> {
    /// Quarantines an item, unless the program is to blame.
    pub(super) fn judge(&mut self, id: StageId, item: QuarantinedItem) -> Result<(), EngineError> {
        self.board[id].counts.executed += 1;
        let judged = match self.board[id].items_mut() {
            Some(stage) => match &mut stage.program_check {
                Some(check) => check.judge(item),
                None => CheckResult::Trusted(vec![item]),
            },
            // The program may be to blame for results after its failure as for those before it.
            None if self.run.stage(id).kind.verdicts != Verdicts::Own => {
                self.free_duplicates(&item.queued);
                return Ok(());
            }
            None => CheckResult::Trusted(vec![item]),
        };
        match judged {
            CheckResult::Held => Ok(()),
            CheckResult::Broken => self.fail_broken(id),
            CheckResult::Trusted(held) => self.settle_held(id, held),
        }
    }

    /// An item succeeded: the program works, and earlier failures are those of the items.
    pub(super) fn trust(&mut self, id: StageId) -> Result<(), EngineError> {
        let stage = self.board[id].items_mut();
        match stage.and_then(|stage| stage.program_check.take()) {
            Some(check) => self.settle_held(id, check.held),
            None => Ok(()),
        }
    }

    /// No more items come: too few failed to blame the program. True if there were any.
    pub(super) fn trust_all(&mut self) -> Result<bool, EngineError> {
        let mut any = false;
        for id in self.run.pipeline.ids() {
            let check = self.board[id].items().and_then(|stage| stage.program_check.as_ref());
            any |= check.is_some_and(|check| !check.held.is_empty());
            self.trust(id)?;
        }
        Ok(any)
    }

    fn settle_held(&mut self, id: StageId, held: Vec<QuarantinedItem>) -> Result<(), EngineError> {
        if let Some(stage) = self.board[id].items_mut() {
            stage.program_check = None;
        }
        held.into_iter().try_for_each(|QuarantinedItem { queued, reject, is_verdict }| {
            if is_verdict {
                self.keep_verdict(id, queued, reject)
            } else {
                self.item_fails(id, queued, reject)
            }
        })
    }

    fn fail_broken(&mut self, id: StageId) -> Result<(), EngineError> {
        let stage = self.board[id].items_mut();
        let Some(check) = stage.and_then(|stage| stage.program_check.take()) else { return Ok(()) };
        self.fail_for_now(id, &check.error())?;
        check.held.iter().for_each(|item| self.free_duplicates(&item.queued));
        Ok(())
    }

    /// Records a verdict and passes it on.
    fn keep_verdict(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        reject: Reject,
    ) -> Result<(), EngineError> {
        let record = ItemRecord::Rejected(reject);
        self.committer.record(ITEM, &queued.key, encode(&record))?;
        self.apply_to_all(id, queued, record, None)
    }

    /// The item is quarantined for this run only; too many of them fail the stage.
    fn item_fails(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        reject: Reject,
    ) -> Result<(), EngineError> {
        self.tell_quarantined(id, &queued.item.id, &reject);
        self.decide(id, &queued, Slot::Failed(reject.clone()))?;
        let Some(stage) = self.board[id].items() else { return Ok(()) };
        let aside = stage.failures.len() + stage.rejects.len();
        let limit = self.run.stage(id).policy.quarantine;
        if limit.is_exceeded(aside as u64, stage.total) && !stage.is_late {
            let aside = [&stage.rejects[..], &stage.failures[..]].concat();
            self.keep_unrecorded(id, aside)?;
            let error = StageError::with_help(
                format!("item `{}`: {}", queued.item.id, reject.reason),
                "the next run tries these items again",
            );
            self.fail_for_now(id, &error)?;
        }
        Ok(())
    }

    pub(super) fn tell_quarantined(&mut self, id: StageId, item: &str, reject: &Reject) {
        self.board[id].counts.quarantined += 1;
        self.tell(Event::ItemQuarantined {
            stage: self.name(id),
            item: item.to_owned(),
            code: reject.code.clone(),
            reason: reject.reason.clone(),
        });
    }
}
