//! Warns of stages that name a GPU on a machine without one: they would fail after all that comes before them.

use cache::fs::{Fs, RealFs};
use camino::Utf8Path;
use engine::machine::Machine;
use engine::pipeline::{Pipeline, StageSpec};
use stage_core::Place;

use crate::project::Program;

/// Devices of a machine with a GPU whose driver does not list it, such as in WSL and some containers.
const DEVICE_FILES: [&str; 2] = ["/dev/nvidiactl", "/dev/dxg"];

pub fn warn(program: &Program, pipeline: &Pipeline) {
    let has_file = |path: &&str| RealFs.exists(Utf8Path::new(path)).unwrap_or(true);
    if !Machine::look().gpus.is_empty() || DEVICE_FILES.iter().any(has_file) {
        return;
    }
    let stages = pipeline.stages.iter().filter(|spec| names_gpu(spec));
    let names: Vec<String> = stages.map(|spec| format!("`{}`", spec.name)).collect();
    let told = match names.as_slice() {
        [] => return,
        [one] => format!("stage {one} names one and fails"),
        [one, rest @ ..] => format!("stage {one} and {} more name one and fail", rest.len()),
    };
    program.warn(&format!(
        "this machine has no NVIDIA GPU: {told} here; `device = \"cpu\"` runs such a stage without one"
    ));
}

fn names_gpu(spec: &StageSpec) -> bool {
    let several = spec.parameters.devices("devices").unwrap_or_default();
    let mut named = several.into_iter().chain([spec.policy.device]);
    spec.kind.place == Place::Worker
        && spec.policy.executor.is_none()
        && named.any(|device| device.first().is_gpu())
}
