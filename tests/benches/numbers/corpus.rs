//! Makes corpora: a table and a folder of clips, all different.

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

pub const RATE: u32 = 22_050;

/// The number of clips, and their duration.
#[derive(Clone, Copy)]
pub struct Size {
    pub clips: usize,
    pub seconds: f64,
}

impl Size {
    /// Large numbers of clips use short ones, so that they fit on the disk.
    pub fn of(clips: usize) -> Size {
        Size { clips, seconds: if clips > 20_000 { 0.05 } else { 2.0 } }
    }
}

/// The clips in their folder, and the table beside it.
pub fn make(folder: &Path, size: Size, rate: u32) -> Vec<PathBuf> {
    let wavs = folder.join("wavs");
    fs::create_dir_all(&wavs).unwrap();
    let paths: Vec<PathBuf> =
        (0..size.clips).map(|number| wavs.join(format!("clip{number:06}.wav"))).collect();
    let frames = (size.seconds * f64::from(rate)) as usize;
    paths.par_iter().enumerate().for_each(|(number, path)| {
        fs::write(path, clip(number as u64, frames, rate)).unwrap();
    });
    let rows = (0..size.clips).map(|number| {
        format!("clip{number:06}.wav|The text of number {number}.|speaker{}\n", number % 7)
    });
    fs::write(folder.join("metadata.csv"), rows.collect::<String>()).unwrap();
    paths
}

/// A mono 16-bit WAV file: a tone under noise, both specific to the clip.
pub fn clip(number: u64, frames: usize, rate: u32) -> Vec<u8> {
    let mut bytes = header(frames, rate);
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = (100.0 + (number % 900) as f64) * std::f64::consts::TAU / f64::from(rate);
    for frame in 0..frames {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let noise = (state >> 48) as f64 / 65_536.0 - 0.5;
        let sample = 6_000.0 * (frame as f64 * step).sin() + 400.0 * noise;
        bytes.extend_from_slice(&(sample as i16).to_le_bytes());
    }
    bytes
}

/// The header of a mono 16-bit WAV file.
pub fn header(frames: usize, rate: u32) -> Vec<u8> {
    let data = (frames * 2) as u32;
    let mut bytes = Vec::with_capacity(44 + frames * 2);
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&(36 + data).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt ");
    bytes.extend_from_slice(&16u32.to_le_bytes());
    bytes.extend_from_slice(&1u16.to_le_bytes());
    bytes.extend_from_slice(&1u16.to_le_bytes());
    bytes.extend_from_slice(&rate.to_le_bytes());
    bytes.extend_from_slice(&(rate * 2).to_le_bytes());
    bytes.extend_from_slice(&2u16.to_le_bytes());
    bytes.extend_from_slice(&16u16.to_le_bytes());
    bytes.extend_from_slice(b"data");
    bytes.extend_from_slice(&data.to_le_bytes());
    bytes
}
