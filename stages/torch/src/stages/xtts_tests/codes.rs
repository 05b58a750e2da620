//! Codes of the DVAE.

use stage_core::Context;
use stage_families::kinds::vq;

use super::*;
use crate::npy;
use crate::sound::wave;

#[test]
fn clips_become_codes_of_the_dvae_whatever_is_encoded_beside_them() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let job = job(&vq::ENCODE, &[], &[("codec", &model)], &mut bench).unwrap();
    let items = [
        wave_item(&mut bench, 0, RATE, &noise(0.5, 1)),
        wave_item(&mut bench, 1, 16_000, &noise(0.5, 1)),
        wave_item(&mut bench, 2, RATE, &noise(1.0, 2)),
    ];
    let all = job.process(&items, &mut bench).unwrap();
    let all = kept(all, &mut bench);
    assert_eq!(all[0].as_ref().unwrap().number("frames"), Some(11.0)); // 11,025 samples
    assert_eq!(all[1].as_ref().unwrap_err().code, "rate");
    let alone = job.process(&items[2..], &mut bench).unwrap();
    let alone = kept(alone, &mut bench);
    let tokens = |fields: &Fields| fields.blob("tokens").unwrap().digest;
    assert_eq!(tokens(all[2].as_ref().unwrap()), tokens(alone[0].as_ref().unwrap()));
    let blob = alone[0].as_ref().unwrap().blob("tokens").unwrap().clone();
    let codes = npy::read(&Context::read(&mut bench, &blob).unwrap()).unwrap();
    assert_eq!((codes.codebooks, codes.frames), (1, 22));
    assert!(codes.values.iter().all(|code| *code < 32));
    assert!(codes.values.iter().any(|code| *code != codes.values[0]));
}

#[test]
fn codes_can_be_listened_to() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let encode = job(&vq::ENCODE, &[], &[("codec", &model)], &mut bench).unwrap();
    let item = wave_item(&mut bench, 0, RATE, &noise(0.5, 1));
    let codes = encode.process(&[item], &mut bench).unwrap();
    let codes = kept(codes, &mut bench).remove(0).unwrap();
    let written = [("rounds", whole(1))];
    let decode = job(&vq::DECODE, &written, &[("codec", &model)], &mut bench).unwrap();
    let sound = decode.process(&[Item::new("", codes)], &mut bench).unwrap();
    let sound = kept(sound, &mut bench).remove(0).unwrap();
    let wave = wave::read(&Context::read(&mut bench, sound.blob("audio").unwrap()).unwrap());
    let wave = wave.unwrap();
    assert_eq!((wave.rate, wave.samples.len()), (RATE, 11 * 1_024));
}

#[test]
fn divisors_that_are_no_numbers_or_too_small_give_no_codes() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    for value in [f64::NAN, 0.0, 1e-40] {
        let spoilt = spoilt(&model, "mel_stats", value, &mut bench);
        let error = job(&vq::ENCODE, &[], &[("codec", &spoilt)], &mut bench).err().unwrap();
        assert!(error.to_string().contains("`mel_stats` has"), "{value}: {error}");
    }
    let spoilt = spoilt(&model, "mel_stats", 1e-37, &mut bench);
    let job = job(&vq::ENCODE, &[], &[("codec", &spoilt)], &mut bench).unwrap();
    let item = wave_item(&mut bench, 0, RATE, &noise(0.5, 1));
    let error = job.process(&[item], &mut bench).unwrap_err();
    assert!(matches!(error, StageError::Unable { .. }), "{error:?}");
    assert!(error.to_string().contains("for a clip is not finite"), "{error}");
}

#[test]
fn a_model_without_a_dvae_is_no_codec() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let without = model.iter().filter(|(name, _)| !name.starts_with("tensor/dvae."));
    let without: Fields = without.map(|(name, value)| (name.to_string(), value.clone())).collect();
    let error = job(&vq::ENCODE, &[], &[("codec", &without)], &mut bench).err().unwrap();
    assert_eq!(error.to_string(), "the model on port `codec` has no DVAE");
    assert!(error.help().unwrap().contains("`dvae.pth`"));
}
