//! Correct, odd and damaged WAV files: accepted ones with their notes, and rejected ones with their
//! messages.

use crate::support::{Wav, chunk, extensible};
use stage_speech::audio::decode::{DecodeOptions, DecodedClip};
use stage_speech::audio::mix::Mix;
use stage_speech::audio::{Fault, Note, Samples, decode};

const RAMP: [i16; 8] = [0, 1_000, -1_000, 32_767, -32_768, 5, -5, 77];

fn read(bytes: &[u8]) -> Result<DecodedClip, Fault> {
    decode(bytes, &DecodeOptions::default())
}

fn accepted(wav: &Wav) -> DecodedClip {
    read(&wav.bytes()).unwrap()
}

fn rejected(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

fn pcm(decoded: &DecodedClip) -> Vec<i16> {
    decoded.clip.clone().into_pcm().0
}

#[test]
fn sixteen_bit_samples_pass_untouched() {
    let decoded = accepted(&Wav::pcm(&RAMP));
    assert_eq!(decoded.clip.samples, Samples::Pcm(RAMP.to_vec()));
    assert_eq!((decoded.clip.rate, decoded.clip.channels), (16_000, 1));
    assert_eq!(decoded.notes, []);
}

#[test]
fn every_plain_encoding_is_read() {
    let bytes = |samples: &[i32], width: usize| -> Vec<u8> {
        let all = samples.iter().map(|sample| sample.to_le_bytes());
        all.flat_map(|bytes| bytes[..width].to_vec()).collect()
    };
    let wide = [0, 0x10_0000, -0x10_0000, 0x7F_FF80, -0x80_0000];
    let narrow = [0, 0x1000, -0x1000, 0x7FFF, -0x8000];
    let long: Vec<i32> = wide.iter().map(|sample| sample << 8).collect();
    let float: Vec<f32> = narrow.iter().map(|&sample| sample as f32 / 32_768.0).collect();
    let double: Vec<f64> = float.iter().map(|&sample| f64::from(sample)).collect();
    let eight = Wav::of(8, vec![128, 144, 112, 255, 0]);
    for wav in [
        Wav::of(16, bytes(&narrow, 2)),
        Wav::of(24, bytes(&wide, 3)),
        Wav::of(32, bytes(&long, 4)),
        Wav::floats(&float),
        Wav::doubles(&double),
    ] {
        assert_eq!(pcm(&accepted(&wav)), [0, 4_096, -4_096, 32_767, -32_768], "{} bits", wav.bits);
    }
    assert_eq!(pcm(&accepted(&eight)), [0, 4_096, -4_096, 32_512, -32_768]);
}

#[test]
fn telephone_codings_expand_to_the_values_of_the_standard() {
    let alaw = Wav { tag: 6, ..Wav::of(8, vec![0xD5, 0x55, 0xAA, 0x2A, 0x80]) };
    assert_eq!(pcm(&accepted(&alaw)), [8, -8, 32_256, -32_256, 5_504]);
    let mulaw = Wav { tag: 7, ..Wav::of(8, vec![0xFF, 0x7F, 0x80, 0x00, 0xF0]) };
    assert_eq!(pcm(&accepted(&mulaw)), [0, 0, 32_124, -32_124, 120]);
}

#[test]
fn a_cut_file_is_rejected_with_the_bytes_missing() {
    let mut bytes = Wav::pcm(&[7; 8_000]).bytes();
    bytes.truncate(44 + 11_000);
    assert_eq!(
        rejected(&bytes),
        "truncated: 16000 bytes declared, 11000 present, 5000 missing; restore the file, or keep \
         what is there by `allow_truncated` in an `audio.decode` before this stage"
    );
}

#[test]
fn a_cut_file_is_kept_and_marked_where_allowed() {
    let mut bytes = Wav::pcm(&[7; 8_000]).bytes();
    bytes.truncate(44 + 11_001);
    let options = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
    let decoded = decode(&bytes, &options).unwrap();
    assert_eq!(decoded.clip.frames(), 5_500);
    assert_eq!(decoded.notes, [Note::TruncatedKept { unit: "bytes", missing: Some(4_999) }]);
}

#[test]
fn a_file_without_samples_is_empty() {
    assert_eq!(rejected(&Wav::pcm(&[]).bytes()), "empty: no samples");
    // A chunk follows, and no sound.
    let mut tagged = Wav::pcm(&[]).bytes();
    tagged.extend(chunk(b"LIST", b"INFOabcd"));
    assert_eq!(rejected(&tagged), "empty: 16 bytes after an empty `data` chunk");
    let half = Wav::of(16, vec![1]);
    assert_eq!(rejected(&half.bytes()), "empty: no samples");
}

#[test]
fn a_length_that_a_pipe_could_not_know_is_accepted_with_a_note() {
    // ffmpeg, then espeak-ng and sox, then a recorder that crashed.
    for length in [0xFFFF_FFFF, 0x7FFF_F000, 0] {
        let decoded = accepted(&Wav { data_length: Some(length), ..Wav::pcm(&RAMP) });
        assert_eq!(pcm(&decoded), RAMP);
        assert_eq!(decoded.notes, [Note::UnknownLength]);
    }
}

#[test]
fn an_odd_byte_at_the_end_is_dropped_with_a_note() {
    let mut wav = Wav::pcm(&RAMP);
    wav.data.push(9);
    let decoded = accepted(&wav);
    assert_eq!(pcm(&decoded), RAMP);
    assert_eq!(decoded.notes, [Note::OddBytes { dropped: 1 }]);
}

#[test]
fn rates_that_no_recording_has_are_rejected() {
    for rate in [0, 3_999, 384_001, u32::MAX] {
        let message = rejected(&Wav { rate, ..Wav::pcm(&RAMP) }.bytes());
        assert_eq!(message, format!("sample rate of {rate} Hz is outside 4000 to 384000 Hz"));
    }
    for rate in [4_000, 384_000] {
        assert_eq!(accepted(&Wav { rate, ..Wav::pcm(&RAMP) }).clip.rate, rate);
    }
}

#[test]
fn samples_that_are_not_numbers_are_counted_and_rejected() {
    let odd = [0.5, f32::NAN, f32::INFINITY, 1e30, f32::NEG_INFINITY, -0.5];
    assert_eq!(
        rejected(&Wav::floats(&odd).bytes()),
        "4 of 6 samples are invalid: 1 NaN, 2 infinite, 1 beyond 16 times full scale; the first \
         is sample 1"
    );
    let doubles = [1e300, 0.0];
    assert!(rejected(&Wav::doubles(&doubles).bytes()).contains("0 infinite, 1 beyond"));
}

#[test]
fn floats_a_little_over_full_scale_are_clipped_with_a_note() {
    let decoded = accepted(&Wav::floats(&[0.0, 1.5, -1.5, 1.0]));
    assert_eq!(pcm(&decoded), [0, 32_767, -32_768, 32_767]);
    assert_eq!(decoded.notes, [Note::Clipped { samples: 2 }]);
}

#[test]
fn a_header_that_contradicts_itself_is_rejected_with_chunk_and_offset() {
    let base = Wav::pcm(&RAMP);
    let no_channels = Wav { channels: 0, ..base.clone() };
    assert_eq!(rejected(&no_channels.bytes()), "damaged: `fmt ` chunk at offset 12: 0 channels");
    let no_bits = Wav { bits: 0, ..base.clone() };
    assert_eq!(rejected(&no_bits.bytes()), "damaged: `fmt ` chunk at offset 12: 0 bits a sample");
    let crowd = Wav { channels: 65_535, ..base.clone() };
    assert_eq!(
        rejected(&crowd.bytes()),
        "damaged: `fmt ` chunk at offset 12: 65535 channels of 16 bits do not fill blocks of \
         65534 bytes"
    );
    let crowd = Wav { channels: 65_535, bits: 8, ..base };
    assert_eq!(
        rejected(&crowd.bytes()),
        "too large: a recording of 65535 channels is over the limit of 32 channels"
    );
}

#[test]
fn a_missing_or_late_format_is_rejected() {
    let mut late = b"RIFF\0\0\0\0WAVE".to_vec();
    late.extend(chunk(b"data", &[0; 16]));
    late.extend(Wav::pcm(&RAMP).fmt());
    assert_eq!(
        rejected(&late),
        "damaged: `data` chunk at offset 12: comes before any `fmt ` chunk"
    );
    let mut none = b"RIFF\0\0\0\0WAVE".to_vec();
    none.extend(chunk(b"LIST", b"INFO"));
    assert_eq!(
        rejected(&none),
        "damaged: `fmt ` chunk at offset 24: the file ends without this chunk"
    );
    let mut no_data = b"RIFF\0\0\0\0WAVE".to_vec();
    no_data.extend(Wav::pcm(&RAMP).fmt());
    assert_eq!(
        rejected(&no_data),
        "damaged: `data` chunk at offset 36: the file ends without this chunk"
    );
}

#[test]
fn a_header_cut_anywhere_is_rejected_and_never_panics() {
    let bytes = Wav::pcm(&RAMP).bytes();
    for length in 0..44 {
        assert!(read(&bytes[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn other_chunks_before_the_data_are_skipped() {
    let mut wav = Wav::pcm(&RAMP);
    wav.before = chunk(b"JUNK", &[0; 10]);
    // An odd length: the next chunk starts one byte later.
    wav.between = chunk(b"LIST", b"INFOabc");
    wav.between.push(0);
    assert_eq!(pcm(&accepted(&wav)), RAMP);
}

#[test]
fn a_chunk_with_a_false_length_is_rejected() {
    let mut wav = Wav::pcm(&RAMP);
    wav.between = b"LIST".to_vec();
    wav.between.extend(2_000_000_000_u32.to_le_bytes());
    wav.between.extend(b"INFO");
    assert_eq!(
        rejected(&wav.bytes()),
        "damaged: `LIST` chunk at offset 36: declares 2000000000 bytes, but 28 are left"
    );
}

#[test]
fn a_wrong_block_alignment_is_a_note_if_the_byte_rate_is_right() {
    let wav = Wav { block: Some(7), byte_rate: Some(32_000), ..Wav::pcm(&RAMP) };
    let decoded = accepted(&wav);
    assert_eq!(pcm(&decoded), RAMP);
    assert_eq!(decoded.notes, [Note::BlockAlign { stated: 7, used: 2 }]);
    let both = Wav { block: Some(4), byte_rate: Some(64_000), ..Wav::pcm(&RAMP) };
    assert_eq!(
        rejected(&both.bytes()),
        "damaged: `fmt ` chunk at offset 12: 1 channels of 16 bits do not fill blocks of 4 bytes"
    );
}

#[test]
fn extensible_formats_are_read_and_must_have_their_size() {
    let wav = Wav { tag: 0xFFFE, extra: extensible(22, 1), ..Wav::pcm(&RAMP) };
    assert_eq!(pcm(&accepted(&wav)), RAMP);
    let mut long = Wav { tag: 0xFFFE, extra: extensible(24, 1), ..Wav::pcm(&RAMP) };
    long.extra.extend([0, 0]);
    assert_eq!(pcm(&accepted(&long)), RAMP);
    let short = Wav { tag: 0xFFFE, extra: extensible(20, 1), ..Wav::pcm(&RAMP) };
    assert_eq!(
        rejected(&short.bytes()),
        "damaged: `fmt ` chunk at offset 12: extensible format with 20 bytes of extra, needs 22"
    );
}

#[test]
fn wide_riff_is_read_by_its_64_bit_length() {
    let sizes = |data: u64| {
        let mut body = vec![0; 8];
        body.extend(data.to_le_bytes());
        body.extend([0; 12]);
        chunk(b"ds64", &body)
    };
    let wav = |length| Wav {
        id: b"RF64",
        before: sizes(length),
        data_length: Some(u32::MAX),
        ..Wav::pcm(&RAMP)
    };
    let decoded = accepted(&wav(16));
    assert_eq!(pcm(&decoded), RAMP);
    assert_eq!(decoded.notes, []);
    assert!(rejected(&wav(5_000_000_000).bytes()).starts_with("truncated: 5000000000 bytes"));
}

#[test]
fn what_is_not_audio_is_named() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "not audio: an empty file"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
            "not audio: a git-lfs pointer; run `git lfs pull`",
        ),
        (
            b"\n  <!DOCTYPE HTML>\n<title>404</title>",
            "not audio: an HTML page; the download failed: fetch the file again",
        ),
        (&[0; 64], "not audio: 64 zero bytes; copy the file again"),
        (b"PK\x03\x04\x14\0", "not audio: a ZIP archive; unpack it first"),
        (
            b"RIFF\x10\0\0\0AVI LIST",
            "not audio: an AVI video; convert it: `ffmpeg -i IN -vn OUT.flac`",
        ),
        (b"RIFF\x10\0", "not audio: a truncated RIFF file; copy the file again"),
        (
            b"riff\x2e\x91\xcf\x11",
            "not audio: a Wave64 file; convert it: `ffmpeg -i IN -vn OUT.flac`",
        ),
        (b"\x01\x02\x03", "not audio: unknown bytes (01 02 03)"),
    ];
    for (bytes, message) in cases {
        assert_eq!(rejected(bytes), message);
    }
}

#[test]
fn recordings_that_are_not_read_are_named_with_the_line_that_converts_them() {
    let transport: Vec<u8> = (0..600).map(|at| if at % 188 == 0 { 0x47 } else { 0x11 }).collect();
    let cases: [(&[u8], &str); 12] = [
        (b"caff\0\x01\0\0desc", "a Core Audio file (CAF)"),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9", "a Windows Media file (WMA, ASF)"),
        (b"#!AMR-WB\n\x04", "an AMR recording"),
        (b"\x0b\x77\x12\x34", "an AC-3 stream"),
        (b"MPCKSH\0\0", "a Musepack file"),
        (b"wvpk\x10\0\0\0", "a WavPack file"),
        (b"MAC \x96\x0f", "a Monkey's Audio file"),
        (b"DSD \x1c\0\0\0", "a DSD file (DSF)"),
        (b".snd\0\0\0\x18", "a Sun audio file"),
        (b".RMF\0\0\0\x12", "a RealMedia file"),
        (b"\xff\xf1\x50\x80\x01\x7f", "an AAC stream without a container"),
        (&transport, "an MPEG transport stream"),
    ];
    for (bytes, name) in cases {
        let help = "convert it: `ffmpeg -i IN -vn OUT.flac`";
        assert_eq!(rejected(bytes), format!("not audio: {name}; {help}"));
    }
}

#[test]
fn a_file_with_swapped_bytes_is_read() {
    let mut bytes = b"RIFX\0\0\0\x24WAVEfmt \0\0\0\x10".to_vec();
    for number in [1_u16, 1, 0, 16_000, 0, 32_000, 2, 16] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(b"data\0\0\0\x04\x01\x02\xff\xfe");
    assert_eq!(pcm(&read(&bytes).unwrap()), [0x0102, -2]);
}

#[test]
fn channels_are_folded_as_asked() {
    let wav = Wav { channels: 2, ..Wav::pcm(&[100, 200, -300, -100, 32_767, 32_767, 1, 2]) };
    let fold = |mix| {
        let options = DecodeOptions { mix, ..DecodeOptions::default() };
        decode(&wav.bytes(), &options).map(|decoded| pcm(&decoded))
    };
    assert_eq!(fold(Mix::Mean).unwrap(), [150, -200, 32_767, 2]);
    assert_eq!(fold(Mix::Left).unwrap(), [100, -300, 32_767, 1]);
    assert_eq!(fold(Mix::Right).unwrap(), [200, -100, 32_767, 2]);
    assert_eq!(fold(Mix::Keep).unwrap().len(), 8);
    assert_eq!(
        fold(Mix::Reject).unwrap_err().to_string(),
        "2 channels, expected one; choose `mean`, `left` or `right`"
    );
}

#[test]
fn channels_that_cancel_are_noted() {
    let opposite: Vec<i16> = (0..400).flat_map(|at| [at * 50, at * -45]).collect();
    let decoded = accepted(&Wav { channels: 2, ..Wav::pcm(&opposite) });
    assert!(matches!(decoded.notes[..], [Note::AntiPhase { correlation }] if correlation < -0.99));
    let alike: Vec<i16> = (0..400).flat_map(|at| [at * 50, at * 45]).collect();
    assert_eq!(accepted(&Wav { channels: 2, ..Wav::pcm(&alike) }).notes, []);
}

#[test]
fn lengths_and_sizes_over_the_limits_are_rejected() {
    let bytes = Wav::pcm(&[0; 16_001]).bytes();
    let mut options = DecodeOptions::default();
    options.limits.seconds = 1.0;
    let message = |options: &DecodeOptions| decode(&bytes, options).unwrap_err().to_string();
    assert_eq!(message(&options), "too large: the length is over the limit of 1 seconds");
    options.limits.bytes = 1_000;
    assert_eq!(
        message(&options),
        "too large: a file of 32046 bytes is over the limit of 1000 bytes"
    );
}

#[test]
fn the_stored_form_is_plain_and_depends_on_the_samples_only() {
    let mut tagged = Wav::pcm(&RAMP);
    tagged.between = chunk(b"LIST", b"INFOISFTabcd");
    let stored = |wav: &Wav| stage_speech::audio::wav::write(accepted(wav).clip).unwrap().0;
    let plain = stored(&Wav::pcm(&RAMP));
    assert_eq!(plain.len(), 44 + 2 * RAMP.len());
    assert_eq!(plain, Wav::pcm(&RAMP).bytes());
    assert_eq!(plain, stored(&tagged));
}
