//! `corpus.recordings`: long recordings with subtitles, a script, or neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{
    Blob, Context, Fields, Item, Job, Reject, Setup, SourceJob, SourceOutput, StageError, Value,
    World,
};

use super::cues::{self, CueFormat};
use super::path::has_audio_extension;
use crate::plain::{JSON, to_json};

const SOUND: [&str; 7] = ["wav", "flac", "mp3", "m4a", "ogg", "aiff", "aif"];

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let script = parameters.is_set("script").then(|| parameters.text("script").map(Into::into));
    Ok(Job::Source(Box::new(RecordingsFolder {
        folder: parameters.text("folder")?.into(),
        script: script.transpose()?,
    })))
}

struct RecordingsFolder {
    folder: Utf8PathBuf,
    /// The text of all recordings that have none of their own.
    script: Option<Utf8PathBuf>,
}

/// The files with one name.
#[derive(Default)]
struct NamedFiles {
    sound: Vec<Utf8PathBuf>,
    /// Sound or videos in formats without a decoder here.
    undecoded: Vec<Utf8PathBuf>,
    texts: Vec<Utf8PathBuf>,
    /// Folders with the name of a text.
    folders: Vec<Utf8PathBuf>,
}

/// The format of a text beside a recording.
#[derive(Clone, Copy, PartialEq)]
enum TextFormat {
    Cues(CueFormat),
    Script,
}

fn extension(path: &Utf8Path) -> String {
    path.extension().unwrap_or_default().to_ascii_lowercase()
}

fn text_format(path: &Utf8Path) -> Option<TextFormat> {
    match extension(path).as_str() {
        "srt" | "vtt" => Some(TextFormat::Cues(CueFormat::Subtitles)),
        "json" => Some(TextFormat::Cues(CueFormat::Json)),
        "txt" => Some(TextFormat::Script),
        _ => None,
    }
}

impl SourceJob for RecordingsFolder {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let listed = world.list(&self.folder)?;
        let mut output = SourceOutput::default();
        let is_ours = |name: &str| {
            let path = Utf8Path::new(name);
            has_audio_extension(name) || text_format(path).is_some()
        };
        output.rejects.extend(listed.rejects.into_iter().filter(|(name, _)| is_ours(name)));
        let script = self.script(world)?;
        let mut ready = Vec::new();
        for (name, found) in self.by_name(listed.files, listed.folders) {
            match found.pair(&name) {
                Ok(pair) => ready.push((name, pair)),
                Err(reject) => output.rejects.push((name, reject)),
            }
        }
        let sounds: Vec<Utf8PathBuf> =
            ready.iter().map(|(_, (sound, _))| self.folder.join(sound)).collect();
        for ((name, (_, text)), fact) in ready.into_iter().zip(world.files(&sounds)?) {
            let audio = fact.map(|fact| Blob {
                digest: fact.digest,
                size: fact.size,
                kind: Blob::RECORDING.into(),
            });
            let text = match text {
                Some(path) => self.text(&path, world)?.map(Some),
                None => Ok(script.clone().map(|script| ("script", script))),
            };
            match audio.and_then(|audio| Ok((audio, text?))) {
                Ok((audio, text)) => output.items.push(item(name, audio, text)),
                Err(reject) => output.rejects.push((name, reject)),
            }
        }
        Ok(output)
    }
}

impl RecordingsFolder {
    /// The files by their path without extension. The script of all recordings is none of them.
    fn by_name(
        &self,
        files: Vec<Utf8PathBuf>,
        folders: Vec<Utf8PathBuf>,
    ) -> BTreeMap<String, NamedFiles> {
        let mut all: BTreeMap<String, NamedFiles> = BTreeMap::new();
        let script = self.script.as_deref();
        for path in files.into_iter().filter(|path| script != Some(&self.folder.join(path))) {
            let name = path.with_extension("").to_string();
            if SOUND.contains(&extension(&path).as_str()) {
                all.entry(name).or_default().sound.push(path);
            } else if has_audio_extension(path.as_str()) {
                all.entry(name).or_default().undecoded.push(path);
            } else if text_format(&path).is_some() {
                all.entry(name).or_default().texts.push(path);
            }
        }
        for path in folders.into_iter().filter(|path| text_format(path).is_some()) {
            if let Some(found) = all.get_mut(path.with_extension("").as_str()) {
                found.folders.push(path);
            }
        }
        // Without a recording of the same name it is an item, and the stage that decodes it names its
        // format. Otherwise it counts as the original of that recording.
        for found in all.values_mut().filter(|found| found.sound.is_empty()) {
            found.sound.append(&mut found.undecoded);
        }
        all
    }

