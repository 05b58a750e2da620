//! Compressed containers: the tone of the fixtures is decoded at its right position.

use stage_speech::audio::decode::{DecodeOptions, DecodedClip};
use stage_speech::audio::sniff::AudioContainer;
use stage_speech::audio::{Fault, Note, Samples, decode};

const FLAC: &[u8] = include_bytes!("../audio_fixtures/tone.flac");
const MP3: &[u8] = include_bytes!("../audio_fixtures/tone.mp3");
const OGG: &[u8] = include_bytes!("../audio_fixtures/tone.ogg");
const M4A: &[u8] = include_bytes!("../audio_fixtures/tone.m4a");
const ALAC: &[u8] = include_bytes!("../audio_fixtures/alac.m4a");
const ADPCM: &[u8] = include_bytes!("../audio_fixtures/adpcm.wav");
const OPUS: &[u8] = include_bytes!("../audio_fixtures/opus.ogg");

fn read(bytes: &[u8]) -> DecodedClip {
    decode(bytes, &DecodeOptions::default()).unwrap()
}

/// The tone of the fixtures at `rate`.
fn tone(rate: u32) -> Vec<f64> {
    let frames = (0.8 * f64::from(rate)) as usize;
    let seconds = (0..frames).map(|at| at as f64 / f64::from(rate));
    seconds
        .map(|t| {
            let sounding = (0.2..0.6).contains(&t);
            f64::from(u8::from(sounding)) * 0.5 * (std::f64::consts::TAU * 440.0 * t).sin()
        })
        .collect()
}

fn values(decoded: &DecodedClip) -> Vec<f64> {
    let (samples, _) = decoded.clip.clone().into_pcm();
    samples.iter().map(|&sample| f64::from(sample) / 32_768.0).collect()
}

/// Signal to difference ratio in decibels.
fn fidelity(found: &[f64], wanted: &[f64]) -> f64 {
    let energy: f64 = wanted.iter().map(|value| value * value).sum();
    let error: f64 = found.iter().zip(wanted).map(|(a, b)| (a - b) * (a - b)).sum();
    10.0 * (energy / error).log10()
}

#[test]
fn lossless_formats_give_the_samples_back() {
    for (bytes, format, rate) in
        [(FLAC, AudioContainer::Flac, 44_100), (ALAC, AudioContainer::M4a, 16_000)]
    {
        let decoded = read(bytes);
        assert_eq!((decoded.format, decoded.clip.rate, decoded.clip.channels), (format, rate, 1));
        assert!(matches!(decoded.clip.samples, Samples::Pcm(_)));
        assert_eq!(decoded.clip.frames(), (0.8 * f64::from(rate)) as usize);
    }
    assert!(fidelity(&values(&read(FLAC)), &tone(44_100)) > 85.0);
    assert!(fidelity(&values(&read(ALAC)), &tone(16_000)) > 30.0);
}

#[test]
fn lossy_formats_are_in_place_to_the_frame_and_as_long_as_their_source() {
    for (bytes, format) in
        [(MP3, AudioContainer::Mp3), (OGG, AudioContainer::Ogg), (M4A, AudioContainer::M4a)]
    {
        let decoded = read(bytes);
        assert_eq!((decoded.format, decoded.clip.rate), (format, 44_100));
        assert_eq!(decoded.clip.frames(), 35_280, "{format}");
        // A shift by one frame alone would lose everything above 24 dB.
        let fidelity = fidelity(&values(&decoded), &tone(44_100));
        assert!(fidelity > 25.0, "{format}: {fidelity} dB");
    }
}

#[test]
fn removed_encoder_delay_is_noted() {
    for bytes in [MP3, M4A] {
        let notes = read(bytes).notes;
        assert!(matches!(notes[..], [Note::EncoderDelay { start: 1_000.., .. }]), "{notes:?}");
    }
}

#[test]
fn adpcm_inside_wav_is_read_as_far_as_its_fact_chunk_says() {
    let padded = read(ADPCM);
    assert_eq!((padded.format, padded.clip.rate), (AudioContainer::Wav, 16_000));
    assert_eq!(padded.clip.frames(), 14_287);
    assert!(fidelity(&values(&padded), &tone(16_000)) > 20.0);
    let mut exact = ADPCM.to_vec();
    exact[48..52].copy_from_slice(&12_800_u32.to_le_bytes());
    assert_eq!(values(&read(&exact)), values(&padded)[..12_800]);
}

