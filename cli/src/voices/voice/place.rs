//! The place of a voice: a stage of a pipeline, or a folder of published files.

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use engine::manifest::{FILE_NAME as MANIFEST, suggestion};
use engine::pipeline::{ITEMS, Reference, StageSpec};
use stage_core::PortType;
use stage_player::VoiceFiles;
use view::escape::clean;

use super::published;
use crate::arguments::{Settings, VoiceOptions};
use crate::error::CliError;
use crate::named;
use crate::project::{Program, Project};
use crate::setup::player::player;
use crate::setup::worker;

/// The port of a stage that speaks for its model.
const MODEL: &str = "model";

const HELP: &str = "name a folder of `model.export`, or `PIPELINE:STAGE`";

pub struct VoicePlace {
    /// The name in requests.
    pub name: String,
    pub source: VoiceSource,
}

/// What speaks.
pub enum VoiceSource {
    Stage(Box<VoiceStage>),
    /// A graph, in this process.
    Graph(Utf8PathBuf),
}

/// A stage that speaks.
pub struct VoiceStage {
    pub project: Project,
    stage: String,
    /// For published files: the files and folders that the person named.
    published: Option<Vec<Utf8PathBuf>>,
}

impl VoicePlace {
    /// Finds `[NAME=]PATH[:STAGE]`.
    pub fn find(
        program: &Program,
        text: &str,
        options: &VoiceOptions,
    ) -> Result<VoicePlace, CliError> {
        let written = PlaceText::read(text, |path| RealFs.metadata(path).is_ok());
        let (path, stage) = (&written.path, written.stage.as_deref());
        let is_unnamed = text.starts_with('=') && RealFs.metadata(path).is_err();
        if stage == Some("") && !path.as_str().is_empty() {
            let message = format!("`{}` names no stage after the colon", clean(text));
            let help = "leave out the colon for the only synthesis stage, or name one";
            return Err(CliError::usage(message, help));
        }
        if path.as_str().is_empty() || is_unnamed {
            let message = format!("`{}` is not a voice", clean(text));
            return Err(CliError::usage(message, HELP));
        }
        let found = RealFs.metadata(path).map_err(|_| {
            CliError::usage(format!("there is no `{}`", clean(path.as_str())), HELP)
        })?;
        let is_pipeline = !(found.is_dir() || published::is_graph(path))
            || RealFs.metadata(&path.join(MANIFEST)).is_ok();
        let mut place = match (is_pipeline, stage) {
            (true, stage) => of_pipeline(program, path, stage, &options.settings)?,
            (false, None) => of_files(program, path, options)?,
            (false, Some(_)) => {
                let message = format!("`{path}` is not a pipeline, so it has no stages");
                return Err(CliError::usage(message, "leave out the colon and the text after it"));
            }
        };
        if let Some(name) = written.name {
            place.name = name;
        }
        Ok(place)
    }

    /// Refuses a file for sounds that the voice is made of, or that is in a cache.
    pub fn refuse(&self, file: &Utf8Path) -> Result<(), CliError> {
        named::refuse_caches(file)?;
        match &self.source {
            VoiceSource::Graph(graph) => {
                let beside = VoiceFiles::description_of(graph);
                named::refuse_sources(file, [graph.clone(), beside])
            }
            VoiceSource::Stage(stage) => match &stage.published {
                Some(files) => named::refuse_sources(file, files.iter().cloned()),
                None => stage.project.refuse_sources(file),
            },
        }
    }
}

impl VoiceStage {
    /// Tests if it is a folder of files, which has no stages that a person could change.
    pub fn is_published(&self) -> bool {
        self.published.is_some()
    }

    pub fn spec(&self) -> Result<&StageSpec, CliError> {
        self.project.stage(&self.stage)
    }
}

/// Published files: a graph with its description, if there is a library that plays it, or weights.
fn of_files(
    program: &Program,
    path: &Utf8Path,
    options: &VoiceOptions,
) -> Result<VoicePlace, CliError> {
    let is_graph = published::is_graph(path);
    let name = if is_graph { path.file_stem() } else { path.file_name() };
    let name = name.unwrap_or("voice").to_owned();
    let graph = if is_graph { Some(path.to_owned()) } else { VoiceFiles::graph_in(path) };
    if let Some(graph) = graph
        && is_played(program)?
    {
        return Ok(VoicePlace { name, source: VoiceSource::Graph(graph) });
    }
    let (project, stage) = published::project(program, path, options)?;
    let named = [Some(path), options.reference.as_deref(), options.codec.as_deref()];
    let published = Some(named.into_iter().flatten().map(Utf8Path::to_owned).collect());
    let stage = Box::new(VoiceStage { project, stage, published });
    Ok(VoicePlace { name, source: VoiceSource::Stage(stage) })
}

/// Tests if there is a library that plays graphs. Without one, the worker has to be there.
fn is_played(program: &Program) -> Result<bool, CliError> {
    let Err(why) = player() else { return Ok(true) };
    let worker = worker::command();
    let has_worker = worker.program.is_some_and(|path| RealFs.exists(&path).unwrap_or(false));
    if !has_worker || worker.lacks.is_some() {
        let message = format!("no library speaks with this voice: {why}");
        let help = "`throstle setup --player` fetches it (28 MB); or set ORT_DYLIB_PATH to it";
        return Err(CliError::failed(message, help));
    }
    program.tell(&format!("{why}; speaking with libtorch"));
    Ok(false)
}

