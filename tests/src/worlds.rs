//! Worlds in memory for the tests that cut the power, fail calls and flip bits.

use std::sync::Arc;
use std::time::Duration;

use cache::fs::{FaultFs, Fs, MemoryFs};
use engine::engine::RunOptions;
use engine::event::Status;

use crate::{Lab, MANIFEST};

pub const TEXTS: [(&str, &str); 6] = [
    ("anna1", "hello"),
    ("anna2", "good day"),
    ("anna3", "good evening"),
    ("ben1", "moin"),
    ("ben2", "servus"),
    ("cleo1", "salut"),
];

/// Makes finished work durable immediately, so that there is something to cut.
pub fn eager() -> RunOptions {
    RunOptions { commit_every: Some(Duration::ZERO), ..RunOptions::default() }
}

/// The small pipeline with six texts, never run.
pub fn fresh() -> MemoryFs {
    fresh_with(MANIFEST)
}

pub fn fresh_with(manifest: &str) -> MemoryFs {
    let memory = MemoryFs::new();
    filled(Lab::in_memory(&memory), manifest);
    memory
}

/// The six texts, with a manifest that reads them.
pub fn filled(lab: Lab, manifest: &str) -> Lab {
    lab.write("pipeline.toml", manifest);
    for (name, text) in TEXTS {
        lab.write(&format!("data/{name}.txt"), text);
    }
    lab
}

/// The same after a completed run.
pub fn finished() -> MemoryFs {
    finished_with(MANIFEST)
}

fn finished_with(manifest: &str) -> MemoryFs {
    let memory = fresh_with(manifest);
    assert_eq!(Lab::in_memory(&memory).run().status, Status::Done);
    memory
}

/// Finished, then with one text edited, one new, one removed, and a parameter changed.
pub fn edited() -> MemoryFs {
    edited_with(MANIFEST)
}

pub fn edited_with(manifest: &str) -> MemoryFs {
    let memory = finished_with(manifest);
    let lab = Lab::in_memory(&memory);
    lab.write("data/ben1.txt", "moin moin");
    lab.write("data/dora1.txt", "hej");
    lab.remove("data/anna2.txt");
    lab.write("pipeline.toml", &manifest.replace("mark = \"!\"", "mark = \"?\""));
    memory
}

/// A lab with faults that only the engine sees.
pub fn faulty(memory: &MemoryFs) -> (Lab, Arc<FaultFs>) {
    let faults = Arc::new(FaultFs::new(Arc::new(memory.clone())));
    (Lab::through(memory, Arc::clone(&faults) as Arc<dyn Fs>), faults)
}

/// Runs to the end and compares with a world without faults. Cached work is not repeated.
pub fn finishes_like(memory: &MemoryFs, expected: &Lab, place: &str) {
    let lab = Lab::in_memory(memory);
    let before = lab.item_records();
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{place}: {ran:?}");
    assert_eq!(lab.exports(), expected.exports(), "{place}");
    assert_eq!(ran.damaged(), [""; 0], "{place}");
    assert_eq!(ran.items_executed(), lab.item_records() - before, "{place}: {ran:?}");
    assert!(lab.run().nothing_executed(), "{place}");
    let report = lab.verify();
    assert!(report.is_clean(), "{place}: {report:?}");
}
