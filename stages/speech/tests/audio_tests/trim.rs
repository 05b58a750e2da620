//! Silence around speech is cut, speech is not. The speech is a clip of the demo.

use stage_speech::audio::decode::DecodeOptions;
use stage_speech::audio::trim::{TrimOptions, TrimmedClip, trim};
use stage_speech::audio::{Clip, Fault, decode};

const SPEECH: &[u8] = include_bytes!("../../../../pipelines/demo/data/wavs/aino_01.wav");

fn speech() -> Clip {
    decode(SPEECH, &DecodeOptions::default()).unwrap().clip
}

fn pcm(clip: Clip) -> Vec<i16> {
    clip.into_pcm().0
}

/// The clip between pauses of this length in seconds.
fn padded(before: f64, behind: f64) -> Clip {
    let clip = speech();
    let rate = clip.rate;
    let pause = |seconds: f64| vec![0_i16; (seconds * f64::from(rate)) as usize];
    Clip::mono(rate, [pause(before), pcm(clip), pause(behind)].concat())
}

fn trimmed(clip: Clip, keep_seconds: f64) -> TrimmedClip {
    trim(clip, &TrimOptions { keep_seconds, ..TrimOptions::default() }).unwrap()
}

#[test]
fn pauses_are_cut_down_to_what_is_kept() {
    let alone = speech().seconds();
    let result = trimmed(padded(1.5, 2.0), 0.25);
    let seconds = result.clip.seconds();
    assert!(seconds > alone * 0.6 && seconds < alone + 0.6, "{seconds} of {alone} s");
    assert!(result.before > 22_050 && result.behind > 22_050);
}

#[test]
fn what_is_kept_is_a_piece_of_the_clip_and_holds_its_loud_part() {
    let clip = padded(1.0, 1.0);
    let whole = pcm(clip.clone());
    let result = trimmed(clip, 0.1);
    let kept = pcm(result.clip);
    assert_eq!(kept, whole[result.before..whole.len() - result.behind]);
    let energy = |samples: &[i16]| samples.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>();
    assert!(energy(&kept) > 0.99 * energy(&whole));
}

#[test]
fn more_is_kept_where_more_is_asked_for() {
    let short = trimmed(padded(1.0, 1.0), 0.1).clip.seconds();
    let long = trimmed(padded(1.0, 1.0), 0.3).clip.seconds();
    assert!((long - short - 0.4).abs() < 0.001, "{short} s and {long} s");
}

#[test]
fn a_clip_with_nothing_to_cut_is_not_touched() {
    let result = trimmed(speech(), 60.0);
    assert_eq!((result.before, result.behind), (0, 0));
    assert_eq!(result.clip, speech());
}

#[test]
fn silence_and_empty_clips_hold_no_speech() {
    for samples in [vec![], vec![0; 10], vec![0; 32_000]] {
        let fault = trim(Clip::mono(16_000, samples), &TrimOptions::default()).unwrap_err();
        assert_eq!(fault, Fault::NoSpeech);
    }
}
