//! Subtitles: SubRip (`.srt`), WebVTT (`.vtt`) and the JSON of Whisper and its relatives.
//!
//! The three become one list of cues in milliseconds, so that a subtitle file in another format with
//! the same content is no change.

use serde::{Deserialize, Serialize};
use stage_formats::json::from_outside;

/// A text, and roughly when it is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cue {
    /// Milliseconds from the start of the recording.
    pub start: u64,
    pub end: u64,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CueFormat {
    /// SubRip and WebVTT, which are read alike.
    Subtitles,
    Json,
}

/// The reason why a file of cues cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CueProblem {
    #[error("line {line} is not UTF-8; save the file as UTF-8")]
    NotUtf8 { line: usize },
    #[error(
        "line {line}: expected a time such as `00:01:02,500 --> 00:01:04,000`, found `{found}`"
    )]
    Time { line: usize, found: String },
    #[error("line {line}: the cue ends before it begins")]
    Backwards { line: usize },
    #[error("segment {number} ends before it begins")]
    BackwardsSegment { number: usize },
    #[error("line {line}: text without a time before it")]
    NoTime { line: usize },
    #[error("it is not the JSON of a transcript: {0}")]
    Json(String),
    #[error("it has no cues")]
    Empty,
}

/// The cues of a file by their start.
pub fn read(bytes: &[u8], format: CueFormat) -> Result<Vec<Cue>, CueProblem> {
    let mut cues = match format {
        CueFormat::Subtitles => subtitles(text_of(bytes)?)?,
        CueFormat::Json => json(bytes)?,
    };
    cues.retain(|cue| !cue.text.is_empty());
    cues.sort_by_key(|cue| (cue.start, cue.end));
    if cues.is_empty() { Err(CueProblem::Empty) } else { Ok(cues) }
}

fn text_of(bytes: &[u8]) -> Result<&str, CueProblem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        CueProblem::NotUtf8 { line: before.iter().filter(|byte| **byte == b'\n').count() + 1 }
    })?;
    Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text))
}

fn subtitles(text: &str) -> Result<Vec<Cue>, CueProblem> {
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).collect();
    let blocks = lines.split(|(_, line)| line.is_empty()).filter(|block| !block.is_empty());
    blocks.filter_map(|block| cue(block).transpose()).collect()
}

/// One block of lines; None if it holds no cue.
fn cue(block: &[(usize, &str)]) -> Result<Option<Cue>, CueProblem> {
    let (line, first) = block[0];
    let is_note = ["WEBVTT", "NOTE", "STYLE", "REGION"].iter().any(|word| first.starts_with(word));
    let timed = block.iter().position(|(_, line)| line.contains("-->"));
    let Some(at) = timed else {
        // A number without a text is left over from a removed cue.
        let is_number = block.len() == 1 && first.bytes().all(|byte| byte.is_ascii_digit());
        return if is_note || is_number { Ok(None) } else { Err(CueProblem::NoTime { line }) };
    };
    // A name or a number may stand before the time.
    if at > 1 {
        return Err(CueProblem::NoTime { line });
    }
    let (line, times) = block[at];
    let wrong = || CueProblem::Time { line, found: times.chars().take(60).collect() };
    let (from, rest) = times.split_once("-->").ok_or_else(wrong)?;
    let to = rest.split_whitespace().next().unwrap_or_default();
    let (start, end) = (time(from.trim()).ok_or_else(wrong)?, time(to).ok_or_else(wrong)?);
    if end < start {
        return Err(CueProblem::Backwards { line });
    }
    let text: Vec<String> = block[at + 1..].iter().map(|(_, line)| plain(line)).collect();
    Ok(Some(Cue { start, end, text: one_line(&text.join(" ")) }))
}

/// `01:02:03,450`, `02:03.450` or `3.45`, in milliseconds.
fn time(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once([',', '.']).unwrap_or((text, "0"));
    let digits = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.len() < 10;
        (is_number && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse().ok())
            .flatten()
    };
    let mut seconds = 0;
    let parts: Vec<&str> = whole.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for part in parts {
        seconds = seconds * 60 + digits(part)?;
    }
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    Some(seconds * 1000 + digits(&part)?)
}

