//! Files that PyTorch wrote; see `fixtures/make_pth.py`.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use stage_formats::pth::PthFile;

use super::support::zip;

#[derive(serde::Deserialize)]
struct Expected {
    dtype: String,
    shape: Vec<usize>,
    values: Vec<f64>,
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pth");
    std::fs::read(folder.join(name)).unwrap()
}

fn torch_name(dtype: stage_formats::Dtype) -> String {
    match dtype.name() {
        "bf16" => "bfloat16".to_owned(),
        "fp16" => "float16".to_owned(),
        "bool" => "bool".to_owned(),
        name => name.replacen('f', "float", 1).replacen('i', "int", 1).replacen('u', "uint", 1),
    }
}

fn agrees(name: &str) -> PthFile {
    let expected: BTreeMap<String, Expected> =
        serde_json::from_slice(&fixture(&format!("{name}.json"))).unwrap();
    let file = PthFile::read(fixture(&format!("{name}.pth"))).unwrap();
    let names: Vec<&str> = file.tensors().map(|(name, _)| name).collect();
    assert_eq!(names, expected.keys().collect::<Vec<_>>());
    for (name, expected) in &expected {
        let tensor = file.tensor(name).unwrap();
        assert_eq!(tensor.shape(), expected.shape, "{name}");
        assert_eq!(torch_name(tensor.dtype()), expected.dtype, "{name}");
        let values: Vec<f32> = expected.values.iter().map(|value| *value as f32).collect();
        assert_eq!(tensor.to_f32(), values, "{name}");
    }
    file
}

#[test]
fn every_type_is_read_as_pytorch_reads_it() {
    agrees("types");
}

#[test]
fn views_are_read_as_pytorch_reads_them() {
    agrees("views");
}

#[test]
fn packed_entries_are_read_as_stored_ones() {
    agrees("packed");
}

#[test]
fn checkpoints_of_training_runs_are_read_whatever_else_they_hold() {
    agrees("lightning_2");
    agrees("lightning_5");
}

#[test]
fn settings_of_a_trainer_are_read_and_its_paths_are_not() {
    for name in ["lightning_2.pth", "lightning_5.pth"] {
        let file = PthFile::read(fixture(name)).unwrap();
        assert_eq!(file.settings(), &serde_json::json!({"lr": 1e-4, "path": null}));
    }
    assert!(PthFile::read(fixture("types.pth")).unwrap().settings().is_null());
}

#[test]
fn contiguous_tensors_are_views_of_the_file() {
    let bytes = bytes::Bytes::from(fixture("types.pth"));
    let file = PthFile::read(bytes.clone()).unwrap();
    let data = file.tensor("float.torch.float32").unwrap().data().as_ptr();
    assert!(bytes.as_ptr_range().contains(&data));
}

#[test]
fn the_older_form_is_named_with_a_way_out() {
    let error = PthFile::read(fixture("legacy.pth")).unwrap_err().to_string();
    assert!(error.starts_with("the file is the form that PyTorch wrote before"), "{error}");
    assert!(error.contains("save it again"), "{error}");
}

#[test]
fn an_archive_of_something_else_is_named() {
    let error = PthFile::read(zip(&[("word/document.xml", b"<a/>")])).unwrap_err().to_string();
    assert_eq!(error, "the PyTorch file cannot be read: the archive has no `data.pkl`");
}
