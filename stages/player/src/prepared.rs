//! A graph that is prepared for playing: its parts in a folder of the user's cache.
//!
//! The preparation is done once for a file: it takes longer than a sentence. The folder has the name of the file, of
//! its state and of everything that a change of this program may change; it appears under its name when all of it is
//! on the disk.

use bytes::Bytes;
use cache::Digest;
use cache::fs::{Fs, FsResult, Open, RealFs, beside, is_left_beside};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use stage_core::StageError;
use stage_formats::onnx::GraphParts;

use crate::decoder::DecoderStart;
use crate::interface::roles;
use crate::noise;
use crate::session::simplify;

/// Raised when the parts change.
const VERSION: u32 = 1;
/// The files in the folder.
const PLAN: &str = "plan.json";
const WHOLE: &str = "part.onnx";
pub const FIRST: &str = "first";
pub const DECODER: &str = "decoder";

/// The parts of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPlan {
    /// The inputs of the first part, which makes the frames, or the samples where there is no other.
    pub inputs: Vec<String>,
    /// The inputs of the decoder beside the frames.
    pub decoder_inputs: Vec<String>,
    pub decoder: Option<DecoderStart>,
    /// The value of `sample_rate` in the metadata.
    pub sample_rate: Option<u32>,
    /// The sizes of the files beside this plan.
    sizes: Vec<(String, u64)>,
}

/// A prepared graph.
#[derive(Debug)]
pub struct PreparedGraph {
    pub folder: Utf8PathBuf,
    pub plan: GraphPlan,
}

impl PreparedGraph {
    /// Finds the parts of a graph in the folder `home`, or makes them.
    pub fn find_or_make(graph: &Utf8Path, home: &Utf8Path) -> Result<PreparedGraph, StageError> {
        let folder = folder(graph, home).map_err(StageError::of_file)?;
        match found(&folder) {
            Some(plan) => Ok(PreparedGraph { folder, plan }),
            None => make(graph, folder),
        }
    }

    /// Makes the parts again, for a folder that cannot be opened.
    pub fn remake(self, graph: &Utf8Path) -> Result<PreparedGraph, StageError> {
        RealFs.remove_dir_all(&self.folder).map_err(StageError::of_file)?;
        make(graph, self.folder)
    }

    pub fn file(&self, part: &str) -> Utf8PathBuf {
        self.folder.join(graph_name(part))
    }
}

fn graph_name(part: &str) -> String {
    format!("{part}.onnx")
}

/// The folder for a file in its state.
fn folder(graph: &Utf8Path, home: &Utf8Path) -> FsResult<Utf8PathBuf> {
    let path = RealFs.resolve(graph)?;
    let state = RealFs.metadata(&path)?;
    let state = format!("{VERSION} {} {state:?}", crate::RELEASE);
    let short = |text: &str| Digest::of(text.as_bytes()).short();
    Ok(home.join(short(path.as_str())).join(short(&state)))
}

/// The plan of a folder that has all files.
fn found(folder: &Utf8Path) -> Option<GraphPlan> {
    let plan = RealFs.read(&folder.join(PLAN)).ok()?;
    let plan: GraphPlan = serde_json::from_slice(&plan).ok()?;
    let is_there = |(name, size): &(String, u64)| {
        RealFs.metadata(&folder.join(name)).is_ok_and(|metadata| metadata.size == *size)
    };
    plan.sizes.iter().all(is_there).then_some(plan)
}

fn make(graph: &Utf8Path, folder: Utf8PathBuf) -> Result<PreparedGraph, StageError> {
    let above = folder.parent().unwrap_or(&folder).to_owned();
    RealFs.create_dir_all(&above).map_err(StageError::of_file)?;
    remove_earlier(&above);
    let staging = beside(&folder);
    RealFs.create_dir(&staging).map_err(StageError::of_file)?;
    let made = fill(graph, &staging).and_then(|plan| {
        publish(&staging, &folder).map_err(StageError::of_file)?;
        Ok(plan)
    });
    if made.is_err() {
        let _ = RealFs.remove_dir_all(&staging);
    }
    Ok(PreparedGraph { plan: made?, folder })
}

