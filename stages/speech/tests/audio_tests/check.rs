//! Measures of signals with known values, and the limits.

use crate::support::{Noise, Wav, sine, to_pcm};
use stage_speech::audio::check::{ClipLimits, check};
use stage_speech::audio::decode::DecodeOptions;
use stage_speech::audio::measure::{Measures, measure};
use stage_speech::audio::{Clip, decode};

fn measured(rate: u32, samples: &[f64]) -> Measures {
    measure(&Clip::mono(rate, to_pcm(samples)), None)
}

fn near(value: f64, wanted: f64, tolerance: f64) {
    assert!((value - wanted).abs() <= tolerance, "{value} is not {wanted}");
}

fn codes(clip: &Clip, limits: &ClipLimits) -> Vec<&'static str> {
    check(clip, None, limits).failures.iter().map(|failure| failure.rule.code).collect()
}

/// Amplitudes as in speech: a gamma distribution of shape 0.4 has the heavy tail of products of
/// independent variables.
fn speech_like(noise: &mut Noise, count: usize) -> Vec<f64> {
    let mut gamma = || loop {
        // Johnk's method for shapes below 1: exact, and only needs uniform numbers.
        let (u, v) = (noise.uniform().abs(), noise.uniform().abs());
        let (x, y) = (u.powf(1.0 / 0.4), v.powf(1.0 / 0.6));
        if x + y <= 1.0 && x + y > 0.0 {
            let exponential = -noise.uniform().abs().max(1e-12).ln();
            let sign = if noise.next().is_multiple_of(2) { 1.0 } else { -1.0 };
            return sign * exponential * x / (x + y);
        }
    };
    (0..count).map(|_| gamma()).collect()
}

#[test]
fn levels_of_a_tone() {
    let measures = measured(16_000, &sine(16_000, 440.0, 2.0, 0.5));
    near(measures.seconds, 2.0, 0.0);
    near(measures.peak_dbfs, -6.02, 0.01);
    near(measures.rms_dbfs, -9.03, 0.01);
    near(measures.dc_offset, 0.0, 1e-4);
    near(measures.silence_share, 0.0, 0.0);
    assert_eq!((measures.clipped_runs, measures.clipped_share), (0, 0.0));
}

#[test]
fn an_offset_is_measured_with_its_sign() {
    near(measured(16_000, &[-0.25; 16_000]).dc_offset, -0.25, 1e-4);
}

#[test]
fn silence_is_a_share_of_the_frames() {
    let mut samples = sine(16_000, 440.0, 1.0, 0.5);
    samples.extend([0.0; 48_000]);
    near(measured(16_000, &samples).silence_share, 0.75, 0.01);
}

#[test]
fn clipping_is_counted_in_runs_of_three_or_more_across_frames() {
    let mut samples = vec![0_i16; 1_000];
    samples[10..12].fill(32_767);
    samples[100..103].fill(-32_768);
    // 16 kHz frames of 320 samples end here.
    samples[318..324].fill(32_767);
    samples[996..].fill(-32_767);
    let measures = measure(&Clip::mono(16_000, samples), None);
    assert_eq!(measures.clipped_runs, 3);
    near(measures.clipped_share, 13.0 / 1_000.0, 1e-12);
}

#[test]
fn telephone_speech_at_a_high_rate_has_a_low_bandwidth() {
    let mut noise = Noise(5);
    let white: Vec<f64> = (0..24_000).map(|_| noise.uniform() * 0.3).collect();
    let full = measured(8_000, &white).bandwidth_hz.unwrap();
    near(full, 4_000.0, 50.0);
    let clip = Clip::mono(8_000, to_pcm(&white));
    let upsampled = stage_speech::audio::resample::resample(clip, 44_100).unwrap().clip;
    let measures = measure(&upsampled, None);
    // Four bins of 43 Hz are what the window spreads at 60 dB down.
    near(measures.bandwidth_hz.unwrap(), 4_000.0, 200.0);
    near(measures.rolloff_hz.unwrap(), 3_950.0, 100.0);
}

#[test]
fn the_rolloff_of_a_tone_is_its_frequency() {
    let measures = measured(16_000, &sine(16_000, 1_000.0, 1.0, 0.5));
    near(measures.rolloff_hz.unwrap(), 1_000.0, 35.0);
}

