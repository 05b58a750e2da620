//! The stages with TorchScript modules as the engine calls them, with the module of
//! `fixtures/make_torchscript.py` and the results of torch for it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value as Json;
use stage_core::device::DeviceId;
use stage_core::{
    Context, Fields, Item, Job, Kind, ParameterValue, Reject, Setup, StageError, Value,
};
use stage_families::kinds::torchscript::{APPLY, EMBED, EMBEDDING_KIND, RATE};
use stage_formats::npy::{self, FloatArray};

use super::trial::{Written, open, parameters, text, whole};
use crate::testing::{Bench, wave_item};
use crate::torchscript::fbank;

const RATE_OF_MODULE: u32 = 8_000;

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/torchscript");
    std::fs::read(folder.join(name)).unwrap()
}

/// The two recordings and their results.
fn expected() -> [Json; 2] {
    let json: Json = serde_json::from_slice(&file("expected.json")).unwrap();
    serde_json::from_value(json["recordings"].clone()).unwrap()
}

fn samples(expected: &Json) -> Vec<f32> {
    let samples = expected["samples"].as_array().unwrap();
    samples.iter().map(|one| one.as_i64().unwrap() as f32 / 32_768.0).collect()
}

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

fn map(outputs: &[(&str, &str)]) -> ParameterValue {
    let pairs = outputs.iter().map(|(name, kind)| ((*name).to_owned(), text(kind)));
    ParameterValue::Map(pairs.collect())
}

fn list(names: &[&str]) -> ParameterValue {
    ParameterValue::List(names.iter().map(|name| text(name)).collect())
}

struct ModuleTrial {
    bench: Bench,
    module: Vec<(&'static str, Vec<u8>)>,
}

impl ModuleTrial {
    fn new() -> ModuleTrial {
        ModuleTrial { bench: Bench::default(), module: vec![("module.pt", file("module.pt"))] }
    }

    fn with(module: &[u8]) -> ModuleTrial {
        ModuleTrial { bench: Bench::default(), module: vec![("x.pt", module.to_vec())] }
    }

    fn sounds(&mut self) -> [Item; 2] {
        expected().map(|one| wave_item(&mut self.bench, 0, RATE_OF_MODULE, &samples(&one)))
    }

    fn sound(&mut self, samples: &[f32]) -> Item {
        wave_item(&mut self.bench, 0, RATE_OF_MODULE, samples)
    }

    fn run(
        &mut self,
        kind: &'static Kind,
        written: Written,
        items: &[Item],
    ) -> Result<Vec<Result<Fields, Reject>>, StageError> {
        let bench = &mut self.bench;
        let files = self.module.iter().map(|(name, bytes)| {
            (*name, Value::Blob(bench.keep("application/octet-stream", bytes).into()))
        });
        let module: Fields = files.collect();
        let rate = [("rate", whole(i64::from(RATE_OF_MODULE)))];
        let written: Vec<_> = rate.into_iter().chain(written.iter().cloned()).collect();
        let setup = Setup {
            parameters: parameters(kind, &written),
            artifacts: [("module".to_owned(), vec![module])].into(),
            device: DeviceId::Cpu,
            ..Setup::default()
        };
        let Job::Item(job) = open(kind, setup, bench)? else { panic!("no item job") };
        let results = job.process(items, bench)?;
        Ok(results.into_iter().map(|result| result.map(|made| bench.keep_all(made))).collect())
    }

    /// With `torchscript.apply`, one output each.
    fn apply(
        &mut self,
        method: &str,
        kind: &str,
        items: &[Item],
    ) -> Result<Vec<Result<Fields, Reject>>, StageError> {
        let written = [("method", text(method)), ("outputs", map(&[("made", kind)]))];
        self.run(&APPLY, &written, items)
    }

    fn array(&mut self, fields: &Fields, name: &str) -> FloatArray {
        let bytes = self.bench.read(fields.blob(name).unwrap()).unwrap();
        npy::read_floats(&bytes).unwrap()
    }
}

fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-5, "{one} {other}");
}

fn all_near(ones: &[f32], others: &[f64]) {
    assert_eq!(ones.len(), others.len());
    ones.iter().zip(others).for_each(|(one, other)| near(f64::from(*one), *other));
}

