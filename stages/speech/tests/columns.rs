//! The meaning of three columns without names.
#![allow(clippy::unwrap_used)]

use stage_speech::corpus::CorpusError;
use stage_speech::corpus::table::{TableOptions, read};

const TEXTS: [&str; 12] = [
    "Aamulla järvi oli aivan tyyni.",
    "Linnut heräsivät ennen meitä, kuten aina.",
    "Keitin kahvia 2 kupillista ja istuin portaille.",
    "Kuka tuolla laulaa?",
    "Hän tuli kotiin kello 17.30 ja nukahti heti.",
    "Sitten satoi.",
    "Vene oli vuotanut koko yön, eikä kukaan huomannut.",
    "Emme tiedä vielä, mitä huomenna tapahtuu.",
    "Junassa oli 12 matkustajaa.",
    "Kirje saapui viimein maanantaina.",
    "Minä olen Anna ja asun Turussa.",
    "Ovi jäi auki.",
];

/// A table of the texts and of another cell for each, in either order.
fn tables(other: impl Fn(usize) -> String) -> [String; 2] {
    let table = |row: &dyn Fn(&str, &str) -> String| {
        let rows = TEXTS.iter().enumerate();
        rows.map(|(at, text)| format!("c{at:02}|{}\n", row(text, &other(at)))).collect()
    };
    [
        table(&|text, other| format!("{text}|{other}")),
        table(&|text, other| format!("{other}|{text}")),
    ]
}

/// Text and speaker of each row, or the error.
fn parsed(table: &str) -> Result<Vec<(String, Option<String>)>, CorpusError> {
    let rows = read(table.as_bytes(), &TableOptions::default())?;
    assert!(rows.rejects.is_empty(), "{:?}", rows.rejects);
    let records = rows.records.into_iter();
    Ok(records.map(|record| (record.text.unwrap(), record.speaker)).collect())
}

fn speakers_are_found(speaker: impl Fn(usize) -> String) {
    let expected: Vec<_> = (0..12).map(|at| (TEXTS[at].to_owned(), Some(speaker(at)))).collect();
    for table in tables(&speaker) {
        assert_eq!(parsed(&table), Ok(expected.clone()), "{table}");
    }
}

fn is_unclear(table: &str) {
    assert!(matches!(parsed(table), Err(CorpusError::UnclearColumns { .. })), "{table}");
}

#[test]
fn speakers_of_one_word_of_two_or_a_single_one_are_found_on_either_side() {
    speakers_are_found(|at| ["aino", "eero", "olli"][at % 3].to_owned());
    speakers_are_found(|at| ["Anna Virtanen", "Olli Mäki"][at % 2].to_owned());
    speakers_are_found(|at| ["Anna Virtanen", "Olli Mäki"][at / 6].to_owned());
    speakers_are_found(|_| "Anna Virtanen".to_owned());
    speakers_are_found(|_| "aino".to_owned());
    speakers_are_found(|at| (at % 4).to_string());
    speakers_are_found(|_| "Anna Maria Virtanen".to_owned());
}

#[test]
fn a_normalised_text_is_no_speaker() {
    let normalised = |at: usize| {
        let text = TEXTS[at].to_lowercase().replace(['.', ',', '?'], "");
        text.replace("1730", "seitsemäntoista kolmekymmentä").replace('2', "kaksi")
    };
    let [ljspeech, _] = tables(normalised);
    let expected: Vec<_> = (0..12).map(|at| (normalised(at), None)).collect();
    assert_eq!(parsed(&ljspeech), Ok(expected));
    let [same, _] = tables(|at| TEXTS[at].to_owned());
    assert!(parsed(&same).unwrap().iter().all(|(_, speaker)| speaker.is_none()));
    // One row is enough.
    let one = "LJ001-0001|Printing, in 1440, was new|Printing, in fourteen forty, was new\n";
    assert_eq!(parsed(one).unwrap()[0].0, "Printing, in fourteen forty, was new");
}

#[test]
fn an_empty_column_is_a_speaker_that_is_not_given() {
    for table in tables(|_| String::new()) {
        let expected: Vec<_> = TEXTS.iter().map(|text| ((*text).to_owned(), None)).collect();
        assert_eq!(parsed(&table), Ok(expected));
    }
    let [some, _] = tables(|at| if at == 3 { "Olli Mäki".to_owned() } else { String::new() });
    assert_eq!(parsed(&some).unwrap()[3].1.as_deref(), Some("Olli Mäki"));
}

#[test]
fn names_beside_few_short_texts_are_taken_in_the_documented_order_with_a_note() {
    let assumed = |table: &str| {
        let rows = read(table.as_bytes(), &TableOptions::default()).unwrap();
        assert!(rows.are_columns_assumed, "{table}");
        let first = &rows.records[0];
        (first.text.clone().unwrap(), first.speaker.clone().unwrap())
    };
    let both = |text: &str, speaker: &str| (text.to_owned(), speaker.to_owned());
    let full = "a|Hei sinä|Anna Virtanen\nb|Kolme neljä|Olli Mäki\n";
    assert_eq!(assumed(full), both("Hei sinä", "Anna Virtanen"));
    let four = "a|yes|s0123\nb|no|s0124\nc|yes|s0125\nd|no|s0126\n";
    assert_eq!(assumed(four), both("yes", "s0123"));
    // Many rows have evidence, or train a voice on a wrong guess.
    is_unclear(&(0..20).map(|at| format!("c{at}|yes{at}|s{at:04}\n")).collect::<String>());
    is_unclear("a|Anna tuli|Anna\n");
    is_unclear("a|anna|moi\nb|anna|hei\nc|anna|joo\n");
    is_unclear("a|Olli Mäki Oja|hei sinä siellä nyt\n");
    is_unclear("a|Hei vaan|0.5\nb|Hei taas|1.5\n");
    assert_eq!(parsed("a|Yksi kaksi|anna\n").unwrap()[0].1.as_deref(), Some("anna"));
}

#[test]
fn a_column_that_is_neither_text_nor_speaker_is_unclear() {
    let durations = |at: usize| format!("{}.{}", at % 3, at % 2);
    let phonemes = |at: usize| "k a h v i ".repeat(at + 1).trim().to_owned();
    let own_number = |at: usize| format!("utt{at:04}");
    for tables in [tables(durations), tables(own_number), tables(phonemes)] {
        is_unclear(&tables[0]);
    }
}

#[test]
fn a_prompt_that_many_speakers_read_is_unclear() {
    let rows = (0..20).map(|at| format!("c{at}|Speaker {}|hey computer please\n", at / 2));
    is_unclear(&rows.collect::<String>());
}

#[test]
fn scripts_without_spaces_have_words_too() {
    let texts = ["今天天气很好。", "我们明天去上海。", "他不知道这件事。"];
    let speaker_last = texts.map(|text| format!("{text}|{text}|张三\n")).concat();
    let found = parsed(&speaker_last).unwrap();
    assert_eq!(found[1], (texts[1].to_owned(), Some("张三".to_owned())));
    let raw = ["2点见。我们走吧", "他有3本好书"];
    let normal = ["两点见我们走吧", "他有三本好书"];
    let pairs: String = (0..2).map(|at| format!("c{at}|{}|{}\n", raw[at], normal[at])).collect();
    assert_eq!(parsed(&pairs).unwrap()[0], (normal[0].to_owned(), None));
}
