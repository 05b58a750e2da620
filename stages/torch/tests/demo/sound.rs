//! Changes to recordings.

use std::io::Cursor;

/// The same recording, ten percent quieter.
pub fn softer(wav: &[u8]) -> Vec<u8> {
    scaled(wav, 9, 10)
}

/// The same recording with every sample multiplied by a fraction.
pub fn scaled(wav: &[u8], numerator: i32, denominator: i32) -> Vec<u8> {
    let mut reader = hound::WavReader::new(wav).unwrap();
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, reader.spec()).unwrap();
    for sample in reader.samples::<i16>() {
        let sample = i32::from(sample.unwrap()) * numerator / denominator;
        writer.write_sample(i16::try_from(sample).unwrap()).unwrap();
    }
    writer.finalize().unwrap();
    bytes.into_inner()
}

/// The same samples in a file with a comment after them.
pub fn tagged(wav: &[u8]) -> Vec<u8> {
    let mut bytes = wav.to_vec();
    bytes.extend(b"LIST\x10\x00\x00\x00INFOICMT\x04\x00\x00\x00moi\x00");
    let riff = u32::try_from(bytes.len() - 8).unwrap();
    bytes[4..8].copy_from_slice(&riff.to_le_bytes());
    bytes
}