/// A place as it is written.
#[derive(Debug, PartialEq)]
struct PlaceText {
    name: Option<String>,
    path: Utf8PathBuf,
    stage: Option<String>,
}

impl PlaceText {
    /// A path that exists may contain any sign.
    fn read(text: &str, exists: impl Fn(&Utf8Path) -> bool) -> PlaceText {
        let whole = |name: Option<&str>, rest: &str| {
            let (path, stage) = match rest.rsplit_once(':') {
                Some((path, stage)) if !exists(rest.into()) => (path, Some(stage.to_owned())),
                _ => (rest, None),
            };
            PlaceText { name: name.map(str::to_owned), path: path.into(), stage }
        };
        match text.split_once('=') {
            Some((name, rest))
                if !name.is_empty() && !name.contains(['/', ':']) && !exists(text.into()) =>
            {
                whole(Some(name), rest)
            }
            _ => whole(None, text),
        }
    }
}

/// A stage of a pipeline.
fn staged(name: String, project: Project, stage: String) -> VoicePlace {
    let source = VoiceSource::Stage(Box::new(VoiceStage { project, stage, published: None }));
    VoicePlace { name, source }
}

fn of_pipeline(
    program: &Program,
    path: &Utf8Path,
    stage: Option<&str>,
    settings: &Settings,
) -> Result<VoicePlace, CliError> {
    let project = program.load(path, settings)?;
    let speaking: Vec<&StageSpec> =
        project.pipeline.stages.iter().filter(|spec| spec.kind.speaks()).collect();
    let Some(stage) = stage else {
        return match speaking.as_slice() {
            [one] => {
                let stage = one.name.clone();
                Ok(staged(stage.clone(), project, stage))
            }
            [] => Err(silent(path)),
            several => {
                let names = several.iter().map(|spec| spec.name.as_str());
                let help = suggestion("", "stages that speak", names).unwrap_or_default();
                let message =
                    format!("`{path}` has several stages that speak: name one, as `{path}:STAGE`");
                Err(CliError::usage(message, help))
            }
        };
    };
    let spec = project.stage(stage)?;
    let name = stage.to_owned();
    if spec.kind.speaks() {
        return Ok(staged(name, project, stage.to_owned()));
    }
    let (speaker, port, is_wired) = speaking
        .iter()
        .filter_map(|speaker| wire(speaker, spec).map(|(port, is)| (*speaker, port, is)))
        .max_by_key(|(_, _, is_wired)| *is_wired)
        .ok_or_else(|| {
            let help = "name a stage that speaks, or one that outputs a model for it";
            CliError::usage(
                format!("no stage of `{path}` speaks with the model of `{stage}`"),
                help,
            )
        })?;
    let speaking = speaker.name.clone();
    if is_wired {
        return Ok(staged(name, project, speaking));
    }
    let mut settings = settings.clone();
    settings.set.push(format!("stage.{speaking}.{port}={stage}"));
    let project = program.load(path, &settings)?;
    Ok(staged(name, project, speaking))
}

/// The port of a stage that takes the model of another, and whether it already does.
fn wire(speaker: &StageSpec, model: &StageSpec) -> Option<(&'static str, bool)> {
    let output = model.kind.outputs.first()?;
    // The kind of a chosen checkpoint is that of its training, and not known to `quality.choose`.
    let is_of_any_kind = output.gives.is_empty() && output.port_type == PortType::Artifact;
    let ports = speaker.kind.inputs.iter().filter(|port| {
        port.port_type == PortType::Artifact
            && port.name != ITEMS
            && (port.takes.iter().any(|word| output.gives.contains(word))
                || is_of_any_kind && port.name == MODEL)
    });
    let is_wired = |port: &str| {
        let references = speaker.inputs.get(port).map_or(&[][..], |input| &input.references);
        references.iter().any(
            |reference| matches!(reference, Reference::Stage { stage, .. } if *stage == model.id),
        )
    };
    ports.map(|port| (port.name, is_wired(port.name))).max_by_key(|(_, is_wired)| *is_wired)
}

fn silent(path: &Utf8Path) -> CliError {
    let help = "add a stage that speaks, or export the model and name its folder";
    CliError::usage(format!("no stage of `{path}` speaks"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_name_and_a_stage_unless_the_path_exists_as_it_is() {
        let read = |text: &str, there: &'static str| {
            let PlaceText { name, path, stage } = PlaceText::read(text, |path| path == there);
            (name.unwrap_or_default(), path.into_string(), stage.unwrap_or_default())
        };
        let all = |name: &str, path: &str, stage: &str| {
            (name.to_owned(), path.to_owned(), stage.to_owned())
        };
        assert_eq!(read("demo:trained", "demo"), all("", "demo", "trained"));
        assert_eq!(read("a=demo:trained", "demo"), all("a", "demo", "trained"));
        assert_eq!(read("a=demo", "demo"), all("a", "demo", ""));
        assert_eq!(read("a=b:c", "a=b:c"), all("", "a=b:c", ""));
        assert_eq!(read("out/x=1", "out"), all("", "out/x=1", ""));
        assert_eq!(read("demo:voice[rate=1]", "demo"), all("", "demo", "voice[rate=1]"));
    }
}
