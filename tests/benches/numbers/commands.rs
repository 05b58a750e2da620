//! A small C program once a clip and stage, two stages: throstle, ninja and make in turns.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::arguments::Arguments;
use crate::clock::{Spent, let_files_age, spent, timed};
use crate::corpus::{RATE, Size, clip};
use crate::disks;
use crate::latency::thousands;
use crate::peers::find;
use crate::project::Project;
use crate::raw;
use crate::table::{Table, milliseconds};

const SOURCE: &str = include_str!("small.c");
/// Seconds of a clip: the program's own work is small.
const SECONDS: f64 = 0.5;
const COLD_TURNS: usize = 3;
const TURNS: usize = 9;
/// Over ninja, for one changed clip or transcript.
pub const GRACE: Duration = Duration::from_millis(30);
/// For the inputs of `command.once`, beside the program's own time.
const LAYING_OUT: Duration = Duration::from_millis(400);

const MANIFEST: &str = r#"[pipeline]
name = "commands"

[stage.clips]
use = "corpus.table"
table = "metadata.csv"
audio = "wavs"
columns = ["file", "text", "speaker"]

[stage.one]
use = "command"
input = "clips"
fields = ["audio"]
command = "SMALL {audio} {out.audio} 1"
outputs = { audio = "one.wav" }

[stage.two]
use = "command"
input = "one"
fields = ["audio", "text"]
command = "SMALL {audio} {out.audio} 2 {text}"
outputs = { audio = "two.wav" }
"#;

const ONCE: &str = r#"
[stage.all]
use = "command.once"
input = "two"
fields = ["audio"]
command = "wc -l < {items} > {out.lines}"
outputs = { lines = "lines.txt" }
texts = ["lines"]
"#;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    if arguments.wants("commands", "disks") {
        disks::measure(arguments, table);
    }
    if !["programs", "once"].iter().any(|part| arguments.wants("commands", part)) {
        return;
    }
    let sizes = arguments.sizes().into_iter().map(|size| size.clips);
    let sizes: Vec<usize> = sizes.filter(|clips| *clips <= 10_000 && *clips != 4_000).collect();
    for clips in sizes {
        let project = Project::with(arguments, Size { clips, seconds: SECONDS }, "");
        match compile(project.path()) {
            Ok(program) => measure_size(arguments, project, &program, table),
            Err(why) => table.plain("commands", format!("not measured: {why}")),
        }
    }
}

pub fn compile(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("small.c"), folder.join("small"));
    fs::write(&source, SOURCE).unwrap();
    let compiled = Command::new("cc").arg("-O2").arg("-o").args([&program, &source]).status();
    match compiled {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("cc ended with {status}")),
        Err(error) => Err(format!("cc: {error}")),
    }
}

/// One of those that are compared.
pub struct Runner {
    name: &'static str,
    program: PathBuf,
    words: &'static [&'static str],
    folder: PathBuf,
    /// The folders that it fills, and its memory.
    made: [&'static str; 3],
}

impl Runner {
    pub fn throstle(arguments: &Arguments, folder: &Path) -> Runner {
        Runner {
            name: "throstle",
            program: arguments.program.clone(),
            words: &["run"],
            folder: folder.to_owned(),
            made: [".unused-one", ".unused-two", ".throstle"],
        }
    }

    pub fn ninja(program: PathBuf, folder: &Path) -> Runner {
        Runner {
            name: "ninja",
            program,
            words: &["-j2", "--quiet"],
            folder: folder.to_owned(),
            made: ["ninja-one", "ninja-two", ".ninja_log"],
        }
    }

    fn make(program: PathBuf, folder: &Path) -> Runner {
        Runner {
            name: "make",
            program,
            words: &["-j2", "-s"],
            folder: folder.to_owned(),
            made: ["make-one", "make-two", ".unused"],
        }
    }

    pub fn run(&self) -> Spent {
        let mut command = Command::new(&self.program);
        command.args(self.words).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (spent, status) = spent(|| command.status().unwrap());
        assert!(status.success(), "{} ended with {status}", self.name);
        spent
    }

