//! Pipelines that speak with published files.

/// Published files that have to speak, with what the files do not say. Paths are absolute.
#[derive(Clone, Debug, Default)]
pub struct PublishedFiles {
    /// The folder with the weights and the files beside them.
    pub folder: String,
    /// The file of the weights in it, if there are several.
    pub file: Option<String>,
    /// The model reads the phonemes of texts.
    pub reads_phonemes: bool,
    /// The folder or file of the codec, for models that need one beside.
    pub codec: Option<String>,
    pub reference: Option<ReferenceClip>,
    /// A voice that comes with the model.
    pub speaker: Option<String>,
    pub language: Option<String>,
}

/// The reason why published files cannot speak.
#[derive(Clone, Debug)]
pub struct SpeechGap {
    pub reason: String,
    /// All that has to be given beside the files.
    pub needs: Vec<SpeechNeed>,
}

/// What some published files need to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeechNeed {
    Reference,
    Language,
}

/// A recording in a corpus of JSON lines, under the id `reference`.
#[derive(Clone, Debug)]
pub struct ReferenceClip {
    pub table: String,
    pub audio: String,
}

/// The name of the stage that speaks.
pub const SPEECH: &str = "speech";

/// The stages `model` and `sentences` of a manifest; the family of the model adds the others.
pub(crate) fn manifest(files: &PublishedFiles, family: &str) -> String {
    let folder = quoted(&files.folder);
    let file = files.file.as_deref().map(|file| format!("file = {}\n", quoted(file)));
    let file = file.unwrap_or_default();
    format!(
        "[pipeline]\nname = \"voice\"\n\n[assets.files]\npath = {folder}\n\n[stage.model]\n\
         use = \"model.import\"\nasset = \"assets.files\"\nfamily = \"{family}\"\n{file}\n\
         [stage.sentences]\nuse = \"corpus.sentences\"\nsentences = [\"a\"]\n"
    )
}

impl ReferenceClip {
    /// The stage `clip`, with the recording at a sample rate.
    pub(crate) fn stages(&self, rate: u32) -> String {
        let (table, audio) = (quoted(&self.table), quoted(&self.audio));
        format!(
            "\n[stage.recording]\nuse = \"corpus.jsonl\"\nfile = {table}\naudio = {audio}\n\n\
             [stage.clip]\nuse = \"audio.resample\"\ninput = \"recording\"\nrate = \"{rate}Hz\"\n"
        )
    }
}

/// A TOML string; the escapes of JSON are also those of TOML.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
