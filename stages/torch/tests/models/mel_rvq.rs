//! The guarantees of the built-in codec, on synthetic voices.

use safetensors::tensor::{Dtype, TensorView, serialize};
use stage_torch::codec::{Codec, Codes};
use stage_torch::error::TorchError;
use stage_torch::mel::{Mel, MelShape};
use stage_torch::mel_rvq::{Config, MelRvq};
use stage_torch::mel_rvq_fit::{FrameDraw, fit};
use stage_torch::random::Random;
use std::collections::HashMap;

/// A buzzing voice with moving pitch and timbre, over faint noise.
fn clip(number: u64, samples: usize) -> Vec<f32> {
    let mut random = Random::new(number);
    let pitch = 90.0 + 160.0 * random.fraction();
    let wander = 1.0 + 4.0 * random.fraction();
    let mut phase = 0.0;
    let mut sample = |at: usize| {
        let second = at as f64 / 16_000.0;
        phase += std::f64::consts::TAU / 16_000.0 * (pitch + 30.0 * (wander * second).sin());
        let colour = 2.0 + 1.5 * (3.0 * wander * second).sin();
        let buzz: f64 =
            (1..16).map(|h| (phase * f64::from(h)).sin() / f64::from(h).powf(colour)).sum();
        let loudness = 0.5 + 0.5 * (2.0 * wander * second).cos();
        (0.3 * buzz * loudness + 0.004 * (random.fraction() - 0.5)) as f32
    };
    (0..samples).map(&mut sample).collect()
}

fn corpus() -> Vec<([u8; 32], Vec<f32>)> {
    (0..6u8).map(|at| ([at; 32], clip(u64::from(at), 12_000 + 3_000 * usize::from(at)))).collect()
}

fn config(codebooks: usize, entries: usize) -> Config {
    Config::new(MelShape::at_rate(16_000), codebooks, entries)
}

fn draw(config: &Config, clips: &[([u8; 32], Vec<f32>)], limit: usize, seed: u64) -> Vec<f32> {
    let mut draw = FrameDraw::new(config, limit, seed).unwrap();
    for (digest, wave) in clips {
        draw.add(digest, wave).unwrap();
    }
    draw.frames()
}

fn fitted(config: Config, frames: &[f32], seed: u64) -> MelRvq {
    let mut step = |_| Ok::<(), TorchError>(());
    fit(config, frames, seed, &mut step).unwrap().model
}

fn model() -> MelRvq {
    let config = config(4, 32);
    fitted(config, &draw(&config, &corpus(), 10_000, 1), 1)
}

fn error_of(model: &MelRvq, wave: &[f32]) -> f64 {
    let codes = model.encode(&[wave]).unwrap().remove(0);
    let have = model.frames_of(&codes).unwrap();
    let want = Mel::new(model.config().mel).unwrap().frames(wave);
    assert_eq!(have.len(), want.len());
    let square = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
    have.iter().zip(&want).map(square).sum::<f64>() / have.len() as f64
}

#[test]
fn more_codebooks_come_closer() {
    let clips = corpus();
    let frames = draw(&config(1, 32), &clips, 10_000, 1);
    let error = |codebooks| error_of(&fitted(config(codebooks, 32), &frames, 1), &clips[3].1);
    let errors = [1, 2, 4, 8].map(error);
    assert!(errors.windows(2).all(|pair| pair[1] < 0.95 * pair[0]), "{errors:?}");
    assert!(errors[3] < 0.4 * errors[0], "{errors:?}");
}

#[test]
fn the_first_codebooks_do_not_depend_on_how_many_follow() {
    let frames = draw(&config(1, 32), &corpus(), 10_000, 1);
    let wave = clip(9, 20_000);
    let few = fitted(config(2, 32), &frames, 1).encode(&[&wave]).unwrap().remove(0);
    let many = fitted(config(4, 32), &frames, 1).encode(&[&wave]).unwrap().remove(0);
    assert_eq!(few.values, many.values[..few.values.len()]);
}

#[test]
fn a_fit_is_the_same_to_the_bit_and_the_seed_matters() {
    let config = config(3, 32);
    let fit = |seed| fitted(config, &draw(&config, &corpus(), 300, seed), seed).save().unwrap();
    assert_eq!(fit(1), fit(1));
    assert_ne!(fit(1), fit(2));
}

