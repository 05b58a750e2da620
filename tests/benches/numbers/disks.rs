//! A small C program once a clip and stage, on clips of two seconds: the plain disk, and a journalled
//! ext4 on a loop device. Once as words, and once as a line for a shell with values as variables. Then
//! one program for all clips, after one changed transcript.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments::Arguments;
use crate::clock::let_files_age;
use crate::commands::{GRACE, Limit, Rows, Runner, compile, write_rules, write_text};
use crate::corpus::Size;
use crate::latency::thousands;
use crate::peers::find;
use crate::project::Project;
use crate::table::Table;

const SECONDS: f64 = 2.0;
/// In a quick run a twentieth.
const CLIPS: [usize; 2] = [1_500, 3_000];
const TURNS: usize = 3;
const TIMES: f64 = 1.15;
/// Changed transcripts.
const CHANGES: usize = 9;

const ONCE: &str = r#"[pipeline]
name = "once"

[stage.clips]
use = "corpus.table"
table = "metadata.csv"
audio = "wavs"
columns = ["file", "text", "speaker"]

[stage.all]
use = "command.once"
input = "clips"
fields = ["audio", "text"]
command = "wc -l < {items} > {out.lines}"
outputs = { lines = "lines.txt" }
texts = ["lines"]
"#;

/// The size of the loop device in MiB. Its image is sparse.
const DISK_MIB: u64 = 4_096;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let Some(ninja) = find(arguments, "ninja") else {
        return table.plain("commands, clips of 2 s", "not measured: no ninja".to_owned());
    };
    measure_on(&arguments.folder, "plain disk", arguments, &ninja, table);
    match LoopDisk::new(&arguments.folder) {
        Ok(disk) => measure_on(&disk.mounted, "journalled ext4", arguments, &ninja, table),
        Err(why) => table.plain("commands, journalled ext4", format!("not measured: {why}")),
    }
}

fn measure_on(above: &Path, disk: &str, arguments: &Arguments, ninja: &Path, table: &mut Table) {
    for clips in CLIPS {
        let size = Size { clips: arguments.scaled(clips), seconds: SECONDS };
        let project = Project::on(above, arguments, size, "");
        let program = match compile(project.path()) {
            Ok(program) => program,
            Err(why) => {
                return table.plain("commands, clips of 2 s", format!("not measured: {why}"));
            }
        };
        write_rules(&project, &program, 2);
        let runners = [
            Runner::throstle(arguments, project.path()),
            Runner::ninja(ninja.to_owned(), project.path()),
        ];
        let what = format!("commands, {} clips of 2 s, {disk}", thousands(size.clips));
        let rows = Rows { runners: &runners, what };
        let words = rows.turns(TURNS, || {}, Runner::forget);
        rows.add(table, "cold, words", &words, Limit::Both(TIMES));
        let manifest = project.path().join("pipeline.toml");
        let lines = fs::read_to_string(&manifest).unwrap();
        let in_shell = lines.replace("audio} 1\"", "audio} 1 || exit\"");
        fs::write(manifest, in_shell.replace("{text}\"", "{text} || exit\"")).unwrap();
        write_shell_rules(project.path());
        let variables = rows.turns(TURNS, || {}, Runner::forget);
        rows.add(table, "cold, a shell with values as variables", &variables, Limit::Both(TIMES));
        once(&project, &rows, table);
    }
}

/// The commands of ninja as lines for a shell that starts a program.
fn write_shell_rules(folder: &Path) {
    let rules = folder.join("build.ninja");
    let text = fs::read_to_string(&rules).unwrap();
    let line = |line: &str| {
        if line.starts_with(" command = ") {
            format!("{line} || exit\n")
        } else {
            format!("{line}\n")
        }
    };
    fs::write(rules, text.lines().map(line).collect::<String>()).unwrap();
}

/// One changed transcript among the inputs of one program, which counts a list.
fn once(project: &Project, rows: &Rows, table: &mut Table) {
    let folder = project.path();
    fs::write(folder.join("pipeline.toml"), ONCE).unwrap();
    let mut ninja = String::from(
        "rule all\n command = wc -l < $out.list > $out\n rspfile = $out.list\n \
         rspfile_content = $in_newline\nbuild ninja-lines: all",
    );
    for number in 0..project.clips.len() {
        let _ = write!(ninja, " wavs/clip{number:06}.wav texts/clip{number:06}.txt");
    }
    ninja.push('\n');
    fs::write(folder.join("build.ninja"), ninja).unwrap();
    let_files_age();
    for runner in rows.runners.iter().chain(rows.runners) {
        runner.run();
    }
    let (number, mut round) = (project.clips.len() / 3, 0);
    let change = || {
        round += 1;
        let text = format!("Another text, the {round}th.");
        project.change_text(number, &text);
        write_text(folder, number, &text);
        let_files_age();
    };
    let spent = rows.turns(CHANGES, change, |_| {});
    rows.add(table, "one program for all, one changed transcript", &spent, Limit::Over(GRACE));
}

/// A journalled ext4 in a file, mounted until it is dropped.
struct LoopDisk {
    /// Removed after the disk is unmounted.
    _folder: tempfile::TempDir,
    mounted: PathBuf,
}

impl LoopDisk {
    fn new(above: &Path) -> Result<LoopDisk, String> {
        let folder = tempfile::tempdir_in(above).unwrap();
        let (image, mounted) = (folder.path().join("image"), folder.path().join("disk"));
        fs::create_dir(&mounted).unwrap();
        let file = fs::File::create(&image).unwrap();
        file.set_len(DISK_MIB << 20).unwrap();
        call(Command::new("mkfs.ext4").args(["-q", "-F", "-O", "has_journal"]).arg(&image))?;
        let mounts = call(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted));
        mounts.map_err(|why| format!("a loop device needs root: {why}"))?;
        Ok(LoopDisk { _folder: folder, mounted })
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if let Err(why) = call(Command::new("umount").arg(&self.mounted)) {
            eprintln!("{}: {why}", self.mounted.display());
        }
    }
}

fn call(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
