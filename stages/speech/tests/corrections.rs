//! `corpus.corrections`: lines of a table belong to the sound of segments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use stage_core::{Item, Job, NewValue, Output, Reject, Setup, StageError, Value};
use support::*;

/// The results for these segments with this table.
fn corrected(
    bench: &mut Bench,
    table: &str,
    items: &[Item],
) -> Result<Vec<Result<Output, Reject>>, StageError> {
    let Value::Blob(table) = bench.blob("text/csv", table.as_bytes().to_vec()) else { panic!() };
    let kind = stage("corpus.corrections").kind();
    let setup = Setup {
        parameters: parameters(kind, &[]),
        files: [("table".to_owned(), (*table).clone())].into(),
        ..Setup::default()
    };
    let Job::Item(job) = bench.open("corpus.corrections", setup)? else { panic!() };
    job.process(items, bench)
}

/// A segment cut by `audio.segment`, so that its id has the name of its sound.
fn segments(bench: &mut Bench) -> Vec<Item> {
    let clip = |level: i16| {
        let samples = (0..16_000).map(|at| level * (at % 7 - 3)).collect();
        stage_speech::audio::wav::write(stage_speech::audio::Clip::mono(8_000, samples)).unwrap().0
    };
    let mut found = Vec::new();
    for (recording, level) in [("one", 900), ("two", 700), ("three", 500)] {
        let audio = bench.blob("audio", clip(level));
        let whole = item(recording, &[("audio", audio), ("text", Value::text("No."))]);
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
    found
}

#[test]
fn texts_are_replaced_and_segments_dropped_wherever_they_are() {
    let mut bench = Bench::default();
    let items = segments(&mut bench);
    assert_eq!(items.len(), 3);
    let name = |at: usize| items[at].id.rsplit('/').next().unwrap().to_owned();
    assert!(name(0).len() == 10 && name(0).bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')));
    // The first line has the id of another recording in front: the sound was moved.
    let table = format!(
        "segment,text,action,who\nbook/{},\"Yes, indeed.\",,ann\n{},,drop,bob\n",
        name(0),
        name(1)
    );
    let results = corrected(&mut bench, &table, &items).unwrap();
    let text = ("text".to_owned(), NewValue::Text("Yes, indeed.".to_owned()));
    assert_eq!(results[0].as_ref().unwrap().values, [text]);
    assert_eq!(results[1].as_ref().unwrap_err().code, "dropped");
    assert_eq!(results[2], Ok(Output::default()));
}

#[test]
fn mistakes_in_the_table_are_told_with_their_line() {
    let mut bench = Bench::default();
    let mut told = |lines: &str| {
        let table = format!("segment,text,action\n{lines}");
        corrected(&mut bench, &table, &[]).unwrap_err().to_string()
    };
    assert!(told("a,x,\nb,,\n").contains("line 3 of the corrections has neither"));
    assert!(told("a,x,join\n").contains("has the action `join`"));
    assert!(told("a,x,\na,y,\n").contains("line 3 corrects `a` in another way"));
    // Two people may have made the same correction.
    assert_eq!(corrected(&mut bench, "segment,text\na,x\nr/a,x\n", &[]).unwrap(), []);
}
