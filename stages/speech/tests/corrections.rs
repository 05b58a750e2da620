//! `corpus.corrections`: lines of a table belong to the sound of segments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_core::{
    Context, GatherOutput, Item, NewItem, NewValue, ParameterValue, Setup, StageError, Value,
};
use stage_speech::audio::{Clip, Samples, decode, wav};
use stage_speech::corpus::corrections::name;
use support::*;

/// The items with this table.
fn corrected(
    bench: &mut Bench,
    table: &str,
    drops: &str,
    items: &[Item],
) -> Result<GatherOutput, StageError> {
    let table = format!("segment,action,text,at,with\n{table}");
    let Value::Blob(table) = bench.blob("text/csv", table.into_bytes()) else { panic!() };
    let kind = stage("corpus.corrections").kind();
    let setup = Setup {
        parameters: parameters(kind, &[("drops", ParameterValue::Text(drops.to_owned()))]),
        files: [("table".to_owned(), (*table).clone())].into(),
        ..Setup::default()
    };
    let input = vec![("input", vec![dataset("segments", items.to_vec())])];
    bench.gather_with("corpus.corrections", setup, input)
}

fn made(bench: &mut Bench, table: &str, items: &[Item]) -> Vec<NewItem> {
    let output = corrected(bench, table, "quarantine", items).unwrap();
    support::items(&output, "output").to_vec()
}

/// Four utterances of a recording as `audio.segment` cuts them, and one of another.
fn segments(bench: &mut Bench) -> Vec<Item> {
    let mut samples: Vec<i16> = vec![0; 4_000];
    for length in [12_000, 14_000, 16_000, 18_000] {
        samples.extend((0..length).map(|at: i16| (at % 97 - 48) * 100));
        samples.extend(vec![0; 10_000]);
    }
    // A longer silence at the end would be a segment.
    samples.truncate(samples.len() - 6_000);
    let short: Vec<i16> = samples[..20_000].iter().rev().copied().collect();
    let mut found = Vec::new();
    for (recording, samples) in [("book", samples), ("other", short)] {
        let audio = bench.blob("audio", wav::write(Clip::mono(8_000, samples)).unwrap().0);
        let whole = item(recording, &[("audio", audio), ("recording", Value::text(recording))]);
        let pauses = bench.process("audio.pauses", &[], std::slice::from_ref(&whole)).unwrap();
        let mut fields = whole.fields.clone();
        for (name, value) in pauses[0].as_ref().unwrap().values.clone() {
            fields.set(name, bench.keep_value(value));
        }
        let parent = Item::new(recording, fields);
        let made = bench.process("audio.segment", &[], std::slice::from_ref(&parent)).unwrap();
        let record = made[0].as_ref().unwrap().values.clone();
        let record = record.into_iter().map(|(name, value)| (name, bench.keep_value(value)));
        let record = record.collect::<Vec<_>>().into_iter().collect();
        found.extend(stage_core::children(&parent, &record));
    }
    let start = |item: &Item| item.fields.number("start").unwrap();
    found.sort_by(|one, two| {
        one.fields
            .text("recording")
            .cmp(&two.fields.text("recording"))
            .then(start(one).total_cmp(&start(two)))
    });
    assert_eq!(found.len(), 5);
    found
}

fn own_name(item: &Item) -> String {
    name(&item.fields.blob("audio").unwrap().digest)
}

fn value<'a>(item: &'a NewItem, field: &str) -> Option<&'a NewValue> {
    item.values.iter().find(|(name, _)| name == field).map(|(_, value)| value)
}

fn number(item: &NewItem, field: &str) -> f64 {
    match value(item, field) {
        Some(NewValue::Number(number) | NewValue::Kept(Value::Number(number))) => *number,
        other => panic!("{field}: {other:?}"),
    }
}

fn samples(bench: &mut Bench, item: &NewItem) -> Vec<i16> {
    let Some(NewValue::Kept(Value::Blob(blob))) = value(item, "audio") else { panic!() };
    let clip = decode(&Context::read(bench, blob).unwrap(), &Default::default()).unwrap().clip;
    let Samples::Pcm(samples) = clip.samples else { panic!() };
    samples
}

/// Those with other ids than before.
fn new<'a>(made: &'a [NewItem], items: &[Item]) -> Vec<&'a NewItem> {
    made.iter().filter(|one| items.iter().all(|item| *item.id != *one.id)).collect()
}