/// Without tags such as `<i>` and `{\an8}`, and with the letters that entities stand for.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let close = match letter {
            '<' => rest.find('>'),
            '{' if rest.starts_with("{\\") => rest.find('}'),
            _ => None,
        };
        match close {
            Some(at) => rest = &rest[at + 1..],
            None => {
                text.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", " "), ("&amp;", "&")];
    entities.iter().fold(text, |text, (name, letter)| text.replace(name, letter))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The transcript of Whisper: an object with `segments`, or the list itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Transcript {
    Object { segments: Vec<CueSegment> },
    List(Vec<CueSegment>),
}

#[derive(Deserialize)]
struct CueSegment {
    start: f64,
    end: f64,
    text: String,
}

fn json(bytes: &[u8]) -> Result<Vec<Cue>, CueProblem> {
    let transcript = from_outside(bytes).map_err(|error| {
        let told = error.to_string();
        let help = "it needs `segments` with `start`, `end` and `text`";
        CueProblem::Json(if told.contains("untagged") { help.to_owned() } else { told })
    })?;
    let (Transcript::Object { segments } | Transcript::List(segments)) = transcript;
    let milliseconds = |seconds: f64| (seconds.max(0.0) * 1000.0).round() as u64;
    let cue = |(at, segment): (usize, CueSegment)| {
        let (start, end) = (milliseconds(segment.start), milliseconds(segment.end));
        if end < start {
            Err(CueProblem::BackwardsSegment { number: at + 1 })
        } else {
            Ok(Cue { start, end, text: one_line(&segment.text) })
        }
    };
    segments.into_iter().enumerate().map(cue).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SRT: &str = "\u{FEFF}1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Good</i> day,\r\nsaid he.\r\n\r\n\
                       2\r\n00:01:00,05 --> 01:00:00,000\r\n{\\an8}Tom &amp; Ann\r\n\r\n3\r\n";
    const VTT: &str = "WEBVTT - a title\n\nNOTE\nnot spoken\n\nSTYLE\n::cue {}\n\nname\n\
                       00:01.000 --> 00:02.500 align:start\n<v Ann>Good day,\nsaid he.\n\n\
                       01:00.050 --> 01:00:00.000\nTom &amp; Ann\n";
    const WHISPER: &str = r#"{"text": "", "language": "en", "segments": [
        {"id": 1, "start": 60.05, "end": 3600.0, "text": " Tom & Ann", "words": []},
        {"id": 0, "start": 1.0, "end": 2.5, "text": " Good day, said he."}]}"#;

    fn cues(text: &str) -> Result<Vec<Cue>, CueProblem> {
        let is_json = text.trim_start_matches('\u{FEFF}').starts_with(['{', '[']);
        let format = if is_json { CueFormat::Json } else { CueFormat::Subtitles };
        read(text.as_bytes(), format)
    }

    #[test]
    fn the_three_formats_give_the_same_cues() {
        let cue = |start, end, text: &str| Cue { start, end, text: text.to_owned() };
        let expected =
            vec![cue(1_000, 2_500, "Good day, said he."), cue(60_050, 3_600_000, "Tom & Ann")];
        let marked = format!("\u{FEFF}{WHISPER}");
        for text in [SRT, VTT, WHISPER, &marked] {
            assert_eq!(cues(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn damage_is_named_by_its_line() {
        let told = |text: &str| cues(text).unwrap_err().to_string();
        assert!(
            told("1\n00:00:0x,000 --> 00:00:02,000\na\n")
                .ends_with("found `00:00:0x,000 --> 00:00:02,000`")
        );
        assert_eq!(
            told("00:00:05,000 --> 00:00:02,000\na"),
            "line 1: the cue ends before it begins"
        );
        assert_eq!(
            told("1\n00:00:01,0 --> 00:00:02,0\na\n\nlost\n"),
            "line 5: text without a time before it"
        );
        assert_eq!(told(""), "it has no cues");
        assert_eq!(told("WEBVTT\n"), "it has no cues");
        assert!(told("{\"text\": 1}").contains("`segments`"));
        assert!(told("[1").contains("EOF"));
        let latin = read(b"1\n\xE4\n", CueFormat::Subtitles).unwrap_err();
        assert_eq!(latin, CueProblem::NotUtf8 { line: 2 });
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let mut state = 7_u64;
        let letters: Vec<char> = "0123:.,-> \n<{}&;aWEBVTT\u{e4}".chars().collect();
        for _ in 0..2_000 {
            let mut text = String::new();
            for _ in 0..40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push(letters[(state >> 33) as usize % letters.len()]);
            }
            let _ = cues(&text);
        }
    }
}