    /// Forgets all that was made.
    pub fn forget(&self) {
        let [one, two, memory] = self.made.map(|made| self.folder.join(made));
        for made in [&one, &two, &memory] {
            let _ = fs::remove_dir_all(made);
        }
        let _ = fs::remove_file(memory);
        [one, two].into_iter().for_each(|made| fs::create_dir(made).unwrap());
    }
}

fn measure_size(arguments: &Arguments, project: Project, program: &Path, table: &mut Table) {
    write_rules(&project, program, 2);
    let throstle = Runner::throstle(arguments, project.path());
    if arguments.wants("commands", "once") {
        once(&project, &throstle, table);
    }
    if arguments.wants("commands", "programs") {
        programs(arguments, &project, program, throstle, table);
    }
}

/// Each program once per clip and stage.
fn programs(
    arguments: &Arguments,
    project: &Project,
    program: &Path,
    throstle: Runner,
    table: &mut Table,
) {
    let folder = project.path();
    let mut runners = vec![throstle];
    type OfFolder = fn(PathBuf, &Path) -> Runner;
    let others: [(&str, OfFolder); 2] = [("ninja", Runner::ninja), ("make", Runner::make)];
    for (name, runner) in others {
        match find(arguments, name) {
            Some(program) => runners.push(runner(program, folder)),
            None => table.plain(&format!("commands, {name}"), "not installed".to_owned()),
        }
    }
    let count = thousands(project.clips.len());
    let rows = Rows { runners: &runners, what: format!("commands, {count} clips") };
    let clips = &project.clips;
    let (mut round, mut parameter) = (0, 2);
    // What one run has made, another one does not find.
    let cold = rows.turns(COLD_TURNS, || {}, Runner::forget);
    rows.add(table, "cold, 2 programs a clip", &cold, Limit::Times(1.15));
    let_files_age();
    for runner in runners.iter().chain(&runners) {
        runner.run();
    }
    let idle = rows.turns(TURNS, || {}, |_| {});
    rows.add(table, "no-op", &idle, Limit::Times(1.0));
    let change_clip = || {
        round += 1;
        fs::write(&clips[clips.len() / 2], clip(7_000_000 + round, frames(), RATE)).unwrap();
        let_files_age();
    };
    let one = rows.turns(TURNS, change_clip, |_| {});
    rows.add(table, "one changed clip", &one, Limit::Over(GRACE));
    let change_text = || {
        round += 1;
        project.change_text(clips.len() / 3, &format!("Another text, the {round}th."));
        write_text(folder, clips.len() / 3, &format!("Another text, the {round}th."));
        let_files_age();
    };
    let text = rows.turns(TURNS, change_text, |_| {});
    rows.add(table, "one changed transcript", &text, Limit::Over(GRACE));
    let change_parameter = || {
        parameter += 1;
        write_rules(project, program, parameter);
        let_files_age();
    };
    let all = rows.turns(COLD_TURNS, change_parameter, |_| {});
    rows.add(table, "one parameter of the second program", &all, Limit::Times(1.15));
}

/// The program counts lines, which takes nothing beside its start.
fn once(project: &Project, throstle: &Runner, table: &mut Table) {
    let count = thousands(project.clips.len());
    let manifest = fs::read_to_string(project.path().join("pipeline.toml")).unwrap();
    let content = fs::read(&project.clips[0]).unwrap();
    let (mut times, mut bare) = (Vec::new(), Vec::new());
    for round in 0..TURNS {
        throstle.run();
        let idle = throstle.run();
        let once = ONCE.replace("{out.lines}", &format!("{{out.lines}} # {round}"));
        fs::write(project.path().join("pipeline.toml"), format!("{manifest}{once}")).unwrap();
        times.push(throstle.run().over(idle));
        fs::write(project.path().join("pipeline.toml"), &manifest).unwrap();
        bare.push(timed(|| raw::files(project.path(), project.clips.len(), &content)).0);
    }
    bare.sort();
    let (spent, bare) = (Spent::median(times), milliseconds(bare[bare.len() / 2]));
    table.judged(
        &format!("`command.once` over {count} inputs, over a no-op"),
        format!("under {}", milliseconds(LAYING_OUT)),
        format!("{spent}; a loop that writes and removes such files: {bare}"),
        spent.wall <= LAYING_OUT,
    );
}

