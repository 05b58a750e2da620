//! The worker finds its GPUs through the CUDA runtime of its process, which is a fake one here, loaded
//! before any other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stage_core::device::Devices;
use stage_worker::wire::{Reply, Request, receive, send};

/// A runtime with these definitions.
fn fake(folder: &Path, definitions: &[&str]) -> PathBuf {
    let library = folder.join("libfake_cudart.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/worker/fake_cudart.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    let output = compiler.args(definitions.iter().map(|one| format!("-D{one}"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

fn worker(definitions: &[&str]) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_throstle-torch"));
    command.env("LD_PRELOAD", fake(folder.path(), definitions)).env_remove("CUDA_VISIBLE_DEVICES");
    (command, folder)
}

fn devices(definitions: &[&str], visible: Option<&str>) -> Devices {
    let (mut command, _folder) = worker(definitions);
    if let Some(visible) = visible {
        command.env("CUDA_VISIBLE_DEVICES", visible);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    send(child.stdin.as_mut().unwrap(), &Request::Devices).unwrap();
    let reply = receive(child.stdout.as_mut().unwrap()).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    match reply {
        Some(Reply::Devices(devices)) => devices,
        other => panic!("{other:?}"),
    }
}

#[test]
fn gpus_are_those_that_the_cuda_runtime_shows() {
    let found = devices(&["COUNT=2"], None);
    let models: Vec<&str> = found.gpus.iter().map(|gpu| gpu.model.as_str()).collect();
    assert_eq!(models, ["Tesla T4", "Second GPU"]);
    assert_eq!((found.gpus[1].capability, found.gpus[1].memory_bytes), ((7, 5), 15 << 30));
    let expected = "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1";
    assert_eq!(found.gpus[1].uuid.as_deref(), Some(expected));
    assert_eq!(found.problem, None);
    assert_eq!(devices(&["FAULT=100"], None), Devices::default());
}

#[test]
fn what_keeps_a_gpu_from_use_is_told() {
    let problem = |definitions: &[&str], visible| {
        let found = devices(definitions, visible);
        assert!(found.gpus.is_empty());
        found.problem.unwrap()
    };
    let old = problem(&["FAULT=35", "DRIVER=12020"], None);
    assert!(old.starts_with("the NVIDIA driver supports CUDA 12.2"), "{old}");
    let named = problem(&["FAULT=100"], Some("7"));
    assert_eq!(named, "`CUDA_VISIBLE_DEVICES=7` names no GPU of this machine");
    let other = problem(&["FAULT=802"], None);
    assert_eq!(other, "CUDA does not start: system not yet initialized (error 802)");
}

#[test]
fn check_reports_gpus_and_the_reason_why_one_cannot_be_used() {
    let (mut command, _folder) = worker(&["MAJOR=6"]);
    let output = command.arg("check").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["cuda"]["driver"], "13.0", "{report}");
    assert_eq!(report["devices"].as_array().unwrap().len(), 1, "the CPU alone");
    let error = report["cuda_error"].as_str().unwrap();
    assert!(error.starts_with("`Tesla T4` has compute capability 6.5"), "{error}");
}
