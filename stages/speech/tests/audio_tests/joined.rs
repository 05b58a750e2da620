//! Lengths that are not true, and files that consist of several.

use crate::support::{Wav, chunk};
use stage_speech::audio::decode::{DecodeOptions, DecodedClip};
use stage_speech::audio::{Note, Samples, decode};

const FLAC: &[u8] = include_bytes!("../audio_fixtures/tone.flac");
const MP3: &[u8] = include_bytes!("../audio_fixtures/tone.mp3");
const OGG: &[u8] = include_bytes!("../audio_fixtures/tone.ogg");
const M4A: &[u8] = include_bytes!("../audio_fixtures/tone.m4a");
const OPUS: &[u8] = include_bytes!("../audio_fixtures/opus.ogg");

fn read(bytes: &[u8]) -> DecodedClip {
    decode(bytes, &DecodeOptions::default()).unwrap()
}

fn refused(bytes: &[u8]) -> String {
    match decode(bytes, &DecodeOptions::default()) {
        Ok(decoded) => panic!("{} frames, {:?}", decoded.clip.frames(), decoded.notes),
        Err(fault) => fault.to_string(),
    }
}

fn pcm(decoded: &DecodedClip) -> Vec<i16> {
    decoded.clip.clone().into_pcm().0
}

/// Frames of silence in MP3 at 44,100 Hz with these bits a second, by their code in the header.
fn silent_mp3(bit_rates: &[u8], is_mono: bool) -> Vec<u8> {
    const KILOBITS: [usize; 15] =
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    let frame = |code: &u8| {
        let mut frame = vec![0; 144_000 * KILOBITS[usize::from(*code)] / 44_100];
        frame[..4].copy_from_slice(&[0xFF, 0xFB, code << 4, if is_mono { 0xC0 } else { 0 }]);
        frame
    };
    bit_rates.iter().flat_map(frame).collect()
}

#[test]
fn an_mp3_without_a_tag_is_read_to_its_last_frame_whatever_its_bit_rates() {
    // Judged by its first frames it would have a tenth of its length.
    let bytes = silent_mp3(&[[14; 20], [1; 20]].concat(), true);
    assert_eq!(read(&bytes).clip.frames(), 40 * 1_152);
    let bytes = silent_mp3(&[[1; 20], [14; 20]].concat(), true);
    assert_eq!((read(&bytes).clip.frames(), read(&bytes).notes), (40 * 1_152, Vec::new()));
}

/// The fixture with another number of frames in its tag.
fn with_frames(count: u32) -> Vec<u8> {
    let at = MP3.windows(4).position(|window| window == b"Info").unwrap() + 8;
    let mut bytes = MP3.to_vec();
    bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
    bytes
}

#[test]
fn a_tag_that_states_too_few_no_or_too_many_frames_does_not_end_an_mp3() {
    let sound = pcm(&read(MP3));
    for (count, expected) in
        [(16, "the header states"), (0, "the header does not state"), (90, "the header states")]
    {
        let decoded = read(&with_frames(count));
        // The added frames at the end cannot be told from sound.
        assert_eq!(pcm(&decoded)[..sound.len()], sound, "{count}");
        assert!(decoded.clip.frames() < sound.len() + 1_152, "{count}");
        let told: Vec<String> = decoded.notes.iter().map(Note::to_string).collect();
        assert!(told.iter().any(|note| note.starts_with(expected)), "{count}: {told:?}");
    }
}

#[test]
fn a_cut_mp3_names_the_header_that_states_more() {
    let message = refused(&MP3[..MP3.len() / 2]);
    assert!(message.contains("frames of the Xing header declared"), "{message}");
}

#[test]
fn a_false_length_of_a_tag_before_an_mp3_hides_no_sound() {
    let sound = pcm(&read(MP3));
    assert!(MP3.starts_with(b"ID3"));
    for length in [[0, 0, 20, 3], [0, 127, 127, 127], [0, 0, 0, 0]] {
        let mut bytes = MP3.to_vec();
        bytes[6..10].copy_from_slice(&length);
        assert!(pcm(&read(&bytes)) == sound, "{length:?}: {:?}", read(&bytes).notes);
    }
}

#[test]
fn a_false_length_of_a_box_hides_no_sound() {
    let at = M4A.windows(4).position(|window| window == b"mdat").unwrap() - 4;
    for length in [3_000_u32, u32::MAX] {
        let mut bytes = M4A.to_vec();
        bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
        match decode(&bytes, &DecodeOptions::default()) {
            Ok(decoded) => assert!(pcm(&decoded) == pcm(&read(M4A)), "{length}"),
            // The movie behind the data is not found.
            Err(fault) => assert_eq!(fault.code(), "damaged", "{length}: {fault}"),
        }
    }
}

