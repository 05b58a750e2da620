//! `text.sentences`: the items that a text becomes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use stage_core::{Item, Output, ParameterValue, Reject, Value, children};
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
