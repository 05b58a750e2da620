//! Errors for tables with paths that lead to no file: one error, with the line to change.

use camino::Utf8Path;
use stage_core::StageError;

use super::listed::{FileMatch, ListedFiles};
use super::path::PathProblem;
use super::{RowProblem, RowRecord, Rows};

/// The place of a table and of its audio.
pub struct TablePlace<'a> {
    pub table: &'a Utf8Path,
    pub audio: &'a Utf8Path,
    pub is_audio_set: bool,
}

/// The error for a table without usable rows, if most paths are absolute.
pub fn absolute(table: &Utf8Path, rows: &Rows) -> Option<StageError> {
    let path = |problem: &RowProblem| match problem {
        RowProblem::Path(PathProblem::Absolute { path }) => Some(path.clone()),
        _ => None,
    };
    let paths: Vec<String> = rows.rejects.iter().filter_map(|one| path(&one.problem)).collect();
    if !rows.records.is_empty() || paths.len() * 2 <= rows.rejects.len() {
        return None;
    }
    let first = paths.first()?;
    let message =
        format!("`{table}` has absolute paths, such as `{first}` ({} of them)", paths.len());
    let folder = common_folder(&paths)?;
    let help = if folder.starts_with('/') && folder.len() > 1 {
        format!(
            "write `audio = \"{folder}\"` in the stage if the files are there, or remove \
             `{folder}/` from the paths and give the folder of the files as `audio`"
        )
    } else {
        format!("remove `{folder}` from the paths, and give the folder of the files as `audio`")
    };
    Some(StageError::with_help(message, help))
}

/// The longest folder that all paths are in; ends with its separator unless it is one of Unix.
fn common_folder(paths: &[String]) -> Option<String> {
    let first = paths.first()?;
    let shared = paths.iter().fold(first.len(), |length, path| {
        let same = first.bytes().zip(path.bytes()).take_while(|(one, other)| one == other).count();
        length.min(same)
    });
    let end = first.as_bytes()[..shared].iter().rposition(|byte| matches!(byte, b'/' | b'\\'))?;
    let is_unix = first.as_bytes()[end] == b'/' && end > 0;
    first.get(..if is_unix { end } else { end + 1 }).map(str::to_owned)
}

/// The error for a table if all of its files are missing and are found in another folder.
pub fn elsewhere(
    place: &TablePlace<'_>,
    records: &[RowRecord],
    files: &ListedFiles,
) -> Option<StageError> {
    let found = |path: &str| !matches!(files.resolve(path), FileMatch::None);
    // Files with other names count as found.
    if records.iter().any(|record| found(&record.file)) {
        return None;
    }
    let TablePlace { table, audio, is_audio_set } = *place;
    let record = records.first()?;
    let path = record.file.as_str();
    let full = audio.join(path);
    let count = records.len();
    let message = |why: String| format!("the files of `{table}` are missing ({count}), {why}");
    let line = |folder: &Utf8Path| {
        if is_audio_set && Some(folder) == table.parent() {
            format!("remove `audio = \"{audio}\"` from the stage")
        } else {
            let folder = if folder.as_str().is_empty() { "." } else { folder.as_str() };
            format!("write `audio = \"{folder}\"` in the stage")
        }
    };
    if let Some((above, rest)) = inside(audio, path).filter(|(_, rest)| found(rest)) {
        let begin = &path[..path.len() - rest.len()];
        let why = format!(
            "such as `{full}`: the paths begin with `{begin}`, which the audio folder `{audio}` ends \
             with"
        );
        return Some(StageError::with_help(message(why), line(above)));
    }
    if let Some(below) = files.folder_of(path) {
        let why = format!("such as `{full}`; they are in `{}`", audio.join(below));
        return Some(StageError::with_help(message(why), line(&audio.join(below))));
    }
    let mut rests = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    let rest = rests.find(|rest| found(rest))?;
    let begin = &path[..path.len() - rest.len()];
    let why = format!("such as `{full}`; `{}` exists", audio.join(rest));
    let help = format!("remove `{begin}` from the paths of the table");
    Some(StageError::with_help(message(why), help))
}

