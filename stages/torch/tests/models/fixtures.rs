//! Models against the results of their reference implementations for the same inputs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use safetensors::SafeTensors;
use stage_torch::fixture::{Setup, check_on};
use stage_torch::train::precision::Precision;
use tch::Device;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mel_rvq")
}

fn check(folder: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_throstle-torch");
    Command::new(program).arg("check-fixture").arg(folder).output().unwrap()
}

fn copied(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// A copy of the fixture with one text of `fixture.json` changed.
fn changed(from: &str, to: &str) -> tempfile::TempDir {
    let copy = copied(&folder());
    let path = copy.path().join("fixture.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from));
    std::fs::write(&path, text.replace(from, to)).unwrap();
    copy
}

#[test]
fn the_embedded_codec_agrees_with_its_reference() {
    let comparisons = stage_torch::fixture::check(&folder()).unwrap();
    let names: Vec<&str> = comparisons.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["codes", "frames", "log_mel"]);
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
    assert_eq!(check(&folder()).status.code(), Some(0));
}

#[test]
fn the_text_model_agrees_with_its_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fish_dual_ar");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    let count = |group: &str| comparisons.iter().filter(|one| one.name.starts_with(group)).count();
    assert_eq!((count("layer."), count("loss."), count("sampled.")), (2, 2, 1));
    assert_eq!((count("gradient."), count("trained.")), (36, 36));
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

/// Sampling draws something else here with settings in bf16, as the package has them. It was made by
/// `make_fish_dual_ar.py FOLDER --parity upstream --seed 6` with the sizes of the other fixture and
/// `--length 10 --frames 40 --steps 1`.
#[test]
fn sampling_of_the_original_follows_its_repository() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fish_dual_ar_upstream");
    let fixture = std::fs::read_to_string(folder.join("fixture.json")).unwrap();
    assert!(fixture.contains("commit d3df505"), "a fixture says what made it");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    assert!(comparisons.iter().any(|one| one.name == "sampled.ids"));
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

#[test]
fn adapters_agree_with_their_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/lora");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    assert_eq!(comparisons.len(), 9);
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

#[test]
fn what_is_off_is_shown_and_fails() {
    let strict = changed("0.0002", "1e-12");
    let output = check(strict.path());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("log_mel")).unwrap();
    assert!(line.ends_with("tolerance 1.0e-12  OFF"), "{line}");
}

