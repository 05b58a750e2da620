//! Speakers and reference clips compared by what is spoken with them.
#![allow(clippy::unwrap_used)]

use crate::support;

use serde_json::Value as Json;
use stage_core::{GatherOutput, Item, ParameterValue, PortInput, StageError, Value};
use support::*;

/// Clips of two speakers, two of `aino` and one of `eero`.
fn clips() -> Vec<Item> {
    let clip = |(id, speaker): (&str, &str)| item(id, &[("speaker", Value::text(speaker))]);
    [("aino_01", "aino"), ("aino_02", "aino"), ("eero_01", "eero")].map(clip).to_vec()
}

fn sentences(count: usize) -> Vec<Item> {
    let one = |at: usize| item(&format!("s{at:02}"), &[("text", Value::text("Hei."))]);
    (0..count).map(one).collect()
}

/// The sentences of a voice with this error rate on average.
fn spoken(name: &str, cer: f64, by_speaker: bool) -> Vec<Item> {
    let one = |at: usize| {
        let cer = ("cer", Value::Number(cer + 0.01 * (at % 5) as f64));
        let sentence = format!("s{at:02}");
        let named = [("speaker", Value::text(name)), ("sentence", Value::text(&*sentence))];
        let fields: Vec<(&str, Value)> =
            named.into_iter().filter(|_| by_speaker).chain([cer]).collect();
        let id = if by_speaker { format!("{sentence}@{name}") } else { sentence };
        item(&id, &fields)
    };
    (0..60).map(one).collect()
}

fn choose(
    by: &str,
    input: Vec<PortInput>,
    require: &[&str],
    none: &str,
) -> Result<(Json, GatherOutput), StageError> {
    let prefer = map(&[("measure", text("mean(cer)")), ("better", text("lower"))]);
    let written = [
        ("by", text(by)),
        ("require", texts_value(require)),
        ("prefer", ParameterValue::List(vec![prefer])),
        ("hold", ParameterValue::Number(0.0)),
        ("none", text(none)),
    ];
    let ports = vec![("input", input), ("clips", vec![dataset("clips", clips())])];
    let output = Bench::default().gather_ports("voice.choose", &written, ports)?;
    let report = serde_json::from_str(&shown(artifact(&output, "report")["report"])).unwrap();
    Ok((report, output))
}

fn kept(output: &GatherOutput) -> Vec<&str> {
    items(output, "output").iter().map(|clip| clip.id.as_str()).collect()
}

#[test]
fn every_speaker_of_the_clips_speaks_every_sentence() {
    let ports =
        vec![("input", vec![dataset("", sentences(2))]), ("clips", vec![dataset("", clips())])];
    let output = Bench::default().gather_ports("voice.audition", &[], ports).unwrap();
    let ids: Vec<&str> = items(&output, "output").iter().map(|own| own.id.as_str()).collect();
    assert_eq!(ids, ["s00@aino", "s00@eero", "s01@aino", "s01@eero"]);
    let named = [("speakers", texts_value(&["eero"]))];
    let ports = vec![("input", vec![dataset("", sentences(1))])];
    let output = Bench::default().gather_ports("voice.audition", &named, ports).unwrap();
    assert_eq!(items(&output, "output")[0].id, "s00@eero");
    let none = vec![("input", vec![dataset("", sentences(1))])];
    let error = Bench::default().gather_ports("voice.audition", &[], none).unwrap_err();
    assert_eq!(error.to_string(), "there are no speakers");
}

/// `speaker.select` would take the other one, which has more clips.
#[test]
fn the_speaker_that_speaks_best_is_chosen_with_all_clips() {
    let both = [spoken("aino", 0.3, true), spoken("eero", 0.1, true)].concat();
    let (report, output) = choose("speaker", vec![dataset("measured", both)], &[], "base").unwrap();
    assert_eq!((&report["chosen"], &report["base"]), (&Json::from("eero"), &Json::from("aino")));
    assert_eq!(kept(&output), ["eero_01"]);
    let reason = report["models"][0]["out"].as_str().unwrap();
    assert!(reason.contains("`eero` is better"), "{reason}");
}

#[test]
fn of_equal_speakers_the_one_with_more_clips_is_chosen() {
    let both = [spoken("aino", 0.1, true), spoken("eero", 0.1, true)].concat();
    let (report, output) = choose("speaker", vec![dataset("measured", both)], &[], "base").unwrap();
    assert_eq!(report["chosen"], "aino");
    assert_eq!(kept(&output), ["aino_01", "aino_02"]);
    let reason = report["models"][1]["out"].as_str().unwrap();
    assert!(reason.contains("which comes first by the number of clips"), "{reason}");
}

#[test]
fn a_reference_clip_is_chosen_by_the_instances_of_a_matrix() {
    let instance =
        |id: &str, cer: f64| dataset(&format!("measured[id={id}]"), spoken(id, cer, false));
    let input = vec![instance("aino_01", 0.2), instance("aino_02", 0.05), instance("eero_01", 0.1)];
    let (report, output) = choose("stage", input, &[], "base").unwrap();
    assert_eq!(report["chosen"], "aino_02");
    assert_eq!(kept(&output), ["aino_02"]);
    // `dataset.item` takes the only one.
    let clip = items(&output, "output")[0].id.clone();
    let only = vec![dataset("", vec![item(&clip, &[("speaker", Value::text("aino"))])])];
    let taken = Bench::default().gather("dataset.item", &[], only).unwrap();
    assert!(artifact(&taken, "output").contains_key("speaker"));
    let error =
        Bench::default().gather("dataset.item", &[], vec![dataset("", clips())]).unwrap_err();
    assert!(error.to_string().contains("`input` has 3 items"), "{error}");
}

#[test]
fn if_no_voice_is_good_enough_the_base_is_taken_or_the_reasons_are_the_error() {
    let both =
        || vec![dataset("m", [spoken("aino", 0.3, true), spoken("eero", 0.2, true)].concat())];
    let impossible = ["mean(cer) <= 0"];
    let (report, output) = choose("speaker", both(), &impossible, "base").unwrap();
    assert!(report["chosen"].is_null());
    assert_eq!(kept(&output), ["aino_01", "aino_02"]);
    let error = choose("speaker", both(), &impossible, "fail").unwrap_err().to_string();
    assert!(error.contains("`eero`: the interval does not prove `mean(cer) <= 0`"), "{error}");
}

#[test]
fn a_voice_without_clips_or_with_a_missing_sentence_is_told() {
    let stranger = vec![dataset("m", spoken("nobody", 0.3, true))];
    let error = choose("speaker", stranger, &[], "base").unwrap_err().to_string();
    assert_eq!(error, "no clip on `clips` belongs to `nobody`");
    let mut lost = spoken("eero", 0.01, true);
    lost.remove(4);
    let both = vec![dataset("m", [spoken("aino", 0.3, true), lost].concat())];
    let (report, _) = choose("speaker", both, &[], "base").unwrap();
    assert_eq!(report["chosen"], "aino");
    assert_eq!(report["models"][1]["out"], "the sentence `s04` was not measured");
}
