//! `text.sentences`: the items that a text becomes.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::collections::BTreeSet;

use stage_core::{Item, Output, ParameterValue, Reject, Value, children};
use stage_speech::audio::cuts::{Lengths, cut};
use stage_speech::audio::pauses::Pause;
use support::spoken::Random;
use support::*;

fn split(
    bench: &mut Bench,
    written: &[(&str, ParameterValue)],
    parent: &Item,
) -> Result<(Vec<Item>, Output), Reject> {
    let output = bench
        .process("text.sentences", written, std::slice::from_ref(parent))
        .unwrap()
        .remove(0)?;
    let values = output.values.clone().into_iter();
    let record = values.map(|(name, value)| (name, bench.keep_value(value))).collect();
    Ok((children(parent, &record), output))
}

fn ids(items: &[Item]) -> Vec<String> {
    items.iter().map(|item| item.id.to_string()).collect()
}

#[test]
fn each_sentence_is_an_item_with_its_place_in_the_original() {
    let text = "He met Dr. Smith.\n\u{201C}Was it\n3.5 miles?\u{201D} Yes.  Yes.";
    let mut bench = Bench::default();
    let parent = item("book", &[("text", Value::text(text)), ("speaker", Value::text("a"))]);
    let (found, output) = split(&mut bench, &[], &parent).unwrap();
    let mut told: Vec<(usize, usize, &str)> = found
        .iter()
        .map(|item| {
            let place = |name: &str| item.fields.number(name).unwrap() as usize;
            (place("text_start"), place("text_end"), item.fields.text("text").unwrap())
        })
        .collect();
    told.sort_unstable();
    let texts: Vec<&str> = told.iter().map(|(_, _, text)| *text).collect();
    assert_eq!(texts, ["He met Dr. Smith.", "\u{201C}Was it 3.5 miles?\u{201D}", "Yes.", "Yes."]);
    assert_eq!(&text[told[1].0..told[1].1], "\u{201C}Was it\n3.5 miles?\u{201D}");
    assert!(found.iter().all(|item| item.fields.text("speaker") == Some("a")));
    let twins = ids(&found).iter().filter(|id| id.ends_with("-2")).count();
    assert_eq!((twins, output.notes.len()), (1, 0));
}

#[test]
fn sentences_keep_their_ids_when_others_come_and_go() {
    let mut bench = Bench::default();
    let mut of = |text: &str| {
        let parent = item("a", &[("text", Value::text(text))]);
        ids(&split(&mut bench, &[], &parent).unwrap().0)
    };
    let before = of("One is here. Two is here. Three is here.");
    let after = of("New. One is here. Three is\nhere.");
    assert_eq!(before.iter().filter(|id| after.contains(id)).count(), 2);
}

#[test]
fn a_file_is_split_like_a_text_and_long_sentences_are_counted() {
    let mut bench = Bench::default();
    let script = bench.blob("text/plain", "Kap. Eins, hier. Und weiter.".as_bytes().to_vec());
    let parent = item("book", &[("script", script)]);
    let written = [
        ("field", text("script")),
        ("longest", ParameterValue::Integer(12)),
        ("abbreviations", texts_value(&["Kap."])),
    ];
    let (found, output) = split(&mut bench, &written, &parent).unwrap();
    let mut texts: Vec<&str> = found.iter().map(|item| item.fields.text("text").unwrap()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["Kap. Eins,", "Und weiter.", "hier."]);
    assert_eq!(output.notes, [("parts of overlong sentences".to_owned(), 2)]);
}