pub enum Limit {
    Times(f64),
    /// The processor time as well.
    Both(f64),
    Over(Duration),
}

pub struct Rows<'a> {
    pub runners: &'a [Runner],
    pub what: String,
}

impl Rows<'_> {
    /// Each in its turn after each change, so that all see the same machine; the median of each.
    pub fn turns(
        &self,
        turns: usize,
        mut change: impl FnMut(),
        before: impl Fn(&Runner),
    ) -> Vec<Spent> {
        let mut spent = vec![Vec::new(); self.runners.len()];
        for _ in 0..turns {
            change();
            for (runner, spent) in self.runners.iter().zip(&mut spent) {
                before(runner);
                spent.push(runner.run());
            }
        }
        spent.into_iter().map(Spent::median).collect()
    }

    /// The first is throstle; the second, if there is one, gives the limit.
    pub fn add(&self, table: &mut Table, what: &str, spent: &[Spent], limit: Limit) {
        let what = format!("{}, {what}", self.what);
        let shown = |(runner, spent): (&Runner, &Spent)| format!("{} {spent}", runner.name);
        let shown: Vec<String> = self.runners.iter().zip(spent).map(shown).collect();
        let shown = shown.join("; ");
        let Some(ninja) = spent.get(1).filter(|_| self.runners[1].name == "ninja") else {
            return table.plain(&what, shown);
        };
        let own = spent[0];
        let (must, is_reached) = match limit {
            Limit::Times(times) => {
                (format!("at most {times} x ninja"), own.wall <= ninja.wall.mul_f64(times))
            }
            Limit::Both(times) => (
                format!("at most {times} x ninja in both"),
                own.wall <= ninja.wall.mul_f64(times)
                    && own.processor <= ninja.processor.mul_f64(times),
            ),
            Limit::Over(more) => {
                (format!("at most ninja + {}", milliseconds(more)), own.wall <= ninja.wall + more)
            }
        };
        table.judged(&what, must, shown, is_reached);
    }
}

fn frames() -> usize {
    (SECONDS * f64::from(RATE)) as usize
}

pub fn write_text(folder: &Path, number: usize, text: &str) {
    fs::write(folder.join(format!("texts/clip{number:06}.txt")), text).unwrap();
}

/// The same work for all of them; a parameter of the second program.
pub fn write_rules(project: &Project, program: &Path, parameter: u32) {
    let (folder, program) = (project.path(), program.display().to_string());
    let manifest =
        MANIFEST.replace("SMALL", &program).replace("audio} 2", &format!("audio}} {parameter}"));
    fs::write(folder.join("pipeline.toml"), manifest).unwrap();
    if fs::create_dir(folder.join("texts")).is_ok() {
        (0..project.clips.len()).for_each(|number| {
            write_text(folder, number, &format!("The text of number {number}."));
        });
    }
    let mut ninja = format!(
        "rule one\n command = {program} $in $out 1\n\
         rule two\n command = {program} $from $out {parameter} @$text\n"
    );
    let mut make = String::from("MAKEFLAGS += -r\nall:\n.PHONY: all\n");
    for number in 0..project.clips.len() {
        let name = format!("clip{number:06}");
        let _ = write!(
            ninja,
            "build ninja-one/{name}.wav: one wavs/{name}.wav\n\
             build ninja-two/{name}.wav: two ninja-one/{name}.wav texts/{name}.txt\n \
             from = ninja-one/{name}.wav\n text = texts/{name}.txt\n"
        );
        // make has no memory of a parameter but the file that holds it.
        let _ = write!(
            make,
            "make-one/{name}.wav: wavs/{name}.wav\n\t{program} $< $@ 1\n\
             make-two/{name}.wav: make-one/{name}.wav texts/{name}.txt parameter\n\
             \t{program} $< $@ {parameter} @texts/{name}.txt\nall: make-two/{name}.wav\n"
        );
    }
    fs::write(folder.join("build.ninja"), ninja).unwrap();
    fs::write(folder.join("Makefile"), make).unwrap();
    fs::write(folder.join("parameter"), parameter.to_string()).unwrap();
}
