//! The tokenizer against that of transformers; see `fixtures/make_vits_tokenizer.py`. Folders in
//! `VITS_TOKENIZER_FIXTURES` are checked in addition to the committed one.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use stage_families::vits::VitsTokenizer;

#[derive(serde::Deserialize)]
struct Published {
    config: serde_json::Value,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    text: String,
    normalised: String,
    ids: Vec<i64>,
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vits")
}

#[test]
fn texts_become_what_transformers_makes_of_them() {
    let more = std::env::var("VITS_TOKENIZER_FIXTURES").unwrap_or_default();
    let more = more.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
    for folder in std::iter::once(fixture()).chain(more) {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let published: Vec<Published> = serde_json::from_slice(&read("cases.json")).unwrap();
        assert_eq!(published.len(), 4);
        for Published { config, cases } in published {
            let config = config.to_string();
            let tokenizer = VitsTokenizer::read(&read("vocab.json"), config.as_bytes()).unwrap();
            assert!(cases.len() > 70);
            for case in cases {
                let tokens = tokenizer.encode(&case.text);
                assert_eq!(tokens.text, case.normalised, "{config} {:?}", case.text);
                assert_eq!(tokens.ids, case.ids, "{config} {:?}", case.text);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_as_a_vocabulary_never_panic(bytes: Vec<u8>, text: String) {
        let config = br#"{"phonemize": false}"#;
        if let Ok(tokenizer) = VitsTokenizer::read(&bytes, config) {
            tokenizer.encode(&text);
        }
    }

    #[test]
    fn every_known_character_is_one_token_between_blanks(text: String) {
        let vocabulary = std::fs::read(fixture().join("vocab.json")).unwrap();
        let tokenizer = VitsTokenizer::read(&vocabulary, br#"{"phonemize": false}"#).unwrap();
        let tokens = tokenizer.encode(&tokenizer.prepare(&text));
        let count = tokens.text.chars().count();
        prop_assert_eq!(tokens.ids.len(), if count == 0 { 0 } else { 2 * count + 1 });
        prop_assert!(tokens.ids.iter().all(|id| (0..tokenizer.size()).contains(id)));
    }
}
