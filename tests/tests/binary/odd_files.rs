//! Paths of files that are not regular: no command waits for them.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use throstle_tests::{Project, write_clips};

const MANIFEST: &str = r#"
[pipeline]
name = "odd"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"
quarantine = 1.0

[stage.decoded]
use = "audio.decode"
input = "clips"
"#;

/// Far more than any of these commands takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn ended(project: &Project, arguments: &[&str]) -> Output {
    let mut command = project.throstle(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{arguments:?} waits for somebody");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b", "c"]);
    project
}

fn pipe_at(path: &Path) {
    let _ = std::fs::remove_file(path);
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
}

const COMMANDS: [&[&str]; 5] =
    [&["plan"], &["run"], &["status"], &["items", "clips"], &["why", "clips"]];

#[test]
fn no_command_waits_for_a_recording_that_is_a_pipe() {
    let project = project();
    pipe_at(&project.file("data/wavs/b.wav"));
    for arguments in COMMANDS {
        let output = ended(&project, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    }
    let aside = said(&ended(&project, &["items", "clips", "--quarantined"]));
    assert!(aside.contains("cannot open `data/wavs/b.wav`: it is a named"), "{aside}");
}

#[test]
fn no_command_waits_for_a_table_that_is_a_pipe_or_of_the_kernel() {
    let project = project();
    assert_eq!(ended(&project, &["run"]).status.code(), Some(0));
    let table = project.file("data/metadata.csv");
    pipe_at(&table);
    for arguments in [&["check"][..], &["plan"], &["run"]] {
        let output = ended(&project, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("named pipe"), "{}", said(&output));
    }
    std::fs::remove_file(&table).unwrap();
    std::os::unix::fs::symlink("/proc/self/status", &table).unwrap();
    let output = ended(&project, &["run"]);
    assert!(said(&output).contains("a file of the kernel"), "{}", said(&output));
    std::fs::remove_file(&table).unwrap();
    std::os::unix::fs::symlink("/proc/kmsg", &table).unwrap();
    assert_eq!(ended(&project, &["run"]).status.code(), Some(1));
}

#[test]
fn a_source_that_is_a_pipe_hides_no_unknown_stage_and_stops_no_other_one() {
    let project = project();
    let more =
        "\n[stage.more]\nuse = \"corpus.table\"\ntable = \"more.csv\"\naudio = \"data/wavs\"\n";
    project.write("pipeline.toml", format!("{MANIFEST}{more}"));
    for is_there in [false, true] {
        if is_there {
            pipe_at(&project.file("more.csv"));
        }
        let unknown = ended(&project, &["run", ".", "decoed"]);
        assert_eq!(unknown.status.code(), Some(2), "{}", said(&unknown));
        assert!(said(&unknown).contains("has no stage `decoed`"), "{}", said(&unknown));
        assert!(said(&unknown).contains("`decoded`"), "{}", said(&unknown));
        let needed = ended(&project, &["run", ".", "more"]);
        assert_eq!(needed.status.code(), Some(2), "{}", said(&needed));
        assert!(said(&needed).contains("more.csv"), "{}", said(&needed));
        assert_eq!(ended(&project, &["run", ".", "decoded"]).status.code(), Some(0));
    }
}

#[test]
fn a_manifest_that_is_a_pipe_is_refused() {
    let project = project();
    pipe_at(&project.file("pipeline.toml"));
    for arguments in [&["check"][..], &["plan"], &["run"]] {
        let output = ended(&project, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("named pipe"), "{arguments:?}: {}", said(&output));
    }
    for odd in ["/dev/null", "/proc/self/status"] {
        let output = ended(&project, &["check", odd]);
        assert_eq!(output.status.code(), Some(2), "{odd}: {}", said(&output));
    }
}

#[test]
fn a_manifest_that_is_not_utf8_is_told_with_its_line() {
    let project = project();
    let bytes = [MANIFEST.as_bytes(), b"# caf\xe9\n"].concat();
    project.write("pipeline.toml", &bytes);
    let output = ended(&project, &["check"]);
    assert_eq!(output.status.code(), Some(2));
    let line = MANIFEST.lines().count() + 1;
    assert!(said(&output).contains(&format!("line {line}, column 6")), "{}", said(&output));
}

#[test]
fn an_archive_with_a_pipe_in_it_is_taken_in_as_far_as_it_goes() {
    let project = project();
    assert_eq!(ended(&project, &["run"]).status.code(), Some(0));
    project.printed(&["pack-cache", "--to", "base"]);
    for name in project.names("base") {
        let other = Project::copy_of(project.path(), &[".throstle"]);
        pipe_at(&other.file(&format!("base/{name}")));
        let output = ended(&other, &["unpack-cache", "--from", "base"]);
        assert_ne!(output.status.code(), None, "{name}: {}", said(&output));
        assert_eq!(ended(&other, &["run"]).status.code(), Some(0), "{name}");
    }
}

#[test]
fn an_asset_a_file_of_tokens_and_an_export_may_be_pipes() {
    let project = project();
    let manifest = MANIFEST
        .replace("quarantine = 1.0", "quarantine = 1.0\ntokens = \"data/tokens\"")
        + "export = \"out/{id}.wav\"\n";
    project.write("pipeline.toml", manifest.clone());
    project.write("data/tokens/a.npy", "");
    pipe_at(&project.file("data/tokens/b.npy"));
    project.write("out/none", "");
    pipe_at(&project.file("out/a.wav"));
    let output = ended(&project, &["run"]);
    assert!(output.status.code().is_some(), "{}", said(&output));
    let asset = "\n[assets.model]\npath = \"data/model\"\n\n[stage.taken]\nuse = \"model.import\"\n\
                 asset = \"assets.model\"\n";
    project.write("pipeline.toml", manifest + asset);
    pipe_at(&project.file("data/model"));
    let output = ended(&project, &["run"]);
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
}

/// The bytes that a command writes to a pipe.
fn through_pipe(project: &Project, arguments: &[&str]) -> String {
    let pipe = project.file("pipe");
    pipe_at(&pipe);
    let reading = std::thread::spawn(move || std::fs::read(pipe).unwrap());
    let output = ended(project, &[arguments, &["--output", "pipe"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    assert!(std::fs::symlink_metadata(project.file("pipe")).unwrap().file_type().is_fifo());
    String::from_utf8(reading.join().unwrap()).unwrap()
}

#[test]
fn an_output_that_is_a_pipe_gets_the_bytes_and_stays_one() {
    let project = project();
    assert_eq!(ended(&project, &["run"]).status.code(), Some(0));
    let commands: [&[&str]; 3] = [&["items", "clips", "--format", "csv"], &["graph"], &["report"]];
    for arguments in commands {
        let through = through_pipe(&project, arguments);
        let plain = project.printed(&[arguments, &["--output", "-"]].concat());
        assert_eq!(through, plain, "{arguments:?}");
        // As a shell has it for its own pipes.
        assert_eq!(project.printed(&[arguments, &["--output", "/dev/stdout"]].concat()), plain);
    }
    assert!(project.names(".").iter().all(|name| !name.starts_with(".throstle-")));
}

#[test]
fn an_export_does_not_take_the_place_of_a_pipe() {
    let project = project();
    project.edit("pipeline.toml", |text| format!("{text}export = \"out/{{id}}.wav\"\n"));
    std::fs::create_dir(project.file("out")).unwrap();
    pipe_at(&project.file("out/b.wav"));
    let output = ended(&project, &["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = "cannot export to `out/b.wav`: it is a named pipe, not a regular file; remove it";
    assert!(said(&output).contains(told), "{}", said(&output));
    assert!(std::fs::symlink_metadata(project.file("out/b.wav")).unwrap().file_type().is_fifo());
    project.remove("out/b.wav");
    assert_eq!(ended(&project, &["run"]).status.code(), Some(0));
    assert_eq!(project.names("out"), ["a.wav", "b.wav", "c.wav"]);
}
