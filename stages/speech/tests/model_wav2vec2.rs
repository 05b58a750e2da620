//! `model.import` on the files of a small speech recogniser, as transformers writes them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_core::{NewValue, StageError};
use stage_families::wav2vec2::{MASK, Wav2Vec2Config};
use stage_formats::{Dtype, Tensor};
use support::models::{Tensors, import, imported, model, numbered, pth, safe};
use support::{Bench, text};

const CONFIG: &str = r#"{"model_type": "wav2vec2", "vocab_size": 4, "hidden_size": 4,
    "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 6,
    "conv_dim": [4, 4], "conv_kernel": [4, 2], "conv_stride": [2, 2],
    "num_conv_pos_embeddings": 2, "num_conv_pos_embedding_groups": 2}"#;
const VOCABULARY: &str = r#"{"<pad>": 0, "|": 1, "A": 2, "K": 3}"#;
const PLACES: &str = "wav2vec2.encoder.pos_conv_embed.conv.";

type File = (&'static str, Vec<u8>);

fn tensors() -> Tensors {
    numbered(Wav2Vec2Config::parse(CONFIG.as_bytes()).unwrap().tensors(), Dtype::F32)
}

/// As in a file: with the mask, and the pair in one of its two spellings.
fn stored(is_newer: bool) -> Tensors {
    let spelt = |name: &str| match name.strip_prefix(PLACES).filter(|_| is_newer) {
        Some("weight_g") => format!("{PLACES}parametrizations.weight.original0"),
        Some("weight_v") => format!("{PLACES}parametrizations.weight.original1"),
        _ => name.to_owned(),
    };
    let mut stored: Tensors =
        tensors().into_iter().map(|(name, tensor)| (spelt(&name), tensor)).collect();
    stored.insert(MASK.to_owned(), Tensor::from_f32([4], &[0.0; 4]).unwrap());
    stored
}

fn around(weights: File) -> Vec<File> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("config.json", text(CONFIG)),
        ("vocab.json", text(VOCABULARY)),
        ("preprocessor_config.json", text(r#"{"do_normalize": true}"#)),
        weights,
    ]
}

fn refused(files: &[File]) -> String {
    let error: StageError = import(&mut Bench::default(), files, &[]).unwrap_err();
    error.to_string()
}

#[test]
fn a_checkpoint_in_either_form_becomes_the_same_model_without_the_mask() {
    for weights in
        [("model.safetensors", safe(&stored(true))), ("pytorch_model.bin", pth(&stored(false)))]
    {
        let mut bench = Bench::default();
        let output = import(&mut bench, &around(weights), &[("license", text("MIT"))]).unwrap();
        assert_eq!(imported(&bench, &output), tensors());
        assert!(output.notes.contains(&("tensors left out".to_owned(), 1)), "{:?}", output.notes);
        let model = model(&output);
        assert_eq!(model["family"], NewValue::Text("wav2vec2".into()));
        assert_eq!(model["license"], NewValue::Text("MIT".into()));
        for name in ["config", "vocab.json", "preprocessor_config.json"] {
            assert!(model.contains_key(name), "{name}");
        }
    }
}

/// The names in the files of torchaudio's pipelines.
fn of_torchaudio(name: &str) -> String {
    let name = name.strip_prefix("wav2vec2.").unwrap_or(name);
    match name.split_once('.').unwrap() {
        ("lm_head", rest) => format!("aux.{rest}"),
        ("encoder", rest) => format!("encoder.transformer.{rest}"),
        ("feature_projection", rest) => format!("encoder.feature_projection.{rest}"),
        _ => name.to_owned(),
    }
}

#[test]
fn weights_of_torchaudio_become_the_same_model() {
    let stored: Tensors =
        tensors().into_iter().map(|(name, tensor)| (of_torchaudio(&name), tensor)).collect();
    assert!(stored.keys().all(|name| !name.contains("wav2vec2")));
    let mut bench = Bench::default();
    let output = import(&mut bench, &around(("model.pt", pth(&stored))), &[]).unwrap();
    assert_eq!(imported(&bench, &output), tensors());
}

#[test]
fn further_tensors_and_fields_are_left_out_and_named() {
    let mut further = tensors();
    further.insert("quantizer.codevectors".into(), Tensor::from_f32([1], &[0.0]).unwrap());
    let mut files = around(("model.safetensors", safe(&further)));
    files[0].1 = CONFIG.replacen('{', r#"{"transformers_version": "4", "gist": 1, "#, 1).into();
    let output = import(&mut Bench::default(), &files, &[]).unwrap();
    for told in [
        "tensors left out that the model does not have: `quantizer.codevectors`",
        "fields of `config.json` without effect: `gist`",
    ] {
        assert!(output.notes.contains(&(told.to_owned(), 1)), "{:?}", output.notes);
    }
}

#[test]
fn what_does_not_belong_to_the_configuration_is_told() {
    let mut tensors = stored(true);
    tensors.remove("lm_head.bias");
    tensors.insert("quantizer.codevectors".into(), Tensor::from_f32([1], &[0.0]).unwrap());
    let told = refused(&around(("model.safetensors", safe(&tensors))));
    assert!(told.contains("missing: `lm_head.bias`; unexpected: `quantizer."), "{told}");
}

#[test]
fn files_that_are_not_there_and_adapters_are_told() {
    let whole = || around(("model.safetensors", safe(&stored(true))));
    let told =
        refused(&whole().into_iter().filter(|(name, _)| *name != "vocab.json").collect::<Vec<_>>());
    assert!(told.contains("no `vocab.json`, which says how recognised speech is spelt"), "{told}");
    let mut files = whole();
    files[0].1 = CONFIG.replace("{", r#"{"adapter_attn_dim": 16, "#).into_bytes();
    assert!(refused(&files).contains("it has adapters"));
    let mut files = whole();
    files[1].1 = br#"{"A": 4}"#.to_vec();
    assert!(refused(&files).contains("belongs to another model"));
}
