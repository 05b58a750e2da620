//! The stages of the family `quality`: fields in, figures and reasons out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use std::collections::BTreeMap;

use stage_core::{GatherOutput, Item, NewValue, Output, ParameterValue, Setup, StageError, Value};
use support::*;

const VOICE: &[u8] = include_bytes!("../../../pipelines/demo/data/wavs/aino_01.wav");
const OTHER: &[u8] = include_bytes!("../../../pipelines/demo/data/wavs/eero_01.wav");

fn wav(samples: impl Iterator<Item = i16>) -> Vec<u8> {
    wav_at(16_000, samples)
}

fn wav_at(sample_rate: u32, samples: impl Iterator<Item = i16>) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    samples.for_each(|sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
    bytes.into_inner()
}

/// The numbers of an outcome.
fn numbers(output: &Output) -> BTreeMap<&str, f64> {
    let number = |(name, value): &'_ (String, NewValue)| match value {
        NewValue::Number(number) => Some(*number),
        other => panic!("`{name}` is {other:?}"),
    };
    output.values.iter().map(|pair| (pair.0.as_str(), number(pair).unwrap())).collect()
}

fn judged(bench: &mut Bench, kind: &str, item: Item) -> Result<Output, stage_core::Reject> {
    bench.process(kind, &[], &[item]).unwrap().remove(0)
}

fn measured(audio: Vec<u8>, text: &str) -> Output {
    let mut bench = Bench::default();
    let fields = [("audio", bench.blob("audio/wav", audio)), ("text", Value::text(text))];
    judged(&mut bench, "quality.measure", item("a", &fields)).unwrap()
}

fn near(value: f64, wanted: f64, tolerance: f64) {
    assert!((value - wanted).abs() <= tolerance, "{value} is not {wanted}");
}

#[test]
fn a_tone_with_a_pause_has_the_measures_that_it_was_made_with() {
    // 2 s of 200 Hz at half of full scale, 1 s of nothing, 1 s of the tone.
    let turn = std::f64::consts::TAU * 200.0 / 16_000.0;
    let sample = |at: u32| match at {
        32_000..48_000 => 0,
        _ => ((turn * f64::from(at)).sin() * 16_384.0) as i16,
    };
    let output = measured(wav((0..64_000).map(sample)), " Kaksitoista ");
    let found = numbers(&output);
    assert_eq!((found["seconds"], found["silence_share"]), (4.0, 0.25));
    assert_eq!((found["longest_silence"], found["clipped_share"]), (1.0, 0.0));
    assert_eq!(found["characters_per_second"], 11.0 / 4.0);
    near(found["f0_median"], 200.0, 0.5);
    near(found["f0_range"], 0.0, 0.1);
    near(found["voiced_share"], 0.75, 0.02);
    // The root mean square of the tone is -9.03 dBFS, without a pause -9.7 LUFS at 1 kHz; the
    // standard hears 200 Hz a little less.
    near(found["loudness"], -10.0, 1.0);
    assert!(found["flatness"] < 0.001, "{found:?}");
}

#[test]
fn a_clipped_wave_says_so() {
    let turn = std::f64::consts::TAU * 100.0 / 16_000.0;
    let square = (0..16_000).map(|at| ((turn * f64::from(at)).sin() * 60_000.0) as i16);
    // A sine of 1.83 times full scale lies beyond it for 63 % of the time.
    near(numbers(&measured(wav(square), "x"))["clipped_share"], 0.63, 0.02);
}

#[test]
fn white_noise_is_flat_and_has_no_pitch() {
    let mut state = 7_u64;
    let noise = (0..64_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        ((state >> 48) as i32 - 32_768) as i16 / 4
    });
    let output = measured(wav(noise), "x");
    let found = numbers(&output);
    assert!(found["flatness"] > 0.95, "{found:?}");
    assert_eq!(found["voiced_share"], 0.0);
    assert!(!found.contains_key("f0_median"));
}

#[test]
fn silence_has_no_measures_of_sound() {
    let output = measured(wav(std::iter::repeat_n(0, 16_000)), "");
    let found: Vec<&str> = output.values.iter().map(|(name, _)| name.as_str()).collect();
    let left = [
        "seconds",
        "silence_share",
        "longest_silence",
        "clipped_share",
        "characters_per_second",
        "voiced_share",
    ];
    assert_eq!(found, left);
    assert_eq!(numbers(&output)["longest_silence"], 1.0);
}

#[test]
fn speech_has_every_measure_that_the_catalogue_names() {
    let output = measured(VOICE.to_vec(), "Hyvää huomenta.");
    let written: Vec<&str> = output.values.iter().map(|(name, _)| name.as_str()).collect();
    let declared = stage("quality.measure").kind().outputs[0].writes;
    let declared: Vec<&str> = declared.iter().map(|(name, _)| *name).collect();
    assert_eq!(written, declared);
}

