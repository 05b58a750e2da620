//! `model.export` to ONNX: the graph, the files beside it, and a try with onnxruntime.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use cache::fs::{Fs, RealFs};
use camino::Utf8Path;
use serde_json::{Value, json};
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, NewValue, PortOutput, Setup, StageError,
};
use stage_families::onnx::{Sample, Target};
use stage_formats::onnx::WeightType;
use stage_programs as programs;

use super::arrived::arrived;
use super::card;
use crate::plain::unknown_choice;

const GRAPH_KIND: &str = "model/onnx";
const PYTHON: &str = "python3";
const SCRIPT: &str = include_str!("try_graph.py");
/// The exit code of the script if there is no onnxruntime.
const NOT_THERE: i32 = 3;
/// The time that the try may take.
const PATIENCE: Duration = Duration::from_secs(300);
const NOT_RUN: &str = "the graph was not run: `python3` has no onnxruntime";

struct GraphExport {
    target: Target,
    stored: WeightType,
    environment: BTreeMap<String, String>,
}

pub fn open(setup: &Setup) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let target = if parameters.is_set("target") {
        match parameters.text("target")? {
            "sherpa" => Target::Sherpa,
            "piper" => Target::Piper,
            "plain" => Target::Plain,
            other => return Err(unknown_choice("target", other)),
        }
    } else {
        Target::Plain
    };
    let stored = match parameters.text("dtype")? {
        "keep" | "f32" => WeightType::F32,
        "fp16" => WeightType::F16,
        "int8" => WeightType::Int8,
        other => return Err(unknown_choice("dtype", other)),
    };
    Ok(Job::Gather(Box::new(GraphExport {
        target,
        stored,
        environment: setup.environment.clone(),
    })))
}

impl GatherJob for GraphExport {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let (model, exporter) = arrived(&input)?;
        let files = exporter.graph(model, self.target, self.stored, context)?;
        let note = self.try_out(&files.graph, &files.sample, context)?;
        let graph = context.keep(GRAPH_KIND, files.graph.into())?;
        let mut values = vec![(files.name.to_owned(), NewValue::blob(graph))];
        values.extend(files.beside);
        values.extend(card::of(model));
        let output = GatherOutput::default().with("files", PortOutput::Artifact(values));
        Ok(GatherOutput { notes: vec![(note, 1)], ..output })
    }
}

impl GraphExport {
    /// Runs the graph once, if there is a program for it. The note tells.
    fn try_out(
        &self,
        graph: &[u8],
        sample: &Sample,
        context: &mut dyn Context,
    ) -> Result<String, StageError> {
        let io = |error: std::io::Error| {
            StageError::of_io(format!("the graph cannot be tested: {error}"), &error)
        };
        let folder = tempfile::Builder::new().prefix("graph-").tempdir_in(context.scratch()?);
        let folder = folder.map_err(io)?;
        let path = folder.path().join("model.onnx");
        let path = Utf8Path::from_path(&path)
            .ok_or_else(|| StageError::failed("the folder of the cache is not UTF-8"))?;
        RealFs.write_durably(path, graph).map_err(StageError::of_file)?;
        let mut command = Command::new(PYTHON);
        command.args(["-c", SCRIPT, path.as_str(), &described(sample).to_string()]);
        command.env_clear().envs(&self.environment);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = match programs::start(&mut command) {
            Ok(program) => program,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(NOT_RUN.to_owned());
            }
            Err(error) => return Err(io(error)),
        };
        let (_, output, errors) = program.pipes();
        // The script says little, which fits into the pipes.
        let in_time = program.ends_within(PATIENCE).map_err(io)?;
        let status = program.end().map_err(io)?.status;
        let (output, errors) = (said(output), said(errors));
        match status.code() {
            _ if !in_time => Err(StageError::timed_out(PATIENCE.as_secs_f64())),
            Some(0) => Ok(format!("the graph was run: {output}")),
            Some(NOT_THERE) => Ok(NOT_RUN.to_owned()),
            _ => {
                let last = errors.lines().last().unwrap_or("no reason given");
                Err(StageError::failed(format!("onnxruntime cannot run the graph: {last}")))
            }
        }
    }
}

/// The text that a program has left in a pipe.
fn said(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    if let Some(pipe) = pipe {
        // Output that is not text is ignored.
        let _ = pipe.take(1 << 16).read_to_string(&mut text);
    }
    text.trim().to_owned()
}

fn described(sample: &Sample) -> Value {
    let integers = sample.integers.iter().map(|(name, values, is_row)| {
        let value = if *is_row { json!([values]) } else { json!(values) };
        json!({"name": name, "type": "int64", "value": value})
    });
    let numbers = sample
        .numbers
        .iter()
        .map(|(name, values)| json!({"name": name, "type": "float32", "value": values}));
    integers.chain(numbers).collect()
}
