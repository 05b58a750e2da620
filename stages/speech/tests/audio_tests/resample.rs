//! The figures of the resampler, measured in floats before the rounding to 16 bits.

use crate::support::{Noise, sine};
use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler};
use stage_speech::audio::resample::{Converter, resample};
use stage_speech::audio::{Clip, Samples};

const RATES: [u32; 6] = [48_000, 44_100, 32_000, 24_000, 22_050, 8_000];

fn convert(from: u32, to: u32, samples: &[f64]) -> Vec<f64> {
    Converter::new(from, to).unwrap().convert(samples).unwrap()
}

/// Amplitude and phase of the tone of `hertz` in the middle of `samples`, away from both ends of
/// the clip, by least squares.
fn fit(samples: &[f64], rate: u32, hertz: f64) -> (f64, f64) {
    let turn = std::f64::consts::TAU * hertz / f64::from(rate);
    let range = samples.len() / 4..samples.len() * 3 / 4;
    let (mut ss, mut sc, mut cc, mut xs, mut xc) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for at in range {
        let (sin, cos) = (turn * at as f64).sin_cos();
        ss += sin * sin;
        sc += sin * cos;
        cc += cos * cos;
        xs += samples[at] * sin;
        xc += samples[at] * cos;
    }
    let determinant = ss * cc - sc * sc;
    let (a, b) = ((xs * cc - xc * sc) / determinant, (xc * ss - xs * sc) / determinant);
    (a.hypot(b), b.atan2(a))
}

fn decibels(ratio: f64) -> f64 {
    20.0 * ratio.log10()
}

#[test]
fn the_passband_is_flat_within_a_tenth_of_a_decibel_to_7_7_khz() {
    for from in [48_000, 44_100, 32_000, 24_000, 22_050, 96_000] {
        for hertz in [50.0, 440.0, 1_000.0, 3_000.0, 5_000.0, 7_000.0, 7_500.0, 7_700.0] {
            let tone = sine(from, hertz, 1.0, 0.5);
            let (amplitude, _) = fit(&convert(from, 16_000, &tone), 16_000, hertz);
            let gain = decibels(amplitude / 0.5);
            assert!(gain.abs() <= 0.1, "{from} Hz, {hertz} Hz: {gain} dB");
        }
    }
}

#[test]
fn nothing_above_the_band_comes_back_as_an_alias() {
    for from in [48_000, 44_100, 32_000, 24_000, 22_050, 96_000] {
        for hertz in [8_100.0, 8_400.0, 9_000.0, 9_700.0, 10_500.0, 11_000.0] {
            let tone = sine(from, hertz, 1.0, 0.5);
            let output = convert(from, 16_000, &tone);
            let middle = &output[output.len() / 4..output.len() * 3 / 4];
            let energy: f64 = middle.iter().map(|sample| sample * sample).sum();
            let level = (2.0 * energy / middle.len() as f64).sqrt();
            let alias = decibels(level.max(1e-12) / 0.5);
            assert!(alias <= -130.0, "{from} Hz, {hertz} Hz: {alias} dB");
        }
    }
}

#[test]
fn there_is_no_delay() {
    for from in RATES {
        for hertz in [100.0, 1_000.0, 3_300.0] {
            let tone = sine(from, hertz, 1.0, 0.5);
            let (_, phase) = fit(&convert(from, 16_000, &tone), 16_000, hertz);
            let delay = -phase / (std::f64::consts::TAU * hertz) * 16_000.0;
            assert!(delay.abs() < 1e-3, "{from} Hz, {hertz} Hz: {delay} samples");
        }
    }
}

#[test]
fn the_length_is_rounded_up_exactly() {
    let counts = [0, 1, 2, 3, 100, 44_101, 48_001, 48_002, 132_299, 999_999];
    for from in RATES {
        let mut converter = Converter::new(from, 16_000).unwrap();
        for count in counts {
            let exact = (count as u64 * 16_000).div_ceil(u64::from(from)) as usize;
            let output = converter.convert(&vec![0.0; count]).unwrap();
            assert_eq!(output.len(), exact, "{count} frames at {from} Hz");
        }
    }
}

