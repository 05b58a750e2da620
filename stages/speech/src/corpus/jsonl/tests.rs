#![allow(clippy::unwrap_used, clippy::expect_used)]
use proptest::prelude::*;

use super::*;

fn rows(text: &str) -> Rows {
    read(text.as_bytes(), &JsonlOptions::default()).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    rows(text).rejects.iter().map(|reject| format!("{}: {}", reject.row, reject.problem)).collect()
}

#[test]
fn lines_of_nemo_and_of_lhotse_are_understood() {
    let nemo = rows("{\"audio_filepath\": \"a/1.wav\", \"text\": \"Hei\", \"duration\": 1.5}\n");
    assert_eq!(
        (nemo.records[0].id.as_str(), nemo.records[0].text.as_deref()),
        ("a/1", Some("Hei"))
    );
    assert_eq!(nemo.records[0].fields["duration"], Value::Number(1.5));
    let lhotse = rows(
        "{\"id\": \"cut-1\", \"recording\": {\"sources\": [{\"source\": \"b.flac\"}]}, \
         \"supervisions\": [{\"text\": \"Moi\", \"speaker\": \"anna\"}]}",
    );
    let cut = &lhotse.records[0];
    assert_eq!(
        (cut.id.as_str(), cut.file.as_str(), cut.speaker.as_deref()),
        ("cut-1", "b.flac", Some("anna"))
    );
}

#[test]
fn a_byte_order_mark_before_the_first_line_is_no_part_of_it() {
    let read = rows("\u{feff}{\"path\": \"a.wav\", \"text\": \"x\"}\n");
    assert_eq!((read.records.len(), read.rejects.len()), (1, 0));
}

#[test]
fn names_can_be_declared() {
    let options = JsonlOptions { file: vec!["x.y".to_owned()], ..JsonlOptions::default() };
    let rows = read(b"{\"x\": {\"y\": \"a.wav\"}, \"text\": \"Hei\"}\n", &options).unwrap();
    assert_eq!(rows.records[0].file, "a.wav");
}

#[test]
fn a_line_that_cannot_be_used_says_where_and_why() {
    let good = "{\"path\": \"a.wav\", \"text\": \"x\"}\n";
    assert_eq!(
        problems(&format!("{good}{{\"path\": \"b.wav\", \"te")),
        ["2: the line ends in the middle of the JSON value (column 21); the file was cut short"]
    );
    assert_eq!(problems(&format!("\n[1]\n{good}")), ["2: the line is a JSON list, not an object"]);
    assert_eq!(
        problems("{\"path\": \"b.wav\", \"text\": \"x\", \"text\": \"y\"}\n"),
        ["1: the line has the key `text` twice"]
    );
    assert_eq!(
        problems("{\"path\": 1 2}\n"),
        ["1: column 12 of the line is not JSON: expected `,` or `}`"]
    );
    assert_eq!(
        problems("{\"path\": \"../b\", \"text\": \"x\"}"),
        ["1: the audio path `../b` leads outside its folder"]
    );
    assert_eq!(
        problems("{\"path\": [], \"text\": \"x\"}"),
        ["1: the key `path` holds list, not a text"]
    );
    assert_eq!(
        problems("{\"path\": \"rec cmd |\", \"text\": \"x\"}"),
        [
            "1: the audio path `rec cmd |` is a command (it ends or begins with a bar); commands are never run"
        ]
    );
    assert!(
        problems("{\"text\": \"x\"}\n")[0]
            .starts_with("1: it has none of the keys `audio_filepath`, ")
    );
}

#[test]
fn deep_nesting_and_lone_surrogates_are_one_bad_line_each() {
    let text = format!("{}\n{{\"path\": \"a\", \"text\": \"\\ud800\"}}\n", "[".repeat(100_000));
    assert_eq!(rows(&text).rejects.len(), 2);
}

fn parts(text: &str) -> Vec<(String, f64, Option<f64>, Option<u16>)> {
    let rows = rows(text);
    assert!(rows.rejects.is_empty(), "{:?}", rows.rejects);
    let part = |record: &RowRecord| {
        let part = record.part.unwrap();
        (record.id.clone(), part.start, part.seconds, part.channel)
    };
    rows.records.iter().map(part).collect()
}

