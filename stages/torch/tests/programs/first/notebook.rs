//! The notebook for Kaggle, cell by cell, on a machine that keeps nothing between sessions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use throstle_tests::guide::document;
use throstle_tests::{Project, command};

use super::templates::assert_sounds;
use super::{models, recordings};

const RECIPE: &str = "pipelines/kaggle-vits/pipeline.toml";
/// The place of the attached data set with the sources.
const SOURCES: &str = "kaggle/input/throstle";
const STEPS: u64 = 12;
/// Sessions get longer, so that one of them is long enough on any machine.
const MOST_SESSIONS: u32 = 5;

/// The cells to run, which are all except the first one with code: it installs the programs from the
/// network.
fn cells() -> Vec<String> {
    all_cells()[1..].to_vec()
}

fn all_cells() -> Vec<String> {
    let notebook: Value =
        serde_json::from_str(&document("pipelines/kaggle-vits/run.ipynb")).unwrap();
    let cells = notebook["cells"].as_array().unwrap().iter();
    let code = cells.filter(|cell| cell["cell_type"] == "code");
    let text = |cell: &Value| {
        let lines = cell["source"].as_array().unwrap().iter();
        lines.map(|line| line.as_str().unwrap()).collect::<String>()
    };
    code.map(text).collect()
}

/// Runs a cell, which must succeed, with this folder as the root of the machine.
fn run_cell(root: &Path, cell: &str) {
    let output = try_cell(root, cell);
    assert!(output.status.success(), "{cell}\n{output:?}");
}

fn try_cell(root: &Path, cell: &str) -> Output {
    try_cell_with(root, cell, "")
}

/// The same with more folders of programs, each followed by a colon.
fn try_cell_with(root: &Path, cell: &str, folders: &str) -> Output {
    let path = format!("{folders}{}", std::env::var("PATH").unwrap());
    let script = cell.strip_prefix("%%bash\n").unwrap();
    let place =
        |script: String, path: &str| script.replace(path, &format!("{}{path}", root.display()));
    let script = ["/kaggle/", "/tmp/project"].into_iter().fold(script.to_owned(), place);
    Command::new("bash").args(["-c", &script]).env("PATH", path).output().unwrap()
}

/// Runs the cells in the session of this number, which has four times the time of the previous one.
fn session(root: &Project, number: u32) {
    let recipe = document(RECIPE)
        .replace("stop_after = \"11h30m\"", &format!("stop_after = \"{}s\"", 1 << (2 * number)));
    let small = [
        ("device = \"cuda:0\"", "device = \"cpu\""),
        ("devices = [\"cuda:0\", \"cuda:1\"]", "devices = []"),
        ("precision = \"fp16\"", "precision = \"f32\""),
        ("batch = 16\naccumulation = 2", "batch = 2\npreflight = false"),
        ("patience = 20", "patience = 0"),
        ("steps = 100_000", &format!("steps = {STEPS}\nreport_every = 1")),
    ];
    let recipe = small.iter().fold(recipe, |recipe, (published, own)| {
        assert!(recipe.contains(published), "{published}");
        recipe.replace(published, own)
    });
    root.write(&format!("{SOURCES}/{RECIPE}"), recipe);
    let programs = root.file("kaggle/working/programs");
    std::fs::create_dir_all(&programs).unwrap();
    let throstle = command("throstle", root.path(), &[]).get_program().to_owned();
    std::os::unix::fs::symlink(throstle, programs.join("throstle")).unwrap();
    cells().iter().for_each(|cell| run_cell(root.path(), cell));
}

/// Kaggle only keeps the folder `working`.
fn forget(root: &Project, number: u32) {
    let input = root.file(&format!("kaggle/input/session-{number}"));
    std::fs::rename(root.file("kaggle/working"), input).unwrap();
    std::fs::remove_dir_all(root.file("tmp")).unwrap();
}

/// The statuses of the runs of all sessions, the first one first.
fn statuses(root: &Project) -> Vec<String> {
    let history = root.printed(&["history", "-m", "tmp/project", "--json"]);
    let of = |line: &str| {
        let run: Value = serde_json::from_str(line).unwrap();
        run["status"].as_str().unwrap().to_owned()
    };
    history.lines().map(of).collect()
}

#[test]
fn sessions_on_machines_that_forget_are_one_training() {
    let root = Project::default();
    models::write_vits(&root.file("kaggle/input/voice/models/mms-tts-fin"));
    recordings::write_table_of_one(&root, "kaggle/input/voice", "Kello löi 8.");
    let (mut ended, mut steps) = (Vec::new(), Vec::new());
    for number in 1..=MOST_SESSIONS {
        std::fs::create_dir_all(root.file("tmp")).unwrap();
        session(&root, number - 1);
        ended = statuses(&root);
        steps.extend(told_steps(&root, ended.len()));
        if ended.last().is_some_and(|status| status == "done") {
            break;
        }
        forget(&root, number);
    }
    let stopped = ended.len() - 1;
    let expected: Vec<&str> = std::iter::repeat_n("paused", stopped).chain(["done"]).collect();
    assert_eq!(ended, expected);
    assert!(stopped > 0, "a session of a second is too short for all of it");
    for name in ["001.wav", "002.wav"] {
        assert_sounds(&root.read(&format!("kaggle/working/out/heard/{name}")), name);
    }
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
}