#[test]
fn what_cannot_be_split_is_set_aside_with_its_reason() {
    let mut bench = Bench::default();
    let latin = bench.blob("text/plain", b"caf\xE9".to_vec());
    let thai = "\u{E2A}".repeat(500);
    for (value, code, reason) in [
        (Value::text(thai.as_str()), "no-spaces", "400 characters of Thai from byte 0"),
        (Value::text(" \n "), "no-text", "empty"),
        (latin, "not-text", "byte 3 of `text` is not UTF-8"),
        (Value::Number(1.0), "no-text", "no text in `text`"),
    ] {
        let reject = split(&mut bench, &[], &item("a", &[("text", value)])).unwrap_err();
        assert_eq!(reject.code, code);
        assert!(reject.reason.contains(reason), "{}", reject.reason);
    }
}

/// The pauses of a reader in seconds: log-normal around this median.
fn pause(random: &mut Random, median: f64) -> f64 {
    let (one, other) = (random.share().max(1e-9), random.share());
    let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
    (median * (0.5 * normal).exp()).clamp(0.12, 3.0)
}

/// Segments that are joined where both sides of a cut are in one sentence, as long as they fit into
/// the longest length: the start of each. `ends` are the places of the ends of sentences.
fn joined(parts: &[std::ops::Range<u64>], ends: &[u64], longest: u64) -> Vec<u64> {
    let mut starts: Vec<u64> = Vec::new();
    for part in parts {
        let is_inside = ends.binary_search(&part.start).is_err();
        match starts.last() {
            Some(start) if is_inside && part.end - start <= longest => {}
            _ => starts.push(part.start),
        }
    }
    starts
}

/// The reason why `text.sentences` joins no segments (docs/decisions/stages.md).
#[test]
#[ignore = "soak: make soak runs it"]
fn soak_joined_sentences_follow_the_text_and_segments_do_not() {
    // In milliseconds.
    let lengths = Lengths { cut_at: 900, wanted: 6_000, shortest: 1_000, longest: 20_000 };
    let mut random = Random(1);
    let (mut pauses, mut ends, mut commas, mut at) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while at < 10 * 3_600_000 {
        let phrases = random.within(1..5);
        for phrase in 1..=phrases {
            at += (1_000.0 + 4_000.0 * random.share()) as u64;
            let median = if phrase == phrases { 0.65 } else { 0.3 };
            let frames = (1_000.0 * pause(&mut random, median)) as u64;
            let quietest = at + frames / 2;
            let signs = if phrase == phrases { &mut ends } else { &mut commas };
            signs.push(quietest);
            // A shorter one is not found.
            if frames >= 200 {
                pauses.push(Pause { start: at, end: at + frames, quietest });
            }
            at += frames;
        }
    }
    let parts = cut(&pauses, at, &lengths).parts;
    let is_cut = |sign: &&u64| parts.iter().any(|part| part.start == **sign);
    let (inside, between) =
        (commas.iter().filter(is_cut).count(), ends.iter().filter(is_cut).count());
    let before = joined(&parts, &ends, lengths.longest);
    // A corrected text has a full stop in the place of a comma, or the other way round.
    let (mut edits, mut changed) = (0, 0);
    for sign in commas.iter().step_by(20).chain(ends.iter().step_by(20)) {
        let mut other = ends.clone();
        match other.binary_search(sign) {
            Ok(at) => drop(other.remove(at)),
            Err(at) => other.insert(at, *sign),
        }
        let now = joined(&parts, &other, lengths.longest);
        edits += 1;
        // A clip is the sound from its start to the next one.
        let clips = |starts: &[u64]| -> BTreeSet<(u64, u64)> {
            let ends = starts.iter().copied().skip(1).chain([at]);
            starts.iter().copied().zip(ends).collect()
        };
        changed += clips(&now).difference(&clips(&before)).count();
    }
    println!(
        "{} segments of {:.1} s on average; {inside} cuts within {} sentences, {between} between",
        parts.len(),
        at as f64 / 1_000.0 / parts.len() as f64,
        ends.len()
    );
    println!(
        "{} clips if they are joined; {:.2} of these change with a sign at a pause, {edits} signs",
        before.len(),
        f64::from(changed as u32) / f64::from(edits)
    );
    assert!(inside > 0 && before.len() < parts.len() && changed > 0);
}
