//! Audio paths in corpora: checks if they are safe, derives ids, and finds files.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Extensions of audio files, in the order in which a path without one is looked up.
pub const AUDIO_EXTENSIONS: [&str; 5] = ["wav", "flac", "mp3", "ogg", "m4a"];

/// Further extensions that are removed to form an id.
const OTHER_AUDIO_EXTENSIONS: [&str; 14] = [
    "wma", "aac", "aiff", "aif", "aifc", "opus", "oga", "mp4", "wave", "webm", "mka", "mkv", "amr",
    "caf",
];

const DEVICE_NAMES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8",
    "com9", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

const DEVICE_NAME_BYTES: usize = 4;
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;

/// The reason why a path is refused. Each message continues "the audio path".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    #[error("is empty")]
    Empty,
    #[error("`{}` is absolute; write it relative to the audio folder", shown(.path))]
    Absolute { path: String },
    #[error("`{path}` leads outside its folder")]
    Parent { path: String },
    #[error("`{path}` is a command (it ends or begins with a bar); commands are never run")]
    Command { path: String },
    #[error("`{path}` is a web address; download the file first")]
    Address { path: String },
    #[error("uses the device name `{name}`")]
    Device { name: String },
    #[error("contains the control character U+{code:04X}")]
    Control { code: u32 },
    #[error("is too long ({bytes} bytes)")]
    TooLong { bytes: usize },
}

/// Checks a path as written and returns it with `/` between its parts and without `.` parts.
pub fn relative(written: &str) -> Result<String, PathProblem> {
    let written = written.trim();
    let path = || shown(written);
    if written.is_empty() {
        return Err(PathProblem::Empty);
    }
    if written.len() > MAX_PATH_BYTES {
        return Err(PathProblem::TooLong { bytes: written.len() });
    }
    let odd = || written.chars().find(|character| is_unprintable(*character));
    if let Some(character) = (!is_plain(written)).then(odd).flatten() {
        return Err(PathProblem::Control { code: character as u32 });
    }
    if written.ends_with('|') || written.starts_with('|') {
        return Err(PathProblem::Command { path: path() });
    }
    if written.contains("://") {
        return Err(PathProblem::Address { path: path() });
    }
    let slashed = if written.contains('\\') {
        Cow::Owned(written.replace('\\', "/"))
    } else {
        Cow::Borrowed(written)
    };
    if slashed.starts_with('/') || has_drive_letter(&slashed) {
        return Err(PathProblem::Absolute { path: written.to_owned() });
    }
    let mut checked = String::with_capacity(slashed.len());
    for part in slashed.split('/') {
        match part {
            "" | "." => continue,
            ".." => return Err(PathProblem::Parent { path: path() }),
            _ if checked.is_empty() => {}
            _ => checked.push('/'),
        }
        checked.push_str(checked_name(part)?);
    }
    if checked.is_empty() { Err(PathProblem::Empty) } else { Ok(checked) }
}

/// The id of a clip: its path without a known audio extension, in NFC.
///
/// Other dots stay, since `LJ001.0001` and `LJ001.0002` are two clips.
pub fn id_of(path: &str) -> String {
    let stem = without_audio_extension(path);
    // ASCII is in normal form.
    if stem.is_ascii() { stem.to_owned() } else { stem.nfc().collect() }
}

/// The part of a path before a known audio extension; the whole path without one.
pub fn without_audio_extension(path: &str) -> &str {
    match path.rsplit_once('.') {
        Some((stem, extension)) if is_audio_extension(extension) && !ends_a_folder(stem) => stem,
        _ => path,
    }
}

/// Tests if the extension is one of audio, in upper or lower case.
pub fn has_audio_extension(path: &str) -> bool {
    without_audio_extension(path).len() != path.len()
}

/// Like [`relative`], for a path that may begin with an absolute audio folder.
pub fn below(folder: Option<&str>, written: &str) -> Result<String, PathProblem> {
    let rest = folder.and_then(|folder| {
        written.trim().strip_prefix(folder.trim_end_matches('/'))?.strip_prefix('/')
    });
    relative(rest.unwrap_or(written))
}

/// Tests if all of it is printable ASCII: most text is, and needs no further checks.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Control characters, and the invisible ones that reorder or hide what a terminal shows.
pub(super) fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{FEFF}')
        || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || matches!(character, '\u{2028}' | '\u{2029}')
}

fn checked_name(name: &str) -> Result<&str, PathProblem> {
    if name.len() > MAX_NAME_BYTES {
        return Err(PathProblem::TooLong { bytes: name.len() });
    }
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let is_short = stem.len() <= DEVICE_NAME_BYTES;
    if is_short && DEVICE_NAMES.iter().any(|device| device.eq_ignore_ascii_case(stem)) {
        return Err(PathProblem::Device { name: name.to_owned() });
    }
    Ok(name)
}

fn has_drive_letter(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':'
}

fn is_audio_extension(extension: &str) -> bool {
    AUDIO_EXTENSIONS
        .iter()
        .chain(&OTHER_AUDIO_EXTENSIONS)
        .any(|known| known.eq_ignore_ascii_case(extension))
}

fn ends_a_folder(stem: &str) -> bool {
    stem.is_empty() || stem.ends_with('/')
}

/// A path short enough for a message.
fn shown(path: &str) -> String {
    match path.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn paths_that_leave_their_folder_or_name_a_device_or_command_are_refused() {
        for path in [
            "../a.wav",
            "a/../../b.wav",
            "/etc/passwd",
            "C:\\a.wav",
            "\\\\host\\a.wav",
            "sox a.wav -t wav - |",
            "|cat a.wav",
            "NUL",
            "wavs/con.wav",
            "aux .wav",
            "a\0.wav",
            "a\u{202E}vaw.wav",
            "http://host/a.wav",
            "",
            " ",
            "./",
        ] {
            assert!(relative(path).is_err(), "{path:?} was accepted");
        }
    }

    #[test]
    fn separators_of_windows_and_single_dots_are_made_plain() {
        assert_eq!(relative("./wavs\\a b.wav").unwrap(), "wavs/a b.wav");
        assert_eq!(relative("console.wav").unwrap(), "console.wav");
    }

    #[test]
    fn an_id_loses_only_the_extension_of_audio() {
        assert_eq!(id_of("s1/LJ001.0001"), "s1/LJ001.0001");
        assert_eq!(id_of("s1/a.WAV"), "s1/a");
        assert_eq!((id_of("s1/a.opus"), id_of("a.WebM")), ("s1/a".to_owned(), "a".to_owned()));
        assert_eq!(id_of("s1/.wav"), "s1/.wav");
        assert_eq!(id_of("a\u{308}.wav"), "ä");
    }

    #[test]
    fn an_absolute_path_in_the_audio_folder_is_relative_to_it() {
        for folder in ["/data/wavs", "/data/wavs/"] {
            assert_eq!(below(Some(folder), "/data/wavs/a/1.wav").unwrap(), "a/1.wav");
            assert!(below(Some(folder), "/data/wavs2/1.wav").is_err());
            assert!(below(Some(folder), "/data/wavs/../1.wav").is_err());
            assert_eq!(below(Some(folder), "1.wav").unwrap(), "1.wav");
        }
        assert!(below(None, "/data/wavs/1.wav").is_err());
    }
}