#[test]
fn joined_files_are_read_one_after_the_other() {
    let wav = Wav::pcm(&[5, -5, 700, 9]).bytes();
    for (name, bytes) in [("FLAC", FLAC), ("MP3", MP3), ("Ogg", OGG), ("M4A", M4A), ("WAV", &wav)] {
        let once = pcm(&read(bytes));
        let joined = read(&[bytes, bytes, bytes].concat());
        assert!(pcm(&joined) == once.repeat(3), "{name}: {:?}", joined.notes);
        assert!(joined.notes.contains(&Note::Joined { files: 3 }), "{name}: {:?}", joined.notes);
    }
}

#[test]
fn tags_between_joined_files_are_no_sound() {
    let id3_1 = [&b"TAG"[..], &[0; 125]].concat();
    let id3_2 = [&b"ID3\x04\0\0\0\0\0\x20"[..], &[0; 32]].concat();
    let joined = read(&[MP3, &id3_1, &id3_2, MP3].concat());
    assert!(pcm(&joined) == pcm(&read(MP3)).repeat(2), "{:?}", joined.notes);
}

#[test]
fn integers_and_floats_in_a_row_keep_their_values() {
    let first = Wav::pcm(&[1, -1, 300]).bytes();
    let second = Wav::floats(&[0.5, -0.25]).bytes();
    let joined = read(&[first.clone(), second.clone()].concat());
    assert_eq!(pcm(&joined), [1, -1, 300, 16_384, -8_192]);
    assert_eq!(pcm(&read(&[second, first].concat())), [16_384, -8_192, 1, -1, 300]);
}

#[test]
fn a_change_of_channels_or_rate_is_named_with_its_place() {
    let help = "convert it: `ffmpeg -i IN -vn OUT.flac`";
    let bytes = [silent_mp3(&[9; 30], true), silent_mp3(&[9; 30], false)].concat();
    let message = format!("the number of channels changes at 0.78 s, from 1 to 2; {help}");
    assert_eq!(refused(&bytes), message);
    let slow = Wav { rate: 8_000, ..Wav::pcm(&[0; 8_000]) }.bytes();
    let fast = Wav { rate: 16_000, ..Wav::pcm(&[0; 8_000]) }.bytes();
    let message = format!("the sample rate changes at 1.00 s, from 8000 to 16000; {help}");
    assert_eq!(refused(&[slow, fast].concat()), message);
}

#[test]
fn a_chained_stream_of_a_codec_that_is_not_read_is_named() {
    let help = "convert it: `ffmpeg -i IN -vn OUT.flac`";
    let message =
        format!("unsupported: several files or streams in a row, one of them Opus in Ogg; {help}");
    assert_eq!(refused(&[OGG, OPUS].concat()), message);
    let message = format!("unsupported: Opus in Ogg, several streams in a chain; {help}");
    assert_eq!(refused(&[OPUS, OPUS].concat()), message);
}

#[test]
fn a_lost_page_of_ogg_is_damage() {
    let pages: Vec<usize> = (0..OGG.len()).filter(|at| OGG[*at..].starts_with(b"OggS")).collect();
    let lost = pages[pages.len() - 2];
    assert!(lost > pages[1], "{pages:?}");
    for bytes in [
        [&OGG[..lost], &OGG[pages[pages.len() - 1]..]].concat(),
        OGG.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == lost + 33)).collect(),
    ] {
        let message = refused(&bytes);
        assert!(message.starts_with("damaged Ogg: a part is damaged after "), "{message}");
    }
}

#[test]
fn a_part_of_a_wav_that_its_chunk_does_not_cover_is_read_if_the_file_includes_it() {
    let samples: Vec<i16> = (0..1_000).collect();
    let short = Wav { data_length: Some(600), ..Wav::pcm(&samples) };
    let decoded = read(&short.bytes());
    assert_eq!(decoded.clip.samples, Samples::Pcm(samples.clone()));
    assert_eq!(decoded.notes, [Note::FalseLength { stated: 300, present: 1_000 }]);
    // Without the length of the file too.
    let mut zeros = Wav { data_length: Some(0), ..Wav::pcm(&samples) }.bytes();
    zeros[4..8].fill(0);
    assert_eq!((pcm(&read(&zeros)), read(&zeros).notes), (samples, vec![Note::UnknownLength]));
}

#[test]
fn bytes_behind_a_wav_are_told_as_the_samples_that_they_would_be() {
    let mut bytes = Wav::pcm(&[1, 2, 3]).bytes();
    bytes.extend([0; 400]);
    let notes = read(&bytes).notes;
    assert_eq!(notes, [Note::LeftOut { bytes: 400, frames: Some(200) }]);
    assert_eq!(notes[0].tally(), ("samples-left-out", 200));
}

#[test]
fn several_chunks_of_samples_are_all_read() {
    let mut wav = Wav::pcm(&[1, 2]);
    wav.data.extend(chunk(b"LIST", b"INFOabcd"));
    wav.data.extend(chunk(b"data", &[3, 0, 4, 0]));
    wav.data_length = Some(4);
    assert_eq!(pcm(&read(&wav.bytes())), [1, 2, 3, 4]);
}
