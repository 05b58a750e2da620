//! The files below the audio folder of a table, by names without letter case and Unicode form.

use std::collections::HashMap;

use camino::Utf8PathBuf;
use unicode_normalization::UnicodeNormalization;

use super::path::{self, AUDIO_EXTENSIONS};

/// A file as it is named on the disk.
#[derive(Debug, PartialEq)]
pub enum FileMatch<'a> {
    One(&'a str),
    /// Several names that differ in letter case or Unicode form.
    Several(&'a str, &'a str),
    None,
}

#[derive(Default)]
pub struct ListedFiles {
    by_name: HashMap<String, Vec<String>>,
}

impl ListedFiles {
    pub fn new(paths: Vec<Utf8PathBuf>) -> ListedFiles {
        let mut by_name: HashMap<String, Vec<String>> = HashMap::with_capacity(paths.len());
        for path in paths {
            let path = path.into_string();
            by_name.entry(folded(&path)).or_default().push(path);
        }
        ListedFiles { by_name }
    }

    /// The file with this name, or the only file with a name that differs in case or Unicode form only.
    pub fn find(&self, path: &str) -> FileMatch<'_> {
        let alike = self.by_name.get(&folded(path)).map(Vec::as_slice).unwrap_or_default();
        let composed: String = path.nfc().collect();
        if let Some(name) = alike.iter().find(|name| *name == path) {
            return FileMatch::One(name);
        }
        let is_same_case = |name: &&String| name.nfc().eq(composed.chars());
        let same_case: Vec<&String> = alike.iter().filter(is_same_case).collect();
        let chosen = if same_case.is_empty() { alike.iter().collect() } else { same_case };
        match chosen[..] {
            [] => FileMatch::None,
            [name] => FileMatch::One(name),
            [first, second, ..] => FileMatch::Several(first, second),
        }
    }

    /// The file of a path without an extension, with the first known extension that exists.
    pub fn resolve(&self, path: &str) -> FileMatch<'_> {
        let candidates = AUDIO_EXTENSIONS.iter().map(|extension| format!("{path}.{extension}"));
        let mut found = candidates.map(|candidate| self.find(&candidate));
        match self.find(path) {
            FileMatch::None => {
                found.find(|found| *found != FileMatch::None).unwrap_or(FileMatch::None)
            }
            found => found,
        }
    }

    /// A file with the same name but another extension of audio.
    pub fn with_other_extension(&self, path: &str) -> Option<&str> {
        match self.resolve(path::without_audio_extension(path)) {
            FileMatch::One(name) => Some(name),
            _ => None,
        }
    }
}

impl ListedFiles {
    /// The only folder in which a path leads to a file.
    pub fn folder_of(&self, path: &str) -> Option<&str> {
        let end = format!("/{}", folded(path::without_audio_extension(path)));
        let mut folders = self.by_name.iter().filter_map(|(name, files)| {
            let folder = path::without_audio_extension(name).strip_suffix(end.as_str())?;
            let is_audio = path::has_audio_extension(name);
            // Folding may change the length of letters outside of ASCII.
            let first = files.first().filter(|file| is_audio && file.is_ascii())?;
            first.get(..folder.len())
        });
        let folder = folders.next()?;
        folders.all(|other| other == folder).then_some(folder)
    }
}

pub fn folded(path: &str) -> String {
    if path.is_ascii() {
        path.to_ascii_lowercase()
    } else {
        path.nfc().flat_map(char::to_lowercase).nfc().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> ListedFiles {
        ListedFiles::new(names.iter().map(Utf8PathBuf::from).collect())
    }

    #[test]
    fn names_that_differ_in_case_or_unicode_form_are_found() {
        let files = listed(&["a\u{308}iti.wav", "B.WAV", "sub/C.wav"]);
        assert_eq!(files.find("\u{e4}iti.wav"), FileMatch::One("a\u{308}iti.wav"));
        assert_eq!(files.find("\u{c4}iti.wav"), FileMatch::One("a\u{308}iti.wav"));
        assert_eq!(files.find("b.wav"), FileMatch::One("B.WAV"));
        assert_eq!(files.find("Sub/c.WAV"), FileMatch::One("sub/C.wav"));
        assert_eq!(files.find("d.wav"), FileMatch::None);
        assert_eq!(files.resolve("b"), FileMatch::One("B.WAV"));
    }

    #[test]
    fn the_exact_name_wins_and_a_doubt_is_told() {
        let files = listed(&["a.wav", "A.wav", "a.WAV", "\u{e4}.wav", "a\u{308}.wav"]);
        assert_eq!(files.find("a.wav"), FileMatch::One("a.wav"));
        assert!(matches!(files.find("A.WAV"), FileMatch::Several(..)));
        assert_eq!(files.find("a\u{308}.wav"), FileMatch::One("a\u{308}.wav"));
        assert!(matches!(files.find("\u{c4}.wav"), FileMatch::Several(..)));
    }

    #[test]
    fn a_path_without_extension_is_looked_up_in_the_fixed_order() {
        let files = listed(&["x.mp3", "x.FLAC", "y"]);
        assert_eq!(files.resolve("x"), FileMatch::One("x.FLAC"));
        assert_eq!(files.resolve("y"), FileMatch::One("y"));
        assert_eq!(files.resolve("z"), FileMatch::None);
        assert_eq!(files.with_other_extension("x.wav"), Some("x.FLAC"));
    }
}
