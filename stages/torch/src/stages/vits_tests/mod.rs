//! The stages of VITS as the engine calls them, on a model of a few thousand parameters.
#![allow(clippy::unwrap_used)]

mod init;
mod spectrogram;
mod speech;

use stage_core::device::DeviceId;
use stage_core::{
    Context, Fields, Item, ItemJob, Job, Kind, Output, Reject, Setup, StageError, Value,
};
use stage_families::vits::kinds as vits;

use super::trial::{Written, gather, open, parameters, text, whole};
use crate::testing::Bench;

/// Half a second is 31 frames; every size is as small as possible.
const TINY: [(&str, i64); 3] = [("hidden", 4), ("layers", 1), ("channels", 16)];

pub fn model(more: Written, bench: &mut Bench) -> Fields {
    let tiny = TINY.map(|(name, figure)| (name, whole(figure)));
    let written = [&tiny[..], more].concat();
    gather(&vits::INIT, &written, Vec::new(), bench).unwrap().remove("model").unwrap()
}

fn job(
    kind: &'static Kind,
    written: Written,
    artifacts: &[(&str, &Fields)],
    bench: &mut Bench,
) -> Result<Box<dyn ItemJob>, StageError> {
    let own = |(port, fields): &(&str, &Fields)| ((*port).to_owned(), vec![(*fields).clone()]);
    let setup = Setup {
        parameters: parameters(kind, written),
        artifacts: artifacts.iter().map(own).collect(),
        device: DeviceId::Cpu,
        ..Setup::default()
    };
    match open(kind, setup, bench)? {
        Job::Item(job) => Ok(job),
        _ => panic!("no item job"),
    }
}

pub fn sentence(text: &str) -> Item {
    Item::new("", [("text", Value::text(text))].into_iter().collect())
}

/// The outputs of a stage for items, with stored blobs.
fn kept(results: Vec<Result<Output, Reject>>, bench: &mut Bench) -> Vec<Result<Fields, Reject>> {
    results.into_iter().map(|result| result.map(|output| bench.keep_all(output))).collect()
}

pub fn speak(
    written: Written,
    artifacts: &[(&str, &Fields)],
    items: &[Item],
    bench: &mut Bench,
) -> Result<Vec<Result<Fields, Reject>>, StageError> {
    let results = job(&vits::SYNTHESIZE, written, artifacts, bench)?.process(items, bench)?;
    Ok(kept(results, bench))
}