/// Gives a complete folder its name.
fn publish(staging: &Utf8Path, folder: &Utf8Path) -> FsResult<()> {
    RealFs.rename(staging, folder).or_else(|error| match found(folder) {
        // Another process was faster.
        Some(_) => RealFs.remove_dir_all(staging),
        None => Err(error),
    })?;
    folder.parent().map_or(Ok(()), |above| RealFs.sync_dir(above))
}

/// Removes the folders of earlier states of a file, and what processes have left that do not run any more.
fn remove_earlier(above: &Utf8Path) {
    for entry in RealFs.read_dir(above).unwrap_or_default() {
        if !entry.name.starts_with('.') || is_left_beside(&RealFs, &entry.name) {
            let _ = RealFs.remove_dir_all(&above.join(&entry.name));
        }
    }
}

/// Writes the parts of a graph into an empty folder.
fn fill(graph: &Utf8Path, folder: &Utf8Path) -> Result<GraphPlan, StageError> {
    let name = graph.file_name().unwrap_or_default();
    let bytes = RealFs.map(graph).map_err(StageError::of_file)?;
    let (mut plan, parts) = split(&bytes).map_err(|error| named(error, name))?;
    drop(bytes);
    for (part, bytes) in parts {
        write(folder, part, bytes).map_err(|error| named(error, name))?;
    }
    for entry in RealFs.read_dir(folder).map_err(StageError::of_file)? {
        let path = folder.join(&entry.name);
        let file = RealFs.open(&path, Open::ReadWrite).map_err(StageError::of_file)?;
        file.sync_data().map_err(StageError::of_file)?;
        plan.sizes.push((entry.name, file.len().map_err(StageError::of_file)?));
    }
    let written =
        serde_json::to_vec(&plan).map_err(|error| StageError::failed(error.to_string()))?;
    RealFs.write_durably(&folder.join(PLAN), &written).map_err(StageError::of_file)?;
    Ok(plan)
}

/// The files of the parts of a graph, by the name of the part.
type PartFiles = Vec<(&'static str, Vec<u8>)>;

/// The parts of a graph, by name.
fn split(bytes: &Bytes) -> Result<(GraphPlan, PartFiles), StageError> {
    let mut graph = GraphParts::read(bytes)?;
    noise::make_inputs(&mut graph);
    roles(graph.inputs())?;
    let output = graph.outputs().next().map(str::to_owned);
    let output = output.ok_or_else(|| StageError::failed("the graph has no output"))?;
    let decoder = DecoderStart::find(&graph);
    let middle = decoder.as_ref().map_or(&*output, |decoder| &decoder.frames);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut plan = GraphPlan {
        inputs: owned(graph.needed_inputs(&[], &[middle])),
        decoder_inputs: Vec::new(),
        decoder: decoder.clone(),
        sample_rate: graph.property("sample_rate").and_then(|rate| rate.parse().ok()),
        sizes: Vec::new(),
    };
    let mut parts = vec![(FIRST, graph.part(&[], &[middle])?)];
    if let Some(decoder) = &decoder {
        let (from, to) = ([&*decoder.frames], [&*output]);
        plan.decoder_inputs = owned(graph.needed_inputs(&from, &to));
        parts.push((DECODER, graph.part(&from, &to)?));
    }
    Ok((plan, parts))
}

/// Writes a part in the form in which it is opened quickly.
fn write(folder: &Utf8Path, part: &str, bytes: Vec<u8>) -> Result<(), StageError> {
    let whole = folder.join(WHOLE);
    RealFs.write_new(&whole, &bytes).map_err(StageError::of_file)?;
    drop(bytes);
    simplify(&whole, &folder.join(graph_name(part)), &format!("{part}.weights"))?;
    RealFs.remove_file(&whole).map_err(StageError::of_file)
}

fn named(error: StageError, name: &str) -> StageError {
    match error {
        StageError::Failed { message, help } => {
            StageError::Failed { message: format!("`{name}`: {message}"), help }
        }
        other => other,
    }
}
