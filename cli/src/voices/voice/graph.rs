//! A voice that is a graph, spoken in this process by onnxruntime.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use camino::Utf8PathBuf;
use engine::engine::StopFlag;
use engine::run::stage_worker::Results;
use stage_core::{
    Detached, FieldType, Item, ItemJob, Job, NewValue, Output, ParameterValue, Parameters, Reject,
    Setup, StageError,
};
use stage_player::{GraphVoice, VoiceFiles};
use stage_speech::audio::clip::{Clip, Samples};
use stage_speech::audio::wav;
use stage_speech::text::reader::Reader;

use super::published::user_cache;
use super::reading::Reading;
use super::speakers::Speakers;
use super::{AUDIO, SPEAKER, SPEED, TEXT, Voice, VoiceModel, Voices, failed};
use crate::arguments::{OnUnknown, VoiceOptions};
use crate::error::CliError;
use crate::project::Program;

/// The stage that writes phonemes.
const PHONEMISE: &str = "text.phonemise";
const SEED: u64 = 1;
const WAV: &str = "audio/wav";

/// The fields of a sentence for a voice with one speaker, and with several.
pub const READS_ONE: &[(&str, FieldType)] = &[(TEXT, FieldType::Text), (SPEED, FieldType::Number)];
pub const READS_SEVERAL: &[(&str, FieldType)] =
    &[(TEXT, FieldType::Text), (SPEED, FieldType::Number), (SPEAKER, FieldType::Text)];

/// A graph that is being opened in a thread of its own, or open.
pub struct GraphSpeaker {
    pub files: Arc<VoiceFiles>,
    seed: u64,
    stop: StopFlag,
    opening: Option<JoinHandle<Result<GraphVoice, StageError>>>,
    voice: Option<GraphVoice>,
}

impl Voices {
    /// Adds a graph; the reason if it lacks the wished speaker.
    pub(super) fn add_graph(
        &mut self,
        program: &Program,
        (name, speaker): (&str, GraphSpeaker),
        options: &VoiceOptions,
    ) -> Result<Option<CliError>, CliError> {
        let phonemiser = speaker.phonemiser(program).map_err(|error| failed(name, &error))?;
        let reader = Reader::Model(Box::new(speaker.files.tokenizer.clone()));
        let speakers = speaker.speakers();
        let wished = options.speaker.as_deref();
        let refusal = wished.and_then(|wished| speakers.require(name, wished).err());
        let wished = options.speaker.clone().filter(|_| refusal.is_none());
        self.voices.push(Voice {
            name: name.to_owned(),
            reads: speaker.reads(),
            speaker: wished.or_else(|| speakers.names.first().cloned()),
            language: None,
            speakers: speakers.names,
            reading: Some(Arc::new(Reading::of_graph(phonemiser, reader))),
            on_unknown: options.on_unknown.unwrap_or(OnUnknown::Fail),
            license: None,
            batch: 1,
            model: VoiceModel::Graph(self.graphs.len()),
        });
        self.graphs.push(speaker);
        Ok(refusal)
    }
}

/// A process must not end while onnxruntime starts in it.
impl Drop for GraphSpeaker {
    fn drop(&mut self) {
        if let Some(opening) = self.opening.take() {
            let _ = opening.join();
        }
    }
}

impl GraphSpeaker {
    /// Reads the files of a voice, and begins to open its graph.
    pub fn start(
        graph: &Utf8PathBuf,
        options: &VoiceOptions,
        stop: &StopFlag,
    ) -> Result<GraphSpeaker, CliError> {
        let unread = |error: StageError| CliError::Failed {
            message: format!("cannot speak with `{graph}`: {error}"),
            help: error.help().map(str::to_owned),
        };
        let files = Arc::new(VoiceFiles::read(graph).map_err(unread)?);
        let home = user_cache()?.join("players");
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.map_or_else(processors, usize::from);
        let graph = graph.clone();
        let open = move || GraphVoice::open(&graph, &home, threads);
        let opening = Builder::new().name("opening".into()).spawn(open);
        Ok(GraphSpeaker {
            files,
            seed: options.seed.unwrap_or(SEED),
            stop: stop.clone(),
            opening: Some(opening.map_err(CliError::process("start a thread"))?),
            voice: None,
        })
    }

    pub fn speakers(&self) -> Speakers {
        Speakers { names: self.files.speakers.clone(), count: Some(self.files.num_speakers) }
    }

    /// The fields that its sentences may have.
    pub fn reads(&self) -> &'static [(&'static str, FieldType)] {
        if self.files.num_speakers > 1 { READS_SEVERAL } else { READS_ONE }
    }

    /// The stage that writes its phonemes; None if it reads characters.
    pub fn phonemiser(&self, program: &Program) -> Result<Option<Box<dyn ItemJob>>, StageError> {
        let Some(voice) = self.files.tokenizer.voice() else { return Ok(None) };
        let stage = program.stages.iter().find(|stage| stage.kind().name == PHONEMISE);
        let stage = stage.ok_or_else(|| StageError::failed("there is no stage for phonemes"))?;
        let parameters =
            Parameters([("voice".to_owned(), ParameterValue::Text(voice.to_owned()))].into());
        let environment = program.engine(None, false).environment;
        let setup = Setup { parameters, environment, ..Setup::default() };
        match stage.open(setup, &mut Detached::default())? {
            Job::Item(job) => Ok(Some(job)),
            _ => Err(StageError::failed("the stage for phonemes works on no items")),
        }
    }

    /// Waits until the graph is open.
    pub fn open(&mut self) -> Result<&mut GraphVoice, StageError> {
        if let Some(opening) = self.opening.take() {
            let panicked = |_| Err(StageError::failed("the graph could not be opened"));
            self.voice = Some(opening.join().unwrap_or_else(panicked)?);
        }
        self.voice.as_mut().ok_or_else(|| StageError::failed("the graph could not be opened"))
    }

    /// Speaks sentences one by one.
    pub fn process(&mut self, items: &[Item]) -> Results {
        items.iter().map(|item| self.one(item)).collect()
    }

    fn one(&mut self, item: &Item) -> Result<Result<Output, Reject>, StageError> {
        let (stop, rate) = (self.stop.clone(), self.files.sampling_rate);
        let utterance = match self.files.utterance(&item.fields, self.seed) {
            Ok(utterance) => utterance,
            Err(reject) => return Ok(Err(reject)),
        };
        let samples = self.open()?.speak(&utterance, &|| stop.is_requested())?;
        let clip = Clip { rate, channels: 1, samples: Samples::Wide(samples) };
        let written = wav::write(clip).map_err(|fault| StageError::failed(fault.to_string()))?;
        let bytes = written.0.into();
        Ok(Ok(Output::default().with(AUDIO, NewValue::Bytes { kind: WAV.into(), bytes })))
    }
}
