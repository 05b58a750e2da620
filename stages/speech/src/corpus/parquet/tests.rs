#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use stage_core::FileParts;

use super::*;

const SCHEMA: &str = "message schema {
  optional group audio { optional binary bytes; optional binary path (UTF8); }
  optional binary sentence (UTF8);
  optional int64 speaker_id;
  optional double up_votes;
}";

struct Clip {
    bytes: Option<&'static [u8]>,
    path: &'static str,
    text: &'static str,
    speaker: i64,
}

/// Writes clips as Hugging Face does, two to a row group.
fn file(clips: &[Clip], compression: Compression) -> Bytes {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    for group in clips.chunks(2) {
        let mut row_group = writer.next_row_group().unwrap();
        let mut index = 0;
        while let Some(mut column) = row_group.next_column().unwrap() {
            let texts: Vec<Option<&[u8]>> = group
                .iter()
                .map(|clip| match index {
                    0 => clip.bytes,
                    1 => Some(clip.path.as_bytes()),
                    _ => Some(clip.text.as_bytes()),
                })
                .collect();
            let present = if index < 2 { 2 } else { 1 };
            let levels: Vec<i16> = texts
                .iter()
                .map(|text| if text.is_some() { present } else { present - 1 })
                .collect();
            match index {
                0..=2 => {
                    let values: Vec<ByteArray> =
                        texts.iter().flatten().map(|text| ByteArray::from(text.to_vec())).collect();
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)
                        .unwrap();
                }
                3 => {
                    let values: Vec<i64> = group.iter().map(|clip| clip.speaker).collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None).unwrap();
                }
                _ => {
                    let values = vec![2.5; group.len()];
                    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None).unwrap();
                }
            }
            column.close().unwrap();
            index += 1;
        }
        row_group.close().unwrap();
    }
    writer.into_inner().unwrap().into()
}

fn read_all(file: Bytes) -> Result<(Rows, Vec<(u64, Bytes)>), CorpusError> {
    read_parts(Arc::new(file))
}

fn read_parts(file: Arc<dyn FileParts>) -> Result<(Rows, Vec<(u64, Bytes)>), CorpusError> {
    let mut kept = Vec::new();
    let clips =
        read(Pages(file), &ParquetOptions::default(), |row, bytes| -> Result<(), CorpusError> {
            kept.push((row, bytes));
            Ok(())
        })?;
    Ok((clips.rows, kept))
}

fn clips() -> Vec<Clip> {
    vec![
        Clip { bytes: Some(b"RIFF1"), path: "a.mp3", text: "Yksi", speaker: 7 },
        Clip { bytes: Some(b"RIFF2"), path: "/data/x/b.mp3", text: "Kaksi", speaker: 8 },
        Clip { bytes: None, path: "c.mp3", text: "Kolme", speaker: 8 },
        Clip { bytes: Some(b"RIFF4"), path: "d.mp3", text: "", speaker: 8 },
    ]
}

#[test]
fn audio_text_and_speaker_come_out_row_by_row() {
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let (rows, kept) = read_all(file(&clips(), compression)).unwrap();
        let found: Vec<_> = rows
            .records
            .iter()
            .map(|record| {
                (
                    record.id.as_str(),
                    record.text.as_deref().unwrap(),
                    record.speaker.as_deref().unwrap(),
                )
            })
            .collect();
        assert_eq!(found, [("a", "Yksi", "7"), ("b", "Kaksi", "8")]);
        assert_eq!(rows.records[0].fields["up_votes"], Value::Number(2.5));
        assert_eq!(kept, [(1, Bytes::from("RIFF1")), (2, Bytes::from("RIFF2"))]);
    }
}

#[test]
fn rows_without_audio_or_text_are_named_with_their_row_group() {
    let (rows, _) = read_all(file(&clips(), Compression::SNAPPY)).unwrap();
    let found: Vec<_> = rows
        .rejects
        .iter()
        .map(|reject| (reject.row, reject.offset, reject.problem.to_string()))
        .collect();
    assert_eq!(
        found[0].2,
        "the audio cell has no bytes, only the path `c.mp3`: the table does not contain its audio"
    );
    assert_eq!((found[1].0, found[1].1, found[1].2.as_str()), (4, 1, "the column `text` is empty"));
}

