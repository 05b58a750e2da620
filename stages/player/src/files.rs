//! The files of a voice: its graph, and what they tell about its texts and speakers.

use cache::fs::{Fs, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Fields, Reject, StageError};
use stage_families::vits::{
    DESCRIPTION_SUFFIX, PHONEMES, PHONEMISE, ROMANISE, SPEAKERS_FILE, VitsConfig, VitsTokenizer,
    VoiceDescription, describe, read_speakers,
};
use stage_formats::weights::{ENDINGS, GRAPH_ENDING};

use crate::voice::Utterance;

/// The files beside a graph without a description.
const CONFIG: &str = "config.json";
const VOCABULARY: &str = "vocab.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// The fields of a sentence.
const TEXT: &str = "text";
const SPEAKER: &str = "speaker";
const SPEED: &str = "speed";

/// The files of a voice.
#[derive(Clone, Debug)]
pub struct VoiceFiles {
    pub graph: Utf8PathBuf,
    pub tokenizer: VitsTokenizer,
    /// The names of the speakers by number, if all have one.
    pub speakers: Vec<String>,
    pub num_speakers: u64,
    /// Samples a second.
    pub sampling_rate: u32,
    scales: Utterance,
}

impl VoiceFiles {
    /// The only graph of a folder that has no other weights.
    pub fn graph_in(folder: &Utf8Path) -> Option<Utf8PathBuf> {
        let entries = RealFs.read_dir(folder).ok()?;
        let paths: Vec<Utf8PathBuf> =
            entries.iter().map(|entry| folder.join(&entry.name)).collect();
        let ends = |path: &Utf8PathBuf, ending: &str| path.extension() == Some(ending);
        if paths.iter().any(|path| ENDINGS.iter().any(|ending| ends(path, ending))) {
            return None;
        }
        let mut graphs = paths.iter().filter(|path| ends(path, GRAPH_ENDING));
        let only = graphs.next().filter(|_| graphs.next().is_none())?;
        is_described(only).then(|| only.clone())
    }

    /// The file beside a graph that describes it.
    pub fn description_of(graph: &Utf8Path) -> Utf8PathBuf {
        Utf8PathBuf::from(format!("{graph}{DESCRIPTION_SUFFIX}"))
    }

    /// Reads what is beside a graph.
    ///
    /// # Errors
    ///
    /// If nothing describes it, or the description is damaged or unsupported.
    pub fn read(graph: &Utf8Path) -> Result<VoiceFiles, StageError> {
        let described = VoiceFiles::description_of(graph);
        let is_there = |path: &Utf8Path| RealFs.exists(path).unwrap_or(false);
        if is_there(&described) {
            let name = described.file_name().unwrap_or_default();
            let bytes = RealFs.read(&described).map_err(StageError::of_file)?;
            let described = describe(&bytes).map_err(|error| error.of(name))?;
            return VoiceFiles::described(graph, described).map_err(|error| of_file(error, name));
        }
        if is_there(&graph.with_file_name(VOCABULARY)) {
            return VoiceFiles::plain(graph);
        }
        let name = graph.file_name().unwrap_or_default();
        let beside = described.file_name().unwrap_or_default();
        Err(StageError::with_help(
            format!("`{name}` has no description: there is no `{beside}` beside it"),
            "put it there: voices are published with it",
        ))
    }

    fn described(graph: &Utf8Path, own: VoiceDescription) -> Result<VoiceFiles, StageError> {
        Ok(VoiceFiles {
            graph: graph.to_owned(),
            tokenizer: VitsTokenizer::read(&own.vocabulary, &own.tokenizer_config)?,
            speakers: own.speakers.unwrap_or_default(),
            num_speakers: own.num_speakers,
            sampling_rate: own.sampling_rate,
            scales: Utterance {
                noise_scale: own.noise_scale as f32,
                length_scale: own.length_scale as f32,
                noise_scale_duration: own.noise_scale_duration as f32,
                ..Utterance::default()
            },
        })
    }

    /// The files of the tokenizer and of the model beside a graph.
    fn plain(graph: &Utf8Path) -> Result<VoiceFiles, StageError> {
        let read =
            |name: &str| RealFs.read(&graph.with_file_name(name)).map_err(StageError::of_file);
        let config = VitsConfig::parse(&read(CONFIG)?).map_err(|error| error.of(CONFIG))?;
        let tokenizer = VitsTokenizer::read(&read(VOCABULARY)?, &read(TOKENIZER_CONFIG)?)?;
        let has_names = RealFs.exists(&graph.with_file_name(SPEAKERS_FILE)).unwrap_or(false);
        let speakers = match has_names {
            true => read_speakers(&read(SPEAKERS_FILE)?, &config)?,
            false => Vec::new(),
        };
        let rate = config.sampling_rate;
        Ok(VoiceFiles {
            graph: graph.to_owned(),
            tokenizer,
            speakers,
            num_speakers: config.num_speakers.max(1).unsigned_abs(),
            sampling_rate: u32::try_from(rate)
                .map_err(|_| StageError::failed(format!("`{CONFIG}` has the rate {rate}")))?,
            scales: Utterance {
                noise_scale: config.noise_scale as f32,
                length_scale: 1.0 / config.speaking_rate as f32,
                noise_scale_duration: config.noise_scale_duration as f32,
                ..Utterance::default()
            },
        })
    }

    /// A sentence for the graph, from the fields of an item; the reason if it cannot be spoken.
    pub fn utterance(&self, fields: &Fields, seed: u64) -> Result<Utterance, Reject> {
        let reads_phonemes = self.tokenizer.reads_phonemes();
        let field = if reads_phonemes { PHONEMES } else { TEXT };
        let text = fields.text(field).ok_or_else(|| {
            let advice = if reads_phonemes { PHONEMISE } else { "give it a text" };
            Reject::new("no-text", format!("the sentence has no `{field}`: {advice}"))
        })?;
        let tokens = self.tokenizer.encode(&self.tokenizer.prepare(text));
        if tokens.needs_uroman {
            let reason = format!("the model reads romanised texts: {ROMANISE}");
            return Err(Reject::new("not-romanised", reason));
        }
        if tokens.ids.is_empty() {
            return Err(Reject::new("no-tokens", "no character of the text is one of the model"));
        }
        let speed = fields.number(SPEED).unwrap_or(1.0) as f32;
        Ok(Utterance {
            tokens: tokens.ids,
            speaker: self.speaker(fields.text(SPEAKER))?,
            length_scale: self.scales.length_scale / speed,
            seed,
            ..self.scales.clone()
        })
    }

    /// The number of a speaker, by name or number.
    fn speaker(&self, wished: Option<&str>) -> Result<i64, Reject> {
        let Some(wished) = wished else { return Ok(0) };
        let by_name = self.speakers.iter().position(|name| name == wished);
        let number = by_name.map(|at| at as u64).or_else(|| wished.parse().ok());
        let number = number.filter(|number| *number < self.num_speakers);
        let unknown = || Reject::new("speaker", format!("there is no speaker `{wished}`"));
        number.and_then(|number| i64::try_from(number).ok()).ok_or_else(unknown)
    }
}

fn is_described(graph: &Utf8Path) -> bool {
    let beside = [VoiceFiles::description_of(graph), graph.with_file_name(VOCABULARY)];
    beside.iter().any(|path| RealFs.exists(path).unwrap_or(false))
}

fn of_file(error: StageError, name: &str) -> StageError {
    StageError::failed(format!("`{name}`: {error}"))
}
