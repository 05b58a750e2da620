//! A small text model in files of both formats, and the result of importing them.

use std::collections::BTreeMap;

use stage_core::{
    Fields, GatherInput, GatherOutput, Job, NewValue, ParameterValue, PortInput, PortOutput, Setup,
    StageError, Value,
};
use stage_families::{artifact, dac, dual_ar};
use stage_formats::pth::PthWriter;
use stage_formats::shapes::Expected;
use stage_formats::{Dtype, Tensor, TensorInfo, WeightFile, safetensors};

use bytes::Bytes;

use super::{Bench, parameters, stage};

pub const CONFIG: &str = r#"{"model_type": "dual_ar", "vocab_size": 300, "n_layer": 1, "n_head": 2,
    "n_local_heads": 1, "dim": 8, "head_dim": 4, "intermediate_size": 12, "codebook_size": 16,
    "num_codebooks": 2, "n_fast_layer": 1, "attention_qk_norm": true,
    "fast_attention_qk_norm": false, "tie_word_embeddings": false}"#;

/// The sizes of a small codec.
pub const CODEC: &str = r#"{"encoder_dim": 2, "encoder_rates": [2, 2],
    "encoder_transformer_layers": [0, 0], "latent_dim": 4, "decoder_dim": 4, "decoder_rates": [2, 2],
    "quantizer": {"semantic_codebook_size": 4, "n_codebooks": 1, "codebook_size": 4,
        "codebook_dim": 2, "downsample_factor": [2],
        "pre_module": {"n_layer": 1, "n_head": 1, "head_dim": 2, "dim": 4, "intermediate_size": 4},
        "post_module": {"n_layer": 1, "n_head": 1, "head_dim": 2, "dim": 4, "intermediate_size": 4}}}"#;

pub type Tensors = BTreeMap<String, Tensor>;

/// The tensors of the small model, with distinct values.
pub fn tensors(dtype: Dtype) -> Tensors {
    numbered(dual_ar::DualArConfig::parse(CONFIG.as_bytes()).unwrap().tensors(), dtype)
}

/// The tensors of the small codec.
pub fn codec_tensors() -> Tensors {
    numbered(
        dac::DacLayout::of(&dac::DacConfig::from_json(CODEC.as_bytes()).unwrap()).0,
        Dtype::F32,
    )
}

pub fn numbered(shapes: Vec<Expected>, dtype: Dtype) -> Tensors {
    let shapes: BTreeMap<_, _> = shapes.into_iter().collect();
    let numbered = shapes.into_iter().enumerate().map(|(number, (name, shape))| {
        let shape: Vec<usize> = shape.into_iter().map(|size| size as usize).collect();
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|at| (number * 100 + at) as f32).collect();
        (name, Tensor::from_f32(shape, &values).unwrap().to_float(dtype).unwrap())
    });
    numbered.collect()
}

pub fn pth(tensors: &Tensors) -> Vec<u8> {
    let infos: BTreeMap<String, TensorInfo> =
        tensors.iter().map(|(name, tensor)| (name.clone(), tensor.info().clone())).collect();
    let mut writer = PthWriter::new(Vec::new(), infos).unwrap();
    for name in writer.order() {
        writer.write(&tensors[&name]).unwrap();
    }
    writer.finish().unwrap()
}