#[test]
fn numbers_and_arrays_are_those_of_torch_in_any_order_of_the_items() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let scores = trial.apply("score", "number", &items).unwrap();
    let frames = trial.apply("features", "features/npy", &items).unwrap();
    for ((expected, score), frames) in expected().iter().zip(&scores).zip(&frames) {
        near(score.as_ref().unwrap().number("made").unwrap(), expected["score"].as_f64().unwrap());
        let frames = frames.as_ref().unwrap();
        assert_eq!(&*frames.blob("made").unwrap().kind, "features/npy");
        let array = trial.array(frames, "made");
        let rows: Vec<f64> =
            expected["features"].as_array().unwrap().iter().flat_map(numbers).collect();
        assert_eq!(array.shape, [rows.len() as u64 / 4, 4]);
        all_near(&array.values, &rows);
    }
    // To the bit, whatever was called before and however often.
    let many = [&items[1], &items[0], &items[1], &items[1], &items[0]].map(Clone::clone);
    let again = trial.apply("score", "number", &many).unwrap();
    for (again, of) in again.iter().zip([1, 0, 1, 1, 0]) {
        assert_eq!(again, &scores[of]);
    }
}

#[test]
fn several_values_are_named_in_their_order_or_by_a_dictionary() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let several = [
        ("method", text("several")),
        ("outputs", map(&[("rest", "rest/npy"), ("first", "number")])),
        ("returns", list(&["first", "_", "rest"])),
    ];
    let made = trial.run(&APPLY, &several, &items).unwrap().remove(0).unwrap();
    let [expected, _] = expected();
    near(made.number("first").unwrap(), expected["several"][0].as_f64().unwrap());
    all_near(&trial.array(&made, "rest").values, &numbers(&expected["several"][2]));
    assert_eq!(made.len(), 2);
    let vector = [
        ("method", text("vector")),
        ("outputs", map(&[("a", "number"), ("b", "number")])),
        ("returns", list(&["b", "_", "a"])),
    ];
    let made = trial.run(&APPLY, &vector, &items).unwrap().remove(0).unwrap();
    near(made.number("b").unwrap(), expected["vector"][0].as_f64().unwrap());
    near(made.number("a").unwrap(), expected["vector"][2].as_f64().unwrap());
    let named =
        [("method", text("named")), ("outputs", map(&[("loud", "number"), ("mean", "mean/npy")]))];
    let made = trial.run(&APPLY, &named, &items).unwrap().remove(0).unwrap();
    near(made.number("loud").unwrap(), numbers(&expected["named"]["loud"])[0]);
    all_near(&trial.array(&made, "mean").values, &numbers(&expected["named"]["mean"]));
}

#[test]
fn the_shape_of_the_sound_is_the_one_that_is_written() {
    let mut trial = ModuleTrial::new();
    let items = [trial.sound(&[0.25, 0.5])];
    for (dimensions, method, fits) in
        [(1, "of_one", true), (3, "of_three", true), (2, "of_one", false), (1, "of_three", false)]
    {
        let written = [
            ("method", text(method)),
            ("dimensions", whole(dimensions)),
            ("outputs", map(&[("sum", "number")])),
        ];
        let made = trial.run(&APPLY, &written, &items).unwrap().remove(0);
        match made {
            Ok(fields) => assert!(fits && fields.number("sum") == Some(0.75), "{method}"),
            Err(reject) => {
                assert!(!fits && reject.reason.contains("needed"), "{method}: {reject}");
            }
        }
    }
}

#[test]
fn an_array_is_given_in_its_shape_with_ones_before_it() {
    let mut trial = ModuleTrial::new();
    let array = FloatArray { shape: vec![3, 2], values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    let floats = npy::write_floats(&array).unwrap();
    let halves = npy::write_halves(&array).unwrap();
    let whole_numbers = npy::IntArray { shape: vec![3, 2], values: (1..7).collect() };
    let integers = npy::write(&whole_numbers, npy::Width::U16).unwrap();
    let items = [floats.as_slice(), &halves, &integers, b"no array"]
        .map(|bytes| trial.bench.item(0, "features", "features/npy", bytes));
    let written = |dimensions: ParameterValue| {
        [
            ("method", text("of_table")),
            ("field", text("features")),
            ("form", text("array")),
            ("rate", ParameterValue::Absent),
            ("dimensions", dimensions),
            ("outputs", map(&[("sums", "sums/npy")])),
        ]
    };
    let made = trial.run(&APPLY, &written(ParameterValue::Absent), &items).unwrap();
    for made in &made[..3] {
        let array = trial.array(made.as_ref().unwrap(), "sums");
        assert_eq!((array.shape, array.values), (vec![2], vec![9.0, 12.0]));
    }
    assert_eq!(made[3].as_ref().unwrap_err().code, "unreadable-array");
    let made = trial.run(&APPLY, &written(whole(3)), &items[..1]).unwrap().remove(0).unwrap();
    assert_eq!(trial.array(&made, "sums").shape, [3, 2], "the sum is over the first one");
    let made = trial.run(&APPLY, &written(whole(1)), &items[..1]).unwrap().remove(0);
    assert_eq!(made.unwrap_err().code, "array-shape");
}

#[test]
fn whole_numbers_are_written_as_such() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let made = trial.apply("whole", "places/npy", &items[..1]).unwrap().remove(0).unwrap();
    let bytes = trial.bench.read(made.blob("made").unwrap()).unwrap();
    let array = npy::read(&bytes).unwrap();
    assert_eq!((array.shape, array.values), (vec![2, 3], (0..6).collect()));
}

