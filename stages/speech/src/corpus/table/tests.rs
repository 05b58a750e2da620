#![allow(clippy::unwrap_used, clippy::expect_used)]
use proptest::prelude::*;

use super::*;
use crate::corpus::{QuarantinedRow, Value};

fn rows(text: &str) -> Rows {
    read(text.as_bytes(), &TableOptions::default()).unwrap()
}

fn brief(record: &RowRecord) -> (&str, &str, Option<&str>) {
    (&record.id, record.text.as_deref().unwrap(), record.speaker.as_deref())
}

fn problem(text: &str) -> String {
    let rows = rows(text);
    assert_eq!(rows.rejects.len(), 1, "{:?}", rows.rejects);
    rows.rejects[0].problem.to_string()
}

#[test]
fn two_columns_are_file_and_text() {
    let rows = rows("a.wav|Yksi, kaksi\r\nb.wav|Kolme\r\n");
    let found: Vec<_> = rows.records.iter().map(brief).collect();
    assert_eq!(found, [("a", "Yksi, kaksi", None), ("b", "Kolme", None)]);
}

#[test]
fn three_columns_are_told_apart_by_where_sentences_stand() {
    let plain = rows("a|Yksi kaksi|anna\nb|Kolme neljä|olli\n");
    assert_eq!(brief(&plain.records[0]), ("a", "Yksi kaksi", Some("anna")));
    let speaker_first = rows("a|anna|Yksi kaksi\nb|olli|Kolme neljä\n");
    assert_eq!(brief(&speaker_first.records[1]), ("b", "Kolme neljä", Some("olli")));
    let ljspeech =
        rows("LJ001-0001|Dr. \"No\" 1|doctor no one\nLJ001-0002|on 2 legs|on two legs\n");
    assert_eq!(brief(&ljspeech.records[0]), ("LJ001-0001", "doctor no one", None));
    let raw = Value::Text("Dr. \"No\" 1".to_owned());
    assert_eq!(ljspeech.records[0].fields["raw_text"], raw);
}

#[test]
fn a_header_names_the_columns_and_the_rest_are_fields() {
    let rows = rows(
        "client_id\tpath\tsentence\tup_votes\n7f\tc/1.mp3\tHei \"sinä\tno\"\t2\n7f\tc/2.mp3\tHei\t3\n",
    );
    assert_eq!(rows.records.len(), 1);
    assert_eq!(brief(&rows.records[0]), ("c/2", "Hei", Some("7f")));
    assert_eq!(rows.records[0].fields["up_votes"], Value::Text("3".to_owned()));
    assert_eq!((rows.records[0].row, rows.rejects[0].row), (3, 2));
}

#[test]
fn declared_columns_overrule_and_can_skip() {
    let options = TableOptions {
        columns: ["file", "-", "text", "mood"].map(String::from).to_vec(),
        ..TableOptions::default()
    };
    let rows = read(b"a.wav|x|Hei|glad\n", &options).unwrap();
    assert_eq!(brief(&rows.records[0]), ("a", "Hei", None));
    assert_eq!(rows.records[0].fields.len(), 1);
    let few = read(b"a.wav|Hei\n", &options).unwrap_err();
    assert_eq!(
        few.to_string(),
        "`columns` names 4 columns, but the first row has 2, separated by bars"
    );
}

#[test]
fn comma_tables_may_quote_cells_over_several_lines() {
    let rows = rows("file,text\n\"a.wav\",\"Yksi, \"\"kaksi\"\"\nkolme\"\n\nb.wav,Neljä\n");
    assert_eq!(brief(&rows.records[0]), ("a", "Yksi, \"kaksi\"\nkolme", None));
    assert_eq!((rows.records[1].row, rows.records[1].offset), (5, 43));
}

#[test]
fn a_quote_that_swallows_the_file_is_an_error_that_says_where() {
    let error =
        read(b"file,text\na,ok\nb,\"open\nc,ok\nd,ok\n", &TableOptions::default()).unwrap_err();
    assert_eq!(error, CorpusError::UnclosedQuote { row: 3, offset: 15 });
}

