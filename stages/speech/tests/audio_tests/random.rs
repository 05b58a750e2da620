//! Random files of a seed: joined, cut, damaged, with false lengths, and with bytes behind them. Reading
//! in parts gives what reading as a whole gives; no length in a header limits what is read; and ffmpeg
//! finds no more than was read or told.

use crate::compressed::aiff;
use crate::ffmpeg::Ffmpeg;
use crate::support::{Noise, Wav, sine, to_pcm};
use stage_core::FileParts;
use stage_speech::audio::decode::{DecodeOptions, DecodedClip};
use stage_speech::audio::fault::ReadError;
use stage_speech::audio::mix::Mix;
use stage_speech::audio::stream::Stream;
use stage_speech::audio::{Fault, Note, decode};
use std::io;
use std::sync::Arc;

/// A sound file, and the places of the lengths in it.
struct Original {
    name: &'static str,
    bytes: Vec<u8>,
    lengths: Vec<Length>,
    frames: u64,
}

/// A number of four bytes that states a length.
#[derive(Clone, Copy)]
struct Length {
    at: usize,
    is_big: bool,
}

impl Original {
    fn new(name: &'static str, bytes: &[u8]) -> Original {
        let lengths = lengths(name, bytes);
        let frames = whole(bytes).unwrap().clip.frames() as u64;
        Original { name, bytes: bytes.to_vec(), lengths, frames }
    }

    /// The file with another number in place of one of its lengths.
    fn with_false_length(&self, noise: &mut Noise) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let Some(length) = pick(noise, &self.lengths) else { return bytes };
        let four: [u8; 4] = bytes[length.at..length.at + 4].try_into().unwrap();
        let true_one =
            if length.is_big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        let values =
            [0, true_one / 2, true_one.wrapping_sub(3), true_one.wrapping_mul(2), u32::MAX];
        let value = *pick(noise, &values).unwrap();
        let four = if length.is_big { value.to_be_bytes() } else { value.to_le_bytes() };
        bytes[length.at..length.at + 4].copy_from_slice(&four);
        if self.name == "Ogg" {
            write_ogg_checksum(&mut bytes, length.at - 6);
        }
        bytes
    }
}

fn lengths(name: &str, bytes: &[u8]) -> Vec<Length> {
    let find = |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    let after = |mark: &[u8], distance: usize, is_big: bool| {
        find(mark).map(|at| Length { at: at + distance, is_big })
    };
    let found = match name {
        "FLAC" => vec![after(b"fLaC", 22, true)],
        "MP3" => vec![after(b"Info", 8, true), after(b"Info", 12, true)],
        "AAC" | "ALAC" => vec![
            after(b"mdhd", 20, true),
            after(b"mvhd", 20, true),
            after(b"tkhd", 24, true),
            after(b"elst", 12, true),
            after(b"stts", 16, true),
        ],
        "AIFF" => vec![after(b"FORM", 4, true), after(b"COMM", 10, true), after(b"SSND", 4, true)],
        "RIFX" => vec![after(b"RIFX", 4, true), after(b"data", 4, true)],
        // The number of frames up to the last page.
        "Ogg" => {
            let last = bytes.windows(4).rposition(|window| window == b"OggS").unwrap();
            vec![Some(Length { at: last + 6, is_big: false })]
        }
        "MP3 without a tag" => Vec::new(),
        _ => vec![after(b"RIFF", 4, false), after(b"data", 4, false), after(b"fact", 8, false)],
    };
    found.into_iter().flatten().collect()
}

