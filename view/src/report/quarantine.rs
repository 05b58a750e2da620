//! The quarantined items, with their reasons.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::pipeline::StageSpec;
use engine::store::ReadError;
use stage_core::{Blob, Item, Reject};

use super::audio::{AudioLookup, PageAudio};
use super::run_data::{AUDIO, RunData, StageData};

/// An item that a stage has quarantined.
pub struct QuarantinedItem<'a> {
    pub stage: &'a str,
    pub item: &'a str,
    pub reject: &'a Reject,
    /// True when the stage failed.
    pub is_fatal: bool,
    pub text: Option<Arc<str>>,
    audio: Option<Arc<Blob>>,
}

/// All of them, by the stages in their order.
pub fn quarantined<'a>(seen: &'a RunData) -> Result<Vec<QuarantinedItem<'a>>, ReadError> {
    let mut all = Vec::new();
    for stage in &seen.stages {
        let rejects = stage.rejects();
        if !rejects.is_empty() {
            let arrived = arrived(seen, stage.spec)?;
            all.extend(rejects.iter().map(|reject| QuarantinedItem::of(stage, reject, &arrived)));
        }
    }
    Ok(all)
}

/// The number of items per reason, the most frequent first.
pub fn codes<'a>(all: &[QuarantinedItem<'a>]) -> Vec<(&'a str, usize)> {
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for aside in all {
        *codes.entry(&aside.reject.code).or_default() += 1;
    }
    let mut codes: Vec<(&str, usize)> = codes.into_iter().collect();
    codes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    codes
}

/// The items as they arrived at the stage, which also has those that it quarantined.
fn arrived(seen: &RunData, spec: &StageSpec) -> Result<BTreeMap<Arc<str>, Item>, ReadError> {
    let mut arrived = BTreeMap::new();
    for (above, port) in seen.items_of(spec) {
        arrived.extend(seen.by_id(above, port)?);
    }
    Ok(arrived)
}

impl<'a> QuarantinedItem<'a> {
    fn of(
        stage: &'a StageData,
        (item, reject): &'a (Arc<str>, Reject),
        arrived: &BTreeMap<Arc<str>, Item>,
    ) -> QuarantinedItem<'a> {
        let fields = arrived.get(item).map(|item| &item.fields);
        QuarantinedItem {
            stage: &stage.spec.name,
            item,
            reject,
            is_fatal: stage.failed_with_items(),
            text: fields.and_then(|fields| fields.text("text")).map(Arc::from),
            audio: fields.and_then(|fields| fields.blob(AUDIO)).cloned(),
        }
    }

    pub fn hear(&self, page_audio: &mut PageAudio) -> Option<AudioLookup> {
        self.audio.as_ref().map(|blob| page_audio.hear(blob))
    }
}