#[test]
fn a_declared_column_that_is_not_there_is_an_error_with_the_columns() {
    let options = ParquetOptions { text: Some("words".to_owned()), ..ParquetOptions::default() };
    let error =
        read(file(&clips(), Compression::SNAPPY), &options, |_, _| Ok::<(), CorpusError>(()));
    assert_eq!(
        error.unwrap_err().to_string(),
        "`text_column`: there is no column `words`; found: audio, sentence, speaker_id, up_votes"
    );
}

/// Records the largest request.
struct Asked {
    file: Bytes,
    most: AtomicUsize,
}

impl FileParts for Asked {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.most.fetch_max(buffer.len(), Ordering::Relaxed);
        self.file.read_at(buffer, offset)
    }
}

#[test]
fn a_file_of_many_row_groups_is_read_a_page_at_a_time() {
    let recording: &'static [u8] = &[7; 20_000];
    let names: Vec<String> = (0..100).map(|number| format!("{number}.mp3")).collect();
    let clip =
        |name: &'static str| Clip { bytes: Some(recording), path: name, text: "x", speaker: 1 };
    let clips: Vec<Clip> = names.iter().map(|name| clip(name.clone().leak())).collect();
    let file = file(&clips, Compression::UNCOMPRESSED);
    assert!(file.len() > 1_000_000, "each row group has a recording of its own");
    let asked = Arc::new(Asked { file, most: AtomicUsize::new(0) });
    let (rows, kept) = read_parts(asked.clone()).unwrap();
    assert_eq!((rows.records.len(), kept.len()), (100, 100));
    assert!(asked.most.load(Ordering::Relaxed) < 100_000, "{asked:?}", asked = asked.most);
}

#[test]
fn clips_without_a_path_or_with_a_common_one_are_numbered() {
    let clip = |path, text| Clip { bytes: Some(b"RIFF"), path, text, speaker: 1 };
    for path in ["", "audio.wav"] {
        let file = file(&[clip(path, "x"), clip(path, "y")], Compression::SNAPPY);
        let options = ParquetOptions { name: "train-0".to_owned(), ..ParquetOptions::default() };
        let keep = |_, _| Ok::<(), CorpusError>(());
        let found = read(Pages(Arc::new(file)), &options, keep).unwrap();
        let ids: Vec<&str> = found.rows.records.iter().map(|record| record.id.as_str()).collect();
        assert_eq!((ids, found.numbered), (vec!["train-0-000001", "train-0-000002"], 2), "{path}");
    }
}

#[test]
fn mistakes_in_the_columns_name_the_parameter() {
    let told = |audio: &str| {
        let options = ParquetOptions { audio: Some(audio.to_owned()), ..ParquetOptions::default() };
        let keep = |_, _| Ok::<(), CorpusError>(());
        read(file(&clips(), Compression::SNAPPY), &options, keep).unwrap_err().to_string()
    };
    assert!(told("sentence").starts_with("`audio_column`: the column `sentence` has no audio"));
    assert!(told("sound").starts_with("`audio_column`: there is no column `sound`"));
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(
        read_all(Bytes::from("PAR1 not really PAR1")),
        Err(CorpusError::NotParquet { .. })
    ));
    assert!(matches!(read_all(Bytes::new()), Err(CorpusError::NotParquet { .. })));
}

#[test]
fn a_file_without_a_text_tells_its_columns() {
    let bytes = file(&[], Compression::UNCOMPRESSED);
    let without = |text: Option<&str>| {
        let options = ParquetOptions { text: text.map(str::to_owned), ..ParquetOptions::default() };
        let clips = read(bytes.clone(), &options, |_, _| Ok::<(), CorpusError>(())).unwrap();
        clips.rows.columns_without_text
    };
    assert_eq!(without(None), None);
    let schema = SCHEMA.replace("sentence", "words");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let bytes = Bytes::from(writer.into_inner().unwrap());
    let clips = read(bytes, &ParquetOptions::default(), |_, _| Ok::<(), CorpusError>(())).unwrap();
    let columns = "audio, words, speaker_id, up_votes";
    assert_eq!(clips.rows.columns_without_text.as_deref(), Some(columns));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_damaged_file_gives_rows_or_an_error(place in 0usize..4000, byte: u8, length in 0usize..4000) {
        // The messages of the reader's own panics would drown the test's output.
        let mut bytes = file(&clips(), Compression::SNAPPY).to_vec();
        let place = place % bytes.len();
        bytes[place] = byte;
        let _ = read_all(bytes.clone().into());
        bytes.truncate(length);
        let _ = read_all(bytes.into());
    }
}