#[test]
fn an_exception_and_numbers_that_are_none_quarantine_only_their_item() {
    let mut trial = ModuleTrial::new();
    let items = [vec![0.0; 40], vec![0.5; 40], vec![0.95; 40]].map(|wave| trial.sound(&wave));
    let made = trial.apply("picky", "number", &items).unwrap();
    let quiet = made[0].as_ref().unwrap_err();
    let expected = "the module failed; it said: ValueError: too quiet to be rated";
    assert_eq!((quiet.code.as_str(), quiet.reason.as_str()), ("torchscript-failed", expected));
    assert_eq!(made[1].as_ref().unwrap().number("made"), Some(0.5));
    let loud = made[2].as_ref().unwrap_err();
    let expected = "the output `made` is NaN";
    assert_eq!((loud.code.as_str(), loud.reason.as_str()), ("not-finite", expected));
    let written = [
        ("method", text("picky")),
        ("outputs", map(&[("made", "made/npy")])),
        ("on_failure", text("fail")),
    ];
    let array = trial.run(&APPLY, &written, &items[2..]).unwrap().remove(0).unwrap_err();
    assert_eq!(array.reason, "1 of 1 values of the output `made` are not finite");
    let error = trial.run(&APPLY, &written, &items[..1]).unwrap_err();
    assert!(matches!(&error, StageError::Unable { message, .. } if message.contains("too quiet")));
}

#[test]
fn a_lack_of_memory_is_no_verdict() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let error = trial.apply("huge", "number", &items[..1]).unwrap_err();
    assert!(matches!(error, StageError::OutOfMemory { .. }), "{error:?}");
}

#[test]
fn random_numbers_are_the_same_for_each_item() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let drawn = |trial: &mut ModuleTrial, seed: i64| {
        let written = [
            ("method", text("random")),
            ("outputs", map(&[("made", "number")])),
            ("seed", whole(seed)),
        ];
        let made = trial.run(&APPLY, &written, &items).unwrap();
        made.into_iter().map(|made| made.unwrap().number("made").unwrap()).collect::<Vec<_>>()
    };
    let (one, two) = (drawn(&mut trial, 1), drawn(&mut trial, 2));
    assert_eq!(one[0], one[1]);
    assert_eq!(one, drawn(&mut trial, 1));
    assert_ne!(one, two);
}