#[test]
fn a_file_that_is_no_sound_is_set_aside() {
    let mut bench = Bench::default();
    let page = bench.blob("audio/wav", "<html>");
    let reject = judged(&mut bench, "quality.measure", item("a", &[("audio", page)])).unwrap_err();
    assert_eq!(reject.code, "not-audio");
    let reject = judged(&mut bench, "quality.compare", item("a", &[])).unwrap_err();
    assert_eq!(reject.code, "no-audio");
}

fn compared(synthesis: &[u8], reference: &[u8]) -> BTreeMap<String, f64> {
    let mut bench = Bench::default();
    let fields = [
        ("audio", bench.blob("audio/wav", synthesis.to_vec())),
        ("reference_audio", bench.blob("audio/wav", reference.to_vec())),
    ];
    let output = judged(&mut bench, "quality.compare", item("a", &fields)).unwrap();
    numbers(&output).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn a_recording_against_itself_is_no_distance_away() {
    let found = compared(VOICE, VOICE);
    let written: Vec<&str> = found.keys().map(String::as_str).collect();
    let declared = stage("quality.compare").kind().outputs[0].writes;
    let mut declared: Vec<&str> = declared.iter().map(|(name, _)| *name).collect();
    declared.sort_unstable();
    assert_eq!(written, declared);
    assert_eq!((found["mcd"], found["f0_rmse"]), (0.0, 0.0));
    assert_eq!((found["f0_correlation"], found["length_ratio"]), (1.0, 1.0));
}

#[test]
fn a_later_start_is_nearer_than_another_sentence() {
    let mut voice = hound::WavReader::new(VOICE).unwrap();
    let rate = voice.spec().sample_rate;
    let samples = voice.samples::<i16>().map(Result::unwrap);
    // 10 ms.
    let later = wav_at(rate, std::iter::repeat_n(0, rate as usize / 100).chain(samples));
    let (shifted, other) = (compared(&later, VOICE), compared(OTHER, VOICE));
    assert!(shifted["mcd"] < 0.5, "{shifted:?}");
    assert!(other["mcd"] > 3.0, "{other:?}");
    assert!(shifted["f0_rmse"] < 0.5 && shifted["f0_correlation"] > 0.99, "{shifted:?}");
}

#[test]
fn recordings_over_the_limit_are_set_aside() {
    let mut bench = Bench::default();
    let long = bench.blob("audio/wav", wav(std::iter::repeat_n(100, 32_000)));
    let fields = [("audio", long.clone()), ("reference_audio", long)];
    let limit = [("longest", ParameterValue::Seconds(1.0))];
    let outcome =
        bench.process("quality.compare", &limit, &[item("a", &fields)]).unwrap().remove(0);
    assert_eq!(outcome.unwrap_err().code, "too-large");
}

#[test]
fn a_range_of_pitch_that_is_none_is_an_error() {
    let range = [("lowest", ParameterValue::Number(500.0))];
    let error = Bench::default().process("quality.measure", &range, &[]).unwrap_err();
    assert_eq!(error.to_string(), "`lowest` = 500 Hz must be below `highest` = 500 Hz");
}

#[test]
fn a_transcript_is_a_text_or_a_file_of_a_command() {
    let mut bench = Bench::default();
    let file = bench.blob("file/txt", " hyvää huomenta \n");
    for transcript in [file, Value::text("Hyvää huomenta")] {
        let fields = [("text", Value::text("Hyvää huomenta!")), ("transcript", transcript)];
        let output = judged(&mut bench, "quality.cer", item("a", &fields)).unwrap();
        let value = |name: &str| &output.values.iter().find(|(own, _)| own == name).unwrap().1;
        assert_eq!((value("cer"), value("wer")), (&NewValue::Number(0.0), &NewValue::Number(0.0)));
        assert_eq!(value("heard"), &NewValue::Text("hyvää huomenta".into()));
    }
    let damaged = bench.blob("file/txt", vec![0xff, 0xfe]);
    for (transcript, text, code) in [
        (Some(damaged), "a", "not-text"),
        (None, "a", "no-transcript"),
        (Some(Value::text("a")), "?!", "no-text"),
    ] {
        let mut fields = vec![("text", Value::text(text))];
        fields.extend(transcript.map(|transcript| ("transcript", transcript)));
        let reject = judged(&mut bench, "quality.cer", item("a", &fields)).unwrap_err();
        assert_eq!(reject.code, code);
    }
}

#[test]
fn voices_are_compared_by_lists_of_numbers() {
    let mut bench = Bench::default();
    let mut fields = vec![
        ("embedding", bench.blob("file/json", "[3, 4]")),
        ("reference_embedding", bench.blob("file/json", "[4, 3]")),
    ];
    let output = judged(&mut bench, "quality.similarity", item("a", &fields)).unwrap();
    assert_eq!(numbers(&output), BTreeMap::from([("similarity", 0.96)]));
    fields[1].1 = bench.blob("file/json", "[1, 2, 3]");
    let reject = judged(&mut bench, "quality.similarity", item("a", &fields)).unwrap_err();
    assert_eq!(reject.code, "other-embedding");
}

fn paired(
    written: &[(&str, ParameterValue)],
    syntheses: Vec<Item>,
    references: Vec<Item>,
) -> Result<GatherOutput, StageError> {
    paired_on(&mut Bench::default(), written, syntheses, references)
}

fn paired_on(
    bench: &mut Bench,
    written: &[(&str, ParameterValue)],
    syntheses: Vec<Item>,
    references: Vec<Item>,
) -> Result<GatherOutput, StageError> {
    let parameters = parameters(stage("quality.pair").kind(), written);
    let ports = vec![
        ("input", vec![dataset("heard", syntheses)]),
        ("reference", vec![dataset("clips", references)]),
    ];
    let setup = Setup { parameters, ..Setup::default() };
    bench.gather_with("quality.pair", setup, ports)
}

fn spoken(id: &str, sentence: &str) -> Item {
    item(id, &[("audio", Value::text(id)), ("sentence", Value::text(sentence))])
}

#[test]
fn a_synthesis_gets_the_recording_of_its_id() {
    let heard = vec![spoken("a", ""), spoken("b", ""), spoken("c", "")];
    let clips = vec![item("c", &[("audio", Value::text("the recording of c"))])];
    let mut bench = Bench::default();
    let output = paired_on(&mut bench, &[], heard, clips).unwrap();
    let [pair] = items(&output, "output") else { panic!("{output:?}") };
    let taken = pair.values.iter().find(|(name, _)| name == "reference_audio").unwrap();
    assert_eq!((pair.id.as_str(), pair.values.len()), ("c", 3));
    assert_eq!(taken.1, NewValue::Kept(Value::text("the recording of c")));
    assert_eq!(bench.set_aside(), ["input 0 no-recording", "input 1 no-recording"]);
    assert_eq!(bench.aside[0].2.reason, "no recording has `a` as its `id`");
}

#[test]
fn items_of_which_nothing_was_measured_are_set_aside() {
    let mut bench = Bench::default();
    let measure = |field: &str| {
        map(&[
            ("field", text(field)),
            ("better", text("lower")),
            ("tolerance", ParameterValue::Number(0.1)),
        ])
    };
    let measures = ParameterValue::List(vec![measure("cer"), measure("f0_median")]);
    let items = vec![
        item("a", &[("cer", Value::Number(0.1))]),
        item("b", &[]),
        item("c", &[("cer", Value::Number(f64::NAN)), ("f0_median", Value::Number(1.0))]),
        item("d", &[("cer", Value::Number(f64::NAN))]),
    ];
    let inputs = vec![dataset("measured", items)];
    bench.gather("quality.regression", &[("measures", measures)], inputs).unwrap();
    assert_eq!(bench.set_aside(), ["input 1 no-measure", "input 3 no-measure"]);
    assert_eq!(bench.aside[0].2.reason, "it has none of the measures `cer`, `f0_median`");
}

#[test]
fn syntheses_of_several_checkpoints_share_a_recording() {
    let heard = vec![spoken("x@step-1", "x"), spoken("x@step-2", "x")];
    let clips = || vec![item("x", &[("embedding", Value::text("numbers"))])];
    let written = [
        ("by", text("sentence")),
        ("reference_by", text("id")),
        ("take", texts_value(&["embedding"])),
    ];
    assert_eq!(items(&paired(&written, heard.clone(), clips()).unwrap(), "output").len(), 2);
    let error = paired(&written[..2], heard, clips()).unwrap_err();
    assert_eq!(error.to_string(), "the recording `x` has no field `audio` to take");
}

#[test]
fn pairs_that_nothing_or_too_much_makes_are_errors() {
    let heard = || vec![spoken("a", "hei")];
    let error = paired(&[], heard(), vec![spoken("b", "hei")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no item of `input` (1) matches an item of `reference` (1): no `id` equals a `id`"
    );
    let by = [("by", text("sentence"))];
    let error = paired(&by, heard(), vec![spoken("b", "hei"), spoken("c", "hei")]).unwrap_err();
    assert_eq!(error.to_string(), "the recordings `b` and `c` have the same `sentence`");
    assert!(items(&paired(&[], vec![], vec![]).unwrap(), "output").is_empty());
}

fn scored(id: &str, cer: f64, pitch: f64) -> Item {
    item(id, &[("cer", Value::Number(cer)), ("f0_median", Value::Number(pitch))])
}

fn measure(field: &str, better: &str, tolerance: f64) -> ParameterValue {
    map(&[
        ("field", text(field)),
        ("better", text(better)),
        ("tolerance", ParameterValue::Number(tolerance)),
    ])
}

fn against(
    baseline: Option<&str>,
    fail: bool,
    items: Vec<Item>,
) -> Result<(serde_json::Value, f64, Vec<u8>), StageError> {
    let mut bench = Bench::default();
    let measures = vec![measure("cer", "lower", 0.02), measure("f0_median", "same", 10.0)];
    let written =
        [("measures", ParameterValue::List(measures)), ("fail", ParameterValue::Flag(fail))];
    let parameters = parameters(stage("quality.regression").kind(), &written);
    let file = baseline.map(|baseline| match bench.blob("file", baseline.to_owned()) {
        Value::Blob(blob) => ("baseline".to_owned(), (*blob).clone()),
        other => panic!("{other}"),
    });
    let setup = Setup { parameters, files: file.into_iter().collect(), ..Setup::default() };
    let output = bench.gather_with(
        "quality.regression",
        setup,
        vec![("input", vec![dataset("measured", items)])],
    )?;
    let values = artifact(&output, "output");
    let NewValue::Number(count) = values["regressions"] else { panic!("{values:?}") };
    let json = shown(values["report"]).into_bytes();
    Ok((serde_json::from_slice(&json).unwrap(), *count, json))
}

const GOOD: &str = r#"{"measures": {"cer": {"mean": 0.1}, "f0_median": {"mean": 120}}, "more": 1}"#;

fn verdicts(report: &serde_json::Value) -> [&str; 2] {
    ["cer", "f0_median"].map(|field| report["measures"][field]["verdict"].as_str().unwrap())
}

#[test]
fn what_is_worse_than_the_tolerance_is_a_regression() {
    let found = |cer: f64, pitch: f64| {
        let items = vec![scored("a", cer, pitch), scored("b", cer, pitch)];
        let (report, count, _) = against(Some(GOOD), false, items).unwrap();
        (verdicts(&report).map(str::to_owned), count)
    };
    let says = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
    assert_eq!(found(0.12, 130.0), (says("same", "same"), 0.0));
    assert_eq!(found(0.1201, 109.9), (says("worse", "worse"), 2.0));
    assert_eq!(found(0.05, 130.1), (says("better", "worse"), 1.0));
}

#[test]
fn measures_that_are_gone_are_regressions_and_new_ones_are_not() {
    let only_pitch = vec![item("a", &[("f0_median", Value::Number(120.0))])];
    let (report, count, _) = against(Some(GOOD), false, only_pitch).unwrap();
    assert_eq!((verdicts(&report), count), (["missing", "same"], 1.0));
    let (report, count, _) = against(None, true, vec![scored("a", 0.5, 90.0)]).unwrap();
    assert_eq!((verdicts(&report), count), (["new", "new"], 0.0));
}

#[test]
fn a_report_is_the_baseline_of_the_next_run_and_names_the_worst() {
    let items = || vec![scored("a", 0.1, 100.0), scored("b", 0.4, 101.0), scored("c", 0.1, 150.0)];
    let (report, _, json) = against(None, false, items()).unwrap();
    assert_eq!(report["measures"]["cer"]["mean"], 0.2);
    let ids = |field: &str| -> Vec<String> {
        let worst = report["measures"][field]["worst"].as_array().unwrap().iter();
        worst.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("cer"), ["b", "a", "c"]);
    assert_eq!(ids("f0_median"), ["c", "a", "b"], "the mean is 117");
    let kept = String::from_utf8(json).unwrap();
    let (report, count, _) = against(Some(&kept), true, items()).unwrap();
    assert_eq!((verdicts(&report), count), (["same", "same"], 0.0));
}

#[test]
fn a_measure_that_is_named_twice_is_an_error() {
    let twice = vec![measure("cer", "lower", 0.1), measure("cer", "higher", 0.1)];
    let written = [("measures", ParameterValue::List(twice))];
    let error = Bench::default().gather("quality.regression", &written, vec![]).unwrap_err();
    assert_eq!(error.to_string(), "`measures` names `cer` twice");
}

#[test]
fn with_fail_a_regression_ends_the_run_with_its_figures() {
    let error = against(Some(GOOD), true, vec![scored("a", 0.3, 120.0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "worse than the baseline: `cer` is 0.3 instead of 0.1, with 0.02 allowed"
    );
    let error = against(Some("[]"), false, vec![]).unwrap_err();
    assert!(error.to_string().starts_with("the baseline is not a report of `quality.regression`"));
}