pub fn safe(tensors: &Tensors) -> Vec<u8> {
    safetensors::write(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap()
}

pub fn import(
    bench: &mut Bench,
    files: &[(&str, Vec<u8>)],
    written: &[(&str, ParameterValue)],
) -> Result<GatherOutput, StageError> {
    let fields: Fields = files
        .iter()
        .map(|(name, bytes)| (*name, bench.blob("application/octet-stream", bytes.clone())))
        .collect();
    import_asset(bench, fields, written)
}

pub fn import_asset(
    bench: &mut Bench,
    fields: Fields,
    written: &[(&str, ParameterValue)],
) -> Result<GatherOutput, StageError> {
    let parameters = parameters(stage("model.import").kind(), written);
    let setup = Setup { parameters, ..Setup::default() };
    let Job::Gather(mut job) = bench.open("model.import", setup)? else { panic!("no gather") };
    let input = vec![PortInput::Artifact { stage: "assets.model".to_owned(), fields }];
    job.run(GatherInput { ports: [("asset".to_owned(), input)].into() }, bench)
}

pub fn model(output: &GatherOutput) -> BTreeMap<String, NewValue> {
    match &output.ports["model"] {
        PortOutput::Artifact(values) => values.iter().cloned().collect(),
        PortOutput::Dataset(_) => panic!("no artifact"),
    }
}

pub fn imported(bench: &Bench, output: &GatherOutput) -> Tensors {
    let tensor = |(field, value): (String, NewValue)| {
        let name = field.strip_prefix("tensor/")?.to_owned();
        let NewValue::Kept(Value::Blob(blob)) = value else { panic!("`{name}` is not kept") };
        assert_eq!(&*blob.kind, artifact::TENSOR_KIND);
        Some((name, artifact::decode(bench.blobs[&blob.digest].clone()).unwrap()))
    };
    model(output).into_iter().filter_map(tensor).collect()
}

pub fn config() -> (&'static str, Vec<u8>) {
    ("config.json", CONFIG.into())
}

/// A tokenizer with this number of tokens, some of them special.
pub fn tokenizer(size: usize) -> [(&'static str, Vec<u8>); 2] {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |number: usize| char::from(DIGITS[number]);
    let line = |byte: usize| format!("{}{}== {byte}\n", digit(byte >> 2), digit((byte & 3) << 4));
    let names: Vec<String> = (256..size).map(|at| format!("\"<|s{at}|>\": 0")).collect();
    let lines: String = (0..256).map(line).collect();
    [
        ("tokenizer.tiktoken", lines.into()),
        ("special_tokens.json", format!("{{{}}}", names.join(",")).into()),
    ]
}

pub type Files = BTreeMap<String, Bytes>;

pub fn export(
    bench: &mut Bench,
    fields: Fields,
    written: &[(&str, ParameterValue)],
) -> Result<Files, StageError> {
    let parameters = parameters(stage("model.export").kind(), written);
    let setup = Setup { parameters, ..Setup::default() };
    let Job::Gather(mut job) = bench.open("model.export", setup)? else { panic!("no gather") };
    let input = vec![PortInput::Artifact { stage: "base".to_owned(), fields }];
    let output = job.run(GatherInput { ports: [("model".to_owned(), input)].into() }, bench)?;
    let PortOutput::Artifact(values) = &output.ports["files"] else { panic!("no artifact") };
    let file = |(name, value): &(String, NewValue)| match value {
        NewValue::Bytes { bytes, .. } => (name.clone(), bytes.clone()),
        NewValue::Kept(Value::Blob(blob)) => (name.clone(), bench.blobs[&blob.digest].clone()),
        other => panic!("`{name}` is not a file: {other:?}"),
    };
    Ok(values.iter().map(file).collect())
}

/// The result of importing these files, as the fields that a later stage gets.
pub fn stored(bench: &mut Bench, files: &[(&str, Vec<u8>)]) -> Fields {
    let output = import(bench, files, &[]).unwrap();
    model(&output).into_iter().map(|(name, value)| (name, bench.keep_value(value))).collect()
}

pub fn weights(file: &[u8]) -> Tensors {
    let file = WeightFile::read(file.to_vec()).unwrap();
    let names: Vec<String> = file.tensors().keys().map(|name| (*name).to_owned()).collect();
    names.into_iter().map(|name| (name.clone(), file.tensor(&name).unwrap())).collect()
}

pub fn names(files: &Files) -> Vec<&str> {
    files.keys().map(String::as_str).collect()
}
