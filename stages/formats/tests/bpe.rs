//! The tokenizer against tiktoken; see `fixtures/make_bpe.py`. Folders in `BPE_FIXTURES` are
//! checked in addition to the committed ones.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use stage_formats::FormatError;
use stage_formats::bpe::{Bpe, Specials};

#[derive(serde::Deserialize)]
struct Case {
    text: String,
    escaped: Vec<u32>,
    allowed: Vec<u32>,
    decoded: String,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bpe")
}

fn bpe(folder: &Path) -> Bpe {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    Bpe::read(&read("tokenizer.tiktoken"), &read("special_tokens.json")).unwrap()
}

#[test]
fn texts_become_what_tiktoken_makes_of_them() {
    let more = std::env::var("BPE_FIXTURES").unwrap_or_default();
    let more = more.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
    for folder in std::iter::once(fixtures()).chain(more) {
        let bpe = bpe(&folder);
        let cases: Vec<Case> =
            serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
        assert!(cases.len() > 100);
        for case in &cases {
            let text = &case.text;
            assert_eq!(bpe.encode(text, Specials::Escaped), case.escaped, "{text:?}");
            assert_eq!(bpe.encode(text, Specials::Allowed), case.allowed, "{text:?}");
            let ids = &case.allowed[1.min(case.allowed.len())..];
            assert_eq!(bpe.decode(ids).unwrap(), case.decoded, "{text:?}");
        }
    }
}

#[test]
fn special_tokens_of_too_many_bytes_are_refused() {
    let ranks = std::fs::read(fixtures().join("tokenizer.tiktoken")).unwrap();
    let name = "x".repeat(1 << 20);
    let error = Bpe::read(&ranks, format!("{{\"{name}\": 0}}").as_bytes()).unwrap_err();
    assert!(matches!(error, FormatError::TooMuch { .. }), "{error:.200}");
}

proptest! {
    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        let bpe = bpe(&fixtures());
        for specials in [Specials::Escaped, Specials::Allowed] {
            prop_assert_eq!(&bpe.decode(&bpe.encode(&text, specials)).unwrap(), &text);
        }
    }

    #[test]
    fn any_bytes_as_a_vocabulary_never_panic(ranks: Vec<u8>, specials: Vec<u8>) {
        let _ = Bpe::read(&ranks, &specials);
    }
}
