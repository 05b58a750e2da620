//! Listening tests with simulated raters: pairs, votes, ranks, and the choice that reads them.
#![allow(clippy::unwrap_used)]

use crate::support;

use std::collections::BTreeSet;

use serde_json::Value as Json;
use stage_core::{GatherOutput, Item, NewItem, ParameterValue, PortInput, Value};
use stage_speech::audio::clip::Clip;
use stage_speech::audio::decode::{DecodeOptions, decode};
use stage_speech::audio::{loudness, wav};
use stage_speech::rate::sheet::{Pair, PairRole, Rules, Sheet};
use stage_speech::rate::votes::{self, Answer, Vote};
use support::*;

struct Random(u64);

impl Random {
    /// From 0 up to 1.
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }
}

/// A buzz that the detector of speech may or may not take for speech.
fn sound(hertz: u32, level: f64) -> Vec<u8> {
    let sample = |at: u32| ((at * hertz % 16_000) as f64 / 8_000.0 - 1.0) * level * 32_000.0;
    wav::write(Clip::mono(16_000, (0..9_600).map(|at| sample(at) as i16).collect())).unwrap().0
}

/// Sentences by voices of different loudness.
fn spoken(bench: &mut Bench, voices: &[&str], sentences: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for sentence in 0..sentences {
        for (at, voice) in voices.iter().enumerate() {
            let bytes = sound(100 + 7 * sentence as u32, 0.02 * (at + 1) as f64);
            let fields = [
                ("checkpoint", Value::text(*voice)),
                ("sentence", Value::text(format!("s{sentence:02}"))),
                ("text", Value::text(format!("Sentence {sentence}."))),
                ("audio", bench.blob("audio/wav", bytes)),
            ];
            items.push(item(&format!("s{sentence:02}@{voice}"), &fields));
        }
    }
    items
}

fn number(number: f64) -> ParameterValue {
    ParameterValue::Number(number)
}

fn paired(bench: &mut Bench, items: Vec<Item>, written: &[(&str, ParameterValue)]) -> Vec<NewItem> {
    let output = bench.gather("rate.pairs", written, vec![dataset("spoken", items)]).unwrap();
    support::items(&output, "output").to_vec()
}

fn said<'a>(item: &'a NewItem, name: &str) -> &'a str {
    match item.values.iter().find(|(own, _)| own == name) {
        Some((_, stage_core::NewValue::Text(text))) => text,
        other => panic!("{name}: {other:?}"),
    }
}