#[test]
fn order_and_repetition_of_clips_do_not_matter() {
    let config = config(1, 32);
    for limit in [100, 10_000] {
        let mut clips = corpus();
        let straight = draw(&config, &clips, limit, 1);
        clips.reverse();
        clips.swap(0, 2);
        clips.push(clips[1].clone());
        assert_eq!(straight, draw(&config, &clips, limit, 1), "{limit}");
    }
}

#[test]
fn a_draw_takes_as_many_frames_as_asked_and_from_every_clip() {
    let config = config(1, 32);
    let clips = corpus();
    let all: usize = clips.iter().map(|(_, wave)| wave.len().div_ceil(256)).sum();
    assert_eq!(draw(&config, &clips, 10_000, 1).len(), all * 80);
    assert_eq!(draw(&config, &clips, 100, 1).len(), 100 * 80);
    for (digest, _) in &clips {
        let without: Vec<_> = clips.iter().filter(|(other, _)| other != digest).cloned().collect();
        assert_ne!(draw(&config, &clips, 100, 1), draw(&config, &without, 100, 1));
    }
}

#[test]
fn a_clip_gets_the_same_codes_in_every_batch_and_with_every_number_of_threads() {
    let clips: Vec<Vec<f32>> = [16_000, 700, 48_123, 1, 256, 16_385]
        .iter()
        .zip(20..)
        .map(|(n, at)| clip(at, *n))
        .collect();
    let waves: Vec<&[f32]> = clips.iter().map(Vec::as_slice).collect();
    let model = model();
    let alone: Vec<Codes> =
        waves.iter().map(|wave| model.encode(&[wave]).unwrap().remove(0)).collect();
    for threads in [1, 2, 3, 16] {
        let model = model.clone().with_threads(threads);
        assert_eq!(model.encode(&waves).unwrap(), alone, "{threads} threads");
        let backwards: Vec<&[f32]> = waves.iter().rev().copied().collect();
        let mut codes = model.encode(&backwards).unwrap();
        codes.reverse();
        assert_eq!(codes, alone, "{threads} threads, backwards");
    }
}

#[test]
fn codes_have_a_column_for_every_begun_hop() {
    let model = model();
    for samples in [1, 255, 256, 257, 16_384, 16_385] {
        let codes = model.encode(&[&clip(1, samples)]).unwrap().remove(0);
        assert_eq!((codes.codebooks, codes.frames), (4, samples.div_ceil(256)));
        assert_eq!(codes.values.len(), 4 * codes.frames);
        let wave = model.clone().with_rounds(1).decode(&codes, 1).unwrap();
        assert_eq!(wave.len(), codes.frames * 256);
    }
}

#[test]
fn one_frame_is_a_corpus() {
    let config = config(8, 256);
    let model = fitted(config, &draw(&config, &[([0; 32], clip(1, 10))], 10_000, 1), 1);
    assert!(error_of(&model, &clip(1, 10)) < 1e-9);
}

#[test]
fn silence_is_a_corpus() {
    let config = config(2, 16);
    let model = fitted(config, &draw(&config, &[([0; 32], vec![0.0; 30_000])], 10_000, 1), 1);
    assert!(error_of(&model, &[0.0; 5_000]) < 1e-6);
}

#[test]
fn a_decoded_clip_sounds_like_the_codes_it_came_from() {
    let frames = draw(&config(1, 64), &corpus(), 10_000, 1);
    let model = fitted(config(6, 64), &frames, 1);
    let wave = corpus().remove(2).1;
    let codes = model.encode(&[&wave]).unwrap().remove(0);
    let decoded = model.decode(&codes, 7).unwrap();
    assert_eq!(decoded, model.decode(&codes, 7).unwrap());
    let mel = Mel::new(model.config().mel).unwrap();
    let (want, have) = (mel.frames(&wave), mel.frames(&decoded));
    let heard = want.iter().zip(&have).filter(|(want, _)| **want > -6.0);
    let (count, sum) = heard.fold((0, 0f32), |(n, sum), (a, b)| (n + 1, sum + (a - b).abs()));
    // Within 4 dB on average over the audible bands.
    assert!(sum / count as f32 <= 0.46, "{}", sum / count as f32);
}

