//! `model.export`: its files are those of the original project, and importing them gives the
//! exported model.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_core::{Fields, StageError, Value};
use stage_families::artifact;
use stage_formats::{Dtype, Tensor};
use support::models::{
    CODEC, Tensors, codec_tensors, config, export, names, pth, stored, tensors, tokenizer, weights,
};
use support::{Bench, text};

/// An artifact of a family with tensors and texts.
fn artifact_of(bench: &mut Bench, tensors: &Tensors, texts: &[(&str, &str)]) -> Fields {
    let mut fields: Fields =
        texts.iter().map(|(name, value)| (*name, Value::text(*value))).collect();
    for (name, tensor) in tensors {
        let bytes = artifact::encode(tensor).unwrap();
        fields.set(artifact::tensor_field(name), bench.blob(artifact::TENSOR_KIND, bytes));
    }
    fields
}

fn original() -> Vec<(&'static str, Vec<u8>)> {
    let [ranks, specials] = tokenizer(300);
    let card = ("README.md", b"---\nlicense: cc-by-nc-sa-4.0\n---\n".to_vec());
    vec![config(), ("model.pth", pth(&tensors(Dtype::Bf16))), ranks, specials, card]
}

#[test]
fn importing_what_was_exported_gives_the_same_model() {
    for (format, weights) in [("pth", "model.pth"), ("safetensors", "model.safetensors")] {
        let mut bench = Bench::default();
        let fields = stored(&mut bench, &original());
        let files = export(&mut bench, fields.clone(), &[("format", text(format))]).unwrap();
        assert_eq!(
            names(&files),
            ["README.md", "config.json", weights, "special_tokens.json", "tokenizer.tiktoken"]
        );
        let files: Vec<(&str, Vec<u8>)> =
            files.iter().map(|(name, bytes)| (name.as_str(), bytes.to_vec())).collect();
        assert_eq!(stored(&mut bench, &files), fields, "{format}");
    }
}

#[test]
fn a_file_that_was_imported_is_written_again_to_the_byte() {
    let mut bench = Bench::default();
    let fields = stored(&mut bench, &original());
    let files = export(&mut bench, fields, &[]).unwrap();
    for (name, bytes) in original() {
        assert_eq!(files[name], bytes, "{name}");
    }
}

#[test]
fn floats_are_written_in_the_type_that_was_asked_for_and_integers_as_they_are() {
    let mut tensors = tensors(Dtype::F32);
    let count = Tensor::new(stage_formats::TensorInfo::new(Dtype::I64, [1]), vec![7; 8]).unwrap();
    tensors.insert("steps".to_owned(), count.clone());
    let mut bench = Bench::default();
    let fields = artifact_of(&mut bench, &tensors, &[("family", "fish-dual-ar")]);
    for (name, dtype) in [("bf16", Dtype::Bf16), ("fp16", Dtype::F16), ("f32", Dtype::F32)] {
        let files = export(&mut bench, fields.clone(), &[("dtype", text(name))]).unwrap();
        let written = weights(&files["model.pth"]);
        assert_eq!(written["steps"], count);
        for (name, tensor) in tensors.iter().filter(|(_, tensor)| tensor.dtype().is_float()) {
            assert_eq!(written[name], tensor.to_float(dtype).unwrap());
        }
    }
}

#[test]
fn a_codec_is_one_file_unless_it_is_not_the_published_one() {
    let mut bench = Bench::default();
    let files = [("codec.pth", pth(&codec_tensors())), ("codec.json", CODEC.into())];
    let other = stored(&mut bench, &files);
    let mut published = other.clone();
    published.set("config", bench.blob(artifact::CONFIG_KIND, "{}\n"));
    let files = export(&mut bench, published, &[]).unwrap();
    assert_eq!(names(&files), ["codec.pth"]);
    assert_eq!(weights(&files["codec.pth"]), codec_tensors());
    let files = export(&mut bench, other, &[]).unwrap();
    assert_eq!(names(&files), ["codec.json", "codec.pth"]);
    assert_eq!(files["codec.json"], CODEC);
}

#[test]
fn adapters_keep_their_names_and_what_they_belong_to() {
    let matrices = |seed: f32| Tensor::from_f32([1, 2], &[seed, -seed]).unwrap();
    let names_of = ["layers.0.attention.wqkv.lora_A", "layers.0.attention.wqkv.lora_B"];
    let tensors: Tensors =
        [(names_of[0].to_owned(), matrices(1.0)), (names_of[1].to_owned(), matrices(2.0))].into();
    let lineage = r#"{"rank": 8, "base": "ab", "alpha": 16.0}"#;
    let texts = [("family", "fish-lora"), ("lineage", lineage), ("license", "MIT")];
    let mut bench = Bench::default();
    let fields = artifact_of(&mut bench, &tensors, &texts);
    let files = export(&mut bench, fields, &[("format", text("safetensors"))]).unwrap();
    assert_eq!(names(&files), ["README.md", "adapters.json", "adapters.safetensors"]);
    assert_eq!(weights(&files["adapters.safetensors"]), tensors);
    assert_eq!(
        files["adapters.json"],
        "{\n  \"alpha\": 16.0,\n  \"base\": \"ab\",\n  \"rank\": 8\n}\n"
    );
    assert_eq!(files["README.md"], "---\nlicense: MIT\n---\n");
}

#[test]
fn a_licence_of_several_lines_is_still_one_line_of_the_head() {
    let mut bench = Bench::default();
    let mut fields = stored(&mut bench, &original());
    fields.set("license", Value::text("mine\n---\nfamily: other"));
    let files = export(&mut bench, fields, &[]).unwrap();
    assert_eq!(files["README.md"], "---\nlicense: mine --- family: other\n---\n");
}

#[test]
fn what_cannot_be_exported_is_an_error() {
    let mut bench = Bench::default();
    let mut failure =
        |fields: Fields| export(&mut bench, fields, &[]).expect_err("it is exported").to_string();
    let texts =
        |family: &str| -> Fields { [("family", Value::text(family))].into_iter().collect() };
    assert_eq!(failure(texts("vq")), "the model on port `model` cannot be exported: it is `vq`");
    assert_eq!(
        failure(Fields::new()),
        "the model on port `model` cannot be exported: its family is unknown"
    );
    assert_eq!(failure(texts("fish-dual-ar")), "the model has no tensors");
    let mut damaged = texts("fish-dual-ar");
    damaged.set("tensor/a", Value::text("no blob"));
    assert_eq!(failure(damaged), "the model has no tensors");
}

#[test]
fn damaged_tensors_are_named() {
    let mut bench = Bench::default();
    let mut fields = stored(&mut bench, &original());
    fields.set("tensor/norm.weight", bench.blob(artifact::TENSOR_KIND, "no tensor"));
    let error = export(&mut bench, fields, &[]).unwrap_err().to_string();
    assert!(error.starts_with("`norm.weight`: the safetensors file is refused"), "{error}");
}

#[test]
fn an_export_stops_when_asked_and_leaves_no_file_behind() {
    let mut bench = Bench::default();
    let fields = stored(&mut bench, &original());
    export(&mut bench, fields.clone(), &[]).unwrap();
    bench.is_stopping = true;
    assert!(matches!(export(&mut bench, fields, &[]), Err(StageError::Stopped)));
    let scratch = bench.scratch.unwrap();
    assert_eq!(walk(scratch.path()), 0);
}

#[expect(clippy::disallowed_methods, reason = "tests look at the disk themselves")]
fn walk(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}