#[test]
fn a_failure_of_libtorch_is_its_words_alone_and_no_panic() {
    let copy = copied(&named("lora"));
    let path = copy.path().join("tensors.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tokens = file.tensor("input.tokens").unwrap().data();
    let start = tokens.as_ptr() as usize - bytes.as_ptr() as usize;
    // A row that the embeddings do not have.
    bytes[start..start + 4].copy_from_slice(&30_000i32.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let output = check(copy.path());
    let told = "throstle-torch: libtorch: index out of range in self\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), told);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_fixture_reads_nothing_outside_its_folder() {
    let outside = changed("\"model.safetensors\"", "\"../model.safetensors\"");
    let error = stage_torch::fixture::check(outside.path()).unwrap_err();
    assert_eq!(error.to_string(), "`../model.safetensors` is not a plain file name");
}

#[test]
fn the_fish_codec_agrees_with_its_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fish_dac");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    let names: Vec<&str> = comparisons.iter().map(|c| c.name.as_str()).collect();
    for name in ["codes", "wave", "encoder.3", "latent.3", "post_module.0", "decoder.3"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

#[test]
fn vits_agrees_with_its_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vits");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    let count = |group: &str| comparisons.iter().filter(|one| one.name.starts_with(group)).count();
    assert_eq!((count("still."), count("noisy."), count("short.")), (4, 4, 4));
    assert_eq!((count("text."), count("learn."), count("loss."), count("curve")), (3, 12, 7, 1));
    assert_eq!((count("gradient."), count("trained.")), (393, 393));
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

/// The decoder of Piper against VITS of coqui-tts with `resblock_type_decoder = "2"`, made by
/// `make_vits_resblock2.py`: its losses, every gradient, and ten steps of both networks.
#[test]
fn vits_with_the_decoder_of_piper_agrees_with_a_second_reference() {
    let comparisons = stage_torch::fixture::check(&named("vits_resblock2")).unwrap();
    let count = |group: &str| comparisons.iter().filter(|one| one.name.starts_with(group)).count();
    assert_eq!((count("still."), count("noisy."), count("short.")), (4, 4, 4));
    assert_eq!((count("text."), count("learn."), count("loss."), count("curve")), (3, 12, 7, 1));
    assert_eq!((count("gradient."), count("trained.")), (482, 482));
    let of_blocks = "gradient.decoder.resblocks.8.convs.1.weight_v";
    assert!(comparisons.iter().any(|one| one.name == of_blocks));
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

#[test]
fn the_recogniser_agrees_with_its_references() {
    for norm in ["group", "layer", "mms_fa"] {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/wav2vec2_{norm}"));
        let comparisons = stage_torch::fixture::check(&folder).unwrap();
        let names: Vec<&str> = comparisons.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["frames", "logits", "text"], "{norm}");
        for comparison in &comparisons {
            assert!(comparison.is_good(), "{norm}: {comparison:?}");
        }
    }
}

#[test]
fn the_parts_of_xtts_for_sound_agree_with_their_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/xtts_sound");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    let count = |group: &str| comparisons.iter().filter(|one| one.name.starts_with(group)).count();
    assert_eq!((count("mel."), count("codes."), count("speaker."), count("wave.")), (5, 2, 2, 3));
    assert_eq!((count("resampled."), count("table.")), (2, 3));
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

#[test]
fn the_gpt_of_xtts_agrees_with_its_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/xtts_gpt");
    let comparisons = stage_torch::fixture::check(&folder).unwrap();
    let count = |group: &str| comparisons.iter().filter(|one| one.name.starts_with(group)).count();
    assert_eq!((count("gradient."), count("trained."), count("curve.")), (66, 66, 1));
    assert_eq!((count("unequal.block."), count("sampled."), count("cache.")), (2, 2, 1));
    let losses = comparisons.iter().filter(|one| one.name.contains(".loss."));
    assert_eq!(losses.count(), 5 * 2 + 2 * 2);
    for comparison in &comparisons {
        assert!(comparison.is_good(), "{comparison:?}");
    }
}

fn named(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn check_with(name: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let program = env!("CARGO_BIN_EXE_throstle-torch");
    let mut command = Command::new(program);
    command.arg("check-fixture").arg(named(name)).args(options);
    let output = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The tolerances of half precision hold on a CPU, which computes in bf16 and fp16 as well.
#[test]
fn half_precision_agrees_within_its_tolerance_and_leaves_out_choices() {
    for precision in [Precision::Bf16, Precision::Fp16] {
        let setup = Setup { device: Device::Cpu, precision };
        for name in ["fish_dual_ar", "fish_dual_ar_upstream", "xtts_gpt", "vits", "lora"] {
            let comparisons = check_on(&named(name), &setup).unwrap();
            let off: Vec<_> = comparisons.iter().filter(|one| !one.is_good()).collect();
            assert!(off.is_empty(), "{name} {precision:?}: {off:?}");
            assert!(comparisons.iter().any(|one| one.worst > 1e-4), "{name}: it computed in f32");
            let is_choice = |name: &str| name.starts_with("sampled") || name.ends_with("durations");
            assert!(!comparisons.iter().any(|one| is_choice(&one.name)), "{name}");
        }
    }
}

#[test]
fn the_default_is_f32_on_the_cpu_to_the_bit() {
    for name in ["lora", "xtts_sound"] {
        let given = check_with(name, &["--device", "cpu", "--precision", "f32"]);
        assert_eq!(given, check_with(name, &[]));
        assert_eq!(given.0, Some(0));
    }
}

#[test]
fn a_precision_that_a_model_or_a_device_lacks_is_told_by_another_exit_code() {
    let told = |name: &str, options: &[&str]| {
        let (code, text, error) = check_with(name, options);
        assert_eq!(text, "", "{error}");
        (code, error.trim().to_owned())
    };
    let model = told("fish_dac", &["--precision", "bf16"]);
    assert_eq!(model, (Some(2), "throstle-torch: this model supports only f32".into()));
    let cpu = told("mel_rvq", &["--device", "cuda:0"]);
    assert_eq!(cpu, (Some(2), "throstle-torch: this model supports only the CPU".into()));
    let (code, error) = told("lora", &["--precision", "tf32"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("tf32 needs a GPU"), "{error}");
    let (code, error) = told("lora", &["--device", "cuda:0"]);
    assert_eq!(code, Some(1), "a device that is not there is a failure");
    assert!(error.contains("cuda:0"), "{error}");
    let (code, error) = told("lora", &["--device", "cuda:01"]);
    assert_eq!(code, Some(1));
    let expected = "throstle-torch: there is no device `cuda:01`; did you mean `cuda:1`?";
    assert_eq!(error, expected);
    for wrong in [&["--precision", "f16"][..], &["--precision"], &["--gpu", "0"]] {
        let (code, error) = told("lora", wrong);
        assert_eq!(code, Some(2));
        assert!(error.starts_with("usage: "), "{error}");
    }
}
