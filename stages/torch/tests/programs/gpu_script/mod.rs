//! `tools/gpu.sh` with programs that act like a machine with two GPUs, and with the real programs
//! on this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use throstle_tests::copy_folder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

const PARTS: [&str; 12] = [
    "machine",
    "fixtures",
    "demo",
    "resume",
    "out-of-memory",
    "memory",
    "devices",
    "training-dual_ar",
    "training-vits",
    "training-xtts",
    "generation",
    "codec",
];

/// Programs of a machine with two GPUs, and the folder of the results.
struct Fake {
    folder: TempDir,
}

impl Fake {
    fn new() -> Fake {
        let folder = tempfile::tempdir().unwrap();
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/gpu_script/fake.py");
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        for name in ["throstle", "throstle-torch", "training", "speech", "fish_dac"] {
            let program = folder.path().join("bin").join(name);
            std::fs::copy(&source, &program).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Fake { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn script(&self, wrong: &str) -> Command {
        let mut command = Command::new("bash");
        command.arg(root().join("tools/gpu.sh"));
        command.arg("--programs").arg(self.folder.path().join("bin")).arg("--out").arg(self.out());
        // A Python that has no package of the original projects.
        command.args(["--original", "python3"]).env("PYTHONNOUSERSITE", "1");
        command.env("FAKE_LOG", self.folder.path().join("log")).env("FAKE", wrong);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn run(&self, wrong: &str) -> (Option<i32>, String) {
        told(&self.script(wrong).output().unwrap())
    }

    fn starts(&self) -> usize {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().count()
    }

    fn results(&self) -> Value {
        results(&self.out())
    }

    fn page(&self) -> String {
        std::fs::read_to_string(self.out().join("results.md")).unwrap()
    }
}

fn told(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.code(), text.concat())
}

fn results(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("results.json")).unwrap()).unwrap()
}

fn state<'a>(results: &'a Value, part: &str) -> &'a str {
    results["parts"][part]["state"].as_str().unwrap()
}

#[test]
fn on_two_gpus_every_part_is_done_and_on_the_page_and_none_is_done_again() {
    let fake = Fake::new();
    let (code, text) = fake.run("");
    assert_eq!(code, Some(0), "{text}");
    let results = fake.results();
    for part in PARTS {
        assert_eq!(state(&results, part), "done", "{part}: {text}");
    }
    let page = fake.page();
    for line in [
        "- cuda:1, Tesla T4, compute capability 7.5, 15.00 GB",
        "| vits | 0.50 | 0.50 | not run: bf16 needs compute capability 8.0 | 0.50 |",
        "| vits | 4 | 0.0e+00 | 5e-02 |",
        "With 1.50 GB a training ended with code 1: trained: CUDA out of memory.",
        "| 4.00 GB (3.00 GB to 5.00 GB) | 4.84 GB | -17 % | 1.5 (1.0 to 2.5) | 2.0 |",
        "2.0 s on cuda:0, cuda:1",
        "| throstle | TF32 | 0.200 s | not run | 2.00 GB |",
        "| throstle | LoRA | 0.200 s |",
        "The original code was not run: `python3` lacks",
        "| throstle, 8 sentences at once | 256.00 |",
        "| throstle | encode | 12.50 |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let before = fake.starts();
    let (code, text) = fake.run("");
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("done before").count(), PARTS.len(), "{text}");
    assert_eq!(fake.starts(), before, "no program was started");
    assert_eq!(fake.page(), page);
}

#[test]
fn a_part_that_fails_makes_the_script_fail_and_only_it_is_done_again() {
    for (wrong, part, word) in [
        ("resume", "resume", "losses differ by"),
        ("memory", "out-of-memory", "fits into the memory"),
    ] {
        let fake = Fake::new();
        let only = ["--only", "machine,resume,out-of-memory"];
        let run = |wrong| told(&fake.script(wrong).args(only).output().unwrap());
        let (code, text) = run(wrong);
        assert_eq!(code, Some(1), "{text}");
        assert_eq!(state(&fake.results(), part), "failed");
        assert!(fake.page().contains(word), "{}", fake.page());
        let (code, text) = run("");
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(text.matches("done before").count(), 2, "{text}");
        assert!(text.contains(&format!("{part}: done, ")), "{text}");
    }
}

