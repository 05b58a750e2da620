//! `xtts.init` and `xtts.extend` as the engine calls them.
#![allow(clippy::unwrap_used)]

use stage_core::{Fields, Item, ParameterValue, PortInput, Value};
use stage_families::artifact;
use stage_families::xtts::{LanguageCode, TEXT_TABLES, XttsConfig, XttsTokenizer, kinds};

use super::trial::{Written, artifact_of, gather, text, whole};
use crate::lineage::ModelLineage;
use crate::testing::Bench;

fn model(more: Written, bench: &mut Bench) -> Fields {
    let tiny = [("layers", whole(1)), ("width", whole(32)), ("heads", whole(2))];
    let written = [&tiny[..], more].concat();
    gather(&kinds::INIT, &written, Vec::new(), bench).unwrap().remove("model").unwrap()
}

fn bytes(model: &Fields, name: &str, bench: &mut Bench) -> bytes::Bytes {
    use stage_core::Context;
    let blob = model.blob(name).unwrap();
    bench.read(blob).unwrap()
}

fn config(model: &Fields, bench: &mut Bench) -> XttsConfig {
    XttsConfig::parse(&bytes(model, artifact::CONFIG, bench)).unwrap()
}

#[test]
fn a_model_from_nothing_has_all_its_tensors_and_reads_texts() {
    let mut bench = Bench::default();
    let fields = model(&[("languages", text("en fi"))], &mut bench);
    let config = config(&fields, &mut bench);
    let mut expected: Vec<String> = config.tensors().into_iter().map(|(name, _)| name).collect();
    expected.sort();
    let names: Vec<String> = artifact::tensors(&fields).map(|(name, _)| name.into()).collect();
    assert_eq!(names, expected);
    let tokenizer = XttsTokenizer::read(&bytes(&fields, artifact::VOCABULARY, &mut bench)).unwrap();
    assert_eq!(tokenizer.text_tokens().rows, config.gpt.text_tokens);
    let language = LanguageCode::of("fi");
    assert!(tokenizer.encode("Hyvää päivää!", &language).is_ok());
    assert_eq!(tokenizer.clean("Hyvää päivää!", &language).unwrap(), "hyvää päivää!");
    assert!(ModelLineage::of(&fields).random);
}

#[test]
fn the_seed_decides_the_weights() {
    let mut bench = Bench::default();
    let seeds = [1, 1, 2].map(|seed| model(&[("seed", whole(seed))], &mut bench));
    assert_eq!(seeds[0], seeds[1]);
    assert_ne!(seeds[0], seeds[2]);
}

fn extended(base: &Fields, more: Written, bench: &mut Bench) -> Fields {
    let item =
        |id: &str, words: &str| Item::new(id, [("text", Value::text(words))].into_iter().collect());
    let items = vec![item("a", "ሰላም ለዓለም"), item("b", "ሰላም ሰላም")];
    let clips = PortInput::Dataset { stage: "above".into(), items, rejects: Vec::new() };
    let ports = vec![("input", clips), ("model", artifact_of(base))];
    let written = [&[("language", text("am"))], more].concat();
    gather(&kinds::EXTEND, &written, ports, bench).unwrap().remove("model").unwrap()
}

#[test]
fn a_longer_vocabulary_grows_three_tables_and_leaves_all_else() {
    let mut bench = Bench::default();
    let base = model(&[("languages", text("en"))], &mut bench);
    let longer = extended(&base, &[], &mut bench);
    let (before, after) = (config(&base, &mut bench), config(&longer, &mut bench));
    assert!(after.gpt.text_tokens > before.gpt.text_tokens);
    assert_eq!(after.languages, ["en", "am"]);
    let old = before.gpt.text_tokens as usize;
    for (name, blob) in artifact::tensors(&base) {
        let field = artifact::tensor_field(name);
        if !TEXT_TABLES.contains(&name) {
            assert_eq!(longer.blob(&field), Some(blob), "{name}");
            continue;
        }
        let table = |fields: &Fields, bench: &mut Bench| {
            artifact::decode(bytes(fields, &field, bench)).unwrap()
        };
        let (short, long) = (table(&base, &mut bench), table(&longer, &mut bench));
        assert_eq!(long.data()[..short.data().len()], short.data()[..], "{name}");
        assert_eq!((short.shape()[0], long.shape()[0] as i64), (old, after.gpt.text_tokens));
    }
    let tokenizer = XttsTokenizer::read(&bytes(&longer, artifact::VOCABULARY, &mut bench)).unwrap();
    assert_eq!(tokenizer.encode("ሰላም", &LanguageCode::of("am-ET")).unwrap().len(), 2);
    assert_eq!(ModelLineage::of(&longer).made_by, "xtts.extend");
    assert!(ModelLineage::of(&longer).random);
}

#[test]
fn without_pieces_single_characters_are_added_alone() {
    let mut bench = Bench::default();
    let base = model(&[("languages", text("en"))], &mut bench);
    let more: [(&str, ParameterValue); 1] = [("pieces", whole(0))];
    let longer = extended(&base, &more, &mut bench);
    let added =
        config(&longer, &mut bench).gpt.text_tokens - config(&base, &mut bench).gpt.text_tokens;
    // Five characters and the tag.
    assert_eq!(added, 6);
}