/// An AIFF file of 16-bit samples; its lengths and samples are big-endian.
pub fn aiff(declared_frames: u32, samples: &[i16]) -> Vec<u8> {
    let chunk =
        |name: &[u8], body: &[u8]| [name, &(body.len() as u32).to_be_bytes()[..], body].concat();
    // 16,000 Hz as an 80-bit float.
    let rate = [0x40, 0x0C, 0xFA, 0, 0, 0, 0, 0, 0, 0];
    let common =
        [&1_u16.to_be_bytes()[..], &declared_frames.to_be_bytes(), &16_u16.to_be_bytes(), &rate];
    let sound: Vec<u8> =
        [0; 8].into_iter().chain(samples.iter().flat_map(|sample| sample.to_be_bytes())).collect();
    let body = [&b"AIFF"[..], &chunk(b"COMM", &common.concat()), &chunk(b"SSND", &sound)].concat();
    chunk(b"FORM", &body)
}

#[test]
fn aiff_gives_its_samples_back() {
    let samples = [0, 1, -1, 32_767, -32_768, 300];
    let decoded = read(&aiff(6, &samples));
    assert_eq!((decoded.format, decoded.clip.rate), (AudioContainer::Aiff, 16_000));
    assert_eq!(decoded.clip.samples, Samples::Pcm(samples.to_vec()));
}

#[test]
fn aiff_that_holds_less_than_it_states_is_rejected() {
    let fault = decode(&aiff(9, &[1; 6]), &DecodeOptions::default()).unwrap_err();
    assert_eq!(fault, Fault::Truncated { unit: "frames", declared: Some(9), present: 6 });
}

#[test]
fn codecs_that_are_not_read_are_named() {
    let told = |bytes: &[u8]| decode(bytes, &DecodeOptions::default()).unwrap_err().to_string();
    let help = "convert it: `ffmpeg -i IN -vn OUT.flac`";
    assert_eq!(told(OPUS), format!("unsupported: Opus in Ogg; {help}"));
    for (kind, codec, expected) in [
        ("webm", "A_OPUS", format!("unsupported: Opus in WebM; {help}")),
        ("webm", "A_VORBIS", format!("unsupported: Vorbis in WebM; {help}")),
        ("matroska", "A_FLAC", format!("unsupported: FLAC in Matroska; {help}")),
        ("webm", "V_VP9", format!("not audio: a WebM file without a known audio track; {help}")),
    ] {
        assert_eq!(told(&matroska(kind, codec)), expected);
    }
}

/// The head of a Matroska file: its kind, and one track with a codec.
fn matroska(kind: &str, codec: &str) -> Vec<u8> {
    let element = |id: &[u8], body: &[u8]| [id, &[0x80 | body.len() as u8], body].concat();
    let head = element(&[0x1A, 0x45, 0xDF, 0xA3], &element(&[0x42, 0x82], kind.as_bytes()));
    let track = element(&[0xAE], &element(&[0x86], codec.as_bytes()));
    let tracks = element(&[0x16, 0x54, 0xAE, 0x6B], &track);
    [head, element(&[0x18, 0x53, 0x80, 0x67], &tracks)].concat()
}

#[test]
fn cut_files_are_rejected_or_kept_with_a_note() {
    for (bytes, name) in [(FLAC, "flac"), (MP3, "mp3")] {
        let cut = &bytes[..bytes.len() * 6 / 10];
        let fault = decode(cut, &DecodeOptions::default()).unwrap_err();
        assert!(matches!(fault, Fault::Truncated { .. }), "{name}: {fault}");
        let options = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
        let decoded = decode(cut, &options).unwrap();
        assert!(decoded.clip.frames() < 35_280);
        let kept = |note: &Note| matches!(note, Note::TruncatedKept { missing: Some(1_000..), .. });
        assert!(decoded.notes.iter().any(kept), "{name}: {:?}", decoded.notes);
    }
}

