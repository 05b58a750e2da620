//! The stage `model.export`. The weight file is written tensor by tensor, so that only one of them
//! is in memory at a time.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use cache::fs::RealFs;
use camino::Utf8PathBuf;
use stage_core::{
    Blob, Context, Fields, GatherInput, GatherJob, GatherOutput, Job, NewValue, PortOutput, Setup,
    Stage, StageError,
};
use stage_families::artifact;
use stage_families::export::{Exporter, Format, Recipe, Recipes};
use stage_families::kinds::model as kinds;
use stage_formats::pth::PthWriter;
use stage_formats::safetensors::SafetensorsWriter;
use stage_formats::{Dtype, FileSink, FormatError, Tensor, TensorInfo};

use super::arrived::arrived;
use super::{card, graph};
use crate::plain::{self, unknown_choice};

const WEIGHTS_KIND: &str = "model/weights";
/// Metadata that loaders of safetensors files require: the framework of the tensors.
const OF_PYTORCH: (&str, &str) = ("format", "pt");

pub fn stage() -> Arc<dyn Stage> {
    plain::stage(&kinds::EXPORT, open)
}

struct ModelExport {
    /// None: the format that the original project reads.
    format: Option<Format>,
    /// None keeps the type of each tensor.
    dtype: Option<Dtype>,
    /// Also export the discriminator.
    discriminator: bool,
}

fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    if setup.parameters.text("format")? == "onnx" {
        return graph::open(&setup);
    }
    let format = match setup.parameters.text("format")? {
        "auto" => None,
        "pth" => Some(Format::Pth),
        "safetensors" => Some(Format::Safetensors),
        other => return Err(unknown_choice("format", other)),
    };
    let dtype = super::dtype(&setup.parameters)?;
    let discriminator = setup.parameters.flag("discriminator")?;
    Ok(Job::Gather(Box::new(ModelExport { format, dtype, discriminator })))
}

impl GatherJob for ModelExport {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let (model, exporter) = arrived(&input)?;
        let format = self.format.unwrap_or_else(|| exporter.format());
        let mut files = exporter.weights(model, format);
        if self.discriminator {
            files.push((judge_name(format), judge(exporter, model)?));
        }
        let (mut values, mut tensors) = (exporter.descriptions(model, context)?, 0);
        values.extend(card::of(model));
        for (name, recipes) in &files {
            let place = TensorTarget { format, key: exporter.dictionary(name) };
            let blob = self.weights(model, recipes, place, context)?;
            values.push(((*name).to_owned(), NewValue::blob(blob)));
            tensors += recipes.len() as u64;
        }
        let limits = exporter.limits(model, context)?.into_iter().map(|note| (note, 1));
        let notes = [("tensors".to_owned(), tensors)].into_iter().chain(limits).collect();
        let output = GatherOutput::default().with("files", PortOutput::Artifact(values));
        Ok(GatherOutput { notes, ..output })
    }
}

/// The name of the discriminator's file.
fn judge_name(format: Format) -> &'static str {
    match format {
        Format::Pth => "discriminator.pth",
        Format::Safetensors => "discriminator.safetensors",
    }
}

/// The tensors of the discriminator.
fn judge(exporter: &dyn Exporter, model: &Fields) -> Result<Recipes, StageError> {
    let judge = exporter.discriminator(model);
    if judge.is_empty() {
        Err(StageError::with_help(
            "the model has no discriminator to export",
            "leave out `discriminator`, or read a model of `vits.finetune`",
        ))
    } else {
        Ok(judge)
    }
}