#[test]
fn block_by_block_gives_what_the_library_gives_for_the_whole_clip() {
    let mut noise = Noise(7);
    for (from, chunk) in [(48_000, 3_072), (44_100, 1_764), (24_000, 1_536), (22_050, 882)] {
        for count in [1, 2_000, 3_072, 10_001] {
            let samples: Vec<f64> = (0..count).map(|_| noise.uniform()).collect();
            let adapter = InterleavedSlice::new(&samples, 1, count).unwrap();
            let mut fft =
                Fft::<f64>::new(from as usize, 16_000, chunk, 1, FixedSync::Both).unwrap();
            let whole = fft.process_all(&adapter, count, None).unwrap().take_data();
            assert_eq!(convert(from, 16_000, &samples), whole, "{count} frames at {from} Hz");
        }
    }
}

#[test]
fn a_clip_does_not_depend_on_the_one_before() {
    let mut noise = Noise(3);
    let mut clip = |rate| {
        let samples = (0..30_000).map(|_| (noise.uniform() * 20_000.0) as i16).collect();
        Clip::mono(rate, samples)
    };
    let (first, other) = (clip(22_050), clip(22_050));
    let before = resample(first.clone(), 16_000).unwrap();
    resample(other, 16_000).unwrap();
    for rate in RATES {
        resample(clip(rate), 16_000).unwrap();
    }
    assert_eq!(resample(first, 16_000).unwrap(), before);
}

#[test]
fn a_clip_that_has_the_rate_is_not_touched() {
    let pcm = Clip::mono(16_000, vec![1, -2, 3]);
    assert_eq!(resample(pcm.clone(), 16_000).unwrap().clip, pcm);
    let wide = Clip { rate: 16_000, channels: 1, samples: Samples::Wide(vec![0.1, 0.7]) };
    assert_eq!(resample(wide.clone(), 16_000).unwrap().clip, wide);
}

#[test]
fn channels_stay_apart() {
    let left = sine(48_000, 1_000.0, 0.2, 0.5);
    let right = sine(48_000, 3_000.0, 0.2, 0.25);
    let pair = |(left, right): (&f64, &f64)| [*left as f32, *right as f32];
    let samples = left.iter().zip(&right).flat_map(pair).collect();
    let stereo = Clip { rate: 48_000, channels: 2, samples: Samples::Wide(samples) };
    let output = resample(stereo, 16_000).unwrap().clip;
    assert_eq!((output.frames(), output.channels), (3_200, 2));
    let (samples, _) = output.into_pcm();
    let channel = |skip| -> Vec<f64> {
        samples.iter().skip(skip).step_by(2).map(|&sample| f64::from(sample) / 32_768.0).collect()
    };
    assert!((fit(&channel(0), 16_000, 1_000.0).0 - 0.5).abs() < 1e-4);
    assert!((fit(&channel(1), 16_000, 3_000.0).0 - 0.25).abs() < 1e-4);
}

#[test]
fn samples_that_overshoot_full_scale_are_clipped_and_counted() {
    let square = (0..9_600).map(|at| if at / 60 % 2 == 0 { 32_767 } else { -32_768 }).collect();
    let resampled = resample(Clip::mono(48_000, square), 16_000).unwrap();
    assert!(resampled.clipped > 0);
    let (samples, _) = resampled.clip.into_pcm();
    assert!(samples.contains(&i16::MAX) && samples.contains(&i16::MIN));
}

#[test]
fn upsampling_keeps_tones_and_adds_no_images() {
    let pairs =
        [(16_000, 44_100), (22_050, 44_100), (24_000, 48_000), (8_000, 16_000), (44_100, 48_000)];
    for ((from, to), share) in pairs.into_iter().flat_map(|pair| [(pair, 0.3), (pair, 0.48)]) {
        let hertz = f64::from(from) * share;
        let output = convert(from, to, &sine(from, hertz, 1.0, 0.5));
        let (amplitude, phase) = fit(&output, to, hertz);
        let gain = decibels(amplitude / 0.5);
        assert!(gain.abs() < 0.01 && phase.abs() < 1e-3, "{from} to {to}, {hertz} Hz: {gain} dB");
        let image = f64::from(from) - hertz;
        // Above half the new rate there is nothing to fit.
        if image < f64::from(to) * 0.5 {
            let level = decibels(fit(&output, to, image).0.max(1e-12) / 0.5);
            assert!(level < -130.0, "{from} to {to}, image of {hertz} Hz: {level} dB");
        }
    }
}

#[test]
fn rates_without_a_common_factor_are_rejected_and_do_not_allocate() {
    for (from, to) in [(383_999, 16_000), (0, 16_000), (16_000, 0), (44_100, 383_989)] {
        let fault = resample(Clip::mono(from, vec![0; 10]), to).unwrap_err();
        assert_eq!(fault.code(), "resample", "{from} to {to}");
    }
}