fn refusal(made: Result<Vec<Result<Fields, Reject>>, StageError>) -> String {
    match made.unwrap_err() {
        StageError::Unable { message, help } => format!("{message}; {}", help.unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_result_in_another_form_is_refused_in_words() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let items = &items[..1];
    let several = refusal(trial.apply("several", "number", items));
    let start = "the module returns 3 values: a tensor of shape [], a number, a tensor of shape \
        [3]; list the outputs in order in `returns`";
    assert!(several.starts_with(start), "{several}");
    let words = refusal(trial.apply("words", "number", items));
    assert!(words.starts_with("the module returns 2 values: a string, a string"), "{words}");
    let missing = refusal(trial.apply("named", "number", items));
    assert_eq!(missing, "the module does not return `made`, but `loud`, `mean`; ");
    let method = refusal(trial.apply("rate", "number", items));
    assert!(
        method.starts_with("the module cannot be called: Method 'rate' is not def"),
        "{method}"
    );
    let frames = trial.apply("features", "number", items).unwrap().remove(0).unwrap_err();
    assert!(frames.reason.contains("a tensor of shape [147, 4], not one number"), "{frames}");
    let output = [("output", text("mean")), ("method", text("named"))];
    let vector = trial.run(&RATE, &output, items).unwrap().remove(0).unwrap_err();
    assert!(vector.reason.contains("a tensor of shape [1, 4], not one number"), "{vector}");
    let which = refusal(trial.run(&RATE, &output[1..], items));
    assert!(which.contains("a dictionary of 2 values; select one with `output`"), "{which}");
}

#[test]
fn what_is_no_module_is_named_and_the_way_to_make_one_told() {
    let (items, outputs) = ([], [("outputs", map(&[("made", "number")]))]);
    for (bytes, what, help) in [
        (
            file("state.pth"),
            "a checkpoint that contains only weights",
            "torch.jit.script(model).save",
        ),
        (b"<!DOCTYPE html><html>".to_vec(), "an HTML page", "fetch the file again"),
        (Vec::new(), "an empty file", "torch.jit.script"),
        (vec![7; 300], "another file", "torch.jit.script"),
    ] {
        let error = refusal(ModuleTrial::with(&bytes).run(&APPLY, &outputs, &items));
        assert!(
            error.contains(&format!("`module` is {what}, not a TorchScript module")),
            "{error}"
        );
        assert!(error.contains(help), "{error}");
    }
    let whole = file("module.pt");
    for length in [100, whole.len() / 2, whole.len() - 10] {
        refusal(ModuleTrial::with(&whole[..length]).run(&APPLY, &outputs, &items));
    }
    let mut two = ModuleTrial::new();
    two.module.push(("other.pt", whole));
    let error = refusal(two.run(&APPLY, &outputs, &items));
    assert!(error.contains("`module` has 2 files, expected one"), "{error}");
}

#[test]
fn recordings_of_another_rate_or_length_are_set_aside_with_advice() {
    let mut trial = ModuleTrial::new();
    let long = trial.sound(&[0.1; 8_001]);
    let other = wave_item(&mut trial.bench, 0, 16_000, &[0.1; 400]);
    let written = [
        ("method", text("score")),
        ("outputs", map(&[("made", "number")])),
        ("longest", ParameterValue::Seconds(1.0)),
    ];
    let made = trial.run(&APPLY, &written, &[long, other]).unwrap();
    let codes = made.iter().map(|made| made.as_ref().unwrap_err().code.as_str());
    assert_eq!(codes.collect::<Vec<_>>(), ["too-long", "rate"]);
    assert!(made[1].as_ref().unwrap_err().reason.contains("`rate = 8000`"));
}

#[test]
fn an_embedding_has_length_one_and_its_halves_are_compared() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let shortest = [("shortest", ParameterValue::Seconds(0.03))];
    let made = trial.run(&EMBED, &shortest, &items).unwrap();
    for (made, expected) in made.iter().zip(expected()) {
        let made = made.as_ref().unwrap();
        assert_eq!(&*made.blob("embedding").unwrap().kind, EMBEDDING_KIND);
        let array = trial.array(made, "embedding");
        assert_eq!(array.shape, [4]);
        all_near(&array.values, &numbers(&expected["embedding"]));
        match expected["samples"].as_array().unwrap().len() {
            1_200 => near(made.number("halves").unwrap(), expected["halves"].as_f64().unwrap()),
            _ => assert_eq!(made.number("halves"), None, "its halves are too short"),
        }
    }
    let short = trial.run(&EMBED, &[], &items).unwrap().remove(0).unwrap_err();
    assert_eq!(short.code, "too-short");
    let features = [("method", text("features")), shortest[0].clone()];
    let table = trial.run(&EMBED, &features, &items).unwrap().remove(0).unwrap_err();
    assert_eq!(table.code, "output-no-vector");
}

#[test]
fn filter_banks_are_those_of_kaldi() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let written = [
        ("features", text("fbank")),
        ("method", text("of_features")),
        ("shortest", ParameterValue::Seconds(0.03)),
    ];
    let made = trial.run(&EMBED, &written, &items).unwrap();
    for (made, expected) in made.iter().zip(expected()) {
        let embedding = trial.array(made.as_ref().unwrap(), "embedding").values;
        let expected_embedding = numbers(&expected["of_features"]);
        let off = embedding.iter().zip(&expected_embedding);
        off.for_each(|(one, two)| assert!((f64::from(*one) - two).abs() < 1e-4, "{one} {two}"));
        let features = fbank(&samples(&expected), RATE_OF_MODULE);
        assert_eq!(features.size()[2], 80);
        let rows = Vec::<f32>::try_from(features.reshape([-1])).unwrap();
        let known: Vec<f64> =
            expected["fbank"].as_array().unwrap().iter().flat_map(numbers).collect();
        assert_eq!(known.len(), 160);
        for (one, two) in rows.iter().zip(&known) {
            // Logarithms of sums in f32.
            assert!((f64::from(*one) - two).abs() < 1e-3, "{one} {two}");
        }
    }
}

#[test]
fn a_rating_is_the_mean_over_windows() {
    let mut trial = ModuleTrial::new();
    let items = trial.sounds();
    let score = ("method", text("score"));
    let whole = trial.run(&RATE, std::slice::from_ref(&score), &items).unwrap();
    let written =
        [score, ("window", ParameterValue::Seconds(0.05)), ("hop", ParameterValue::Seconds(0.025))];
    let parts = trial.run(&RATE, &written, &items).unwrap();
    for ((whole, part), expected) in whole.iter().zip(&parts).zip(expected()) {
        let mos = |made: &Result<Fields, Reject>| made.as_ref().unwrap().number("mos").unwrap();
        near(mos(whole), expected["score"].as_f64().unwrap());
        near(mos(part), expected["windows"].as_f64().unwrap());
    }
}
