//! Other engines on the same clips: a copy and a short extract of each, one process per action.
//! Engines that are neither beside the chosen Python nor on the search path are left out.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::arguments::Arguments;
use crate::clock::{let_files_age, median, timed};
use crate::corpus::{RATE, clip};
use crate::project::Project;
use crate::table::{Table, milliseconds};

struct Peer {
    name: &'static str,
    /// The command that brings everything up to date.
    words: &'static [&'static str],
    rules: fn(&Path, &[String]),
    /// With more clips it takes minutes.
    at_most: usize,
}

const PEERS: &[Peer] = &[
    Peer { name: "make", words: &["-j2", "-s"], rules: makefile, at_most: 100_000 },
    Peer { name: "ninja", words: &["-j2", "--quiet"], rules: ninja, at_most: 100_000 },
    Peer { name: "dvc", words: &["repro", "--quiet"], rules: dvc, at_most: 100_000 },
    Peer { name: "snakemake", words: &["-c2", "--quiet", "all"], rules: snakefile, at_most: 1_000 },
];

const NO_OPS: usize = 3;

pub fn measure(arguments: &Arguments, project: &Project, name: &str, table: &mut Table) {
    let stems: Vec<String> = project
        .clips
        .iter()
        .filter_map(|clip| Some(clip.file_stem()?.to_str()?.to_owned()))
        .collect();
    for (number, peer) in PEERS.iter().filter(|peer| stems.len() <= peer.at_most).enumerate() {
        let Some(program) = find(arguments, peer.name) else { continue };
        let call = || call(&program, peer, project.path());
        let what = format!("{}, {name} clips: cold / no-op / one changed / all touched", peer.name);
        match times(project, peer, &stems, number as u64, call) {
            Ok(times) => table.plain(&what, times.map(milliseconds).join(" / ")),
            Err(why) => table.plain(&what, format!("it failed: {why}")),
        }
    }
}

fn times(
    project: &Project,
    peer: &Peer,
    stems: &[String],
    number: u64,
    call: impl Fn() -> Result<Duration, String>,
) -> Result<[Duration; 4], String> {
    let folder = project.path();
    for made in ["copies", "extracts", ".dvc", ".snakemake"] {
        let _ = fs::remove_dir_all(folder.join(made));
    }
    for made in ["copies", "extracts"] {
        fs::create_dir_all(folder.join(made)).unwrap();
    }
    (peer.rules)(folder, stems);
    let cold = call()?;
    let no_op = median(NO_OPS, || _ = call());
    // Engines that compare contents would not detect a changed time alone.
    fs::write(&project.clips[0], clip(8_000_000 + number, RATE as usize, RATE)).unwrap();
    let_files_age();
    let one = call()?;
    touch(&project.clips);
    Ok([cold, no_op, one, call()?])
}

/// A program beside the Python that was named, else one on the search path.
pub fn find(arguments: &Arguments, name: &str) -> Option<PathBuf> {
    let beside = Path::new(&arguments.python).parent().map(|folder| folder.join(name));
    let candidates = beside.into_iter().filter(|path| path.is_absolute()).chain([name.into()]);
    candidates.into_iter().find(|program| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

fn call(program: &Path, peer: &Peer, folder: &Path) -> Result<Duration, String> {
    let mut command = Command::new(program);
    command.args(peer.words).current_dir(folder).stdin(Stdio::null());
    let (time, output) = timed(|| command.output());
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(time)
    } else {
        Err(said.lines().last().unwrap_or("it said nothing").to_owned())
    }
}

fn touch(clips: &[std::path::PathBuf]) {
    // File times have to be later than those of the results.
    std::thread::sleep(Duration::from_millis(20));
    for clip in clips {
        File::options().append(true).open(clip).unwrap().set_modified(SystemTime::now()).unwrap();
    }
}

fn makefile(folder: &Path, stems: &[String]) {
    let mut text = String::from("MAKEFLAGS += -r\nall: make.pack\n.PHONY: all\n");
    for stem in stems {
        let _ = writeln!(text, "copies/{stem}.wav: wavs/{stem}.wav\n\tcp $< $@");
        let _ = writeln!(text, "extracts/{stem}.npy: copies/{stem}.wav\n\thead -c 100 $< > $@");
        let _ = writeln!(text, "make.pack: extracts/{stem}.npy");
    }
    text.push_str("make.pack:\n\ttouch $@\n");
    fs::write(folder.join("Makefile"), text).unwrap();
}

fn ninja(folder: &Path, stems: &[String]) {
    let mut text = String::from(
        "rule cp\n command = cp $in $out\nrule extract\n command = head -c 100 $in > $out\n\
         rule pack\n command = touch $out\n",
    );
    for stem in stems {
        let _ = writeln!(text, "build copies/{stem}.wav: cp wavs/{stem}.wav");
        let _ = writeln!(text, "build extracts/{stem}.npy: extract copies/{stem}.wav");
    }
    let all: Vec<String> = stems.iter().map(|stem| format!("extracts/{stem}.npy")).collect();
    let _ = writeln!(text, "build ninja.pack: pack {}", all.join(" "));
    fs::write(folder.join("build.ninja"), text).unwrap();
}

/// One stage per folder, as its documentation recommends: one changed clip runs its folder again.
fn dvc(folder: &Path, _: &[String]) {
    let _ = fs::remove_file(folder.join("dvc.lock"));
    fs::create_dir_all(folder.join(".dvc")).unwrap();
    // Without a repository around it, and without network access.
    let config = "[core]\n    no_scm = True\n    analytics = false\n    check_update = false\n";
    fs::write(folder.join(".dvc/config"), config).unwrap();
    let text = r#"
stages:
  copy:
    cmd: mkdir -p copies && for clip in wavs/*; do cp "$clip" copies/; done
    deps: [wavs]
    outs: [copies]
  extract:
    cmd: mkdir -p extracts && cd copies && for clip in *; do head -c 100 "$clip" > "../extracts/$clip.npy"; done
    deps: [copies]
    outs: [extracts]
  pack:
    cmd: touch dvc.pack
    deps: [extracts]
    outs: [dvc.pack]
"#;
    fs::write(folder.join("dvc.yaml"), text).unwrap();
}

fn snakefile(folder: &Path, _: &[String]) {
    let text = r#"
STEMS = glob_wildcards("wavs/{stem}.wav").stem
rule all:
    input: "snake.pack"
rule copy:
    input: "wavs/{stem}.wav"
    output: "copies/{stem}.wav"
    shell: "cp {input} {output}"
rule extract:
    input: "copies/{stem}.wav"
    output: "extracts/{stem}.npy"
    shell: "head -c 100 {input} > {output}"
rule pack:
    input: expand("extracts/{stem}.npy", stem=STEMS)
    output: "snake.pack"
    shell: "touch {output}"
"#;
    fs::write(folder.join("Snakefile"), text).unwrap();
}
