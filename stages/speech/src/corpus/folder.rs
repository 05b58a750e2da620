//! `corpus.folder`: audio files with their `.lab` or `.txt`, in folders of speakers.
//!
//! Works on a listing: the stage lists the folder and reads the files.

mod layout;
mod speaker;

use std::collections::BTreeMap;

use super::path::{self, PathProblem};

pub use layout::WithoutPairs;
pub use speaker::{SpeakerFolder, UnclearSpeaker};

const TRANSCRIPT_EXTENSIONS: [&str; 2] = ["lab", "txt"];

/// A clip with its transcript file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClipPair {
    /// Path of the audio without its extension, in NFC.
    pub id: String,
    pub audio: String,
    pub transcript: String,
}

/// The reason why files were quarantined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderProblem {
    #[error("`{audio}` has no `.lab` or `.txt` beside it")]
    NoTranscript { audio: String },
    #[error("`{transcript}` has no audio beside it")]
    NoAudio { transcript: String },
    #[error("`{first}` and `{second}` are the same clip; keep one of them")]
    TwoAudios { first: String, second: String },
    #[error("`{first}` and `{second}` are transcripts of the same clip; keep one of them")]
    TwoTranscripts { first: String, second: String },
    #[error("the path {0}")]
    Path(#[from] PathProblem),
}

impl FolderProblem {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        match self {
            FolderProblem::NoTranscript { .. } => "no-transcript",
            FolderProblem::NoAudio { .. } => "no-audio",
            FolderProblem::TwoAudios { .. } | FolderProblem::TwoTranscripts { .. } => {
                "duplicate-id"
            }
            FolderProblem::Path(_) => "unsafe-path",
        }
    }
}

/// The contents of a listing: pairs in the order of their ids, and problems by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub pairs: Vec<ClipPair>,
    pub problems: Vec<(String, FolderProblem)>,
    /// Files that are neither audio nor transcript.
    pub other_files: usize,
    /// The reason why there is not a single pair, though there are recordings.
    pub without_pairs: Option<WithoutPairs>,
}

#[derive(Default)]
struct ClipFiles {
    audios: Vec<String>,
    transcripts: Vec<String>,
}

/// Pairs the files of a listing by folder and stem, in any order of the listing. `ending` is that of
/// the transcripts, if it is not one of the usual ones.
pub fn pair<'a>(paths: impl IntoIterator<Item = &'a str>, ending: Option<&str>) -> Listing {
    let mut listing = Listing::default();
    let mut clips: BTreeMap<String, ClipFiles> = BTreeMap::new();
    let mut others: Vec<String> = Vec::new();
    for written in paths {
        let path = match path::relative(written) {
            Ok(path) => path,
            Err(problem) => {
                listing.problems.push((written.to_owned(), problem.into()));
                continue;
            }
        };
        if path::has_audio_extension(&path) {
            clips.entry(path::id_of(&path)).or_default().audios.push(path);
        } else if let Some(stem) = stem_of_transcript(&path, ending) {
            clips.entry(path::id_of(stem)).or_default().transcripts.push(path);
        } else {
            others.push(path);
        }
    }
    listing.other_files = others.len();
    let is_pair = |clip: &ClipFiles| !clip.audios.is_empty() && !clip.transcripts.is_empty();
    if !clips.values().any(is_pair) {
        listing.without_pairs = WithoutPairs::of(&clips, &others);
    }
    for (id, clip) in clips {
        match clip.verdict(&id) {
            Ok(pair) => listing.pairs.push(pair),
            Err(problem) => listing.problems.push((id, problem)),
        }
    }
    listing.problems.sort_by(|one, other| one.0.cmp(&other.0));
    listing
}