#[test]
fn a_stream_without_a_length_that_breaks_off_is_rejected() {
    let cut = &OGG[..OGG.len() - 200];
    let message = decode(cut, &DecodeOptions::default()).unwrap_err().to_string();
    assert!(message.starts_with("truncated: the stream ends after "), "{message}");
    let options = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
    let notes = decode(cut, &options).unwrap().notes;
    assert!(notes.contains(&Note::TruncatedKept { unit: "frames", missing: None }), "{notes:?}");
}

#[test]
fn a_file_cut_in_its_header_is_rejected() {
    for bytes in [FLAC, MP3, OGG, M4A, ALAC, ADPCM] {
        for length in [5, 20, 60, 100] {
            assert!(decode(&bytes[..length], &DecodeOptions::default()).is_err(), "{length} bytes");
        }
    }
}

#[test]
fn damage_in_the_middle_is_not_passed_over_in_silence() {
    let mut bytes = FLAC.to_vec();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0x5A;
    }
    assert!(decode(&bytes, &DecodeOptions::default()).is_err());
}

/// The start of the first frame of the fixture.
const FIRST_FRAME: usize = 108;

/// The fixture up to the last frame that has sound in it, and the length of that frame. Its seven
/// frames have 4,096 samples each, and the digest of the samples is not stated.
fn up_to_sound() -> (Vec<u8>, usize) {
    let mut bytes = FLAC[..5_809].to_vec();
    bytes[22..26].copy_from_slice(&(7 * 4_096_u32).to_be_bytes());
    bytes[26..42].fill(0);
    (bytes, 5_809 - 4_902)
}

/// Counts the verdicts on a file with one flipped byte: damaged, and cut off.
fn verdicts_on_flips(flac: &[u8], places: impl Iterator<Item = usize>) -> (usize, usize) {
    let (mut damaged, mut truncated) = (0, 0);
    for at in places {
        let mut bytes = flac.to_vec();
        bytes[at] ^= 0x10;
        for allow_truncated in [false, true] {
            let options = DecodeOptions { allow_truncated, ..DecodeOptions::default() };
            match decode(&bytes, &options) {
                Err(Fault::Undecodable { .. }) => damaged += 1,
                // A last frame that reads as longer than the file looks cut off.
                Err(Fault::Truncated { .. }) => truncated += 1,
                Err(fault) => panic!("byte {at}: {fault}"),
                Ok(decoded) => assert!(allow_truncated, "byte {at}: {:?}", decoded.notes),
            }
        }
    }
    (damaged, truncated)
}

#[test]
fn a_flipped_byte_in_a_flac_of_full_length_is_no_truncation() {
    let places = (FIRST_FRAME..FLAC.len()).step_by(61);
    let (damaged, truncated) = verdicts_on_flips(FLAC, places);
    assert!(damaged > 4 * truncated, "{damaged} {truncated}");
}

#[test]
fn a_damaged_last_frame_of_a_flac_is_no_truncation() {
    let (flac, last) = up_to_sound();
    assert_eq!(read(&flac).clip.frames(), 7 * 4_096);
    let end = flac.len();
    let frame = end - last;
    // Its header has six bytes. The first two samples follow the byte that begins the subframe.
    let header = frame + 2..frame + 6;
    let samples = frame + 7..frame + 11;
    let checksum = end - 2..end;
    for places in [header, samples, checksum] {
        let expected = (2 * places.len(), 0);
        assert_eq!(verdicts_on_flips(&flac, places.clone()), expected, "{places:?}");
    }
    let tag = [&b"TAG"[..], &[0; 125]].concat();
    for tail in [&[][..], &tag] {
        let mut bytes = [&flac, tail].concat();
        bytes[end - 1] ^= 1;
        let message = decode(&bytes, &DecodeOptions::default()).unwrap_err().to_string();
        assert_eq!(message, "damaged FLAC: the last block is damaged, after 24576 frames");
    }
}

