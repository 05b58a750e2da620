//! Other engines on the same clips: a copy and a short extract of each, one process an action.
//! Those that are not installed are left out.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::clock::{median, timed};
use crate::project::Project;
use crate::table::{Table, milliseconds};

struct Peer {
    name: &'static str,
    /// Words of the command that brings everything up to date.
    command: &'static [&'static str],
    rules: fn(&Path, &[String]),
    /// Beyond so many clips it takes minutes.
    at_most: usize,
}

const PEERS: &[Peer] = &[
    Peer { name: "make", command: &["make", "-j2", "-s"], rules: makefile, at_most: 10_000 },
    Peer { name: "ninja", command: &["ninja", "-j2", "--quiet"], rules: ninja, at_most: 10_000 },
    Peer {
        name: "snakemake",
        command: &["snakemake", "-c2", "--quiet", "all"],
        rules: snakefile,
        at_most: 200,
    },
];

pub fn measure(project: &Project, name: &str, table: &mut Table) {
    let stems: Vec<String> = project
        .clips
        .iter()
        .filter_map(|clip| Some(clip.file_stem()?.to_str()?.to_owned()))
        .collect();
    for peer in PEERS.iter().filter(|peer| stems.len() <= peer.at_most && is_there(peer.name)) {
        let folder = project.path();
        (peer.rules)(folder, &stems);
        for made in ["copies", "extracts"] {
            let _ = fs::remove_dir_all(folder.join(made));
            fs::create_dir_all(folder.join(made)).unwrap();
        }
        let Some(cold) = call(peer, folder) else {
            table.plain(&format!("{}, {name} clips", peer.name), "it failed".into());
            continue;
        };
        let no_op = median(5, || _ = call(peer, folder));
        touch(&project.clips[..1]);
        let one = call(peer, folder).unwrap_or_default();
        touch(&project.clips);
        let all = call(peer, folder).unwrap_or_default();
        table.plain(
            &format!("{}, {name} clips: cold / no-op / one changed / all touched", peer.name),
            [cold, no_op, one, all].map(milliseconds).join(" / "),
        );
    }
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn call(peer: &Peer, folder: &Path) -> Option<Duration> {
    let mut command = Command::new(peer.command[0]);
    command.args(&peer.command[1..]).current_dir(folder);
    let (time, output) = timed(|| command.stdin(Stdio::null()).output());
    output.ok().filter(|output| output.status.success()).map(|_| time)
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
