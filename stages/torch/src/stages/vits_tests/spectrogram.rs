//! Spectrograms by a separate stage.

use super::*;
use crate::testing::wave_item;
use crate::vits::artifact::VitsModel;
use crate::vits::{Analysis, ClipTensors, Vits, WeightForm, mel_processing};

fn samples(count: usize) -> Vec<f32> {
    // In 16 bits, as read from a file.
    (0..count).map(|at| ((at * at) % 2001) as f32 / 2048.0 - 0.5).collect()
}

fn spectrograms(
    written: Written,
    artifacts: &[(&str, &Fields)],
    items: &[Item],
    bench: &mut Bench,
) -> Vec<Result<Fields, Reject>> {
    let job = job(&vits::SPECTROGRAM, written, artifacts, bench).unwrap();
    let results = job.process(items, bench).unwrap();
    kept(results, bench)
}

#[test]
fn it_is_what_training_would_compute() {
    let mut bench = Bench::default();
    let fields = model(&[], &mut bench);
    let model = VitsModel::read("base", Some(&fields), &mut bench).unwrap();
    let waves = [samples(9_000), samples(8_450)];
    let items: Vec<Item> = (0..2).map(|at| wave_item(&mut bench, at, 16_000, &waves[at])).collect();
    let made = spectrograms(&[], &[("model", &fields)], &items, &mut bench);
    let prepared = model.prepared(WeightForm::Whole, tch::Device::Cpu, &mut bench).unwrap();
    let net = Vits::load(model.config.clone(), prepared.generator).unwrap();
    let analysis = Analysis::new(&model.config, 80, tch::Device::Cpu).unwrap();
    let texts = net.texts(&[vec![1, 2], vec![3]]).unwrap();
    let waves: Vec<&[f32]> = waves.iter().map(Vec::as_slice).collect();
    let clips = ClipTensors::new(&net, &analysis, texts, &waves, None).unwrap();
    for (row, (made, frames)) in made.into_iter().zip([35, 33]).enumerate() {
        let made = made.unwrap();
        assert_eq!(made.number("frames"), Some(frames as f64));
        let bytes = Context::read(&mut bench, made.blob("spectrogram").unwrap()).unwrap();
        let cached = mel_processing::read(&bytes, &model.config).unwrap();
        assert_eq!(cached.size(), [513, frames]);
        let row = clips.spectrograms.get(row as i64).narrow(1, 0, frames);
        assert!(cached == row.contiguous());
    }
}

#[test]
fn figures_stand_in_for_a_model_and_not_beside_one() {
    let mut bench = Bench::default();
    let item = [wave_item(&mut bench, 0, 22_050, &samples(4_000))];
    let written = [("rate", whole(22_050)), ("transform", whole(512)), ("hop", whole(128))];
    let made = spectrograms(&written, &[], &item, &mut bench).remove(0).unwrap();
    assert_eq!(made.number("frames"), Some(31.0));
    let fields = model(&[], &mut bench);
    let both = job(&vits::SPECTROGRAM, &written, &[("model", &fields)], &mut bench);
    assert!(both.err().unwrap().to_string().contains("both `rate` and a model"));
}

#[test]
fn clips_that_are_too_short_or_of_another_rate_are_set_aside() {
    let mut bench = Bench::default();
    let items =
        [wave_item(&mut bench, 0, 16_000, &samples(500)), wave_item(&mut bench, 1, 8_000, &[0.1])];
    let made = spectrograms(&[], &[], &items, &mut bench);
    let codes: Vec<String> = made.into_iter().map(|made| made.unwrap_err().code).collect();
    assert_eq!(codes, ["too-short", "rate"]);
}
