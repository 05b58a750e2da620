//! Sentences that a person asked for and that are missing at the end of a run. Everything else is
//! done, exports included; only then the run ends as failed.

use std::sync::Arc;

use crate::event::Event;
use stage_core::Reject;

use crate::engine::Sink;
use crate::pipeline::{Pipeline, StageId, StageSpec, Tolerance};
use crate::plan::{PlannedValue, StageKnowledge};

/// At most this many missing sentences of a stage are named.
const MAX_NAMED: usize = 10;

/// Reports the missing sentences of stages that are done. True if there are any. `failed`: the items
/// of a stage that failed without a verdict.
pub fn tell<'a>(
    pipeline: &Pipeline,
    stages: &'a [impl AsRef<StageKnowledge>],
    done: &[StageId],
    failed: impl Fn(StageId) -> &'a [(Arc<str>, Reject)],
    sink: Sink,
) -> bool {
    let mut any = false;
    for spec in done.iter().map(|id| pipeline.stage(*id)) {
        if spec.policy.quarantine != Tolerance::Each {
            continue;
        }
        let known = stages[spec.id.0].as_ref();
        let lost: Vec<_> = known.rejects.iter().chain(failed(spec.id)).collect();
        if lost.is_empty() {
            continue;
        }
        any = true;
        let output = spec.kind.outputs.first().and_then(|port| known.outputs.get(port.name));
        let kept = match output {
            Some(PlannedValue::Root { items, .. }) => *items,
            _ => 0,
        };
        let (message, help) = (message(&lost, kept), Some(help(spec, lost.len() as u64, kept)));
        sink(Event::StageFailed { stage: spec.name.clone(), message, help });
    }
    any
}

fn message(lost: &[&(Arc<str>, Reject)], kept: u64) -> String {
    let count = lost.len();
    let mut named: Vec<&str> = lost.iter().map(|(item, _)| &**item).collect();
    named.sort_unstable();
    let more = named.len().saturating_sub(MAX_NAMED);
    named.truncate(MAX_NAMED);
    let mut names = named.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    let first = lost.iter().min_by_key(|(item, _)| item);
    let reason = first.map_or("", |(_, reject)| reject.reason.as_str());
    let are = if count == 1 { "is" } else { "are" };
    format!(
        "{count} of {} sentences {are} missing, the others are done: {names}; `{}`: {reason}",
        kept + count as u64,
        named.first().unwrap_or(&""),
    )
}

fn help(spec: &StageSpec, lost: u64, kept: u64) -> String {
    let stage = &spec.name;
    let percent = (lost * 100).div_ceil(lost + kept);
    let seed = if spec.kind.parameter("seed").is_some() { ", another `seed`" } else { "" };
    format!(
        "`throstle items {stage} --quarantined` has all reasons; other words{seed} or more training \
         may help, and `quarantine = \"{percent}%\"` in `[stage.{stage}]` accepts the loss",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(count: usize) -> Vec<(Arc<str>, Reject)> {
        let reject = |at| (format!("s{at:02}").into(), Reject::new("silent", "was not spoken"));
        (0..count).rev().map(reject).collect()
    }

    #[test]
    fn missing_sentences_are_named_in_order() {
        let all = lost(2);
        let told = message(&all.iter().collect::<Vec<_>>(), 3);
        let expected = "2 of 5 sentences are missing, the others are done: `s00`, `s01`; `s00`: was not spoken";
        assert_eq!(told, expected);
        let all = lost(12);
        let told = message(&all.iter().collect::<Vec<_>>(), 1);
        assert!(told.contains("`s09` and 2 more; `s00`: was not spoken"), "{told}");
    }
}
