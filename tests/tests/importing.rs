//! The memory of importing models. These tests are a separate program, since they measure the peak
//! memory of any process that it started.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use stage_families::dac::{DacConfig, DacLayout};
use stage_formats::pth::PthWriter;
use stage_formats::safetensors::SafetensorsWriter;
use stage_formats::{Dtype, Tensor, TensorInfo};
use throstle_tests::Project;

const MANIFEST: &str = r#"
[pipeline]
name = "importing"

[assets.codec]
path = "models"

[stage.codec]
use = "model.import"
asset = "assets.codec"
"#;

/// The sizes of a codec with tensors of 16 MiB and less.
const SIZES: &str = r#"{"encoder_dim": 8, "encoder_transformer_layers": [0, 0, 0, 0],
    "decoder_dim": 32, "quantizer": {"pre_module": {"n_layer": 2, "intermediate_size": 4096},
    "post_module": {"n_layer": 2, "intermediate_size": 4096}}}"#;
/// Far below each of the files, and far above the program and three of the tensors.
const BOUND_KB: i64 = 200 << 10;

/// The largest memory of any process that was waited for, in kilobytes.
fn peak() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

fn project(file: &str) -> (Project, BufWriter<File>) {
    let project = Project::new(MANIFEST);
    project.write("models/codec.json", SIZES);
    let file = File::create(project.file(&format!("models/{file}"))).unwrap();
    (project, BufWriter::new(file))
}

fn infos() -> BTreeMap<String, TensorInfo> {
    let layout = DacLayout::of(&DacConfig::from_json(SIZES.as_bytes()).unwrap());
    let info = |shape: Vec<i64>| {
        TensorInfo::new(Dtype::F32, shape.iter().map(|size| *size as usize).collect::<Vec<_>>())
    };
    layout.0.into_iter().map(|(name, shape)| (name, info(shape))).collect()
}

/// A tensor that no other equals.
fn tensor(name: &str, info: &TensorInfo) -> Tensor {
    let mut data = vec![0; info.bytes().unwrap()];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut data);
    Tensor::new(info.clone(), data).unwrap()
}

fn bytes<'a>(infos: impl Iterator<Item = &'a TensorInfo>) -> impl Iterator<Item = f64> {
    infos.map(|info| info.bytes().unwrap() as f64)
}

/// The memory that the plan expects the import to take.
fn planned_memory(project: &Project) -> f64 {
    let plan: serde_json::Value =
        serde_json::from_str(&project.printed(&["plan", ".", "--json"])).unwrap();
    plan["estimate"]["stages"]["codec"]["ram_bytes"]["likely"].as_f64().unwrap()
}

#[test]
fn a_model_is_imported_with_the_memory_of_its_largest_tensor() {
    let (project, file) = project("codec.safetensors");
    let infos = infos();
    assert!(bytes(infos.values()).sum::<f64>() > 4e8);
    let largest = bytes(infos.values()).fold(0.0, f64::max);
    let mut writer = SafetensorsWriter::new(file, infos.clone(), &BTreeMap::new()).unwrap();
    for name in writer.order() {
        writer.write(&tensor(&name, &infos[&name])).unwrap();
    }
    writer.finish().unwrap().flush().unwrap();
    // The program, the tensor as it is read and as it is stored, and those that share a pack.
    let small: f64 = bytes(infos.values()).filter(|bytes| *bytes < f64::from(1 << 20)).sum();
    let planned = planned_memory(&project);
    assert!(
        (planned - 3e7 - 2.0 * largest - small).abs() < 1.0,
        "{planned} for {largest}, {small}"
    );
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(peak() < BOUND_KB, "{} kB", peak());
    project.run().assert_nothing_done();
}

#[test]
fn a_checkpoint_of_pytorch_is_imported_with_the_memory_of_its_largest_tensor() {
    let (project, file) = project("codec.pth");
    let infos = infos();
    let mut writer = PthWriter::new(file, infos.clone()).unwrap();
    for name in writer.order() {
        writer.write(&tensor(&name, &infos[&name])).unwrap();
    }
    writer.finish().unwrap().flush().unwrap();
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(peak() < BOUND_KB, "{} kB", peak());
}

#[test]
fn a_large_file_that_is_no_model_is_refused_without_being_in_memory() {
    for head in [&b"PK\x03\x04"[..], b"", b"\0\0\0\x01\0\0\0\0{"] {
        let (project, mut file) = project("codec.pth");
        file.write_all(head).unwrap();
        file.into_inner().unwrap().set_len(1 << 30).unwrap();
        let ran = project.run();
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let failed = ran.all("stage-failed");
        assert!(failed[0]["message"].as_str().unwrap().starts_with("`codec.pth`: the "), "{ran:?}");
        assert!(peak() < BOUND_KB, "{} kB", peak());
    }
}

#[test]
fn what_is_no_file_is_told_and_not_taken_for_missing() {
    let project = Project::new(MANIFEST);
    std::fs::create_dir(project.file("models")).unwrap();
    let place = project.file("models/codec.pth");
    let told = || {
        let ran = project.run();
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.all("stage-failed")[0]["message"].as_str().unwrap().to_owned()
    };
    std::fs::create_dir(&place).unwrap();
    assert_eq!(told(), "`codec.pth` of the asset is an empty folder, not a file");
    std::fs::remove_dir(&place).unwrap();
    std::os::unix::fs::symlink("nothing", &place).unwrap();
    assert_eq!(told(), "`codec.pth` of the asset is a link to nothing, not a file");
    std::fs::remove_file(&place).unwrap();
    assert!(Command::new("mkfifo").arg(&place).status().unwrap().success());
    assert_eq!(told(), "`codec.pth` of the asset is something that cannot be read, not a file");
}