fn clip(item: &NewItem, name: &str) -> Clip {
    match item.values.iter().find(|(own, _)| own == name) {
        Some((_, stage_core::NewValue::Bytes { bytes, .. })) => {
            decode(bytes, &DecodeOptions::default()).unwrap().clip
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn both_recordings_of_a_pair_are_equally_loud_and_its_id_names_no_voice() {
    let mut bench = Bench::default();
    let items = spoken(&mut bench, &["base", "step-10", "step-20"], 6);
    let pairs = paired(&mut bench, items, &[("hold", number(0.0))]);
    // Three pairs and two traps for each sentence.
    assert_eq!(pairs.len(), 6 * 5);
    let lufs = |clip: Clip| loudness::loudness(clip).unwrap().unwrap().lufs();
    for pair in &pairs {
        let (one, other) = (lufs(clip(pair, "one_audio")), lufs(clip(pair, "other_audio")));
        assert!((one - other).abs() < 0.2, "{}: {one} {other}", said(pair, "role"));
        assert!(pair.id.chars().all(|letter| letter.is_ascii_hexdigit()), "{}", pair.id);
        let (one, other) = (said(pair, "one"), said(pair, "other"));
        assert_eq!(one == other, said(pair, "role") != "pair");
    }
    let ids: BTreeSet<&str> = pairs.iter().map(|pair| pair.id.as_str()).collect();
    assert_eq!(ids.len(), pairs.len());
}

/// A vote belongs to two recordings: a further voice must not make it worthless.
#[test]
fn ids_stay_when_a_voice_is_added_and_change_with_the_recording() {
    let mut bench = Bench::default();
    let compared = |pairs: &[NewItem]| -> BTreeSet<String> {
        let own = pairs.iter().filter(|pair| said(pair, "role") == "pair");
        own.map(|pair| pair.id.clone()).collect()
    };
    let hold = [("hold", number(0.0))];
    let two = spoken(&mut bench, &["base", "step-10"], 4);
    let three = spoken(&mut bench, &["base", "step-10", "step-20"], 4);
    let before = compared(&paired(&mut bench, two.clone(), &hold));
    let after = compared(&paired(&mut bench, three, &hold));
    assert!(before.is_subset(&after) && after.len() == 12);
    let mut changed = two;
    let audio = bench.blob("audio/wav", sound(333, 0.1));
    changed[0].fields.set("audio", audio);
    let changed = compared(&paired(&mut bench, changed, &hold));
    assert_eq!(before.intersection(&changed).count(), 3);
}

#[test]
fn held_sentences_are_not_played_and_the_number_is_met() {
    let mut bench = Bench::default();
    let items = spoken(&mut bench, &["base", "step-10"], 30);
    let sentences = |pairs: &[NewItem]| -> BTreeSet<String> {
        pairs.iter().map(|pair| said(pair, "sentence").to_owned()).collect()
    };
    let half = sentences(&paired(&mut bench, items.clone(), &[]));
    let all = [("hold", number(0.0)), ("sentences", ParameterValue::Integer(30))];
    assert_eq!(sentences(&paired(&mut bench, items.clone(), &all)).len(), 30);
    assert!(half.len() > 5 && half.len() < 25, "{}", half.len());
    let few = [("sentences", ParameterValue::Integer(3))];
    let few = sentences(&paired(&mut bench, items.clone(), &few));
    assert!(few.len() == 3 && few.is_subset(&half));
    let alone = items.into_iter().filter(|item| item.id.ends_with("base")).collect();
    let error = bench.gather("rate.pairs", &[], vec![dataset("spoken", alone)]).unwrap_err();
    assert!(error.to_string().contains("fewer than two voices to compare"), "{error}");
}

/// A listener of known preferences.
#[derive(Clone, Copy)]
enum Listener {
    /// Prefers by the strengths of the voices, which are their names.
    Careful,
    Random,
    AlwaysLeft,
}

fn answer(listener: Listener, pair: &Pair, swapped: bool, random: &mut Random) -> Answer {
    let strength = |voice: &str| voice.parse::<f64>().unwrap_or_default();
    let prefers_one = match (listener, pair.role) {
        (Listener::AlwaysLeft, _) => return Answer::Left,
        (Listener::Random, _) => random.unit() < 0.5,
        (Listener::Careful, PairRole::Pair) => {
            let difference = strength(&pair.one) - strength(&pair.other);
            random.unit() < 1.0 / (1.0 + (-difference).exp())
        }
        (Listener::Careful, _) => random.unit() < 0.98,
    };
    if prefers_one != swapped { Answer::Left } else { Answer::Right }
}

/// Pairs without recordings, as items of `rate.pairs`.
fn silent_pairs(voices: &[String], sentences: usize) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |role: &str, sentence: usize, one: &str, other: &str| {
        let sentence = format!("s{sentence:03}");
        let fields = [
            ("role", Value::text(role)),
            ("sentence", Value::text(sentence.as_str())),
            ("one", Value::text(one)),
            ("other", Value::text(other)),
        ];
        items.push(item(&format!("{role} {sentence} {one} {other}"), &fields));
    };
    let mut voices = voices.to_vec();
    voices.sort();
    for sentence in 0..sentences {
        for (at, one) in voices.iter().enumerate() {
            voices[at + 1..].iter().for_each(|other| add("pair", sentence, one, other));
        }
        add("dull", sentence, &voices[0], &voices[0]);
    }
    items
}

/// A listening test that simulated listeners took.
struct Test {
    pairs: Vec<Item>,
    bench: Bench,
}

impl Test {
    fn new(voices: &[&str], sentences: usize) -> Test {
        let voices: Vec<String> = voices.iter().map(|voice| (*voice).to_owned()).collect();
        Test { pairs: silent_pairs(&voices, sentences), bench: Bench::default() }
    }

    fn listen(&mut self, name: &str, listener: Listener, rounds: usize, seed: u64) {
        let pairs: Vec<Pair> = self.pairs.iter().filter_map(Pair::of).collect();
        let rules = Rules { repeats: 0.1, traps: 2, tie: false, seed: 1 };
        let sheet = Sheet::new(&pairs, rules);
        let mut random = Random(seed);
        for _ in 0..8 {
            random.unit();
        }
        let mut file = votes::head("pairs", name);
        for trial in (0..rounds).flat_map(|round| sheet.round(name, round)) {
            let pair = &pairs[trial.pair];
            file += &votes::vote(&Vote {
                pair: pair.id.clone(),
                swapped: trial.swapped,
                repeat: trial.repeat,
                answer: answer(listener, pair, trial.swapped, &mut random),
                seconds: 3.0,
            });
        }
        self.bench.file(&format!("ratings/pairs/{name}.jsonl"), file);
    }

    fn output(&mut self) -> GatherOutput {
        let folder = ("folder", text("ratings/pairs"));
        let votes = self.bench.scan("rate.votes", &[folder]).unwrap();
        assert!(votes.rejects.is_empty(), "{:?}", votes.rejects);
        let ports = vec![
            ("input", vec![dataset("pairs", self.pairs.clone())]),
            ("votes", vec![dataset("votes", votes.items)]),
        ];
        self.bench.gather_ports("rate.result", &[], ports).unwrap()
    }

    fn report(&mut self) -> Json {
        let output = self.output();
        serde_json::from_str(&shown(artifact(&output, "output")["report"])).unwrap()
    }
}

fn names(report: &Json) -> Vec<&str> {
    report["voices"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn out<'a>(report: &'a Json, rater: &str) -> Option<&'a str> {
    let raters = report["raters"].as_array().unwrap();
    raters.iter().find(|one| one["name"] == rater).unwrap()["out"].as_str()
}

#[test]
fn listeners_of_known_strengths_recover_the_order() {
    for seed in 0..10 {
        let mut test = Test::new(&["-1.5", "-0.5", "0.5", "1.5"], 30);
        for rater in 0..6 {
            test.listen(&format!("r{rater}"), Listener::Careful, 2, 100 * seed + rater);
        }
        let report = test.report();
        assert_eq!(names(&report), ["1.5", "0.5", "-0.5", "-1.5"], "seed {seed}");
        assert_eq!(report["voices"][0]["rank"], 1);
        assert_eq!(report["votes"], 6 * 2 * 30);
        assert_eq!(report["warnings"].as_array().unwrap().len(), 0, "{}", report["warnings"]);
        for voice in report["voices"].as_array().unwrap() {
            let (own, true_one) = (&voice["strength"], voice["id"].as_str().unwrap());
            let near = own["value"].as_f64().unwrap() - true_one.parse::<f64>().unwrap();
            assert!(near.abs() < 0.7, "{true_one}: {own}");
        }
    }
}

#[test]
fn a_random_clicker_is_found_and_careful_listeners_stay() {
    let (mut found, mut wronged, seeds) = (0, 0, 20);
    for seed in 0..seeds {
        let mut test = Test::new(&["-0.5", "0", "0.5", "1"], 20);
        for rater in 0..3 {
            test.listen(&format!("careful{rater}"), Listener::Careful, 6, 100 * seed + rater);
        }
        test.listen("clicker", Listener::Random, 6, 100 * seed + 50);
        let report = test.report();
        found += usize::from(out(&report, "clicker").is_some());
        wronged += (0..3).filter(|one| out(&report, &format!("careful{one}")).is_some()).count();
        if let Some(reason) = out(&report, "clicker") {
            let told = report["warnings"][0].as_str().unwrap();
            assert!(told.contains("the votes of `clicker` do not count") && told.contains(reason));
            assert!(report["votes"].as_u64().unwrap() <= 3 * 6 * 20);
        }
    }
    assert!(found >= 17, "{found} of {seeds}");
    assert!(wronged <= 2, "{wronged} of {}", 3 * seeds);
}

#[test]
fn who_always_takes_the_left_side_is_found_and_does_not_count() {
    let mut test = Test::new(&["-1", "0", "1"], 20);
    test.listen("anna", Listener::Careful, 2, 1);
    test.listen("lefty", Listener::AlwaysLeft, 1, 2);
    let report = test.report();
    let reason = out(&report, "lefty").unwrap();
    assert!(reason.starts_with("prefers the left side in 24 of 24 votes"), "{reason}");
    assert_eq!(out(&report, "anna"), None);
    assert_eq!(report["votes"], 40);
}

#[test]
fn votes_of_raters_who_are_all_left_out_are_told_and_not_missing() {
    let mut test = Test::new(&["-1", "0", "1"], 20);
    test.listen("lefty", Listener::AlwaysLeft, 1, 2);
    let report = test.report();
    assert!(out(&report, "lefty").is_some());
    assert_eq!(report["votes"], 0);
    let told = report["summary"].as_str().unwrap();
    let wanted = "no votes count: all 20 are of careless or one-sided raters: about ";
    assert!(told.starts_with(wanted), "{told}");
}

#[test]
fn one_rater_is_named_as_one() {
    let mut test = Test::new(&["-1", "1"], 20);
    test.listen("anna", Listener::Careful, 1, 3);
    let report = test.report();
    let told = report["warnings"][0].as_str().unwrap();
    assert!(told.starts_with("only `anna` rated"), "{told}");
    test.listen("ben", Listener::Careful, 1, 4);
    assert_eq!(test.report()["warnings"].as_array().unwrap().len(), 0);
}

#[test]
fn a_test_without_votes_or_with_few_says_how_many_pairs_are_missing() {
    let mut test = Test::new(&["-0.25", "0.25"], 200);
    let report = test.report();
    let told = report["summary"].as_str().unwrap();
    assert_eq!(told, "no votes yet: about 16 pairs show a preference of 70 %");
    assert_eq!(report["decided"], false);

    // 62 % of the pairs: about 46 votes, and many more for half a dozen in a row to be luck.
    let mut small = Test::new(&["-0.25", "0.25"], 12);
    small.listen("anna", Listener::Careful, 1, 5);
    let report = small.report();
    assert_eq!(report["decided"], false, "{report}");
    assert!(report["summary"].as_str().unwrap().starts_with("undecided"), "{report}");
    for rater in 0..3 {
        test.listen(&format!("r{rater}"), Listener::Careful, 1, 60 + rater);
    }
    let report = test.report();
    assert_eq!((&report["decided"], names(&report)[0]), (&Json::Bool(true), "0.25"), "{report}");
    assert_eq!(report["summary"], "`0.25` is preferred");
}

/// As many as there are, the best of equals is no winner.
#[test]
fn of_ten_equal_voices_at_most_one_test_in_ten_has_a_false_winner() {
    let voices: Vec<String> = (0..10).map(|at| format!("0.{}", "0".repeat(at))).collect();
    let voices: Vec<&str> = voices.iter().map(String::as_str).collect();
    let (mut winners, mut orders, rounds) = (0, 0, 60);
    for seed in 0..rounds {
        let mut test = Test::new(&voices, 40);
        for rater in 0..2 {
            test.listen(&format!("r{rater}"), Listener::Careful, 3, 1_000 * seed + rater);
        }
        let report = test.report();
        winners += usize::from(report["decided"] == true);
        let ranks = report["voices"].as_array().unwrap();
        orders += usize::from(ranks.iter().any(|voice| voice["rank"] != 1));
    }
    assert!(winners <= 6, "{winners} winners of {rounds}");
    // Any false order at all: one test in ten too, and no more than its spread allows.
    assert!(orders <= 11, "{orders} orders of {rounds}");
}

#[test]
fn votes_on_recordings_that_have_changed_are_told_and_do_not_count() {
    let mut test = Test::new(&["-1", "1"], 10);
    test.listen("anna", Listener::Careful, 1, 1);
    for pair in test.pairs.iter_mut().take(4) {
        *pair = Item::new(format!("new {}", pair.id), pair.fields.clone());
    }
    let report = test.report();
    let told = report["warnings"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    assert!(told.contains("votes are on recordings that have changed since"), "{told}");
    assert!(report["votes"].as_u64().unwrap() < 10);
}

#[test]
fn files_that_are_none_of_votes_are_set_aside_and_the_end_of_a_cut_line_is_not_read() {
    let mut bench = Bench::default();
    let vote = |pair: &str| {
        let pair = pair.to_owned();
        let answer = Answer::Left;
        votes::vote(&Vote { pair, swapped: true, repeat: false, answer, seconds: 1.0 })
    };
    let cut = votes::head("pairs", "anna") + &vote("a") + &vote("b")[..20];
    bench.file("r/anna.jsonl", cut);
    bench.file("r/zoe.jsonl", votes::head("pairs", "anna"));
    bench.file("r/other.jsonl", "{}\n");
    bench.file("r/notes.txt", "no votes");
    let found = bench.scan("rate.votes", &[("folder", text("r"))]).unwrap();
    assert_eq!(found.items.len(), 1);
    let fields = &found.items[0].fields;
    assert_eq!((fields.text("answer"), fields.text("side")), (Some("other"), Some("left")));
    let rejects: Vec<&str> = found.rejects.iter().map(|(_, reject)| &*reject.code).collect();
    assert_eq!(rejects, ["no-votes", "twice"]);
}

/// Measured sentences of checkpoints.
fn measured(voices: &[(&str, f64)]) -> Vec<Item> {
    let one = |(name, cer): &(&str, f64)| {
        let sentence = |at: usize| {
            let fields = [
                ("checkpoint", Value::text(*name)),
                ("sentence", Value::text(format!("s{at:03}"))),
                ("cer", Value::Number(cer + 0.001 * (at % 7) as f64)),
            ];
            item(&format!("s{at:03}@{name}"), &fields)
        };
        (0..60).map(sentence).collect::<Vec<_>>()
    };
    voices.iter().flat_map(one).collect()
}

fn chosen(test: &mut Test, measured: &[Item], require: &[&str]) -> Json {
    let rated = test.output();
    let report = artifact(&rated, "output")["report"].clone();
    let report = test.bench.keep_value(report);
    let rated = PortInput::Artifact {
        stage: String::new(),
        fields: [("report", report)].into_iter().collect(),
    };
    let checkpoint = |(name, step): (&str, f64)| item(name, &[("step", Value::Number(step))]);
    let checkpoints =
        [("-1", 10.0), ("1", 20.0), ("3", 30.0)].into_iter().map(checkpoint).collect();
    let prefer = map(&[("measure", text("mean(cer)")), ("better", text("lower"))]);
    let written = [
        ("require", texts_value(require)),
        ("prefer", ParameterValue::List(vec![prefer])),
        ("hold", number(0.0)),
    ];
    let ports = vec![
        ("input", vec![dataset("measured", measured.to_vec())]),
        ("checkpoints", vec![dataset("trained", checkpoints)]),
        ("rated", vec![rated]),
    ];
    let output = test.bench.gather_ports("quality.choose", &written, ports).unwrap();
    serde_json::from_str(&shown(artifact(&output, "report")["report"])).unwrap()
}

#[test]
fn measures_gate_and_ears_rank() {
    let measured = measured(&[("base", 0.2), ("-1", 0.01), ("1", 0.05), ("3", 0.9)]);
    let mut test = Test::new(&["-1", "1", "3"], 40);
    let reason = |report: &Json, id: &str| {
        let models = report["models"].as_array().unwrap();
        let own = models.iter().find(|model| model["id"] == id).unwrap();
        own["out"].as_str().map(str::to_owned)
    };
    // Without votes the measure decides.
    let report = chosen(&mut test, &measured, &["mean(cer) <= base"]);
    assert_eq!(report["chosen"], "-1");
    assert!(report["warnings"].to_string().contains("listening test: no votes yet"));
    for rater in 0..4 {
        test.listen(&format!("r{rater}"), Listener::Careful, 3, 7 + rater);
    }
    // People prefer `3`, which is not understood, and of the others `1`, which is understood less.
    let report = chosen(&mut test, &measured, &["mean(cer) <= base"]);
    assert_eq!(report["chosen"], "1");
    assert!(reason(&report, "3").unwrap().contains("does not prove"), "{report}");
    let behind = reason(&report, "-1").unwrap();
    assert!(behind.contains("`1` is better in what people prefer"), "{behind}");
    assert_eq!(report["models"][1]["rated"]["rank"], 2);
    assert_eq!(chosen(&mut test, &measured, &[])["chosen"], "3");
}

#[test]
fn a_checkpoint_that_nobody_could_hear_is_out() {
    let measured = measured(&[("base", 0.2), ("-1", 0.01), ("1", 0.05), ("3", 0.001)]);
    let mut test = Test::new(&["-1", "1"], 40);
    test.listen("anna", Listener::Careful, 1, 7);
    let report = chosen(&mut test, &measured, &[]);
    let models = report["models"].as_array().unwrap();
    assert_eq!(models[2]["out"], "it was not in the listening test");
    assert_ne!(report["chosen"], "3");
}