#[test]
fn a_table_cut_inside_a_quoted_cell_is_not_taken_for_whole() {
    let error = read(b"file,text\na,ok\nb,\"cut sho", &TableOptions::default()).unwrap_err();
    assert_eq!(error, CorpusError::UnclosedQuote { row: 3, offset: 15 });
    assert_eq!(rows("file,text\na,a 5\" pipe").records.len(), 1);
}

#[test]
fn row_numbers_and_offsets_count_blank_lines_and_the_byte_order_mark() {
    let rows = rows("\u{FEFF}\r\n\na|x y\n\n\r\n\nb|\n");
    assert_eq!((rows.records[0].row, rows.records[0].offset), (3, 6));
    assert_eq!((rows.rejects[0].row, rows.rejects[0].offset), (7, 16));
}

#[test]
fn each_bad_row_says_what_is_wrong_and_the_others_stay() {
    assert_eq!(problem("a|x\nb|y|z\n"), "the row has 3 columns instead of 2, separated by bars");
    assert_eq!(problem("a|x\nb|\n"), "the column `text` is empty");
    assert_eq!(problem("a|x\nb|y\0\n"), "the column `text` contains the invalid character U+0000");
    assert_eq!(problem("a|x\n../b|y\n"), "the audio path `../b` leads outside its folder");
    let speaker = "file|text|speaker\na|x|s\nb|y|s\u{202E}t\n";
    assert_eq!(problem(speaker), "the column `speaker` contains the invalid character U+202E");
}

#[test]
fn bytes_that_are_not_utf8_cost_one_row() {
    let rows = read(b"a|x\nb|\xE4\xE4\nc|z\n", &TableOptions::default()).unwrap();
    assert_eq!(rows.records.len(), 2);
    assert_eq!(rows.rejects[0].problem, RowProblem::NotUtf8 { at: 2 });
}

#[test]
fn a_row_of_ten_megabytes_is_rejected_and_not_kept() {
    let text = format!("a|x\nb|{}\nc|z\n", "y".repeat(10 << 20));
    let rows = rows(&text);
    assert_eq!(rows.records.len(), 2);
    assert_eq!(rows.rejects[0].problem, RowProblem::TooLong { bytes: (10 << 20) + 3 });
}

