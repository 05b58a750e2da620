//! Levels after EBU R128, and the limits that keep a clip from its target.

use crate::support::{sine, to_pcm};
use stage_speech::audio::Clip;
use stage_speech::audio::loudness::{Hold, LevelledClip, Loudness, LoudnessTarget, level};

fn levelled(samples: &[f64], options: &LoudnessTarget) -> LevelledClip {
    level(Clip::mono(48_000, to_pcm(samples)), options).unwrap()
}

fn tone(amplitude_db: f64, seconds: f64) -> Vec<f64> {
    sine(48_000, 997.0, seconds, 10_f64.powf(amplitude_db / 20.0))
}

fn near(value: f64, wanted: f64, tolerance: f64) {
    assert!((value - wanted).abs() <= tolerance, "{value} is not {wanted}");
}

#[test]
fn a_tone_has_the_loudness_of_the_standard() {
    // EBU Tech 3341: a stereo 1 kHz tone at -23 dBFS is -23 LUFS; one channel is 3 dB less.
    let measured = levelled(&tone(-20.0, 3.0), &LoudnessTarget::default()).loudness.unwrap();
    assert!(matches!(measured, Loudness::Gated(_)));
    near(measured.lufs(), -23.0, 0.1);
}

#[test]
fn a_clip_reaches_its_target() {
    let first = levelled(&tone(-34.0, 2.0), &LoudnessTarget::default());
    near(first.gain_db, 14.0, 0.1);
    assert_eq!(first.held_by, None);
    let again = level(first.clip, &LoudnessTarget::default()).unwrap();
    near(again.loudness.unwrap().lufs(), -23.0, 0.05);
}

#[test]
fn a_clip_shorter_than_a_gating_block_goes_by_its_level() {
    let short = levelled(&tone(-20.0, 0.2), &LoudnessTarget::default());
    assert!(matches!(short.loudness, Some(Loudness::Level(_))));
    near(short.loudness.unwrap().lufs(), -23.0, 0.1);
}

#[test]
fn quiet_clips_are_raised_no_more_than_allowed() {
    let quiet = levelled(&tone(-60.0, 1.0), &LoudnessTarget::default());
    assert_eq!((quiet.gain_db, quiet.held_by), (20.0, Some(Hold::Gain)));
}

#[test]
fn the_true_peak_stays_below_its_ceiling() {
    let mut samples = tone(-30.0, 2.0);
    samples[48_000] = 0.5;
    let options = LoudnessTarget { target_lufs: -16.0, ..LoudnessTarget::default() };
    let peaked = levelled(&samples, &options);
    assert_eq!(peaked.held_by, Some(Hold::Peak));
    near(peaked.gain_db, 5.0, 0.3);
    let loud = levelled(
        &tone(-0.1, 1.0),
        &LoudnessTarget { target_lufs: 0.0, ..LoudnessTarget::default() },
    );
    near(loud.gain_db, -0.9, 0.05);
}

#[test]
fn digital_silence_stays_as_it_is() {
    let silent = levelled(&[0.0; 48_000], &LoudnessTarget::default());
    assert_eq!((silent.gain_db, silent.loudness, silent.held_by), (0.0, None, None));
    assert_eq!(silent.clip, Clip::mono(48_000, vec![0; 48_000]));
}

#[test]
fn empty_clips_and_clips_of_one_sample_are_levelled_without_harm() {
    for samples in [vec![], vec![1_000]] {
        assert!(level(Clip::mono(16_000, samples), &LoudnessTarget::default()).is_ok());
    }
}
