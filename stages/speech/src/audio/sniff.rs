//! Detects the type of bytes by the first few: the supported audio formats, and names for common
//! files that are not audio despite their extension.

use std::fmt;

use stage_formats::Stranger;

use super::fault::{CONVERT, Fault};

/// The supported containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Wav,
    Flac,
    Mp3,
    Ogg,
    M4a,
    Aiff,
}

impl Format {
    pub const ALL: [Self; 6] = [Self::Wav, Self::Flac, Self::Mp3, Self::Ogg, Self::M4a, Self::Aiff];

    /// The usual extension of this format, for tools that go by file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Flac => "flac",
            Self::Mp3 => "mp3",
            Self::Ogg => "ogg",
            Self::M4a => "m4a",
            Self::Aiff => "aiff",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Wav => "WAV",
            Self::Flac => "FLAC",
            Self::Mp3 => "MP3",
            Self::Ogg => "Ogg",
            Self::M4a => "M4A",
            Self::Aiff => "AIFF",
        })
    }
}

/// The audio format of `bytes`, or a fault that names their type.
pub fn sniff(bytes: &[u8]) -> Result<Format, Fault> {
    if let Some(format) = audio(bytes)? {
        return Ok(format);
    }
    Err(stranger(bytes))
}

fn audio(bytes: &[u8]) -> Result<Option<Format>, Fault> {
    let form = bytes.get(8..12).unwrap_or_default();
    Ok(match bytes {
        [b'R', b'I', b'F', b'F', ..]
        | [b'R', b'F', b'6', b'4', ..]
        | [b'B', b'W', b'6', b'4', ..]
            if form.len() == 4 =>
        {
            return riff_form(form).map(Some);
        }
        [b'f', b'L', b'a', b'C', ..] => Some(Format::Flac),
        [b'O', b'g', b'g', b'S', ..] => return ogg(bytes).map(Some),
        [b'F', b'O', b'R', b'M', ..] if matches!(form, b"AIFF" | b"AIFC") => Some(Format::Aiff),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(Format::M4a),
        [b'I', b'D', b'3', ..] => Some(behind_id3(bytes)),
        // Eleven set bits open a frame of MPEG audio; the layer bits are 0 in AAC's own framing.
        [0xFF, second, ..] if second & 0xE0 == 0xE0 && second & 0x06 != 0 => Some(Format::Mp3),
        _ => None,
    })
}

/// The extension of a recording for tools that go by file names, even for formats that no stage
/// here reads.
pub fn extension(bytes: &[u8]) -> Option<&'static str> {
    const WINDOWS_MEDIA: [u8; 4] = [0x30, 0x26, 0xB2, 0x75];
    if let Ok(format) = sniff(bytes) {
        return Some(format.extension());
    }
    match bytes {
        [b'O', b'g', b'g', b'S', ..] => Some("ogg"),
        [0x1A, 0x45, 0xDF, 0xA3, ..] => Some("mka"),
        [b'#', b'!', b'A', b'M', b'R', ..] => Some("amr"),
        [b'c', b'a', b'f', b'f', ..] => Some("caf"),
        [b'.', b's', b'n', b'd', ..] => Some("au"),
        [0xFF, 0xF0..=0xFF, ..] => Some("aac"),
        _ => bytes.starts_with(&WINDOWS_MEDIA).then_some("wma"),
    }
}

fn riff_form(form: &[u8]) -> Result<Format, Fault> {
    match form {
        b"WAVE" => Ok(Format::Wav),
        b"AVI " => Err(not_audio("an AVI video", CONVERT)),
        b"WEBP" => Err(not_audio("a WebP picture", "")),
        _ => Err(Fault::Chunk {
            chunk: "RIFF".to_owned(),
            offset: 8,
            problem: "the form is not `WAVE`".to_owned(),
        }),
    }
}