#[test]
fn rows_that_share_an_id_are_all_rejected_unless_they_are_the_same() {
    let rows = rows("a.wav|x\nb.wav|y\na.flac|z\nb.wav|y\n");
    let found: Vec<_> = rows.records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(found, ["b"]);
    let clash = RowProblem::DuplicateId { id: "a".to_owned(), first: 1, second: 3 };
    let expected: Vec<(u64, RowProblem)> =
        vec![(1, clash.clone()), (3, clash), (4, RowProblem::Repeated { first: 2 })];
    let found: Vec<_> = rows
        .rejects
        .into_iter()
        .map(|QuarantinedRow { row, problem, .. }| (row, problem))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn what_makes_the_whole_table_meaningless_is_an_error() {
    let error =
        |text: &str| read(text.as_bytes(), &TableOptions::default()).unwrap_err().to_string();
    assert_eq!(error(""), "the table is empty");
    assert_eq!(
        error("hello\n"),
        "the first row has one column: it has no bar, tab, comma or semicolon"
    );
    assert_eq!(error("a|b|c|d\n"), "the first row has 4 columns, separated by bars, and no header");
    assert_eq!(
        error("path|wav|text\n"),
        "the columns `path` and `wav` both look like the file; set `columns`"
    );
    assert_eq!(read(b"\xFF\xFEa\0", &TableOptions::default()).unwrap_err(), CorpusError::Utf16);
}

#[test]
fn a_semicolon_separates_where_it_comes_first() {
    let quoted = rows("file;text\n\"a.wav\";\"Yksi; kaksi, kolme\"\n");
    assert_eq!(brief(&quoted.records[0]), ("a", "Yksi; kaksi, kolme", None));
    assert_eq!(brief(&rows("a.wav;Hei, sinä\n").records[0]), ("a", "Hei, sinä", None));
    assert_eq!(brief(&rows("a.wav,Hei; sinä\n").records[0]), ("a", "Hei; sinä", None));
}

#[test]
fn files_that_are_no_tables_are_named() {
    let error = |text: &str| read(text.as_bytes(), &TableOptions::default()).unwrap_err();
    assert_eq!(error("{\"path\": \"a.wav\", \"text\": \"x|y\"}\n"), CorpusError::JsonLines);
    assert_eq!(error("a.wav|x\rb.wav|y\r"), CorpusError::CarriageReturns);
    assert_eq!(error("a\0.\0w\0a\0v\0|\0x\0\n\0"), CorpusError::Utf16);
    assert!(matches!(error("PAR1\0\0"), CorpusError::Binary { what: "Parquet", .. }));
    assert_eq!(rows("a.wav|x\n{\"b\": 1}|y\n").records.len(), 2);
}

#[test]
fn start_and_end_are_parts_of_a_file() {
    let table = "file,start,end,text\na.wav,0.5,1.25,x\na.wav,1.25,2,y\nb.wav,,,z\n";
    let found: Vec<_> = rows(table)
        .records
        .into_iter()
        .map(|record| (record.id, record.part.map(|part| (part.start, part.seconds))))
        .collect();
    assert_eq!(
        found,
        [
            ("a-0000500-0001250".to_owned(), Some((0.5, Some(0.75)))),
            ("a-0001250-0002000".to_owned(), Some((1.25, Some(0.75)))),
            ("b".to_owned(), None),
        ]
    );
    let off = TableOptions { parts: PartRule::Off, ..TableOptions::default() };
    let off = read(b"file,start,end,text\na.wav,0.5,1.25,x\n", &off).unwrap();
    assert_eq!(off.records[0].part, None);
    assert_eq!(off.records[0].fields["end"], Value::Text("1.25".to_owned()));
    let told = "file,start,text\na.wav,0.5,x\n";
    assert!(problem(told).starts_with("it has a start but neither an end nor a duration; add one"));
}

/// The message and the advice.
fn refused(text: &str, options: &TableOptions) -> (String, String) {
    let error = read(text.as_bytes(), options).unwrap_err();
    (error.to_string(), error.help().unwrap())
}

#[test]
fn the_advice_on_separators_fits_the_table() {
    let (_, help) = refused("utt1 Hello there.\nutt2 Good day.\n", &TableOptions::default());
    assert!(help.contains("`a.wav|Hello.`") && !help.contains("`separator`"), "{help}");
    let comma = TableOptions { separator: Separator::Comma, ..TableOptions::default() };
    for header in [HeaderRow::Auto, HeaderRow::Yes] {
        let options = TableOptions { header, ..comma.clone() };
        let (message, help) = refused("file|text\na.wav|Hello.\n", &options);
        assert_eq!(message, "the first row has one column, since it has no commas");
        assert!(help.contains("remove `separator`"), "{help}");
    }
    let columns = ["file", "text"].map(str::to_owned).to_vec();
    let (message, _) = refused("a.wav|Hello.\n", &TableOptions { columns, ..comma });
    assert_eq!(message, "the first row has one column, since it has no commas");
    let bare = "a.wav,Yes, I do, too.\nb.wav,No.\n";
    let (message, help) = refused(bare, &TableOptions::default());
    assert_eq!(message, "the first row has 4 columns, separated by commas, and no header");
    assert!(help.starts_with("the rows have 2 to 4 columns, so a text seems to have commas"));
}

#[test]
fn a_table_without_a_text_tells_its_columns() {
    let without = |text: &str| rows(text).columns_without_text;
    let named = |columns: [&str; 2]| {
        let columns = columns.map(str::to_owned).to_vec();
        read(b"a.wav|anna\n", &TableOptions { columns, ..TableOptions::default() }).unwrap()
    };
    assert_eq!(named(["file", "speaker"]).columns_without_text.as_deref(), Some("file, speaker"));
    assert_eq!(named(["file", "text"]).columns_without_text, None);
    assert_eq!(without("a.wav|Hei\n"), None);
    assert_eq!(without("file,text\na.wav,Hei\n"), None);
}

#[test]
fn the_files_of_rejected_rows_are_known() {
    let rows = rows("a.wav|\n./b.wav|Hei\nc.wav|Yksi\nc.wav|Kaksi\n");
    assert_eq!(rows.records.len(), 1);
    let mut files = rows.rejected_files;
    files.dedup();
    assert_eq!(files, ["a.wav", "c.wav"]);
}

#[test]
fn names_of_columns_tell_a_header_line() {
    for (line, expected) in [
        ("file|text|speaker", true),
        ("\"path\",\"sentence\"", true),
        ("a.wav|text", false),
        ("Hei.", false),
    ] {
        assert_eq!(is_header_line(line), expected, "{line}");
    }
}

#[test]
fn a_table_without_a_header_gets_a_proposal_for_its_columns() {
    let proposal = |text: &str| match read(text.as_bytes(), &TableOptions::default()).unwrap_err() {
        CorpusError::UnknownColumns { proposal, .. } | CorpusError::UnclearColumns { proposal } => {
            proposal
        }
        other => panic!("{other}"),
    };
    let sovits = "wavs/a.wav|anna|EN|Hello there you.\nwavs/b.wav|anna|EN|Good day to you.\n";
    assert_eq!(proposal(sovits), r#"["file", "speaker", "language", "text"]"#);
    let numbers: String = (0..20).map(|at| format!("wavs/{at}.wav|{at}|Sana {at} on.\n")).collect();
    assert_eq!(proposal(&numbers), r#"["file", "speaker", "text"]"#);
    let timed = "a.wav|0.5|1.5|Hello there you.\na.wav|1.5|3.0|Good day to you.\n";
    assert_eq!(proposal(timed), r#"["file", "start", "end", "text"]"#);
    let last = "Hello there you.|x|a.wav|1\nGood day to you.|y|b.wav|2\n";
    assert_eq!(proposal(last), r#"["text", "speaker", "file", "-"]"#);
    let help = read(sovits.as_bytes(), &TableOptions::default()).unwrap_err().help().unwrap();
    assert!(
        help.contains(r#"write `columns = ["file", "speaker", "language", "text"]`"#),
        "{help}"
    );
}

proptest! {
    #[test]
    fn any_bytes_give_rows_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400), quoted: bool) {
        let quoting = if quoted { Quoting::On } else { Quoting::Off };
        if let Ok(rows) = read(&bytes, &TableOptions { quoting, ..TableOptions::default() }) {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            prop_assert!(rows.records.len() + rows.rejects.len() <= lines);
        }
    }

    #[test]
    fn tables_made_of_plain_cells_come_back_cell_by_cell(
        cells in proptest::collection::vec(("[a-z]{1,8}", "[a-zäö\"',]{1,12}"), 1..20),
        blank in 0usize..3, crlf: bool,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let table: String = cells.iter().enumerate()
            .map(|(index, (file, text))| format!("{index}{file}|{text}{end}{}", end.repeat(blank)))
            .collect();
        let rows = read(table.as_bytes(), &TableOptions::default()).unwrap();
        prop_assert_eq!(rows.records.len(), cells.len());
        for (index, (record, (file, text))) in rows.records.iter().zip(&cells).enumerate() {
            prop_assert_eq!(&record.id, &format!("{index}{file}"));
            prop_assert_eq!(record.text.as_deref().unwrap(), text);
            prop_assert_eq!(record.row as usize, 1 + index * (1 + blank));
            prop_assert!(table[record.offset as usize..].starts_with(&record.id));
        }
    }
}
