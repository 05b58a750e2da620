//! The complete build of libtorch for CUDA on a machine without a GPU. `tools/libtorch.sh --cuda`
//! fetches it, 3 GB, to `.libtorch-cuda`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use throstle_tests::{Project, RanProgram};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of the build.
fn whole() -> PathBuf {
    let script = root().join("tools/libtorch.sh");
    let output = Command::new("bash").arg(script).arg("--cuda").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// With all of libtorch for CUDA loaded before anything else, as opening a GPU loads it.
fn preloaded(command: &mut Command) -> &mut Command {
    let libtorch = whole();
    let libraries = libtorch.join("lib");
    command.env("LD_PRELOAD", libraries.join("libtorch_cuda.so"));
    // If the machine has GPUs, they are hidden.
    command.env("LIBTORCH", &libtorch).env("LD_LIBRARY_PATH", libraries);
    command.env("CUDA_VISIBLE_DEVICES", "")
}

fn worker(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throstle-torch"));
    command.args(arguments);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_the_build_for_cuda_opens_and_says_that_there_is_no_gpu() {
    let output = preloaded(&mut worker(&["check"])).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !errors.contains("cannot be preloaded"), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["devices"].as_array().unwrap().len(), 1, "the CPU alone: {report}");
    assert_eq!(report["cuda"]["libtorch"], "13.0", "{report}");
    let lora = root().join("stages/torch/fixtures/lora");
    let lora = lora.to_str().unwrap();
    let mut asked = worker(&["check-fixture", lora, "--device", "cuda:0"]);
    let output = preloaded(&mut asked).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("this machine has no GPU"), "{errors}");
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_with_the_build_for_cuda_everything_runs_on_the_cpu_with_the_same_bits() {
    for name in ["lora", "fish_dual_ar", "fish_dac", "vits", "xtts_gpt", "xtts_sound"] {
        let folder = root().join("stages/torch/fixtures").join(name);
        let arguments = ["check-fixture", folder.to_str().unwrap()];
        let whole = preloaded(&mut worker(&arguments)).output().unwrap();
        assert!(whole.status.success(), "{name}: {}", text(&whole));
        assert_eq!(text(&whole), text(&worker(&arguments).output().unwrap()), "{name}");
    }
    let files = |with: &dyn Fn(&mut Command)| {
        let project = Project::copy_of(&root().join("pipelines/demo"), &["out", ".throstle"]);
        let mut command = project.throstle(&["run", "vits.toml", "--json"]);
        with(&mut command);
        let ran = RanProgram::of(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
        assert!(ran.all("worker-started").iter().all(|event| event["device"] == "cpu"));
        project.files("out/vits")
    };
    let whole = files(&|command| {
        preloaded(command);
    });
    assert!(whole == files(&|_| ()), "the files of both runs differ");
}
