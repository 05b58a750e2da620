//! A pipeline with a training stage, and facts about its runs.

use cache::fs::MemoryFs;
use engine::event::Event;
use engine::record::{CHECKPOINT, CheckpointRecord, decode};
use stage_core::Fields;

use crate::worlds::filled;
use crate::{Lab, Ran};

/// The number of steps of the training.
pub const STEPS: u64 = 6;

pub const MANIFEST: &str = r#"
[pipeline]
name = "voice"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.model]
use = "test.train"
input = "loud"
retries = 2
export = "out/model"
"#;

/// Never run.
pub fn lab() -> Lab {
    filled(Lab::new(), MANIFEST)
}

/// The same in memory.
pub fn lab_in(memory: &MemoryFs) -> Lab {
    filled(Lab::in_memory(memory), MANIFEST)
}

/// The model as it was exported.
pub fn weights(lab: &Lab) -> Vec<u8> {
    lab.exports().remove("model/weights").unwrap()
}

/// The steps that a run has done, in order.
pub fn steps(ran: &Ran) -> Vec<u64> {
    let step = |event: &Event| match event {
        Event::Metrics { step, .. } => Some(*step),
        _ => None,
    };
    ran.events.iter().filter_map(step).collect()
}

/// The checkpoints of the only training that has any, the newest first.
pub fn states(lab: &Lab) -> Vec<Fields> {
    let records = lab.cache().scan(CHECKPOINT).unwrap();
    let record: Option<CheckpointRecord> = records.first().and_then(|(_, bytes)| decode(bytes));
    record.map(|record| record.states).unwrap_or_default()
}

/// The step of the newest durable checkpoint.
pub fn checkpoint(lab: &Lab) -> u64 {
    states(lab).first().map_or(0, |state| state.number("step").unwrap() as u64)
}