fn originals() -> Vec<Original> {
    let mp3: &[u8] = include_bytes!("../audio_fixtures/tone.mp3");
    // The tag fills a frame of 64 kbit/s.
    let tag = mp3.windows(4).position(|window| window == b"Info").unwrap() - 21;
    let first = mp3[tag + 4..].windows(2).position(|pair| pair == [0xFF, 0xFB]).unwrap() + tag + 4;
    let tone = to_pcm(&sine(16_000, 300.0, 0.4, 0.5));
    let stereo = Wav {
        channels: 2,
        ..Wav::of(
            24,
            tone.iter().flat_map(|s| [7, s.to_le_bytes()[0], s.to_le_bytes()[1]]).collect(),
        )
    };
    [
        ("FLAC", &include_bytes!("../audio_fixtures/tone.flac")[..]),
        ("MP3", mp3),
        ("MP3 without a tag", &mp3[first..]),
        ("Ogg", include_bytes!("../audio_fixtures/tone.ogg")),
        ("AAC", include_bytes!("../audio_fixtures/tone.m4a")),
        ("ALAC", include_bytes!("../audio_fixtures/alac.m4a")),
        ("ADPCM", include_bytes!("../audio_fixtures/adpcm.wav")),
        ("WAV", &Wav::pcm(&tone).bytes()),
        ("24 bits", &stereo.bytes()),
        ("RIFX", &rifx(&tone)),
        ("AIFF", &aiff(tone.len() as u32, &tone)),
    ]
    .map(|(name, bytes)| Original::new(name, bytes))
    .into()
}

/// A WAV file with the bytes of its numbers swapped.
fn rifx(samples: &[i16]) -> Vec<u8> {
    let mut bytes = Wav::pcm(samples).bytes();
    bytes[3] = b'X';
    for at in [4, 16, 24, 28, 40] {
        bytes[at..at + 4].reverse();
    }
    for at in [20, 22, 32, 34] {
        bytes[at..at + 2].reverse();
    }
    bytes[44..].chunks_exact_mut(2).for_each(<[u8]>::reverse);
    bytes
}

/// The checksum of the page at an offset.
fn write_ogg_checksum(bytes: &mut [u8], page: usize) {
    bytes[page + 22..page + 26].fill(0);
    let lengths = usize::from(bytes[page + 26]);
    let body: usize =
        bytes[page + 27..page + 27 + lengths].iter().map(|length| usize::from(*length)).sum();
    let sum = bytes[page..page + 27 + lengths + body].iter().fold(0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
            (sum << 1) ^ (if sum >> 31 != 0 { 0x04C1_1DB7 } else { 0 })
        })
    });
    bytes[page + 22..page + 26].copy_from_slice(&sum.to_le_bytes());
}

fn pick<'a, T>(noise: &mut Noise, from: &'a [T]) -> Option<&'a T> {
    (!from.is_empty()).then(|| &from[noise.next() as usize % from.len()])
}

/// A file made of others.
struct Random {
    what: String,
    bytes: Vec<u8>,
    /// The frames that were put in, unless some were cut off or damaged.
    frames: Option<u64>,
}

impl Random {
    fn new(noise: &mut Noise, originals: &[Original]) -> Random {
        let one = pick(noise, originals).unwrap();
        let place = |noise: &mut Noise, bytes: &[u8]| noise.next() as usize % bytes.len();
        let mut bytes = one.bytes.clone();
        match noise.next() % 7 {
            0 => {
                bytes.truncate(place(noise, &one.bytes));
                Random { what: format!("{} cut at {}", one.name, bytes.len()), bytes, frames: None }
            }
            1 => {
                bytes.extend(&one.bytes);
                let frames = Some(2 * one.frames);
                Random { what: format!("{} twice", one.name), bytes, frames }
            }
            2 => {
                let other = pick(noise, originals).unwrap();
                bytes.extend(&other.bytes);
                let what = format!("{} and {}", one.name, other.name);
                Random { what, bytes, frames: Some(one.frames + other.frames) }
            }
            3 => {
                let count = 1 + noise.next() % 3_000;
                let is_zero = noise.next().is_multiple_of(2);
                let tail = (0..count).map(|_| if is_zero { 0 } else { noise.next() as u8 });
                bytes.extend(tail.collect::<Vec<u8>>());
                let what = format!("{} and {count} bytes", one.name);
                Random { what, bytes, frames: Some(one.frames) }
            }
            4 => {
                let (from, count) = (place(noise, &bytes), noise.next() as usize % 900);
                bytes.drain(from..(from + count).min(one.bytes.len()));
                let what = format!("{} without {count} bytes from {from}", one.name);
                Random { what, bytes, frames: None }
            }
            5 => {
                let at = place(noise, &bytes);
                bytes[at] ^= 1 << (noise.next() % 8);
                Random { what: format!("{} damaged at {at}", one.name), bytes, frames: None }
            }
            _ => {
                let bytes = one.with_false_length(noise);
                let what = format!("{} with a false length", one.name);
                Random { what, bytes, frames: Some(one.frames) }
            }
        }
    }
}

