//! Corpora in other layouts: what keeps recordings and texts from being pairs, and what to write.

use std::collections::{BTreeMap, HashMap};

use camino::Utf8Path;
use stage_core::StageError;
use stage_core::escape::clean;

use super::ClipFiles;
use crate::corpus::path;

/// The reason why no recording of a folder has a transcript of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutPairs {
    recordings: usize,
    first: String,
    why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// A text has the name of the recording and more, as `x.normalized.txt` of LibriTTS.
    Endings(Vec<String>),
    /// The text of the recording is in another folder, as in VCTK.
    OtherFolder {
        audio: String,
        transcript: String,
    },
    /// A file with the texts of many recordings, as `84-121123.trans.txt` of LibriSpeech.
    Shared(String),
    /// A table, as `metadata.csv` of LJSpeech.
    Table(String),
    Nothing,
}

impl WithoutPairs {
    /// None without a recording.
    pub(super) fn of(
        clips: &BTreeMap<String, ClipFiles>,
        others: &[String],
    ) -> Option<WithoutPairs> {
        let recordings = || clips.iter().filter(|(_, clip)| !clip.audios.is_empty());
        let (first_id, first) = recordings().next()?;
        let texts: Vec<&String> =
            clips.values().flat_map(|clip| &clip.transcripts).chain(others).collect();
        let why = endings(first_id, &texts)
            .or_else(|| other_folder(clips, &texts))
            .or_else(|| texts.iter().find(|text| text.ends_with(".trans.txt")).map(shared))
            .or_else(|| others.iter().find(|name| is_table(name)).cloned().map(Why::Table));
        let first = first.audios.first()?.clone();
        Some(WithoutPairs {
            recordings: recordings().count(),
            first,
            why: why.unwrap_or(Why::Nothing),
        })
    }

    /// The error of the stage for this folder of data.
    pub fn error(&self, folder: &str) -> StageError {
        let WithoutPairs { recordings, first, why } = self;
        let (folder, first) = (clean(folder), clean(first));
        let message = |but: String| match recordings {
            1 => format!("the only recording in `{folder}` has no transcript: {but}"),
            many => format!("none of the {many} recordings in `{folder}` has a transcript: {but}"),
        };
        let at = |path: &str| Utf8Path::new(&*folder).join(path);
        match why {
            Why::Endings(endings) => {
                let own = |ending: &String| format!("`{}`", clean(ending));
                let listed: Vec<String> = endings.iter().map(own).collect();
                let but = format!(
                    "the texts of `{first}` end with {} instead of `.lab` or `.txt`",
                    listed.join(" and ")
                );
                let lines = endings.iter().map(|one| format!("`transcript = \"{}\"`", clean(one)));
                let lines: Vec<String> = lines.collect();
                let help = format!("write {} in the stage", lines.join(" or "));
                StageError::with_help(message(but), help)
            }
            Why::OtherFolder { audio, transcript } => {
                let but = format!(
                    "the text of `{}` is in another folder, as `{}`",
                    clean(audio),
                    clean(transcript)
                );
                StageError::with_help(message(but), beside(&folder, audio, transcript))
            }
            Why::Shared(file) => {
                let but = format!("`{}` seems to have the texts of many", clean(file));
                let help = format!(
                    "make a table of all of these files, and read it with `corpus.table`: `find \
                     {folder} -name '*.trans.txt' -exec sh -c 'sed \"s|^\\([^ ]*\\) \
                     |$(dirname \"$1\")/\\1.flac\\||\" \"$1\"' sh {{}} \\; > metadata.csv`"
                );
                StageError::with_help(message(but), help)
            }
            Why::Table(file) => {
                let but = format!("but there is `{}`", clean(file));
                let help = format!(
                    "if it is the table of the clips, use `corpus.table` with `table = \"{}\"`",
                    at(file)
                );
                StageError::with_help(message(but), help)
            }
            Why::Nothing => StageError::with_help(
                message(format!("such as `{first}`, which has no `.lab` or `.txt` beside it")),
                "write what is said in `a.wav` to `a.txt` beside it, or make a table for \
                 `corpus.table`; long recordings are for `corpus.recordings`",
            ),
        }
    }
}

fn shared(text: &&String) -> Why {
    Why::Shared((*text).clone())
}

/// The endings of files that are named like the recording with this id, as far as they are texts.
fn endings(id: &str, texts: &[&String]) -> Option<Why> {
    let ending = |text: &&String| {
        let rest = text.strip_prefix(id)?;
        (rest.starts_with('.') && rest.ends_with(".txt")).then(|| rest.to_owned())
    };
    let endings: Vec<String> = texts.iter().filter_map(ending).collect();
    (!endings.is_empty()).then_some(Why::Endings(endings))
}