#[test]
fn bad_waves_are_refused_with_a_reason() {
    let model = model();
    let error = |wave: &[f32]| model.encode(&[wave]).unwrap_err().to_string();
    assert_eq!(error(&[]), "the audio has no samples");
    assert_eq!(error(&[0.0, f32::NAN]), "sample 1 of the audio is not a number");
    assert_eq!(error(&[f32::INFINITY]), "sample 0 of the audio is not a number");
}

#[test]
fn foreign_codes_are_refused_with_a_reason() {
    let model = model();
    let error = |codebooks, frames, values: Vec<u16>| {
        model.decode(&Codes { codebooks, frames, values }, 1).unwrap_err().to_string()
    };
    assert_eq!(error(3, 1, vec![0; 3]), "the tokens have 3 codebooks, but the codec has 4");
    assert_eq!(error(4, 0, vec![]), "the tokens do not have 0 frames");
    assert_eq!(error(4, 2, vec![0; 7]), "the tokens do not have 2 frames");
    assert_eq!(
        error(4, 1, vec![0, 0, 0, 32]),
        "the tokens of codebook 3 have the code 32, expected less than 32"
    );
}

#[test]
fn a_file_gives_the_model_back() {
    let model = model();
    let bytes = model.save().unwrap();
    assert_eq!(MelRvq::load(&bytes).unwrap(), model);
    assert_eq!(MelRvq::load(&bytes).unwrap().save().unwrap(), bytes);
}

/// A model file with one codebook of two entries, and one thing changed.
fn file(config: &str, shape: [usize; 3], mean: &[f32], value: f32) -> Vec<u8> {
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (books, mean_bytes) = (bytes(&vec![value; shape.iter().product()]), bytes(mean));
    let tensors = [
        ("codebooks", TensorView::new(Dtype::F32, shape.to_vec(), &books).unwrap()),
        ("mean", TensorView::new(Dtype::F32, vec![mean.len()], &mean_bytes).unwrap()),
    ];
    serialize(tensors, Some(HashMap::from([("config".into(), config.into())]))).unwrap()
}

const SMALL: &str = r#"{"model":"mel-rvq-1","mel":{"rate":16000,"window":64,"hop":16,"bands":4},"codebooks":1,"entries":2}"#;

#[test]
fn hostile_files_are_refused_with_a_reason() {
    assert!(MelRvq::load(&file(SMALL, [1, 2, 4], &[0.0; 4], 0.0)).is_ok());
    let error = |bytes: &[u8]| MelRvq::load(bytes).unwrap_err().to_string();
    let cases = [
        (file(SMALL, [1, 2, 4], &[0.0; 4], f32::NAN), "value 0 of `codebooks` is not a number"),
        (file(SMALL, [1, 2, 4], &[f32::INFINITY; 4], 0.0), "value 0 of `mean` is not a number"),
        (
            file(SMALL, [1, 2, 5], &[0.0; 4], 0.0),
            "`codebooks` is F32 [1, 2, 5], expected F32 [1, 2, 4]",
        ),
        (file(SMALL, [1, 2, 4], &[0.0; 3], 0.0), "`mean` is F32 [3], expected F32 [4]"),
        (
            file(&SMALL.replace("64", "1099511627776"), [1, 2, 4], &[0.0; 4], 0.0),
            "a window of 1099511627776",
        ),
        (
            file(&SMALL.replace("\"entries\":2", "\"entries\":0"), [1, 2, 4], &[0.0; 4], 0.0),
            "0 entries a codebook",
        ),
        (
            file(&SMALL.replace("mel-rvq-1", "mel-rvq-9"), [1, 2, 4], &[0.0; 4], 0.0),
            "unknown variant `mel-rvq-9`",
        ),
        (file("{}", [1, 2, 4], &[0.0; 4], 0.0), "missing field `model`"),
        (b"not a model at all".to_vec(), "the model cannot be used: "),
        (u64::MAX.to_le_bytes().to_vec(), "the model cannot be used: "),
        (Vec::new(), "the model cannot be used: "),
    ];
    for (bytes, reason) in cases {
        assert!(error(&bytes).contains(reason), "{} lacks {reason}", error(&bytes));
    }
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    let bytes = file(SMALL, [1, 2, 4], &[0.0; 4], 0.0);
    for length in 0..bytes.len() {
        assert!(MelRvq::load(&bytes[..length]).is_err(), "{length}");
    }
}