impl ClipFiles {
    fn verdict(mut self, id: &str) -> Result<ClipPair, FolderProblem> {
        self.audios.sort();
        self.transcripts.sort();
        match (self.audios.as_slice(), self.transcripts.as_slice()) {
            ([first, second, ..], _) => {
                Err(FolderProblem::TwoAudios { first: first.clone(), second: second.clone() })
            }
            (_, [first, second, ..]) => {
                Err(FolderProblem::TwoTranscripts { first: first.clone(), second: second.clone() })
            }
            ([audio], [transcript]) => Ok(ClipPair {
                id: id.to_owned(),
                audio: audio.clone(),
                transcript: transcript.clone(),
            }),
            ([audio], []) => Err(FolderProblem::NoTranscript { audio: audio.clone() }),
            ([], transcripts) => Err(FolderProblem::NoAudio {
                transcript: transcripts.first().cloned().unwrap_or_default(),
            }),
        }
    }
}

/// True if a name without a path may belong to a clip: one without an extension may be a folder of
/// clips.
pub fn may_be_of_a_clip(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    path::has_audio_extension(name) || transcript_stem(name).is_some() || !last.contains('.')
}

fn stem_of_transcript<'a>(path: &'a str, ending: Option<&str>) -> Option<&'a str> {
    match ending {
        None => transcript_stem(path),
        Some(ending) => {
            path.strip_suffix(ending).filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
        }
    }
}

fn transcript_stem(path: &str) -> Option<&str> {
    let (stem, extension) = path.rsplit_once('.')?;
    let known = TRANSCRIPT_EXTENSIONS.iter().any(|name| name.eq_ignore_ascii_case(extension));
    (known && !stem.is_empty() && !stem.ends_with('/')).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_pair_by_folder_and_stem() {
        let listing = pair(
            ["b/x.lab", "top.wav", "a/x.WAV", "a/x.txt", "b/x.mp3", "top.lab", "a/x.npy"],
            None,
        );
        let found: Vec<_> = listing.pairs.iter().map(|pair| pair.id.as_str()).collect();
        assert_eq!(found, ["a/x", "b/x", "top"]);
        assert_eq!((listing.problems.len(), listing.other_files), (0, 1));
    }

    #[test]
    fn orphans_of_both_kinds_and_duplicate_stems_are_named() {
        let listing =
            pair(["a.wav", "b.lab", "c.wav", "c.mp3", "c.lab", "d.wav", "d.lab", "d.txt"], None);
        let messages: Vec<String> = listing.problems.iter().map(|(_, p)| p.to_string()).collect();
        assert!(listing.pairs.is_empty());
        assert_eq!(
            messages,
            [
                "`a.wav` has no `.lab` or `.txt` beside it",
                "`b.lab` has no audio beside it",
                "`c.mp3` and `c.wav` are the same clip; keep one of them",
                "`d.lab` and `d.txt` are transcripts of the same clip; keep one of them",
            ]
        );
    }

    #[test]
    fn an_ending_of_transcripts_leaves_the_others_alone() {
        let files = ["a/x.wav", "a/x.normalized.txt", "a/x.original.txt", "a/y.trans.txt"];
        let listing = pair(files, Some(".normalized.txt"));
        let found: Vec<_> = listing.pairs.iter().map(|pair| pair.transcript.as_str()).collect();
        assert_eq!(found, ["a/x.normalized.txt"]);
        assert_eq!((listing.problems.len(), listing.other_files), (0, 2));
    }

    #[test]
    fn what_cannot_be_read_counts_where_it_may_be_of_a_clip() {
        for (name, may_be) in
            [("a/x.wav", true), ("x.LAB", true), ("speaker.1/x", true), ("a/x.npy", false)]
        {
            assert_eq!(may_be_of_a_clip(name), may_be, "{name}");
        }
    }

    #[test]
    fn a_decomposed_file_name_pairs_with_a_composed_one() {
        let listing = pair(["a\u{308}.wav", "\u{e4}.lab"], None);
        assert_eq!(listing.pairs.len(), 1);
    }
}