#[test]
fn offsets_of_nemo_are_parts_and_a_duration_alone_is_one_of_the_whole() {
    let one =
        "{\"audio_filepath\": \"a.wav\", \"offset\": 0.5, \"duration\": 1.25, \"text\": \"x\"}\n";
    assert_eq!(parts(one), [("a".to_owned(), 0.5, Some(1.25), None)]);
    let first = "{\"audio_filepath\": \"a.wav\", \"duration\": 0.5, \"text\": \"y\"}\n";
    let expected = [
        ("a-0000500-0001750".to_owned(), 0.5, Some(1.25), None),
        ("a-0000000-0000500".to_owned(), 0.0, Some(0.5), None),
    ];
    assert_eq!(parts(&format!("{one}{first}")), expected);
    let whole = rows(first);
    assert_eq!(whole.records[0].part, None);
    let off = JsonlOptions { parts: PartRule::Off, ..JsonlOptions::default() };
    let off = read(one.as_bytes(), &off).unwrap();
    assert_eq!(
        (off.records[0].part, &off.records[0].fields["offset"]),
        (None, &Value::Number(0.5))
    );
}

#[test]
fn parts_without_an_end_or_with_several_channels_are_refused() {
    let told = |keys: &str| problems(&format!("{{\"path\": \"a.wav\", \"text\": \"x\", {keys}}}"));
    assert_eq!(told("\"offset\": 1"), [format!("1: {}", RowProblem::NoEnd)]);
    assert_eq!(
        told("\"start\": 2, \"end\": 2"),
        ["1: its part of the file is empty: from 2.000 s to 2.000 s"]
    );
    assert_eq!(
        told("\"channel_selector\": [0, 1]"),
        ["1: the key `channel_selector` names several channels; a clip has one"]
    );
    assert!(told("\"start\": -1, \"end\": 2")[0].contains("`start` has `-1`"));
}

#[test]
fn two_whole_recordings_with_different_texts_are_refused() {
    let line = |id: &str, text: &str, more: &str| {
        format!("{{\"id\": \"{id}\", \"path\": \"a.wav\", \"text\": \"{text}\"{more}}}\n")
    };
    let two = problems(&(line("a", "x", "") + &line("b", "y", "")));
    assert_eq!(two.len(), 2);
    assert!(two[0].starts_with("1: rows 1 and 2 are both the whole recording `a.wav`"), "{two:?}");
    assert_eq!(problems(&(line("a", "x", "") + &line("b", "x", ""))), Vec::<String>::new());
    let channels = line("a", "x", ", \"channel\": 0") + &line("b", "y", ", \"channel\": 1");
    assert_eq!(parts(&channels)[1], ("b".to_owned(), 0.0, None, Some(1)));
}

/// A cut of lhotse from 10 s to 14 s of the second channel of a recording.
fn cut(supervisions: &str, more: &str) -> String {
    format!(
        "{{\"id\": \"c\", \"start\": 10.0, \"duration\": 4.0, \"channel\": 1, \"supervisions\": \
         [{supervisions}], \"recording\": {{\"id\": \"r\", \"sources\": [{{\"type\": \"file\", \
         \"channels\": [0, 1], \"source\": \"r.wav\"}}]{more}}}, \"type\": \"MonoCut\"}}\n"
    )
}

fn supervision(text: &str, start: f64, duration: f64) -> String {
    format!(
        "{{\"id\": \"s\", \"recording_id\": \"r\", \"start\": {start}, \"duration\": {duration}, \
         \"channel\": 1, \"text\": \"{text}\"}}"
    )
}