#[test]
fn texts_are_replaced_and_segments_dropped_wherever_they_are() {
    let mut bench = Bench::default();
    let items = segments(&mut bench);
    // The first line has the id of another recording in front: the sound was moved.
    let table = format!(
        "moved/{},,\"Yes, indeed.\",,\n{},drop,,,\n",
        own_name(&items[0]),
        own_name(&items[4])
    );
    let output = corrected(&mut bench, &table, "quarantine", &items).unwrap();
    let kept = support::items(&output, "output");
    assert_eq!(kept.len(), 4);
    let text = Some(&NewValue::Text("Yes, indeed.".to_owned()));
    assert_eq!((value(&kept[0], "text"), value(&kept[0], "corrected")), (text, text));
    assert_eq!(kept[1..], [1, 2, 3].map(|at| NewItem::kept(&items[at])));
    assert_eq!(bench.set_aside(), ["input 4 dropped"]);
    let notes = [("corrected texts".to_owned(), 1), ("dropped segments".to_owned(), 1)];
    assert_eq!(output.notes, notes);
}

#[test]
fn marked_drops_go_on_to_the_alignment() {
    let mut bench = Bench::default();
    let items = segments(&mut bench);
    let table = format!("{},drop,,,\n", own_name(&items[2]));
    let output = corrected(&mut bench, &table, "mark", &items).unwrap();
    let kept = support::items(&output, "output");
    assert_eq!((kept.len(), bench.set_aside()), (5, Vec::<String>::new()));
    assert!(value(&kept[2], "dropped").is_some() && value(&kept[1], "dropped").is_none());
}

#[test]
fn a_split_makes_two_segments_with_the_samples_of_one() {
    let mut bench = Bench::default();
    let items = segments(&mut bench);
    let before = samples(&mut bench, &NewItem::kept(&items[1]));
    let table = format!("{},split,,1.25,\n", own_name(&items[1]));
    let made = made(&mut bench, &table, &items);
    let parts = new(&made, &items);
    assert_eq!((made.len(), parts.len()), (6, 2));
    assert!(parts.iter().all(|part| part.id.starts_with("book/") && part.id.len() == 15));
    let [one, two] = [samples(&mut bench, parts[0]), samples(&mut bench, parts[1])];
    assert_eq!((one.len(), [one, two].concat()), (10_000, before));
    let start = items[1].fields.number("start").unwrap();
    assert_eq!([number(parts[0], "start"), number(parts[0], "seconds")], [start, 1.25]);
    assert_eq!(number(parts[1], "start"), start + 1.25);
    // The parts are remembered: the sound is not even read again.
    bench.blobs.remove(&items[1].fields.blob("audio").unwrap().digest);
    assert_eq!(self::made(&mut bench, &table, &items), made);
}

/// A part is named as the same sound would be if the recording were cut there, so that a run from
/// nothing and one with corrections agree.
#[test]
fn a_join_and_a_split_move_a_cut_of_two_segments_only() {
    let mut bench = Bench::default();
    let items = segments(&mut bench);
    let [one, two] = [own_name(&items[0]), own_name(&items[1])];
    let joined = made(&mut bench, &format!("{one},join,,,{two}\n"), &items);
    let whole = new(&joined, &items);
    assert_eq!((joined.len(), whole.len()), (4, 1));
    let id = &whole[0].id;
    let name = id.strip_prefix("book/").unwrap();
    let own = items[0].fields.number("seconds").unwrap();
    let table = format!("{one},join,,,{two}\n{name},split,,{},\n", own + 0.25);
    let moved = made(&mut bench, &table, &items);
    let parts = new(&moved, &items);
    assert_eq!((moved.len(), parts.len()), (5, 2));
    assert_eq!(number(parts[0], "seconds"), own + 0.25);
    let end = number(parts[1], "start") + number(parts[1], "seconds");
    assert_eq!(end, items[2].fields.number("start").unwrap());
    // A split at the old place gives the old segments.
    let table = format!("{one},join,,,{two}\n{name},split,,{own},\n");
    let told = corrected(&mut bench, &table, "quarantine", &items).unwrap_err().to_string();
    assert!(told.contains("undo each other"), "{told}");
}

