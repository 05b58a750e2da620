//! The memory of importing models. These tests are a separate program, since they measure the peak
//! memory of any process that it started.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use stage_formats::pth::PthWriter;
use stage_formats::safetensors::SafetensorsWriter;
use stage_formats::{Dtype, Tensor, TensorInfo};
use throstle_tests::Project;

const MANIFEST: &str = r#"
[pipeline]
name = "importing"

[assets.codec]
path = "models/FILE"

[stage.codec]
use = "model.import"
asset = "assets.codec"
"#;

const TENSOR: usize = 16 << 20;
/// Far below each of the files, and far above the program and three of the tensors.
const BOUND_KB: i64 = 200 << 10;

/// The largest memory of any process that was waited for, in kilobytes.
fn peak() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

fn project(file: &str) -> (Project, BufWriter<File>) {
    let project = Project::new(&MANIFEST.replace("FILE", file));
    std::fs::create_dir(project.file("models")).unwrap();
    let file = File::create(project.file(&format!("models/{file}"))).unwrap();
    (project, BufWriter::new(file))
}

fn infos() -> BTreeMap<String, TensorInfo> {
    let info = TensorInfo::new(Dtype::F32, [TENSOR / 4]);
    let names = (0..24).map(|at| format!("{}.{at}", ["encoder", "quantizer", "decoder"][at % 3]));
    names.map(|name| (name, info.clone())).collect()
}

/// A tensor that no other equals.
fn tensor(name: &str) -> Tensor {
    let mut data = vec![0; TENSOR];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut data);
    Tensor::new(TensorInfo::new(Dtype::F32, [TENSOR / 4]), data).unwrap()
}

/// The size of a file with all tensors.
const FILE: f64 = (24 * TENSOR) as f64;

/// The memory that the plan expects the import to take.
fn planned_memory(project: &Project) -> f64 {
    let plan: serde_json::Value =
        serde_json::from_str(&project.printed(&["plan", ".", "--json"])).unwrap();
    plan["estimate"]["stages"]["codec"]["ram_bytes"]["likely"].as_f64().unwrap()
}

#[test]
fn a_model_is_imported_with_the_memory_of_its_largest_tensor() {
    let (project, file) = project("codec.safetensors");
    let mut writer = SafetensorsWriter::new(file, infos(), &BTreeMap::new()).unwrap();
    for name in writer.order() {
        writer.write(&tensor(&name)).unwrap();
    }
    writer.finish().unwrap().flush().unwrap();
    assert!(planned_memory(&project) < FILE * 0.75, "{}", planned_memory(&project));
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(peak() < BOUND_KB, "{} kB", peak());
    project.run().assert_nothing_done();
}

#[test]
fn a_checkpoint_of_pytorch_is_imported_with_the_memory_of_its_largest_tensor() {
    let (project, file) = project("codec.pth");
    let mut writer = PthWriter::new(file, infos()).unwrap();
    for name in writer.order() {
        writer.write(&tensor(&name)).unwrap();
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
    let project = Project::new(&MANIFEST.replace("/FILE", ""));
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