#[test]
fn a_part_that_was_killed_starts_again_and_the_ones_before_stay() {
    let fake = Fake::new();
    let mut script = fake.script("hang");
    script.args(["--only", "machine,demo"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = script.spawn().unwrap();
    let log = fake.folder.path().join("log");
    let is_in_demo = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("run "));
    while !is_in_demo() {
        assert!(child.try_wait().unwrap().is_none(), "the script ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!fake.out().join("demo.json").exists());
    let again = fake.script("").args(["--only", "machine,demo"]).output().unwrap();
    let (code, text) = told(&again);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("machine: done before") && text.contains("demo: done, "), "{text}");
}

#[test]
fn parts_without_time_are_left_to_the_next_call() {
    let fake = Fake::new();
    let only = ["--only", "machine,fixtures"];
    let (code, text) = told(&fake.script("").args(only).args(["--minutes", "0"]).output().unwrap());
    assert_eq!((code, fake.starts()), (Some(0), 0), "{text}");
    assert_eq!(state(&fake.results(), "machine"), "not run");
    let (code, text) = told(&fake.script("").args(only).output().unwrap());
    assert_eq!((code, state(&fake.results(), "fixtures")), (Some(0), "done"), "{text}");
}

#[test]
fn parts_of_another_size_are_not_taken_for_those_of_this_one() {
    let fake = Fake::new();
    let run = |size| {
        let arguments = ["--only", "machine", "--size", size];
        told(&fake.script("").args(arguments).output().unwrap()).1
    };
    run("published");
    assert!(run("published").contains("machine: done before"));
    let text = run("small");
    assert!(text.contains("machine: done, "), "{text}");
}

/// A training that waits to be killed is stopped like any other program.
#[test]
fn a_run_that_never_gets_to_its_checkpoint_ends_with_the_time() {
    let fake = Fake::new();
    let only = ["--only", "machine,resume", "--minutes", "0.1"];
    let (code, text) = told(&fake.script("stuck").args(only).output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    let reason = fake.results()["parts"]["resume"]["reason"].to_string();
    assert!(reason.contains("time limit reached"), "{text}");
}

/// As a parcel lies on the disk, with the programs of this build and one fixture.
fn parcel(change: impl Fn(&str) -> String) -> TempDir {
    let parcel = tempfile::tempdir().unwrap();
    let at = |path: &str| parcel.path().join(path);
    std::fs::create_dir_all(at("bin")).unwrap();
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_throstle-torch"));
    for name in ["throstle", "throstle-torch"] {
        std::os::unix::fs::symlink(worker.with_file_name(name), at("bin").join(name)).unwrap();
    }
    copy_folder(&root().join("tools/gpu"), &at("tools/gpu"), &["__pycache__"]);
    for name in ["gpu.sh", "libtorch.sh"] {
        std::fs::copy(root().join("tools").join(name), at("tools").join(name)).unwrap();
    }
    let fixture = at("stages/torch/fixtures/lora");
    copy_folder(&root().join("stages/torch/fixtures/lora"), &fixture, &[]);
    let description = fixture.join("fixture.json");
    let text = std::fs::read_to_string(&description).unwrap();
    std::fs::write(&description, change(&text)).unwrap();
    parcel
}

fn with_real_programs(parcel: &TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("bash");
    command.arg(parcel.path().join("tools/gpu.sh")).args(arguments);
    command.arg("--out").arg(parcel.path().join("out")).env("CUDA_VISIBLE_DEVICES", "");
    told(&command.output().unwrap())
}

#[test]
fn a_fixture_that_is_off_fails_the_script_and_is_named() {
    let only = ["--cpu", "--only", "machine,fixtures"];
    let good = parcel(str::to_owned);
    let (code, text) = with_real_programs(&good, &only);
    assert_eq!(code, Some(0), "{text}");
    let found = &results(&good.path().join("out"))["parts"]["fixtures"]["figures"]["lora"];
    assert_eq!(found["f32"]["tensors"], 9, "{found}");
    assert!(found["tf32"]["not_run"].as_str().unwrap().contains("needs a GPU"), "{found}");
    assert!(found["bf16"]["worst"].as_f64().unwrap() > found["f32"]["worst"].as_f64().unwrap());

    let strict = parcel(|text| {
        let mut fixture: Value = serde_json::from_str(text).unwrap();
        fixture["tolerances"]["output"] = 1e-12.into();
        fixture.to_string()
    });
    let (code, text) = with_real_programs(&strict, &only);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("fixtures: failed") && text.contains("lora in f32: output"), "{text}");

    let broken = parcel(|_| "{}".to_owned());
    assert_eq!(with_real_programs(&broken, &only).0, Some(1));
}

#[test]
fn without_a_gpu_the_script_says_so_and_does_no_more() {
    let parcel = parcel(str::to_owned);
    let (code, text) = with_real_programs(&parcel, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("machine: failed") && text.contains("`--cpu` runs everything"), "{text}");
    assert!(!text.contains("fixtures"), "{text}");
}
