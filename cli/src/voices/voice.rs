//! Voices: synthesis stages with their models, in a pipeline or a folder.

mod advice;
mod encoded;
mod graph;
mod place;
mod published;
mod reading;
mod sentences;
mod sound;
mod speakers;

use cache::fs::RealFs;
use cache::stat::StatIndex;
use cache::{Access, Cache};
use camino::Utf8Path;
use engine::engine::{Engine, StopFlag};
use engine::pipeline::{ITEMS, Pipeline, StageSpec};
use engine::run::replay::ReplayError;
use engine::run::stage_worker::{Elsewhere, PreparedStage, Results, StageWorker, prepare};
use engine::store::Store;
use stage_core::{
    Batching, FieldType, Fields, Item, NewValue, Output, ParameterValue, StageError, Value,
};
use stage_families::dropped::Dropped;
use std::sync::Arc;
use tempfile::TempDir;

use crate::arguments::{OnUnknown, VoiceOptions};
use crate::error::CliError;
use crate::project::Program;
pub use advice::{advice, lacking, training};
pub use encoded::CompressedFormat;
use graph::GraphSpeaker;
pub use place::VoicePlace;
use place::{VoiceSource, VoiceStage};
pub use reading::{ON_UNKNOWN, ReadingError, Sentence, all_dropped};
use reading::{Reading, WRITE_OUT};
pub use sentences::sentences;
pub use sound::{Sound, play_bytes};
use speakers::Speakers;

/// The fields of a sentence.
const TEXT: &str = "text";
const SPEAKER: &str = "speaker";
const LANGUAGE: &str = "language";
const SPEED: &str = "speed";
/// The field of the result.
const AUDIO: &str = "audio";

/// A voice that is ready to be opened in a worker.
#[derive(Clone, Debug)]
pub struct Voice {
    pub name: String,
    /// The names of its speakers, if it has several with names.
    pub speakers: Vec<String>,
    pub license: Option<String>,
    /// The fields that its sentences may have.
    reads: &'static [(&'static str, FieldType)],
    speaker: Option<String>,
    language: Option<String>,
    /// None in tests.
    reading: Option<Arc<Reading>>,
    on_unknown: OnUnknown,
    model: VoiceModel,
    /// Sentences that it speaks at once.
    pub batch: usize,
}

/// What speaks a voice: a stage of the worker or a graph, by its number in [`Voices`].
#[derive(Clone, Copy, Debug)]
enum VoiceModel {
    Stage(usize),
    Graph(usize),
}

/// The wishes for a sentence.
#[derive(Clone, Debug)]
pub struct Manner {
    pub speaker: Option<String>,
    pub speed: f64,
    /// The effect of unknown characters; None leaves it to the voice.
    pub on_unknown: Option<OnUnknown>,
}

/// Voices in one worker, and graphs in this process.
pub struct Voices {
    standing: StageWorker,
    graphs: Vec<GraphSpeaker>,
    pub voices: Vec<Voice>,
    /// For working files of the stages before. Removed after their processes are gone.
    folder: TempDir,
}

impl Voices {
    /// Finds voices, and prepares them; no model is loaded yet.
    pub fn find(
        program: &Program,
        names: &[String],
        options: &VoiceOptions,
        stop: &StopFlag,
    ) -> Result<Voices, CliError> {
        let places = names.iter().map(|name| VoicePlace::find(program, name, options));
        Voices::of(program, &places.collect::<Result<Vec<_>, _>>()?, options, stop)
    }

    /// Prepares voices.
    pub fn of(
        program: &Program,
        places: &[VoicePlace],
        options: &VoiceOptions,
        stop: &StopFlag,
    ) -> Result<Voices, CliError> {
        let engine = program.engine(options.threads, false);
        let mut voices = Voices {
            standing: StageWorker::new(engine.clone(), stop.clone()),
            graphs: Vec::new(),
            voices: Vec::new(),
            folder: tempfile::tempdir()
                .map_err(CliError::process("make a folder for temporary files"))?,
        };
        let mut refusals = Vec::new();
        for place in places {
            if voices.voices.iter().any(|voice| voice.name == place.name) {
                return Err(CliError::usage(
                    format!("two voices have the name `{}`", place.name),
                    "give one of them another name: `NAME=VOICE`",
                ));
            }
            let refusal = match &place.source {
                VoiceSource::Stage(stage) => {
                    voices.add_stage(program, &engine, (&place.name, stage), options)?
                }
                VoiceSource::Graph(graph) => {
                    let speaker = GraphSpeaker::start(graph, options, stop)?;
                    voices.add_graph(program, (&place.name, speaker), options)?
                }
            };
            refusals.extend(refusal);
        }
        if options.language.is_some() {
            for voice in voices.voices.iter().filter(|voice| !voice.can(LANGUAGE)) {
                program.warn(&format!(
                    "`--language` has no effect on `{}`: the voice has only one language",
                    voice.name
                ));
            }
        }
        // One of several voices has to have the speaker.
        if refusals.len() == places.len() {
            refusals.into_iter().next().map_or(Ok(voices), Err)
        } else {
            Ok(voices)
        }
    }