#[test]
fn each_supervision_of_a_cut_is_a_clip() {
    let one = cut(&supervision("x", 0.0, 4.0), "");
    assert_eq!(parts(&one), [("c".to_owned(), 10.0, Some(4.0), Some(1))]);
    let within = cut(&supervision("x", 1.0, 2.0), "");
    assert_eq!(parts(&within), [("c".to_owned(), 11.0, Some(2.0), Some(1))]);
    let two = cut(&[supervision("x", 0.0, 1.0), supervision("y", 1.5, 2.5)].join(", "), "");
    let expected = [
        ("c-0".to_owned(), 10.0, Some(1.0), Some(1)),
        ("c-1".to_owned(), 11.5, Some(2.5), Some(1)),
    ];
    assert_eq!(parts(&two), expected);
    assert_eq!(rows(&two).records[1].text.as_deref(), Some("y"));
    let declared =
        JsonlOptions { text: vec!["supervisions.0.text".to_owned()], ..JsonlOptions::default() };
    assert_eq!(read(two.as_bytes(), &declared).unwrap().records[1].text.as_deref(), Some("y"));
}

#[test]
fn the_source_with_the_channel_is_read() {
    let sources = "\"sources\": [{\"type\": \"file\", \"channels\": [0], \"source\": \"left.wav\"}, \
                   {\"type\": \"file\", \"channels\": [1], \"source\": \"right.wav\"}]";
    let line = cut(&supervision("x", 0.0, 4.0), "").replace(
        "\"sources\": [{\"type\": \"file\", \"channels\": [0, 1], \"source\": \"r.wav\"}]",
        sources,
    );
    let read = rows(&line);
    let part = read.records[0].part.unwrap();
    assert_eq!((read.records[0].file.as_str(), part.channel), ("right.wav", Some(0)));
}

#[test]
fn cuts_that_are_more_than_a_part_of_a_file_are_refused() {
    let good = supervision("x", 0.0, 4.0);
    let told = |line: &str| problems(line).remove(0);
    let mixed = "{\"id\": \"m\", \"tracks\": [], \"type\": \"MixedCut\"}";
    assert!(told(mixed).contains("type `MixedCut`"));
    let fast =
        cut(&good, ", \"transforms\": [{\"name\": \"Speed\", \"kwargs\": {\"factor\": 1.1}}]");
    assert!(told(&fast).contains("transform `Speed`"));
    assert!(told(&cut(&good, "").replace("\"file\"", "\"command\"")).contains("type `command`"));
    assert!(
        told(&cut(&supervision("x", -1.0, 5.0), ""))
            .contains("supervision is from -1.000 s to 4.000 s")
    );
    let alone = supervision("x", 0.0, 4.0);
    assert!(told(&alone).contains("a supervision without its recording"));
    let both = cut(&good, "").replace("\"channel\": 1", "\"channel\": [0, 1]");
    assert!(told(&both).contains("several channels"));
}

#[test]
fn files_that_are_no_json_lines_are_named() {
    let error = |text: &str| read(text.as_bytes(), &JsonlOptions::default()).unwrap_err();
    assert_eq!(
        error("a.wav|Hei\nb.wav|Moi\n"),
        CorpusError::NotJsonLines { line: "a.wav|Hei".to_owned() }
    );
    assert_eq!(error("[\n{\"path\": \"a.wav\", \"text\": \"x\"}\n]\n"), CorpusError::JsonList);
    assert_eq!(error("{\"path\": \"a\"}\r{\"path\": \"b\"}\r"), CorpusError::CarriageReturns);
    assert_eq!(error("{\0\"\0p\0a\0t\0h\0"), CorpusError::Utf16);
}

proptest! {
    #[test]
    fn any_bytes_give_rows_or_rejects(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes, &JsonlOptions::default());
    }

    #[test]
    fn a_file_cut_anywhere_loses_only_its_last_line(cut in 0usize..120) {
        let text: String = (0..3).map(|n| format!("{{\"path\": \"{n}.wav\", \"text\": \"äö\"}}\n")).collect();
        let cut = cut.min(text.len());
        let rows = read(&text.as_bytes()[..cut], &JsonlOptions::default()).unwrap();
        let whole = text.as_bytes()[..cut].iter().filter(|byte| **byte == b'\n').count();
        prop_assert!(rows.records.len() >= whole);
        prop_assert!(rows.rejects.len() <= 1);
    }
}
