//! A graph that is open in onnxruntime.

use camino::Utf8Path;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{DynValue, Tensor};
use stage_core::StageError;
use stage_core::escape::clean;

/// Weights above this size get a file of their own, which is mapped into memory.
const MIN_MAPPED_BYTES: &str = "1024";
const WEIGHTS_FILE: &str = "session.optimized_model_external_initializers_file_name";
const WEIGHTS_SIZE: &str = "session.optimized_model_external_initializers_min_size_in_bytes";

/// An open graph.
pub struct OpenGraph {
    session: Session,
}

/// A value of an input.
pub enum InputValue {
    Integers(Vec<i64>, Vec<usize>),
    Numbers(Vec<f32>, Vec<usize>),
}

/// A value of an output, with its shape.
pub struct OutputValue {
    pub shape: Vec<usize>,
    pub numbers: Vec<f32>,
}

/// Simplifies a graph once, and writes it beside, with its weights in a file of this name.
pub fn simplify(graph: &Utf8Path, to: &Utf8Path, weights: &str) -> Result<(), StageError> {
    let session = builder(1, GraphOptimizationLevel::Level1).and_then(|builder| {
        let builder = builder.with_optimized_model_path(to).map_err(failed)?;
        let builder = builder.with_config_entry(WEIGHTS_FILE, weights).map_err(failed)?;
        builder.with_config_entry(WEIGHTS_SIZE, MIN_MAPPED_BYTES).map_err(failed)
    });
    session?.commit_from_file(graph).map_err(failed)?;
    Ok(())
}

impl OpenGraph {
    /// Opens a graph that is simple already.
    pub fn open(graph: &Utf8Path, threads: usize) -> Result<OpenGraph, StageError> {
        let session = builder(threads, GraphOptimizationLevel::Disable)?
            .commit_from_file(graph)
            .map_err(failed)?;
        Ok(OpenGraph { session })
    }

    /// The only output, for these inputs by name.
    pub fn run(&mut self, inputs: Vec<(&str, InputValue)>) -> Result<OutputValue, StageError> {
        let values = inputs.into_iter().map(|(name, value)| Ok((name, tensor(value)?)));
        let values = values.collect::<Result<Vec<(&str, DynValue)>, StageError>>()?;
        let outputs = self.session.run(values).map_err(failed)?;
        let output = outputs.values().next();
        let output = output.ok_or_else(|| StageError::failed("the graph has no output"))?;
        let (shape, numbers) = output.try_extract_tensor::<f32>().map_err(failed)?;
        let shape = shape.iter().map(|size| usize::try_from(*size).unwrap_or_default()).collect();
        Ok(OutputValue { shape, numbers: numbers.to_vec() })
    }
}

/// A builder without plans of memory for each length, which only add up.
fn builder(threads: usize, level: GraphOptimizationLevel) -> Result<SessionBuilder, StageError> {
    let builder = Session::builder().map_err(failed)?;
    let builder = builder.with_log_level(LogLevel::Fatal).map_err(failed)?;
    let builder = builder.with_intra_threads(threads).map_err(failed)?;
    let builder = builder.with_memory_pattern(false).map_err(failed)?;
    // A thread that spins until its next part takes the time of a core from everything else, also from the other thread.
    let builder = builder.with_intra_op_spinning(false).map_err(failed)?;
    builder.with_optimization_level(level).map_err(failed)
}

fn tensor(value: InputValue) -> Result<DynValue, StageError> {
    Ok(match value {
        InputValue::Integers(values, shape) => {
            Tensor::from_array((shape, values)).map_err(failed)?.into_dyn()
        }
        InputValue::Numbers(values, shape) => {
            Tensor::from_array((shape, values)).map_err(failed)?.into_dyn()
        }
    })
}

fn failed<T>(error: ort::Error<T>) -> StageError {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    StageError::failed(format!("onnxruntime: {}", clean(line)))
}
