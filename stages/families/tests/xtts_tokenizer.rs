//! The tokenizer against `VoiceBpeTokenizer` of the original; see `fixtures/make_xtts_tokenizer.py`.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use stage_families::xtts::{LanguageCode, TextError, XttsTokenizer};

#[derive(serde::Deserialize)]
struct Fixture {
    rows: i64,
    numbers: Vec<u64>,
    spelt: BTreeMap<String, Vec<String>>,
    ordinals: BTreeMap<String, BTreeMap<String, String>>,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    language: String,
    text: String,
    clean: String,
    ids: Vec<i64>,
}

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/xtts");
    std::fs::read(folder.join(name)).unwrap()
}

fn fixture() -> (XttsTokenizer, Fixture) {
    let fixture = serde_json::from_slice(&read("cases.json")).unwrap();
    (XttsTokenizer::read(&read("vocab.json")).unwrap(), fixture)
}

#[test]
fn texts_become_what_the_original_makes_of_them() {
    let (tokenizer, fixture) = fixture();
    assert_eq!(tokenizer.text_tokens().rows, fixture.rows);
    assert!(fixture.cases.len() > 40);
    let mut problems = Vec::new();
    for case in fixture.cases {
        let language = LanguageCode::of(&case.language);
        let own = (tokenizer.clean(&case.text, &language), tokenizer.encode(&case.text, &language));
        match own {
            (Ok(text), Ok(ids)) if text == case.clean && ids == case.ids => {}
            own => problems
                .push(format!("{} {:?}: {own:?}, not {:?}", case.language, case.text, case.clean)),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn numbers_are_spelt_as_the_original_spells_them() {
    let (tokenizer, fixture) = fixture();
    let mut problems = Vec::new();
    for (code, spelt) in fixture.spelt {
        assert_eq!(spelt.len(), fixture.numbers.len());
        for (number, expected) in fixture.numbers.iter().zip(spelt) {
            let own = tokenizer.clean(&number.to_string(), &LanguageCode::of(&code)).unwrap();
            let expected = tokenizer.clean(&expected, &LanguageCode::of(&code)).unwrap();
            if own != expected {
                problems.push(format!("{code} {number}: {own}, not {expected}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn ordinals_are_spelt_as_the_original_spells_them() {
    let (tokenizer, fixture) = fixture();
    assert_eq!(fixture.ordinals.len(), 13);
    let mut problems = Vec::new();
    for (code, spelt) in fixture.ordinals {
        assert!(spelt.len() > 40);
        for (number, expected) in spelt {
            let own = tokenizer.clean(&number, &LanguageCode::of(&code)).unwrap();
            let expected = tokenizer.clean(&expected, &LanguageCode::of(&code)).unwrap();
            if own != expected {
                problems.push(format!("{code} {number}: {own}, not {expected}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The original fails on all of these.
#[test]
fn numbers_without_words_in_the_original_stay_readable() {
    let (tokenizer, _) = fixture();
    let clean = |text: &str, code: &str| tokenizer.clean(text, &LanguageCode::of(code)).unwrap();
    assert_eq!(clean("1. května 2.", "cs"), "jedna. května dva.");
    assert_eq!(clean("50 सैनिक 1st", "hi"), "50 सैनिक 1st");
    assert_eq!(clean("0th", "pl"), "zeroth");
    assert_eq!(clean("100번째", "ko"), "baegbeon-jjae");
}

#[test]
fn what_the_vocabulary_lacks_is_listed_once() {
    let (tokenizer, _) = fixture();
    let error = tokenizer.encode("ok ሰላም ሰ", &LanguageCode::of("en-GB")).unwrap_err();
    assert_eq!(error, TextError::Unknown(vec!['ሰ', 'ላ', 'ም']));
    let error = tokenizer.encode("ok", &LanguageCode::of("am")).unwrap_err();
    assert_eq!(error, TextError::NoTag("[am]".to_owned()));
    let error = tokenizer.encode("a [STOP]", &LanguageCode::of("en")).unwrap_err();
    assert_eq!(error, TextError::Unknown(vec!['[', ']']));
    assert_eq!(tokenizer.encode(" \" ", &LanguageCode::of("en")), Err(TextError::Empty));
}

proptest! {
    #[test]
    fn any_text_in_any_language_is_read_or_refused(text: String, at in 0usize..20) {
        let (tokenizer, _) = fixture();
        let codes = ["en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh",
                     "hu", "ko", "ja", "hi", "fi", "am", ""];
        let _ = tokenizer.encode(&text, &LanguageCode::of(codes[at]));
        let _ = tokenizer.clean(&text, &LanguageCode::of(codes[at]));
    }

    #[test]
    fn numbers_of_any_size_leave_no_digits_below_the_limit(number in 0u64..1_000_000_000_000) {
        let (tokenizer, fixture) = fixture();
        for code in fixture.spelt.keys() {
            let own = tokenizer.clean(&number.to_string(), &LanguageCode::of(code)).unwrap();
            prop_assert!(!own.contains(|c: char| c.is_ascii_digit()), "{code} {own}");
        }
    }
}