/// The training steps in the last run's log, in order.
fn told_steps(root: &Project, run: usize) -> Vec<u64> {
    let log = root.printed(&["history", &run.to_string(), "-m", "tmp/project", "--json"]);
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_training = |event: &Value| event["event"] == "metrics" && event["stage"] == "trained";
    let mut steps: Vec<u64> =
        events.filter(of_training).filter_map(|event| event["step"].as_u64()).collect();
    // A step may be reported twice in a row: its losses, and those of held-out clips after it.
    steps.dedup();
    steps.retain(|step| *step > 0);
    steps
}

/// Writes its name and its arguments to a file beside it.
const NOTED: &str = "#!/bin/sh\necho \"$(basename \"$0\") $*\" >> \"$(dirname \"$0\")/noted\"\n";

#[test]
fn the_wheel_of_the_data_set_is_installed_and_nothing_is_built() {
    let root = Project::default();
    for program in ["pip", "curl", "make", "throstle"] {
        root.write(&format!("bin/{program}"), NOTED);
        let mode = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(root.file(&format!("bin/{program}")), mode).unwrap();
    }
    for version in ["0.9.0", "0.10.0"] {
        root.write(&format!("{SOURCES}/throstle-{version}-py3-none-manylinux_2_34_x86_64.whl"), "");
    }
    root.write(&format!("{SOURCES}/pipeline.toml"), document(RECIPE));
    let folders = format!("{}:", root.file("bin").display());
    let cells = all_cells();
    let output = try_cell_with(root.path(), &cells[0], &folders);
    assert!(output.status.success(), "{output:?}");
    let wheel = format!("{SOURCES}/throstle-0.10.0-py3-none-manylinux_2_34_x86_64.whl[torch]");
    let wheel = root.file(&wheel);
    let noted = format!("pip install --quiet {}\nthrostle doctor\n", wheel.display());
    assert_eq!(root.text("bin/noted"), noted);
    let output = try_cell_with(root.path(), &cells[1], &folders);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(root.text("tmp/project/pipeline.toml"), document(RECIPE));
}

/// Prints its arguments, and exits with the given status.
const STUB: &str = "#!/bin/sh\necho \"$1\" >> \"$(dirname \"$0\")/asked\"\n\
                    read -r code < \"$(dirname \"$0\")/$1.code\" && exit \"$code\"\nexit 0\n";

#[test]
fn what_is_new_is_packed_however_the_run_ends() {
    for (code, is_well) in [("0", true), ("75", true), ("1", false), ("137", false)] {
        let root = Project::default();
        root.write(&format!("{SOURCES}/{RECIPE}"), document(RECIPE));
        // The intact part of a damaged archive is unpacked.
        root.write("kaggle/input/session-1/cache-1/volume", "");
        root.write("kaggle/working/programs/unpack-cache.code", "1\n");
        root.write("kaggle/working/programs/run.code", format!("{code}\n"));
        let program = "kaggle/working/programs/throstle";
        root.write(program, STUB);
        std::fs::set_permissions(root.file(program), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(root.file("tmp")).unwrap();
        let cells = cells();
        let (last, before) = cells.split_last().unwrap();
        before.iter().for_each(|cell| run_cell(root.path(), cell));
        let asked = root.text("kaggle/working/programs/asked");
        assert_eq!(asked, "unpack-cache\nrun\npack-cache\n", "{code}");
        assert_eq!(try_cell(root.path(), last).status.success(), is_well, "{code}");
    }
}

#[test]
fn programs_are_built_from_files_that_nobody_may_execute() {
    let root = Project::default();
    root.write("Makefile", document("Makefile"));
    root.write("tools/libtorch.sh", document("tools/libtorch.sh"));
    root.write("torch/version.py", "__version__ = '2.11.0'\n");
    for file in ["torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/include/ATen/ATen.h"] {
        root.write(file, "");
    }
    let stub = "#!/bin/sh\necho \"$LIBTORCH\" > built\n";
    root.write("bin/cargo", stub);
    std::fs::set_permissions(root.file("bin/cargo"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", root.file("bin").display(), std::env::var("PATH").unwrap());
    let mut make = Command::new("make");
    make.arg("build").current_dir(root.path()).env("PATH", path);
    let output = make.env("LIBTORCH", root.file("torch")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let built = root.text("built");
    assert_eq!(Path::new(built.trim()), root.file("torch").canonicalize().unwrap());
}