/// A recording and its text in two trees of folders.
fn other_folder(clips: &BTreeMap<String, ClipFiles>, texts: &[&String]) -> Option<Why> {
    let by_name: HashMap<&str, &String> =
        texts.iter().filter_map(|text| Some((name_of_text(text)?, *text))).collect();
    clips.iter().filter(|(_, clip)| !clip.audios.is_empty()).find_map(|(id, clip)| {
        let name = id.rsplit('/').next().unwrap_or(id);
        // VCTK has the recordings of two microphones.
        let shorter = name.rsplit_once('_').map(|(start, _)| start);
        let text = by_name.get(name).or_else(|| by_name.get(shorter?))?;
        let (audio, transcript) = (clip.audios.first()?.clone(), (*text).clone());
        Some(Why::OtherFolder { audio, transcript })
    })
}

fn name_of_text(text: &str) -> Option<&str> {
    let name = text.rsplit('/').next()?;
    name.strip_suffix(".txt").or_else(|| name.strip_suffix(".lab"))
}

fn is_table(name: &str) -> bool {
    [".csv", ".tsv", ".csv.gz", ".tsv.gz"].iter().any(|end| name.ends_with(end))
}

/// The commands that bring each text to its recording.
fn beside(folder: &str, audio: &str, transcript: &str) -> String {
    let stem = path::without_audio_extension(audio);
    let text = transcript.rsplit_once('.').map_or(transcript, |(stem, _)| stem);
    let (of_audio, of_text) = (stem.split_once('/'), text.split_once('/'));
    match (of_audio, of_text) {
        // The same names below two folders.
        (Some((sounds, one)), Some((texts, other))) if one == other => format!(
            "copy the texts beside the recordings, `cp -r {folder}/{texts}/. {folder}/{sounds}/`, \
             and write `folder = \"{folder}/{sounds}\"`"
        ),
        _ => format!(
            "copy each text beside its recording under its name, as `{}.txt`; or write a table for \
             `corpus.table` with lines such as `{audio}|TEXT|SPEAKER`",
            clean(stem)
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::pair;
    use super::*;

    fn told(files: &[&str]) -> (String, String) {
        let listing = pair(files.iter().copied(), None);
        match listing.without_pairs.unwrap().error("data") {
            StageError::Failed { message, help: Some(help) } => (message, help),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_endings_of_libritts_are_named() {
        let (message, help) = told(&[
            "103/1240/103_1240_000000_000001.wav",
            "103/1240/103_1240_000000_000001.normalized.txt",
            "103/1240/103_1240_000000_000001.original.txt",
            "103/1240/103_1240.trans.tsv",
        ]);
        assert_eq!(
            message,
            "the only recording in `data` has no transcript: the texts of \
             `103/1240/103_1240_000000_000001.wav` end with `.normalized.txt` and `.original.txt` \
             instead of `.lab` or `.txt`"
        );
        assert_eq!(
            help,
            "write `transcript = \".normalized.txt\"` or `transcript = \".original.txt\"` in the stage"
        );
    }

    #[test]
    fn the_two_trees_of_vctk_are_brought_together() {
        let (message, help) = told(&["wav48/p225/p225_001.wav", "txt/p225/p225_001.txt"]);
        assert!(message.ends_with(
            "the text of `wav48/p225/p225_001.wav` is in another folder, as `txt/p225/p225_001.txt`"
        ));
        assert_eq!(
            help,
            "copy the texts beside the recordings, `cp -r data/txt/. data/wav48/`, and write \
             `folder = \"data/wav48\"`"
        );
        let (message, help) =
            told(&["silence_trimmed/p225/p225_001_mic1.flac", "txt/p225/p225_001.txt"]);
        assert!(message.contains("as `txt/p225/p225_001.txt`"), "{message}");
        assert!(help.contains("as `silence_trimmed/p225/p225_001_mic1.txt`"), "{help}");
    }

    #[test]
    fn texts_of_many_and_tables_lead_to_the_kind_that_reads_a_table() {
        let (message, help) =
            told(&["84/121123/84-121123-0000.flac", "84/121123/84-121123.trans.txt"]);
        assert!(message.contains("`84/121123/84-121123.trans.txt` seems to have"), "{message}");
        assert!(help.contains("`corpus.table`"), "{help}");
        let (message, help) = told(&["wavs/a.wav", "metadata.csv"]);
        assert!(message.ends_with("but there is `metadata.csv`"), "{message}");
        assert!(help.contains("`table = \"data/metadata.csv\"`"), "{help}");
        let (message, help) = told(&["a.wav"]);
        assert!(message.contains("such as `a.wav`"), "{message}");
        assert!(help.contains("`a.txt`"), "{help}");
    }

    #[test]
    fn one_pair_is_enough() {
        let listing = pair(["a.wav", "a.txt", "b.wav", "b.normalized.txt"], None);
        assert_eq!(listing.without_pairs, None);
    }
}