/// Ogg carries several codecs; the first packet names its codec.
fn ogg(bytes: &[u8]) -> Result<Format, Fault> {
    let head = &bytes[..bytes.len().min(256)];
    let contains = |mark: &[u8]| head.windows(mark.len()).any(|window| window == mark);
    for (mark, name) in [(&b"OpusHead"[..], "Opus"), (b"Speex   ", "Speex")] {
        if contains(mark) {
            return Err(Fault::Unsupported { what: format!("{name} in Ogg") });
        }
    }
    Ok(Format::Ogg)
}

/// The heads of Matroska files in which the names of their codecs are looked for.
const MATROSKA_HEAD: usize = 64 * 1024;

/// Matroska and WebM carry many codecs; the list of tracks, near the beginning, names them.
fn matroska(bytes: &[u8]) -> Fault {
    const CODECS: [(&[u8], &str); 7] = [
        (b"A_OPUS", "Opus"),
        (b"A_VORBIS", "Vorbis"),
        (b"A_AAC", "AAC"),
        (b"A_MPEG/L3", "MP3"),
        (b"A_FLAC", "FLAC"),
        (b"A_AC3", "AC-3"),
        (b"A_PCM/", "PCM"),
    ];
    let head = &bytes[..bytes.len().min(MATROSKA_HEAD)];
    let contains = |mark: &[u8]| head.windows(mark.len()).any(|window| window == mark);
    let container = if contains(b"webm") { "WebM" } else { "Matroska" };
    match CODECS.iter().find(|(mark, _)| contains(mark)) {
        Some((_, name)) => Fault::Unsupported { what: format!("{name} in {container}") },
        None => not_audio(&format!("a {container} file without a known audio track"), CONVERT),
    }
}

/// An ID3 version 2 tag precedes MP3, and sometimes FLAC.
fn behind_id3(bytes: &[u8]) -> Format {
    let size = bytes.get(6..10).unwrap_or_default();
    let length = size.iter().fold(0_usize, |length, &byte| length << 7 | usize::from(byte & 0x7F));
    match bytes.get(10 + length..) {
        Some([b'f', b'L', b'a', b'C', ..]) => Format::Flac,
        _ => Format::Mp3,
    }
}

/// Names the type of data that is not audio.
fn stranger(bytes: &[u8]) -> Fault {
    if let Some(Stranger { what, help }) = Stranger::as_binary(bytes) {
        return not_audio(what, help);
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return not_audio(&format!("{} zero bytes", bytes.len()), "copy the file again");
    }
    if bytes.starts_with(&[0x1A, 0x45, 0xDF, 0xA3]) {
        return matroska(bytes);
    }
    let head = &bytes[..bytes.len().min(512)];
    let text = String::from_utf8_lossy(head).trim_start().to_ascii_lowercase();
    let known: &[(&str, &str, &str)] = &[
        ("riff.\u{fffd}\u{fffd}\u{11}", "a Wave64 file", CONVERT),
        (".snd", "a Sun audio file", CONVERT),
        ("riff", "a truncated RIFF file", "copy the file again"),
        ("rifx", "a big-endian RIFF file", CONVERT),
        ("caff", "a Core Audio file", CONVERT),
        ("pk\u{3}\u{4}", "a ZIP archive", "unpack it first"),
        ("par1", "a Parquet table", "read it with `corpus.parquet`"),
        ("nist_1a", "a NIST SPHERE file", CONVERT),
        ("#!amr", "an AMR recording", CONVERT),
    ];
    for (mark, what, help) in known {
        if text.starts_with(mark) {
            return not_audio(what, help);
        }
    }
    binary_stranger(head)
}

fn binary_stranger(head: &[u8]) -> Fault {
    match head {
        [0x89, b'P', b'N', b'G', ..] | [0xFF, 0xD8, ..] => not_audio("a picture", ""),
        [0xFF, 0xF0..=0xFF, ..] => not_audio("an AAC stream without a container", CONVERT),
        _ => {
            let first: Vec<String> =
                head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            not_audio(&format!("unknown bytes ({})", first.join(" ")), "")
        }
    }
}

fn not_audio(what: &str, help: &'static str) -> Fault {
    Fault::NotAudio { what: what.to_owned(), help }
}