#[test]
fn lines_without_their_segment_change_nothing_and_are_listed_with_the_reason() {
    let mut bench = Bench::default();
    let items = segments(&mut bench);
    // The last segment of a recording is followed by nothing.
    let table = format!("aaaaaaaaaa,drop,,,\n{},join,,,\n", own_name(&items[3]));
    let output = corrected(&mut bench, &table, "quarantine", &items).unwrap();
    assert_eq!(support::items(&output, "output").len(), 5);
    let note = "lines of corrections without effect (see the output `unused`)";
    assert_eq!(output.notes, [(note.to_owned(), 2)]);
    let unused = support::items(&output, "unused");
    let told = |item: &NewItem| -> Vec<String> {
        let text = |(_, value): &(String, NewValue)| match value {
            NewValue::Text(text) => text.clone(),
            NewValue::Number(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        item.values.iter().map(text).collect()
    };
    let mut told: Vec<Vec<String>> = unused.iter().map(told).collect();
    told.sort();
    let last = own_name(&items[3]);
    assert_eq!(told[0], ["2", "aaaaaaaaaa", "`drop`", "no segment has this sound or this id"]);
    assert_eq!(told[1][..3], ["3", &last, "`join` with the next one"]);
    assert!(told[1][3].contains("no segment follows"), "{told:?}");
}

#[test]
fn a_line_may_name_a_clip_by_its_id() {
    let mut bench = Bench::default();
    let mut clip = |id: &str, level: i16| {
        let samples = (0..8_000).map(|at| level * (at % 7 - 3)).collect();
        let audio = bench.blob("audio/wav", wav::write(Clip::mono(8_000, samples)).unwrap().0);
        item(id, &[("audio", audio), ("text", Value::text("Yes."))])
    };
    let clips = [clip("aino-01", 900), clip("other/aino-02", 800), clip("three", 700)];
    // A line by sound comes before one by id.
    let by_sound = format!("x/{},,By sound.,,\nthree,,By id.,,\n", own_name(&clips[2]));
    let table = format!("aino-01,,No.,,\nother/aino-02,drop,,,\n{by_sound}");
    let output = corrected(&mut bench, &table, "quarantine", &clips).unwrap();
    let texts: Vec<_> =
        support::items(&output, "output").iter().map(|item| value(item, "text")).collect();
    let expected = ["No.", "By sound."].map(|text| NewValue::Text(text.to_owned()));
    assert_eq!(texts, expected.iter().map(Some).collect::<Vec<_>>());
    let unused = support::items(&output, "unused");
    let why = value(&unused[0], "reason");
    let told = "another line has the sound of this clip, and takes precedence";
    assert_eq!((unused.len(), why), (1, Some(&NewValue::Text(told.to_owned()))));
}

#[test]
fn parts_of_clips_with_texts_need_texts_of_their_own() {
    let mut bench = Bench::default();
    let clip = |level: i16| Clip::mono(8_000, (0..16_000).map(|at| level * (at % 7 - 3)).collect());
    let audio = bench.blob("audio/wav", wav::write(clip(900)).unwrap().0);
    let clip = item("aino_01", &[("audio", audio), ("text", Value::text("Yes. No."))]);
    let split = format!("aino_01/{},split,,0.5,\n", own_name(&clip));
    let clip = std::slice::from_ref(&clip);
    let output = corrected(&mut bench, &split, "quarantine", clip).unwrap();
    assert!(support::items(&output, "output").is_empty());
    assert!(output.notes.contains(&("parts without text, left out".to_owned(), 2)));
    let kept = bench.parts.values().next().unwrap();
    let first = name(&kept.blob("audio0").unwrap().digest);
    let made = made(&mut bench, &format!("{split}{first},text,Yes.,,\n"), clip);
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].id, format!("aino_01/{first}"));
    assert_eq!(value(&made[0], "text"), Some(&NewValue::Text("Yes.".to_owned())));
}

#[test]
fn two_different_lines_for_one_segment_are_told_with_both() {
    let mut bench = Bench::default();
    let told = corrected(&mut bench, "a,,x,,\nb,drop,,,\nr/a,drop,,,\n", "mark", &[]).unwrap_err();
    let told = told.to_string();
    assert!(told.contains("lines 2 and 4 of the corrections differ for `a`"), "{told}");
}

#[test]
fn sounds_that_cannot_be_read_are_errors_and_not_panics() {
    let mut bench = Bench::default();
    let audio = bench.blob("audio/wav", b"RIFF".to_vec());
    let clip = item("a", &[("audio", audio)]);
    let split = format!("{},split,,0.5,\n", own_name(&clip));
    assert!(corrected(&mut bench, &split, "mark", std::slice::from_ref(&clip)).is_err());
    let other = item("b", &[("text", Value::text("no sound"))]);
    assert_eq!(made(&mut bench, &split, &[other]).len(), 1);
}
