//! Files written by the libraries of other projects; see `corpus_fixtures/make.py`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::Bytes;
use stage_formats::npy::IntArray;
use stage_formats::protos as shards;
use stage_speech::corpus::{CorpusError, Rows, Value, parquet};
use stage_speech::dataset::pack::{PackClip, protos};

const TWO_SPEAKERS: &[u8] = include_bytes!("corpus_fixtures/two_speakers.protos");

fn entry(id: &str, speaker: &str) -> PackClip {
    let seed = i64::from(id.as_bytes()[0]) + i64::from(id.as_bytes()[1] - b'0');
    let code = |row: i64, frame: i64| (seed * 1000 + row * 400 + frame * 131) % 4096;
    let values = (0..10).flat_map(|row| (0..4).map(move |frame| code(row, frame))).collect();
    PackClip {
        id: id.to_owned(),
        speaker: speaker.to_owned(),
        text: format!("Hyvää päivää {id}"),
        codes: IntArray { shape: vec![10, 4], values },
    }
}

#[test]
fn shards_are_to_the_byte_what_protobuf_makes_of_the_message_definition() {
    let entries = [entry("b1", "olli"), entry("a2", "anna"), entry("a1", "anna")];
    assert_eq!(protos::write(&entries).unwrap(), TWO_SPEAKERS);
}

#[test]
fn shards_of_protobuf_are_read() {
    let records = shards::read(TWO_SPEAKERS).unwrap();
    let names: Vec<(&str, usize)> =
        records.iter().map(|record| (record.name.as_str(), record.sentences.len())).collect();
    assert_eq!(names, [("anna", 2), ("olli", 1)]);
    assert_eq!(records[0].sentences[1].texts, ["Hyvää päivää a2"]);
    assert_eq!(records[0].sentences[1].semantics.len(), 10);
}

fn read(file: &'static [u8]) -> Result<(Rows, usize), CorpusError> {
    let mut bytes = 0;
    let clips = parquet::read(
        Bytes::from_static(file),
        &parquet::ParquetOptions::default(),
        |_, audio| {
            bytes += audio.len();
            Ok::<(), CorpusError>(())
        },
    )?;
    Ok((clips.rows, bytes))
}

#[test]
fn parquet_files_of_arrow_are_read_with_pages_of_both_versions() {
    for file in [
        &include_bytes!("corpus_fixtures/snappy.parquet")[..],
        include_bytes!("corpus_fixtures/snappy_pages_2.parquet"),
    ] {
        let (rows, bytes) = read(file).unwrap();
        let found: Vec<(&str, Option<&str>, Option<&str>)> = rows
            .records
            .iter()
            .map(|record| (record.id.as_str(), record.text.as_deref(), record.speaker.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("clip0", Some("Yksi"), Some("anna")),
                ("clip1", Some("Kaksi"), Some("olli")),
                ("clip2", Some("Kolme"), Some("anna")),
                ("clip4", Some("Viisi"), None),
            ]
        );
        assert_eq!(rows.records[0].fields["age"], Value::Number(20.0));
        assert!(!rows.records[2].fields.contains_key("age"));
        assert_eq!((rows.rejects[0].row, rows.rejects[0].offset, bytes), (4, 1, 4 * 44));
    }
}

#[test]
fn another_compression_is_named_with_its_column() {
    let error = read(include_bytes!("corpus_fixtures/gzip.parquet")).unwrap_err();
    assert!(
        error.to_string().starts_with("the column `audio.bytes` is compressed with GZIP"),
        "{error}"
    );
}
