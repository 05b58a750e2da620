//! The folder that names the speaker of a clip.

use std::collections::BTreeSet;

use stage_core::StageError;
use stage_core::escape::clean;
use stage_formats::shapes::listed;

/// The folder that names the speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpeakerFolder {
    /// The first one below the data, unless that leaves a doubt.
    #[default]
    Auto,
    /// The folder of this number below the data, from 0.
    Level(usize),
    /// The folder of the clip itself.
    Last,
    /// Clips have no speaker.
    None,
}

/// The names of the choices with a number.
const LEVELS: [&str; 3] = ["first", "second", "third"];

/// Folders that hold parts of a corpus rather than speakers.
const PARTS: [&str; 19] = [
    "audio",
    "audios",
    "clean",
    "clips",
    "data",
    "dev",
    "eval",
    "other",
    "recordings",
    "test",
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "wav",
    "wavs",
    "flac",
    "mp3",
];

/// Folders in folders, in which the speaker may be on several levels.
#[derive(Debug, PartialEq)]
pub struct UnclearSpeaker {
    example: String,
    /// The names on each level.
    levels: Vec<BTreeSet<String>>,
}

impl SpeakerFolder {
    pub fn named(name: &str) -> Option<SpeakerFolder> {
        match name {
            "auto" => Some(SpeakerFolder::Auto),
            "last" => Some(SpeakerFolder::Last),
            "none" => Some(SpeakerFolder::None),
            name => LEVELS.iter().position(|level| *level == name).map(SpeakerFolder::Level),
        }
    }

    /// The speaker of a clip by its id; None for a clip above the folders of speakers.
    pub fn of(self, id: &str) -> Option<&str> {
        let (folders, _) = id.rsplit_once('/')?;
        match self {
            SpeakerFolder::Auto => folders.split('/').next(),
            SpeakerFolder::Level(level) => folders.split('/').nth(level),
            SpeakerFolder::Last => folders.rsplit('/').next(),
            SpeakerFolder::None => None,
        }
    }

    /// An error if the first folders of clips may be no speakers: there is only one of them, or all
    /// have names of parts of a corpus, and there are several folders in them.
    pub fn check<'a>(self, ids: impl Iterator<Item = &'a str>) -> Result<(), UnclearSpeaker> {
        if self != SpeakerFolder::Auto {
            return Ok(());
        }
        let mut levels: Vec<BTreeSet<String>> = Vec::new();
        let mut example = None;
        for id in ids {
            let folders: Vec<&str> = id.split('/').collect();
            let folders = &folders[..folders.len() - 1];
            for (level, name) in folders.iter().enumerate().take(LEVELS.len()) {
                match levels.get_mut(level) {
                    Some(names) if names.contains(*name) => {}
                    Some(names) => drop(names.insert((*name).to_owned())),
                    None => levels.push([(*name).to_owned()].into()),
                }
            }
            if folders.len() > 1 {
                example.get_or_insert(id);
            }
        }
        let (Some(example), [first, second, ..]) = (example, levels.as_slice()) else {
            return Ok(());
        };
        let is_one = first.len() == 1 && second.len() > 1;
        if is_one || first.iter().all(|name| is_part(name)) {
            Err(UnclearSpeaker { example: example.to_owned(), levels })
        } else {
            Ok(())
        }
    }
}

/// Tests for names such as `train`, `train-clean-100` and `wav48`.
fn is_part(name: &str) -> bool {
    let name = name.to_lowercase();
    let word = name.split(['-', '_', '.']).next().unwrap_or(&name);
    let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
    PARTS.contains(&word)
}

impl UnclearSpeaker {
    /// The error of the stage for this folder of data.
    pub fn error(&self, folder: &str) -> StageError {
        let example = clean(&self.example);
        let parts: Vec<&str> = example.split('/').collect();
        let of: Vec<String> =
            parts[..parts.len() - 1].iter().map(|part| format!("`{part}`")).collect();
        let message = format!(
            "the speakers of `{folder}` are unclear: `{example}` may be of {}",
            of.join(" or ")
        );
        let choice = |(level, names): (&str, &BTreeSet<String>)| {
            let noun = if names.len() == 1 { "speaker" } else { "speakers" };
            let (count, names) = (names.len(), listed(names.iter().map(String::as_str)));
            format!("`speaker = \"{level}\"` for {count} {noun}: {names}")
        };
        // Parts of a corpus, or a single folder, are hardly the speakers.
        let is_unlikely =
            |names: &BTreeSet<String>| names.len() == 1 || names.iter().all(|name| is_part(name));
        let mut levels: Vec<(&str, &BTreeSet<String>)> =
            LEVELS.into_iter().zip(&self.levels).collect();
        levels.sort_by_key(|(_, names)| is_unlikely(names));
        let choices: Vec<String> = levels.into_iter().map(choice).collect();
        let help = format!(
            "write {}; or `speaker = \"none\"` for clips without speakers",
            choices.join("; ")
        );
        StageError::with_help(message, help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_clear(ids: &[&str]) -> bool {
        SpeakerFolder::Auto.check(ids.iter().copied()).is_ok()
    }

    #[test]
    fn each_choice_takes_its_folder() {
        let speaker = |name: &str| SpeakerFolder::named(name).and_then(|one| one.of("a/b/c/d"));
        assert_eq!(speaker("auto"), Some("a"));
        assert_eq!(speaker("first"), Some("a"));
        assert_eq!(speaker("second"), Some("b"));
        assert_eq!(speaker("third"), Some("c"));
        assert_eq!(speaker("last"), Some("c"));
        assert_eq!(speaker("none"), None);
        assert_eq!(SpeakerFolder::Level(2).of("a/b/c"), None);
        assert_eq!(SpeakerFolder::Auto.of("top"), None);
        assert_eq!(SpeakerFolder::named("fourth"), None);
    }

    #[test]
    fn the_first_folder_is_the_speaker_where_there_are_several() {
        assert!(is_clear(&["aino/take1/a", "eero/take1/e", "eero/take2/e"]));
        assert!(is_clear(&["aino/a", "eero/e", "top"]));
        assert!(is_clear(&["train/a", "train/b"]), "one folder of clips may be a speaker");
        assert!(is_clear(&["103/1240/a", "103/1241/b", "1034/121119/c"]), "LibriTTS");
        assert!(is_clear(&["aino/take1/a"]));
    }

    #[test]
    fn a_doubt_is_asked_about() {
        for ids in [
            &["wavs/aino/a", "wavs/eero/e"][..],
            &["train/aino/a", "test/eero/e"],
            &["train-clean-100/103/1240/a", "dev-clean/84/121123/b"],
            &["aino/take1/a", "aino/take2/b"],
        ] {
            assert!(!is_clear(ids), "{ids:?}");
        }
        let unclear = SpeakerFolder::Auto.check(["wavs/aino/a", "wavs/eero/e"].into_iter());
        let error = unclear.err().map(|unclear| unclear.error("data"));
        let Some(StageError::Failed { message, help: Some(help) }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(
            message,
            "the speakers of `data` are unclear: `wavs/aino/a` may be of `wavs` or `aino`"
        );
        let likely = "write `speaker = \"second\"` for 2 speakers: `aino`, `eero`; ";
        assert!(help.starts_with(likely), "{help}");
    }
}