    fn script(&self, world: &mut dyn World) -> Result<Option<Blob>, StageError> {
        let Some(path) = &self.script else { return Ok(None) };
        let bytes = world.read(path)?;
        match script(&bytes) {
            Ok(text) => world.keep("text/plain", text).map(Some),
            Err(reason) => Err(StageError::failed(format!("`{path}`: {reason}"))),
        }
    }

    /// The text of one recording as a field.
    fn text(
        &self,
        path: &Utf8Path,
        world: &mut dyn World,
    ) -> Result<Result<(&'static str, Blob), Reject>, StageError> {
        let bytes = match world.read_one(&self.folder.join(path))? {
            Ok(bytes) => bytes,
            Err(reject) => return Ok(Err(reject)),
        };
        let unreadable = |reason: String| Reject::new("unreadable", format!("`{path}`: {reason}"));
        match text_format(path) {
            Some(TextFormat::Cues(format)) => match cues::read(&bytes, format) {
                Ok(cues) => Ok(Ok(("cues", world.keep(JSON, to_json(&cues)?.into())?))),
                Err(problem) => Ok(Err(unreadable(problem.to_string()))),
            },
            _ => match script(&bytes) {
                Ok(text) => Ok(Ok(("script", world.keep("text/plain", text)?))),
                Err(reason) => Ok(Err(unreadable(reason))),
            },
        }
    }
}

/// A script in UTF-8, without a byte order mark.
fn script(bytes: &Bytes) -> Result<Bytes, String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{FEFF}').unwrap_or(text),
        Err(error) => {
            let at = error.valid_up_to();
            return Err(format!("byte {at} is not UTF-8; save the file as UTF-8"));
        }
    };
    if text.trim().is_empty() {
        Err("it has no text".to_owned())
    } else {
        Ok(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl NamedFiles {
    fn pair(mut self, name: &str) -> Result<(Utf8PathBuf, Option<Utf8PathBuf>), Reject> {
        let list = |paths: &[Utf8PathBuf]| {
            let names: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
            names.join(" and ")
        };
        match (self.sound.len(), self.texts.len()) {
            (0, _) => {
                let reason = format!("{} has no recording beside it", list(&self.texts));
                Err(Reject::new("orphan", reason))
            }
            (1, _) if !self.folders.is_empty() => {
                let reason = format!(
                    "{} has the name of a text of `{}` and is a folder; rename it",
                    list(&self.folders),
                    self.sound[0]
                );
                Err(Reject::new("text-is-folder", reason))
            }
            (1, 0 | 1) => Ok((self.sound.remove(0), self.texts.pop())),
            (1, _) => {
                let reason =
                    format!("{} are texts of the same recording; keep one", list(&self.texts));
                Err(Reject::new("two-texts", reason))
            }
            _ => {
                let found = list(&self.sound);
                let reason =
                    format!("{found} are recordings with the same name `{name}`; keep one");
                Err(Reject::new("two-recordings", reason))
            }
        }
    }
}

fn item(name: String, audio: Blob, text: Option<(&str, Blob)>) -> Item {
    let mut fields = Fields::new();
    fields.set("audio", Value::Blob(Arc::new(audio)));
    fields.set("recording", Value::text(name.as_str()));
    if let Some((field, text)) = text {
        fields.set(field, Value::Blob(Arc::new(text)));
    }
    Item::new(name, fields)
}
