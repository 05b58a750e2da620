//! Any bytes as a recording: whole frames at some rate, or a fault. What comes of them can be
//! written, and reads back as what was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stage_speech::audio::decode::{DecodeOptions, decode};
use stage_speech::audio::wav;

fuzz_target!(|bytes: &[u8]| {
    let options = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
    let Ok(decoded) = decode(bytes, &options) else { return };
    let clip = decoded.clip;
    assert!(clip.rate > 0 && clip.channels > 0);
    assert_eq!(clip.samples.len() % usize::from(clip.channels), 0);
    let (rate, frames) = (clip.rate, clip.frames());
    if let Ok((written, _)) = wav::write(clip)
        && let Ok(again) = decode(&written, &options)
    {
        assert_eq!((again.clip.rate, again.clip.frames()), (rate, frames));
    }
});