    /// Adds a stage that speaks; the reason if it lacks the wished speaker.
    fn add_stage(
        &mut self,
        program: &Program,
        engine: &Engine,
        (name, stage): (&str, &VoiceStage),
        options: &VoiceOptions,
    ) -> Result<Option<CliError>, CliError> {
        let cache = Cache::open(&stage.project.cache_folder, Arc::new(RealFs), Access::ReadOnly)?;
        let (pipeline, spec) = (&stage.project.pipeline, stage.spec()?);
        let folder = self.folder.path();
        let folder = Utf8Path::from_path(folder).ok_or_else(|| not_utf8(folder))?;
        let mut prepared = prepared(engine, pipeline, &cache, spec, folder)?;
        for (earlier, run) in &prepared.earlier {
            program.warn(&format!(
                "`{earlier}` is not up to date: `{name}` speaks with its output of run {run}; \
                 `throstle run {} {earlier}` brings it up to date",
                pipeline.file
            ));
        }
        if options.seed.is_some() {
            program.warn(&format!("`--seed` has no effect on `{name}`: its stage has a seed"));
        }
        let index = Arc::new(StatIndex::load(&cache)?);
        let store = Store::new(cache, &pipeline.base, index);
        let speakers = Speakers::of(&prepared.setup, &store);
        let advice = match stage.is_published() {
            true => WRITE_OUT.to_owned(),
            false => advice(pipeline, spec),
        };
        let mut own = options.clone();
        let wished = options.speaker.as_deref();
        let refusal =
            wished.and_then(|wished| require_speaker((name, stage), spec, &speakers, wished).err());
        if refusal.is_some() {
            own.speaker = None;
        }
        let chosen = prepared.setup.parameters.text(ON_UNKNOWN).ok().and_then(OnUnknown::read);
        own.on_unknown = own.on_unknown.or(chosen);
        let reading = Reading::of(prepared.chain.clone(), &mut prepared.setup, &store, advice);
        self.add(name.to_owned(), spec, prepared, (speakers.names, reading), &own);
        Ok(refusal)
    }

    fn add(
        &mut self,
        name: String,
        spec: &StageSpec,
        mut prepared: PreparedStage,
        (speakers, reading): (Vec<String>, Reading),
        options: &VoiceOptions,
    ) {
        let reads = spec.kind.input(ITEMS).map_or(&[][..], |port| port.may_read);
        // The values of a sentence override those of the stage.
        let mut taken = |field: &str| {
            if !reads.iter().any(|(own, _)| *own == field) {
                return None;
            }
            match prepared.setup.parameters.0.insert(field.to_owned(), ParameterValue::Absent) {
                Some(ParameterValue::Text(text)) => Some(text),
                _ => None,
            }
        };
        let (speaker, language) = (taken(SPEAKER), taken(LANGUAGE));
        let batch = match spec.kind.batching {
            Batching::ByCount { parameter } => prepared.setup.parameters.integer(parameter),
            _ => Ok(1),
        };
        let licenses: Vec<&str> = spec.licenses.iter().map(String::as_str).collect();
        self.voices.push(Voice {
            name,
            reads,
            speaker: options.speaker.clone().or(speaker).or_else(|| speakers.first().cloned()),
            language: options.language.clone().or(language),
            speakers,
            reading: Some(Arc::new(reading)),
            on_unknown: options.on_unknown.unwrap_or(OnUnknown::Fail),
            license: (!licenses.is_empty()).then(|| licenses.join(", ")),
            batch: batch.ok().and_then(|batch| usize::try_from(batch).ok()).unwrap_or(1).max(1),
            model: VoiceModel::Stage(self.standing.add(prepared)),
        });
    }

    /// Speaks sentences that [`Voice::read`] has read, each on its own.
    pub fn speak(&mut self, voice: usize, items: &[Item]) -> Results {
        match self.voices[voice].model {
            VoiceModel::Stage(number) => self.standing.process(number, items),
            VoiceModel::Graph(number) => self.graphs[number].process(items),
        }
    }

    /// Starts the worker, if a voice needs it, and opens all voices.
    pub fn open(&mut self) -> Result<(), CliError> {
        for voice in &self.voices {
            let opened = match voice.model {
                VoiceModel::Stage(number) => self.standing.open(number),
                VoiceModel::Graph(number) => self.graphs[number].open().map(|_| ()),
            };
            opened.map_err(|error| failed(&voice.name, &error))?;
        }
        Ok(())
    }

    /// Ends the worker.
    pub fn end(self) {
        self.standing.end();
    }
}

impl Voice {
    /// Tests if its sentences may have the field.
    fn can(&self, field: &str) -> bool {
        self.reads.iter().any(|(own, _)| *own == field)
    }