impl ModelExport {
    /// A weight file.
    fn weights(
        &self,
        model: &Fields,
        recipes: &Recipes,
        place: TensorTarget,
        context: &mut dyn Context,
    ) -> Result<Blob, StageError> {
        let infos = self.infos(model, recipes, context)?;
        if infos.is_empty() {
            return Err(StageError::failed("the model has no tensors"));
        }
        let failed = "failed to make a folder for the weights";
        let above = context.scratch()?;
        let folder = tempfile::Builder::new().prefix("export-").tempdir_in(above);
        let folder =
            folder.map_err(|error| StageError::of_io(format!("{failed}: {error}"), &error))?;
        let path = Utf8PathBuf::from_path_buf(folder.path().join("weights"));
        let path =
            path.map_err(|_| StageError::failed(format!("{failed}: its path is not UTF-8")))?;
        let (sink, total) =
            (FileSink::create(&RealFs, &path).map_err(FormatError::from)?, infos.len() as u64);
        let mut writer = Writer::new(place, sink, infos)?;
        let order = writer.order();
        let made = order.iter().filter_map(|name| recipes.get(name));
        for (done, recipe) in made.enumerate() {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            context.progress(done as u64, total);
            writer.write(&self.tensor(model, recipe, context)?)?;
        }
        writer.finish()?;
        let bytes = RealFs::map(&path).map_err(FormatError::from)?;
        let blob = context.keep(WEIGHTS_KIND, bytes)?;
        context.progress(total, total);
        Ok(blob)
    }

    /// The tensors to write. The file begins with all of them, so each tensor is read twice.
    fn infos(
        &self,
        model: &Fields,
        recipes: &Recipes,
        context: &mut dyn Context,
    ) -> Result<BTreeMap<String, TensorInfo>, StageError> {
        let mut infos = BTreeMap::new();
        for (name, recipe) in recipes {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            let mut info = recipe.info(|name| read(model, name, context))?;
            info.dtype = self.dtype.filter(|_| info.dtype.is_float()).unwrap_or(info.dtype);
            infos.insert(name.clone(), info);
        }
        Ok(infos)
    }

    fn tensor(
        &self,
        model: &Fields,
        recipe: &Recipe,
        context: &mut dyn Context,
    ) -> Result<Tensor, StageError> {
        let tensor = recipe.make(|name| read(model, name, context))?;
        match self.dtype.filter(|_| tensor.dtype().is_float()) {
            Some(dtype) => Ok(tensor.to_float(dtype)?),
            None => Ok(tensor),
        }
    }
}

fn read(model: &Fields, name: &str, context: &mut dyn Context) -> Result<Tensor, StageError> {
    let blob = model.blob(&artifact::tensor_field(name));
    let blob = blob.ok_or_else(|| StageError::failed(format!("there is no `{name}`")))?;
    artifact::decode(context.read(blob)?)
        .map_err(|error| StageError::failed(format!("`{name}`: {error}")))
}

/// The destination of tensors.
#[derive(Clone, Copy)]
struct TensorTarget {
    format: Format,
    /// The key of their dictionary, if it is nested in another one.
    key: Option<&'static str>,
}

/// A writer of either format.
enum Writer {
    Pth(PthWriter<FileSink>),
    Safetensors(SafetensorsWriter<FileSink>),
}

impl Writer {
    fn new(
        place: TensorTarget,
        sink: FileSink,
        infos: BTreeMap<String, TensorInfo>,
    ) -> Result<Writer, FormatError> {
        let metadata = [(OF_PYTORCH.0.to_owned(), OF_PYTORCH.1.to_owned())].into();
        Ok(match place.format {
            Format::Pth => Writer::Pth(PthWriter::under(sink, infos, place.key)?),
            Format::Safetensors => {
                Writer::Safetensors(SafetensorsWriter::new(sink, infos, &metadata)?)
            }
        })
    }

    fn order(&self) -> Vec<String> {
        match self {
            Writer::Pth(writer) => writer.order(),
            Writer::Safetensors(writer) => writer.order(),
        }
    }

    fn write(&mut self, tensor: &Tensor) -> Result<(), FormatError> {
        match self {
            Writer::Pth(writer) => writer.write(tensor),
            Writer::Safetensors(writer) => writer.write(tensor),
        }
    }

    /// The file is only read back here, so its bytes need not be durable.
    fn finish(self) -> Result<(), StageError> {
        let mut sink = match self {
            Writer::Pth(writer) => writer.finish()?,
            Writer::Safetensors(writer) => writer.finish()?,
        };
        let failed =
            |error| StageError::failed(format!("the weights could not be written: {error}"));
        sink.flush().map_err(failed)
    }
}