fn options() -> DecodeOptions {
    DecodeOptions { mix: Mix::Keep, ..DecodeOptions::default() }
}

fn whole(bytes: &[u8]) -> Result<DecodedClip, Fault> {
    decode(bytes, &options())
}

/// A file that gives fewer bytes at once than were asked for.
struct Slow(Vec<u8>);

impl FileParts for Slow {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let count = buffer.len().min(rest.len()).min(997);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// The 16-bit samples and the notes of a file that is read in parts.
fn in_parts(bytes: &[u8]) -> Result<(Vec<i16>, Vec<Note>), Fault> {
    let fault = |trouble| match trouble {
        ReadError::Fault(fault) => fault,
        ReadError::Io(error) => panic!("{error}"),
    };
    let mut stream = Stream::open(Arc::new(Slow(bytes.to_vec())), &options()).map_err(fault)?;
    let mut samples = Vec::new();
    while stream.read_pcm(&mut samples).map_err(fault)? {}
    Ok((samples, stream.take_notes()))
}

/// The frames of the last packet that a length may cut off as padding of an encoder.
const MAX_PADDING: u64 = 4_096;

/// True if a note tells that something is missing or was left out.
fn is_told(notes: &[Note]) -> bool {
    notes.iter().any(|note| {
        matches!(
            note,
            Note::LeftOut { .. }
                | Note::OddBytes { .. }
                | Note::SkippedBytes { .. }
                | Note::SkippedPackets { .. }
        )
    })
}

/// The differences between the two ways to read, and between what is there and what was read.
fn wrongs(random: &Random) -> Vec<String> {
    let mut wrongs = Vec::new();
    let (whole, parts) = (whole(&random.bytes), in_parts(&random.bytes));
    match (&whole, parts) {
        (Ok(whole), Ok((samples, notes))) => {
            // Two notes are on the samples, which mixing makes.
            let on_file =
                |note: &&Note| !matches!(note, Note::AntiPhase { .. } | Note::Clipped { .. });
            if whole.clip.clone().into_pcm().0 != samples {
                wrongs.push("other samples in parts".to_owned());
            }
            if !whole.notes.iter().filter(on_file).eq(notes.iter()) {
                wrongs.push(format!("{:?}, in parts {notes:?}", whole.notes));
            }
        }
        (Err(whole), Err(parts)) if *whole == parts => {}
        (whole, parts) => {
            let whole = whole.as_ref().map(|whole| whole.clip.frames());
            wrongs.push(format!("{whole:?}, in parts {:?}", parts.map(|parts| parts.0.len())));
        }
    }
    if let (Ok(whole), Some(frames)) = (&whole, random.frames)
        && (whole.clip.frames() as u64 + MAX_PADDING) < frames
        && !is_told(&whole.notes)
    {
        wrongs.push(format!("{} of {frames} frames, {:?}", whole.clip.frames(), whole.notes));
    }
    wrongs
}

fn check(seeds: std::ops::Range<u64>, compared_with_ffmpeg: u64) {
    let originals = originals();
    let ffmpeg = Ffmpeg::find();
    let mut failures = Vec::new();
    for seed in seeds {
        let random = Random::new(&mut Noise(seed * 7_919 + 1), &originals);
        let mut wrongs = wrongs(&random);
        if let Some(ffmpeg) = &ffmpeg
            && seed % compared_with_ffmpeg == 0
        {
            wrongs.extend(ffmpeg.compare(&random.bytes, whole(&random.bytes)));
        }
        if !wrongs.is_empty() {
            failures.push(format!("seed {seed}, {}: {}", random.what, wrongs.join("; ")));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_thousand_files_are_read_alike_in_parts_and_as_a_whole_and_nothing_is_lost_in_silence() {
    check(0..1_000, 25);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_twenty_thousand_files_are_read_alike_and_beside_ffmpeg() {
    check(1_000..21_000, 1);
}