#[test]
fn a_flac_that_is_cut_anywhere_is_truncated() {
    let (flac, last) = up_to_sound();
    for length in (flac.len() - 2 * last..flac.len()).step_by(5) {
        let fault = decode(&flac[..length], &DecodeOptions::default()).unwrap_err();
        assert!(matches!(fault, Fault::Truncated { .. }), "{length} bytes: {fault}");
    }
}

#[test]
fn a_wrong_length_in_the_header_of_a_flac_is_no_truncation() {
    let mut bytes = FLAC.to_vec();
    let stated = u32::from_be_bytes([bytes[22], bytes[23], bytes[24], bytes[25]]);
    bytes[22..26].copy_from_slice(&(stated + 5_000).to_be_bytes());
    assert!(decode(&bytes, &DecodeOptions::default()).unwrap().clip == read(FLAC).clip);
}

#[test]
fn the_length_limit_stops_decoding_early() {
    let mut options = DecodeOptions::default();
    options.limits.seconds = 0.25;
    for bytes in [FLAC, MP3, OGG, M4A] {
        let fault = decode(bytes, &options).unwrap_err();
        assert_eq!(fault.to_string(), "too large: the length is over the limit of 0.25 seconds");
    }
}

/// Bytes that tools and broken copies leave after a recording.
fn tails() -> Vec<(&'static str, Vec<u8>)> {
    let mut id3 = b"TAGTitle".to_vec();
    id3.resize(128, 0);
    let footer = [&b"APETAGEX"[..], &2_000_u32.to_le_bytes(), &[32, 0, 0, 0, 0, 0, 0, 0]].concat();
    let ape = [&footer[..], &[0; 12], &footer[..], &[0; 12]].concat();
    let mut state = 12_345_u32;
    let noise = (0..5_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    vec![
        ("ID3v1", id3.clone()),
        ("APEv2 and ID3v1", [ape, id3].concat()),
        ("text", b"\r\n--boundary--\r\n".repeat(40)),
        ("zeros", vec![0; 4_096]),
        ("ones", vec![0xFF; 700]),
        ("noise", noise.collect()),
        ("another file", OGG[..2_000].to_vec()),
    ]
}

#[test]
fn whatever_is_behind_a_recording_is_no_part_of_it() {
    let wav = crate::support::Wav::pcm(&[1, -2, 300, -400]).bytes();
    let aiff = aiff(6, &[0, 1, -1, 32_767, -32_768, 300]);
    let recordings: [(&str, &[u8]); 8] = [
        ("FLAC", FLAC),
        ("MP3", MP3),
        ("Ogg", OGG),
        ("AAC", M4A),
        ("ALAC", ALAC),
        ("ADPCM", ADPCM),
        ("WAV", &wav),
        ("AIFF", &aiff),
    ];
    let mut wrong = Vec::new();
    for (name, bytes) in recordings {
        let clean = read(bytes).clip;
        for (tail, behind) in tails() {
            match decode(&[bytes, &behind].concat(), &DecodeOptions::default()) {
                Ok(decoded) if decoded.clip == clean => {}
                Ok(decoded) => wrong.push(format!(
                    "{name} with {tail}: {} frames, not {}",
                    decoded.clip.frames(),
                    clean.frames()
                )),
                Err(fault) => wrong.push(format!("{name} with {tail}: {fault}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_cut_flac_is_short_whatever_is_behind_it() {
    for cut in [1, 2, 50, 3_000] {
        for (tail, behind) in tails() {
            let bytes = [&FLAC[..FLAC.len() - cut], &behind].concat();
            let fault = decode(&bytes, &DecodeOptions::default()).unwrap_err();
            assert!(matches!(fault, Fault::Truncated { .. }), "{cut} before {tail}: {fault}");
        }
    }
}

#[test]
fn a_flac_that_states_no_length_is_read_to_its_last_frame() {
    let mut bytes = FLAC.to_vec();
    // The number of samples: 36 bits; the first four share a byte with another field.
    bytes[21] &= 0xF0;
    bytes[22..26].fill(0);
    let clean = read(FLAC).clip;
    for (tail, behind) in tails() {
        let decoded = decode(&[&bytes[..], &behind].concat(), &DecodeOptions::default()).unwrap();
        assert!(decoded.clip == clean, "{tail}");
    }
}