#[test]
fn the_noise_estimate_follows_the_noise() {
    let mut noise = Noise(11);
    let speech = speech_like(&mut noise, 160_000);
    let power = speech.iter().map(|value| value * value).sum::<f64>() / speech.len() as f64;
    for wanted in [0.0, 10.0, 20.0, 30.0] {
        let level = power.sqrt() * 10_f64.powf(-wanted / 20.0);
        let noisy: Vec<f64> =
            speech.iter().map(|value| (value + level * noise.normal()) * 0.05).collect();
        near(measured(16_000, &noisy).snr_db.unwrap(), wanted, 2.0);
    }
}

#[test]
fn digital_silence_has_no_measures_of_sound() {
    let measures = measured(16_000, &[0.0; 16_000]);
    assert_eq!((measures.snr_db, measures.bandwidth_hz, measures.rolloff_hz), (None, None, None));
    assert_eq!((measures.peak_dbfs, measures.silence_share), (-100.0, 1.0));
}

#[test]
fn short_and_empty_clips_are_measured_without_a_spectrum() {
    for count in [0, 1, 2, 319, 1_023] {
        let measures = measure(&Clip::mono(16_000, vec![1_000; count]), None);
        assert_eq!(measures.bandwidth_hz, None, "{count}");
    }
    assert!(measure(&Clip::mono(16_000, vec![1_000; 1_024]), None).bandwidth_hz.is_some());
}

#[test]
fn a_good_clip_keeps_all_limits() {
    let clip = Clip::mono(16_000, to_pcm(&sine(16_000, 300.0, 2.0, 0.4)));
    assert_eq!(codes(&clip, &ClipLimits::default()), [""; 0]);
}

#[test]
fn each_limit_that_is_broken_is_listed_with_value_and_limit() {
    let clip = Clip::mono(16_000, vec![0; 4_000]);
    let report = check(&clip, None, &ClipLimits::default());
    let reasons: Vec<String> = report.failures.iter().map(|failure| failure.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "duration of 0.25 s is below `min_duration` = 0.5",
            "peak of -100 dBFS is below `min_peak` = -40",
            "silent share of 1 is above `max_silence` = 0.8",
        ]
    );
}

#[test]
fn every_limit_has_its_word() {
    let tone = |amplitude| to_pcm(&sine(16_000, 300.0, 1.0, amplitude));
    let word = |samples: Vec<i16>, limits: &ClipLimits| codes(&Clip::mono(16_000, samples), limits);
    let defaults = ClipLimits::default();
    assert_eq!(word(tone(0.5)[..4_000].to_vec(), &defaults), ["too-short"]);
    assert_eq!(word(tone(0.5).repeat(21), &defaults), ["too-long"]);
    assert_eq!(word(tone(0.005), &defaults), ["too-quiet"]);
    let flat = tone(0.9).iter().map(|sample| sample.saturating_mul(2)).collect();
    assert_eq!(word(flat, &defaults), ["clipped"]);
    let shifted = tone(0.5).iter().map(|sample| sample + 3_000).collect();
    assert_eq!(word(shifted, &defaults), ["dc-offset"]);
    let pause: Vec<i16> = tone(0.5).into_iter().chain([0; 80_000]).collect();
    assert_eq!(word(pause, &defaults), ["silent"]);
    let strict = ClipLimits { min_snr: Some(90.0), min_bandwidth: Some(6_000.0), ..defaults };
    assert_eq!(word(tone(0.5), &strict), ["noisy", "narrow-band"]);
}

#[test]
fn channels_in_anti_phase_fail_although_they_were_folded() {
    let samples: Vec<i16> =
        to_pcm(&sine(16_000, 300.0, 1.0, 0.4)).iter().flat_map(|&s| [s, -s / 2]).collect();
    let wav = Wav { channels: 2, ..Wav::pcm(&samples) };
    let decoded = decode(&wav.bytes(), &DecodeOptions::default()).unwrap();
    near(decoded.correlation.unwrap(), -1.0, 1e-6);
    let report = check(&decoded.clip, decoded.correlation, &ClipLimits::default());
    let codes: Vec<_> = report.failures.iter().map(|failure| failure.rule.code).collect();
    assert_eq!(codes, ["anti-phase"]);
}
