//! Detects the type of bytes by the first few: the supported audio formats, and names for common
//! files that are not audio despite their extension.

use std::fmt;

use stage_formats::Stranger;

use super::fault::{CONVERT, Fault, ReadError};
use super::flac_frame::id3_length;
use super::input::Input;
use super::pcm::Order;

/// The supported containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AudioContainer {
    Wav,
    Flac,
    Mp3,
    Ogg,
    M4a,
    Aiff,
}

impl AudioContainer {
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

impl fmt::Display for AudioContainer {
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

/// The bytes at the start of a file in which its format is looked for.
const HEAD_BYTES: usize = 1 << 16;

/// The audio format of the file at an offset, or a fault that names its type.
pub fn sniff_at(input: &mut Input<'_>, at: u64) -> Result<AudioContainer, ReadError> {
    let rest = input.size().saturating_sub(at);
    let head = input.part(at, HEAD_BYTES)?;
    let tag = id3_length(head);
    if tag == 0 {
        return Ok(sniff(head, rest)?);
    }
    // An ID3 version 2 tag precedes MP3, and sometimes FLAC. Pictures make it long.
    match input.part(at + tag, HEAD_BYTES)? {
        [b'I', b'D', b'3', ..] => Ok(AudioContainer::Mp3),
        behind => Ok(behind_id3(behind)?),
    }
}

/// The audio format of a file of `size` bytes that starts with `head`.
fn sniff(head: &[u8], size: u64) -> Result<AudioContainer, Fault> {
    match audio(head)? {
        Some(format) => Ok(format),
        None => Err(stranger(head, size)),
    }
}

fn audio(bytes: &[u8]) -> Result<Option<AudioContainer>, Fault> {
    let form = bytes.get(8..12).unwrap_or_default();
    Ok(match bytes {
        [b'R', b'I', b'F', b'F' | b'X', ..]
        | [b'R', b'F', b'6', b'4', ..]
        | [b'B', b'W', b'6', b'4', ..]
            if form.len() == 4 =>
        {
            return riff_form(form).map(Some);
        }
        [b'f', b'L', b'a', b'C', ..] => Some(AudioContainer::Flac),
        [b'O', b'g', b'g', b'S', ..] => Some(AudioContainer::Ogg),
        [b'F', b'O', b'R', b'M', ..] if matches!(form, b"AIFF" | b"AIFC") => {
            Some(AudioContainer::Aiff)
        }
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(AudioContainer::M4a),
        [b'I', b'D', b'3', ..] => Some(AudioContainer::Mp3),
        // Eleven set bits open a frame of MPEG audio; the layer bits are 0 in AAC's own framing.
        [0xFF, second, ..] if second & 0xE0 == 0xE0 && second & 0x06 != 0 => {
            Some(AudioContainer::Mp3)
        }
        _ => None,
    })
}

/// True if a file of a format that is read certainly starts at an offset.
pub fn begins_file(input: &mut Input<'_>, at: u64) -> Result<bool, ReadError> {
    let head = input.part(at, 12)?;
    let found = audio(head).ok().flatten();
    Ok(found.is_some_and(|format| format != AudioContainer::Mp3))
}

/// The offset behind the tags that programs put behind a recording.
pub fn behind_tags(input: &mut Input<'_>, start: u64) -> Result<u64, ReadError> {
    const ID3_1: u64 = 128;
    const APE: u64 = 32;
    const LYRICS: usize = 1 << 20;
    let size = input.size();
    let mut at = start;
    while at < size {
        let head = input.part(at, APE as usize)?;
        let length = if head.starts_with(b"TAG") && size - at >= ID3_1 {
            ID3_1
        } else if head.starts_with(b"APETAGEX") && head.len() == APE as usize {
            APE + u64::from(Order::Little.u32(head, 12))
        } else if head.starts_with(b"LYRICSBEGIN") {
            let bytes = input.part(at, LYRICS)?;
            let end = bytes.windows(9).position(|end| matches!(end, b"LYRICS200" | b"LYRICSEND"));
            end.map_or(0, |end| end as u64 + 9)
        } else {
            // A tag at the very end has nothing behind it that it describes.
            Some(id3_length(head)).filter(|length| at + length >= size).unwrap_or(0)
        };
        if length == 0 {
            break;
        }
        at = at.saturating_add(length).min(size);
    }
    Ok(at)
}

/// The extension of a recording for tools that go by file names, even for formats that no stage
/// here reads.
pub fn extension(bytes: &[u8]) -> Option<&'static str> {
    const WINDOWS_MEDIA: [u8; 4] = [0x30, 0x26, 0xB2, 0x75];
    if let Ok(format) = sniff_at(&mut Input::memory(bytes), 0) {
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

fn riff_form(form: &[u8]) -> Result<AudioContainer, Fault> {
    match form {
        b"WAVE" => Ok(AudioContainer::Wav),
        b"AVI " => Err(not_audio("an AVI video", CONVERT)),
        b"WEBP" => Err(not_audio("a WebP picture", "")),
        _ => Err(Fault::Chunk {
            chunk: "RIFF".to_owned(),
            offset: 8,
            problem: "the form is not `WAVE`".to_owned(),
        }),
    }
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

fn behind_id3(bytes: &[u8]) -> Result<AudioContainer, Fault> {
    match bytes {
        [b'f', b'L', b'a', b'C', ..] => Ok(AudioContainer::Flac),
        [0xFF, second, ..] if second & 0xF6 == 0xF0 => Err(not_audio(AAC, CONVERT)),
        _ => Ok(AudioContainer::Mp3),
    }
}

const AAC: &str = "an AAC stream without a container";

/// Names the type of data that is not audio, or not audio that is read.
fn stranger(head: &[u8], size: u64) -> Fault {
    if let Some(Stranger { what, help }) = Stranger::as_binary(head) {
        return not_audio(what, help);
    }
    if head.iter().all(|&byte| byte == 0) {
        let what = if head.len() as u64 == size {
            format!("{size} zero bytes")
        } else {
            format!("a file that starts with {} zero bytes", head.len())
        };
        return not_audio(&what, "copy the file again");
    }
    if head.starts_with(&[0x1A, 0x45, 0xDF, 0xA3]) {
        return matroska(head);
    }
    if let Some((_, what, help)) = STRANGERS.iter().find(|(mark, _, _)| head.starts_with(mark)) {
        return not_audio(what, help);
    }
    binary_stranger(head)
}

/// Starts of files that are not read, with their names and an advice.
const STRANGERS: [(&[u8], &str, &str); 42] = [
    (b"riff\x2e\x91\xcf\x11", "a Wave64 file", CONVERT),
    (b".snd", "a Sun audio file", CONVERT),
    (b"RIFF", "a truncated RIFF file", "copy the file again"),
    (b"RIFX", "a truncated RIFF file", "copy the file again"),
    (b"caff", "a Core Audio file (CAF)", CONVERT),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file (WMA, ASF)", CONVERT),
    (b"#!AMR", "an AMR recording", CONVERT),
    (b"\x0b\x77", "an AC-3 stream", CONVERT),
    (b"\x7f\xfe\x80\x01", "a DTS stream", CONVERT),
    (b"\x56\xe0", "an AAC stream without a container", CONVERT),
    (b"ADIF", "an AAC file (ADIF)", CONVERT),
    (b"MPCK", "a Musepack file", CONVERT),
    (b"MP+", "a Musepack file", CONVERT),
    (b"wvpk", "a WavPack file", CONVERT),
    (b"MAC ", "a Monkey's Audio file", CONVERT),
    (b"DSD ", "a DSD file (DSF)", CONVERT),
    (b"FRM8", "a DSD file (DSDIFF)", CONVERT),
    (b"TTA1", "a True Audio file", CONVERT),
    (b"TTA2", "a True Audio file", CONVERT),
    (b"OFR ", "an OptimFROG file", "convert it with its own program"),
    (b"tBaK", "a TAK file", CONVERT),
    (b"ajkg", "a Shorten file", CONVERT),
    (b"Creative Voice File", "a Creative Voice file", CONVERT),
    (b".RMF", "a RealMedia file", CONVERT),
    (b".ra\xfd", "a RealAudio file", CONVERT),
    (b"FLV\x01", "a Flash video", CONVERT),
    (b"ea3", "an ATRAC file", CONVERT),
    (b"FORM", "an IFF file that is no AIFF", CONVERT),
    (b"\0\0\x01\xba", "an MPEG video", CONVERT),
    (b"\0\0\x01\xb3", "an MPEG video without sound", ""),
    (b"NIST_1A", "a NIST SPHERE file", CONVERT),
    (b"MThd", "a MIDI file, which has notes and no sound", ""),
    (b"PK\x03\x04", "a ZIP archive", "unpack it first"),
    (b"Rar!", "a RAR archive", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"BZh", "a bzip2 archive", "unpack it first"),
    (b"\xfd7zXZ", "an xz archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it first"),
    (b"PAR1", "a Parquet table", "read it with `corpus.parquet`"),
    (b"\x89PNG", "a picture", ""),
    (b"\xff\xd8", "a picture", ""),
    (b"GIF8", "a picture", ""),
];

/// The distance of the marks in a transport stream.
const TRANSPORT_PACKET: usize = 188;

fn binary_stranger(head: &[u8]) -> Fault {
    let is_transport = |first: usize, step: usize| {
        (0..3).all(|packet| head.get(first + packet * step) == Some(&0x47))
    };
    match head {
        [0xFF, 0xF0..=0xFF, ..] => not_audio(AAC, CONVERT),
        [_, _, _, _, b'm', b'o', b'o', b'v', ..]
        | [_, _, _, _, b'm', b'd', b'a', b't', ..]
        | [_, _, _, _, b'w', b'i', b'd', b'e', ..] => not_audio("a QuickTime movie", CONVERT),
        _ if is_transport(0, TRANSPORT_PACKET) || is_transport(4, TRANSPORT_PACKET + 4) => {
            not_audio("an MPEG transport stream", CONVERT)
        }
        _ => {
            let first: Vec<String> =
                head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let help = "if it is a recording, convert it: `ffmpeg -i IN -vn OUT.flac`";
            let help = if head.len() < 8 { "" } else { help };
            not_audio(&format!("unknown bytes ({})", first.join(" ")), help)
        }
    }
}

fn not_audio(what: &str, help: &'static str) -> Fault {
    Fault::NotAudio { what: what.to_owned(), help }
}
