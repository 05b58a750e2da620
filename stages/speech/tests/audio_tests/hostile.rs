//! Bytes from strangers: never a panic, never the memory that they claim.

use crate::support::{Noise, Wav, chunk};
use proptest::collection::vec;
use proptest::prelude::*;
use stage_speech::audio::decode::{DecodeOptions, decode};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the largest single allocation of each thread.
struct Counting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FIXTURES: [&[u8]; 6] = [
    include_bytes!("../audio_fixtures/tone.flac"),
    include_bytes!("../audio_fixtures/tone.mp3"),
    include_bytes!("../audio_fixtures/tone.ogg"),
    include_bytes!("../audio_fixtures/tone.m4a"),
    include_bytes!("../audio_fixtures/alac.m4a"),
    include_bytes!("../audio_fixtures/adpcm.wav"),
];

/// Enough for a decoder's own tables; a false header asks for gigabytes.
const ROOM: usize = 32 << 20;

/// Decodes and checks that no allocation is larger than the input explains.
fn probe(bytes: &[u8], options: &DecodeOptions) {
    LARGEST.set(0);
    let result = decode(bytes, options);
    let largest = LARGEST.get();
    assert!(largest <= ROOM + 16 * bytes.len(), "{largest} bytes for {} of input", bytes.len());
    if let Ok(decoded) = result {
        assert!(decoded.clip.channels > 0 && decoded.clip.rate > 0);
        assert_eq!(decoded.clip.samples.len() % usize::from(decoded.clip.channels), 0);
    }
}

fn options() -> DecodeOptions {
    DecodeOptions { allow_truncated: true, ..DecodeOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..2_000)) {
        probe(&bytes, &options());
    }

    #[test]
    fn arbitrary_bytes_behind_a_wav_header_do_no_harm(bytes in vec(any::<u8>(), 0..500)) {
        let mut wav = b"RIFF\0\0\0\0WAVE".to_vec();
        wav.extend(&bytes);
        probe(&wav, &options());
    }

    #[test]
    fn arbitrary_formats_do_no_harm(
        tag in prop_oneof![0_u16..8, Just(0x11), Just(0xFFFE), any::<u16>()],
        channels in prop_oneof![0_u16..10, any::<u16>()],
        rate in any::<u32>(),
        byte_rate in any::<u32>(),
        block in prop_oneof![0_u16..64, any::<u16>()],
        bits in prop_oneof![0_u16..70, any::<u16>()],
        extra in vec(any::<u8>(), 0..40),
        data in vec(any::<u8>(), 0..600),
        data_length in proptest::option::of(any::<u32>()),
        plausible in any::<bool>(),
    ) {
        let rate = if plausible { 4_000 + rate % 96_000 } else { rate };
        let wav = Wav {
            tag, channels, rate, bits, extra, data_length,
            byte_rate: Some(byte_rate),
            block: Some(block),
            ..Wav::of(16, data)
        };
        probe(&wav.bytes(), &options());
    }

    #[test]
    fn a_sound_wav_with_bytes_changed_does_no_harm(
        changes in vec((0_usize..300, any::<u8>()), 1..12),
        length in 0_usize..300,
    ) {
        let mut wav = Wav::pcm(&[1_000; 100]);
        wav.between = chunk(b"LIST", b"INFOabcd");
        let mut bytes = wav.bytes();
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(length.max(1));
        probe(&bytes, &options());
    }
}

#[test]
fn compressed_files_with_bytes_changed_do_no_harm() {
    let mut noise = Noise(17);
    for fixture in FIXTURES {
        for _ in 0..60 {
            let mut bytes = fixture.to_vec();
            // Most of the harm is done by headers, which come first, or last in MP4.
            let region = if noise.next().is_multiple_of(2) { 300 } else { bytes.len() };
            for _ in 0..1 + noise.next() % 8 {
                let from_end = noise.next().is_multiple_of(3);
                let at = noise.next() as usize % region;
                let at = if from_end { bytes.len() - 1 - at } else { at };
                bytes[at] = noise.next() as u8;
            }
            if noise.next().is_multiple_of(4) {
                bytes.truncate(noise.next() as usize % bytes.len());
            }
            probe(&bytes, &options());
        }
    }
}

/// FLAC frames of 65,535 zeros, each of a few bytes: silence that costs nothing to store.
fn silent_flac(frames: usize) -> Vec<u8> {
    let mut bytes = b"fLaC".to_vec();
    // One metadata block, the last: block sizes 65,535, 44,100 Hz, mono, 16 bits, the
    // number of samples and the digest unknown.
    bytes.extend([0x80, 0, 0, 34]);
    bytes.extend([0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0x0A, 0xC4, 0x40, 0xF0, 0, 0, 0, 0]);
    bytes.extend([0; 16]);
    for number in 0..frames {
        bytes.extend(silent_frame(number as u32));
    }
    bytes
}

fn silent_frame(number: u32) -> Vec<u8> {
    // Sync code and fixed blocks; size in 16 bits, rate and depth from the header; mono.
    let mut frame = vec![0xFF, 0xF8, 0x70, 0x00];
    let character = char::from_u32(number).expect("few frames");
    frame.extend(character.to_string().as_bytes());
    frame.extend([0xFF, 0xFE]);
    frame.push(crc(&frame, 0x07, 8) as u8);
    // A constant subframe: one sample for the whole block.
    frame.extend([0x00, 0x00, 0x00]);
    frame.extend((crc(&frame, 0x8005, 16) as u16).to_be_bytes());
    frame
}

fn crc(bytes: &[u8], polynomial: u32, bits: u32) -> u32 {
    let mask = (1_u32 << bits) - 1;
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << (bits - 8), |crc, _| {
            let carry = crc >> (bits - 1) & 1;
            ((crc << 1) ^ (carry * polynomial)) & mask
        })
    })
}

#[test]
fn a_bomb_of_silence_is_stopped_at_the_limit() {
    let decoded = decode(&silent_flac(3), &DecodeOptions::default()).unwrap();
    assert_eq!(decoded.clip.frames(), 3 * 65_535);
    // 36 minutes in some kilobytes; the limit is one.
    let mut options = DecodeOptions::default();
    options.limits.seconds = 60.0;
    let bomb = silent_flac(1_500);
    LARGEST.set(0);
    assert_eq!(decode(&bomb, &options).unwrap_err().code(), "too-large");
    assert!(LARGEST.get() < ROOM, "{} bytes", LARGEST.get());
}

#[test]
fn headers_without_frames_do_not_cost_a_search_each() {
    // Many headers whose frames never end.
    let mut header = vec![0xFF, 0xF8, 0x70, 0x00, 0x01, 0xFF, 0xFE];
    header.push(crc(&header, 0x07, 8) as u8);
    let bytes = [silent_flac(1), header.repeat(100_000)].concat();
    assert_eq!(decode(&bytes, &DecodeOptions::default()).unwrap_err().code(), "truncated");
}