/// For a path that begins with the last folders of the audio folder: the folder above them, and the
/// rest of the path.
fn inside<'a>(audio: &'a Utf8Path, path: &'a str) -> Option<(&'a Utf8Path, &'a str)> {
    audio.ancestors().skip(1).find_map(|above| {
        let last = audio.strip_prefix(above).ok()?;
        let rest = path.strip_prefix(last.as_str())?.strip_prefix('/')?;
        (!last.as_str().is_empty()).then_some((above, rest))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use camino::Utf8PathBuf;

    use super::*;
    use crate::corpus::table;

    fn rows(text: &str) -> Rows {
        table::read(text.as_bytes(), &table::TableOptions::default()).unwrap()
    }

    fn told(audio: &str, is_audio_set: bool, table: &str, listed: &[&str]) -> Option<String> {
        let files = ListedFiles::new(listed.iter().map(Utf8PathBuf::from).collect());
        let place = TablePlace {
            table: Utf8Path::new("data/m.csv"),
            audio: Utf8Path::new(audio),
            is_audio_set,
        };
        elsewhere(&place, &rows(table).records, &files).map(shown)
    }

    fn shown(error: StageError) -> String {
        match error {
            StageError::Failed { message, help } => format!("{message} | {}", help.unwrap()),
            other => other.to_string(),
        }
    }

    #[test]
    fn paths_that_repeat_the_audio_folder_are_told_with_the_line_to_change() {
        let table = "wavs/c1.wav|Hei\nwavs/c2.wav|Moi\n";
        let there = told("data/wavs", true, table, &["c1.wav", "c2.wav"]).unwrap();
        assert_eq!(
            there,
            "the files of `data/m.csv` are missing (2), such as `data/wavs/wavs/c1.wav`: the \
             paths begin with `wavs/`, which the audio folder `data/wavs` ends with | remove \
             `audio = \"data/wavs\"` from the stage"
        );
        let below = told("data", false, "data/c1.wav|Hei\n", &["c1.wav"]).unwrap();
        assert!(below.ends_with("write `audio = \".\"` in the stage"), "{below}");
        let backslashes = told("data/wavs", true, "wavs\\c1.wav|Hei\n", &["c1.wav"]).unwrap();
        assert!(backslashes.contains("begin with `wavs/`"), "{backslashes}");
    }

    #[test]
    fn files_in_a_folder_below_or_above_are_named() {
        let below = told("data", false, "c1.wav|Hei\n", &["wavs/c1.wav"]).unwrap();
        assert!(below.ends_with("write `audio = \"data/wavs\"` in the stage"), "{below}");
        let above = told("data", false, "clips/c1.wav|Hei\n", &["c1.wav"]).unwrap();
        assert!(above.ends_with("remove `clips/` from the paths of the table"), "{above}");
        assert_eq!(told("data", false, "c1.wav|Hei\n", &["c2.wav"]), None);
        assert_eq!(told("data", false, "c1.wav|Hei\nc2.wav|Moi\n", &["c2.wav"]), None);
    }

    #[test]
    fn absolute_paths_are_told_once() {
        let told = |text: &str| absolute(Utf8Path::new("m.csv"), &rows(text)).map(shown);
        let unix = told("/home/a/wavs/1.wav|Hei\n/home/a/wavs/2.wav|Moi\n").unwrap();
        assert!(unix.starts_with("`m.csv` has absolute paths, such as `/home/a/wavs/1.wav` (2"));
        assert!(unix.contains("write `audio = \"/home/a/wavs\"`"), "{unix}");
        let windows = told("D:\\data\\1.wav|Hei\nD:\\data\\2.wav|Moi\n").unwrap();
        assert!(windows.contains("remove `D:\\data\\` from the paths"), "{windows}");
        assert_eq!(told("/home/1.wav|Hei\na.wav|Moi\n"), None);
    }
}