    /// A sentence as an item; the reason if the voice cannot do what is wished.
    pub fn item(&self, text: &str, manner: &Manner) -> Result<Item, String> {
        let mut fields: Fields = [(TEXT, Value::text(text))].into_iter().collect();
        let can = |field: &str| self.can(field);
        match manner.speaker.as_ref().or(self.speaker.as_ref()) {
            Some(speaker) if can(SPEAKER) => fields.set(SPEAKER, Value::text(speaker.as_str())),
            Some(_) if manner.speaker.is_some() => {
                return Err(format!("the voice `{}` has only one speaker", self.name));
            }
            _ => {}
        }
        match &self.language {
            Some(language) if can(LANGUAGE) => {
                fields.set(LANGUAGE, Value::text(language.as_str()));
            }
            None if can(LANGUAGE) => {
                let advice = "give `--language CODE`, or `language` of the synthesis stage";
                return Err(format!("`{}` speaks several languages: {advice}", self.name));
            }
            _ => {}
        }
        // Without a speed of its own, a sentence is the same item as in a run.
        if manner.speed != 1.0 {
            if !can(SPEED) {
                return Err(format!("the voice `{}` has only one speed", self.name));
            }
            fields.set(SPEED, Value::Number(manner.speed));
        }
        Ok(Item::new("", fields))
    }

    /// The sentence as it arrives at the model, and the characters that the model does not know.
    pub fn read(&self, item: Item, manner: &Manner) -> Result<Sentence, ReadingError> {
        let on_unknown = manner.on_unknown.unwrap_or(self.on_unknown);
        match &self.reading {
            Some(reading) => reading.read(item, on_unknown),
            None => Ok(Sentence { item, dropped: Dropped::new() }),
        }
    }
}

/// Fails if neither the sentences of a voice nor its pipeline choose this speaker.
fn require_speaker(
    (name, stage): (&str, &VoiceStage),
    spec: &StageSpec,
    speakers: &Speakers,
    wished: &str,
) -> Result<(), CliError> {
    let pipeline = &stage.project.pipeline;
    let reads = spec.kind.input(ITEMS).map_or(&[][..], |port| port.may_read);
    if reads.iter().any(|(field, _)| *field == SPEAKER) {
        return speakers.require(name, wished);
    }
    let is_chosen =
        |stage: &StageSpec| stage.parameters.text(SPEAKER).is_ok_and(|speaker| speaker == wished);
    if pipeline.with_upstream(&[spec.id]).into_iter().any(|id| is_chosen(pipeline.stage(id))) {
        Ok(())
    } else {
        Speakers::one().require(name, wished)
    }
}

/// The sound of a sentence.
pub fn sound(output: &Output) -> Result<Sound, String> {
    let audio = output.values.iter().find(|(name, _)| name == AUDIO);
    match audio {
        Some((_, NewValue::Bytes { bytes, .. })) => Sound::read(bytes),
        _ => Err("the stage made no audio".to_owned()),
    }
}

fn prepared(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    spec: &StageSpec,
    folder: &Utf8Path,
) -> Result<PreparedStage, CliError> {
    let items = Elsewhere { fields: &[TEXT, SPEAKER, LANGUAGE, SPEED], folder };
    prepare(engine, pipeline, cache, spec, &items, &mut |_| {}).map_err(|error| {
        let (message, file) = (error.to_string(), &pipeline.file);
        match error {
            ReplayError::Engine(error) => error.into(),
            ReplayError::Early(stage) => CliError::failed(
                format!("`{stage}` is not up to date, and `{}` needs it", spec.name),
                format!("`throstle run {file} {stage}` first"),
            ),
            ReplayError::Apart { .. } => CliError::failed(
                message,
                "make it in a stage that works on single items, such as `command` or `python`",
            ),
            ReplayError::Read(_) => CliError::failed(message, format!("`throstle run {file}`")),
            _ => CliError::Failed { message, help: None },
        }
    })
}

fn not_utf8(folder: &std::path::Path) -> CliError {
    let message = format!("`{}` is not UTF-8", folder.display());
    CliError::failed(message, "set `TMPDIR` to another folder")
}

/// The failure of a voice as a whole.
pub fn failed(voice: &str, error: &StageError) -> CliError {
    let help = error.help().map(str::to_owned);
    CliError::Failed { message: format!("`{voice}` cannot speak: {error}"), help }
}

#[cfg(test)]
impl Voice {
    /// A voice without a model.
    pub fn for_tests(name: &str, speakers: &[&str]) -> Voice {
        Voice {
            name: name.to_owned(),
            speakers: speakers.iter().map(|name| (*name).to_owned()).collect(),
            license: None,
            reads: &[],
            speaker: None,
            language: None,
            reading: None,
            on_unknown: OnUnknown::Fail,
            model: VoiceModel::Stage(0),
            batch: 1,
        }
    }
}
