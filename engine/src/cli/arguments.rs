//! The arguments: their definitions are the documentation of the command line.

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::templates::{self, Template};
use crate::show::items::Format;

/// Declarative pipelines for speech and voice fine-tuning.
///
/// A TOML manifest describes a graph of stages. throstle runs it, keeps every output by its
/// content, and after any change does only the work that the change made necessary.
///
/// Exit codes: 0 done; 1 a stage failed or something else went wrong; 2 the manifest or the
/// arguments are wrong; 75 stopped on purpose, run again to go on. A stage that aborts ends the
/// program by a signal.
#[derive(Debug, Parser)]
#[command(name = "throstle", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented manifest to begin with, and the data of the demo with that one.
    Init(Init),
    /// Check a manifest without looking at any data; all its errors are shown at once.
    Check(Check),
    /// Show what a run would do and why, without doing it.
    Plan(Plan),
    /// Do what is necessary to bring every stage up to date.
    ///
    /// Ctrl-C or SIGTERM once stops cleanly: what is under way is finished or saved, and the exit
    /// code is 75. A second time stops at once; what was finished before is kept in any case.
    Run(Run),
    /// Run, and run again whenever the manifest or what it reads has changed.
    ///
    /// A run begins when nothing more has changed for a moment. A mistake in the manifest or a stage
    /// that fails ends that run, not the watching; Ctrl-C ends both.
    Watch(Run),
    /// Show the state of every stage and the last run.
    Status(Status),
    /// Explain why a stage, or one of its items, has to be done again, or why it was last time.
    Why(Why),
    /// Do one item of a stage again, or a stage as a whole, in a folder that is kept.
    ///
    /// The folder has what the stage was given and what it made, as files where they are files, its
    /// parameters and a log; of a command also the line as it was run, its private folder and what
    /// it said. It is told whether the cache holds the same. An item that is quarantined can be
    /// replayed like any other. Nothing in the cache becomes another one by it. The exit code is 1
    /// when the stage fails, or the cache holds something else. Sources and training cannot be
    /// replayed.
    #[command(allow_missing_positional = true)]
    Replay(Replay),
    /// Forget why items of a stage were quarantined, so that the next run tries them again.
    ///
    /// A quarantine verdict is kept until the item or the stage changes. Failures of the machine
    /// (a full disk, a killed program) are never kept; this is for everything else that has been
    /// repaired outside of the pipeline, such as a program or a server that a `command` uses.
    /// Finished items stay finished.
    Retry(Retry),
    /// Draw the graph of the stages, coloured by what a run would do.
    Graph(Graph),
    /// List the data set or the artifact that a stage gives.
    Items(Items),
    /// List earlier runs with how they ended and what they executed, or show what happened in one.
    #[command(visible_alias = "history")]
    Log(Log),
    /// Show what is other in one run than in another: stages, parameters, data, measures.
    ///
    /// A stage is named whose key is another, with what of it changed, how its items differ, and
    /// what it measured in both runs: how training ended, numbers of artifacts, and the means of
    /// numbers over the items.
    Diff(Diff),
    /// Write one page that shows a run: what ran and why, data, training, samples, cost, licences.
    ///
    /// A single HTML file that needs no network, light and dark, for screen and print. Everything
    /// in it comes from the cache: nothing is run, and recordings that are in the cache no longer
    /// are left out. It holds recordings of 12 MB at most, samples of models first, and says for
    /// how many there was no room.
    Report(Report),
    /// Write the exported files again from the cache, without running anything.
    Export(Export),
    /// List the stage kinds, or show the documentation of one.
    Stages(Stages),
    /// Print the JSON Schema of manifests, for editors.
    Schema,
    /// Look for what is missing on this machine, and say how to get it.
    Doctor(Doctor),
    /// Print the completion script of a shell.
    Completions(Completions),
    /// Print the manual page of the program, or write those of all commands.
    ///
    /// `throstle man | man -l -` shows it; `throstle man --to ~/.local/share/man/man1` installs all
    /// of them.
    Man(Man),
    /// Write what the cache keeps into a few large files, to be carried to another machine.
    ///
    /// For platforms that keep a folder of few files between sessions and nothing else. Packed is
    /// what `throstle cache gc` would keep, checkpoints of unfinished training included. With
    /// `--base` only what those archives have not is written. Damaged objects are named and left
    /// out, and the exit code is 1 then.
    PackCache(PackCache),
    /// Take what `pack-cache` wrote into the cache, which is made if it is not there.
    ///
    /// Everything is checked. What is damaged is named, all else comes in, and the exit code is 1
    /// then; the next run makes anew what is missing.
    UnpackCache(UnpackCache),
    /// Look after the cache.
    #[command(subcommand)]
    Cache(CacheCommand),
}

/// The manifest as the first argument.
#[derive(Args, Clone, Debug)]
pub struct ManifestArgument {
    /// The manifest, or the folder that has it as `pipeline.toml`.
    #[arg(value_name = "FILE|DIR", default_value = ".")]
    pub manifest: Utf8PathBuf,
}

/// The manifest where the first argument is something else.
#[derive(Args, Clone, Debug)]
pub struct ManifestOption {
    /// The manifest, or the folder that has it as `pipeline.toml`.
    #[arg(short, long, value_name = "FILE|DIR", default_value = ".")]
    pub manifest: Utf8PathBuf,
}

#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// The folder of the cache; `.throstle` beside the manifest unless given.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<Utf8PathBuf>,
    /// Override a value of the manifest, such as `stage.voice.rate=22050` or `params.rate=22050`.
    /// May be given several times.
    #[arg(long, value_name = "A.B=C")]
    pub set: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Init {
    /// The folder to begin in; it is made when it is not there.
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// What to begin with.
    #[arg(long, default_value = "corpus", value_parser = templates::parser())]
    pub template: &'static Template,
}

#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Only these stages and what they need.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// First try a few items of every item stage and ten steps of every training whose inputs are
    /// there, and keep nothing but what they took.
    ///
    /// The estimates of these stages then rest on this machine instead of formulas. Other stages
    /// that work on a whole data set are not tried, nor what needs their outcome: run the stages
    /// that a training reads first.
    #[arg(long)]
    pub probe: bool,
    /// Print the plan as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Hash every source file again instead of trusting size and time.
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Only these stages and what they need.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// After a stage has failed, go on with what does not depend on it.
    #[arg(long)]
    pub keep_going: bool,
    /// Print every event as a JSON object on a line of its own; the last one is `finished`. The
    /// `seconds` of a stage are summed over all threads and devices that worked on it at once.
    #[arg(long)]
    pub json: bool,
    /// Hash every source file again instead of trusting size and time.
    #[arg(long)]
    pub verify: bool,
    /// How many threads work in this process; as many as there are processors unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Stop cleanly after this time, such as `11h30m`; overrides `stop_after` of the manifest.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub stop_after: Option<f64>,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Print the state as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Why {
    /// The stage to explain; its name without brackets means every instance of a matrix.
    pub stage: String,
    /// The id of an item that arrives at the stage.
    pub item: Option<String>,
    /// Also show every part of the key.
    #[arg(long)]
    pub key: bool,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Replay {
    /// The id of an item that arrives at the stage; of stages that work on all items together,
    /// none.
    pub item: Option<String>,
    /// The stage.
    #[arg(required = true)]
    pub stage: String,
    /// The folder to leave, which must be empty; `replay/STAGE/ITEM` in the cache folder unless
    /// given, which the next replay of the same empties.
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Retry {
    /// The stage; its name without brackets means every instance of a matrix.
    pub stage: String,
    /// The id of a quarantined item; all quarantined items of the stage unless given.
    pub item: Option<String>,
    /// Print the items as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Graph {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// The form of the picture.
    #[arg(long, value_enum, default_value_t = GraphFormat::Mermaid)]
    pub format: GraphFormat,
    /// The file to write; `-`, or nothing, for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// Do not look at the data: draw without the colours.
    #[arg(long)]
    pub no_plan: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// For Markdown pages.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture that needs no other program.
    Svg,
}

#[derive(Args, Debug)]
pub struct Items {
    /// The stage, or `stage.port` for another output than its first.
    pub stage: String,
    /// The form of the list.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Only these fields, separated by commas.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// List the items that the stage has set aside, with the reasons.
    #[arg(long)]
    pub quarantined: bool,
    /// The file to write; `-`, or nothing, for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Log {
    /// The number of a run; all runs are listed unless given.
    pub run: Option<u64>,
    /// Print the events, or the list, as JSON lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct Diff {
    /// The number of the one run, as `throstle history` lists it.
    #[arg(value_name = "RUN")]
    pub old: u64,
    /// The number of the other.
    #[arg(value_name = "RUN")]
    pub new: u64,
    /// Print both runs and their differences as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct Report {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// The file to write, `-` for standard output; `report.html` beside the manifest unless given.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// The number of the run to show; the last one unless given.
    #[arg(long, value_name = "N")]
    pub run: Option<u64>,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Export {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Only the exports of these stages.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Stages {
    /// The stage kind to document, such as `audio.resample`.
    pub kind: Option<String>,
}

#[derive(Args, Debug)]
pub struct Doctor {
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// The shell to print for.
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Args, Debug)]
pub struct Man {
    /// The folder to write a page for every command to; it is made when it is not there.
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
}

/// Where a cache is, for commands that need no manifest.
#[derive(Args, Clone, Debug)]
pub struct CacheLocation {
    /// The manifest, or its folder, beside which the cache is.
    #[arg(short, long, value_name = "FILE|DIR", default_value = ".")]
    pub manifest: Utf8PathBuf,
    /// The folder of the cache; `.throstle` beside the manifest unless given.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<Utf8PathBuf>,
}

/// The same, with the manifest as the first argument.
#[derive(Args, Clone, Debug)]
pub struct CacheArgument {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// The folder of the cache; `.throstle` beside the manifest unless given.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<Utf8PathBuf>,
}

impl CacheArgument {
    pub fn location(&self) -> CacheLocation {
        CacheLocation { manifest: self.manifest.manifest.clone(), cache: self.cache.clone() }
    }
}

#[derive(Args, Debug)]
pub struct PackCache {
    #[command(flatten)]
    pub location: CacheArgument,
    /// The folder to write; it must not have an archive yet.
    #[arg(long, value_name = "DIR")]
    pub to: Utf8PathBuf,
    /// An archive that will be there when this one is unpacked. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub base: Vec<Utf8PathBuf>,
    /// How large one file may become, such as `500MB`; 16MB at least.
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = volume)]
    pub volume: u64,
    /// How many of the last runs of every pipeline are kept.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub keep_runs: usize,
    /// Print what was written as one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct UnpackCache {
    #[command(flatten)]
    pub location: CacheArgument,
    /// The folder of an archive. May be given several times: the base first, then what was
    /// written over it.
    #[arg(long, value_name = "DIR", required = true)]
    pub from: Vec<Utf8PathBuf>,
    /// Print what came in as one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show how much is stored.
    Stats(CacheStats),
    /// Read everything that is stored and compare it with its digest.
    Verify(CacheVerify),
    /// Show what could be removed; with `--yes`, remove it.
    ///
    /// Kept is all that pinned runs and the last runs of every pipeline reach. What is removed
    /// goes to the folder `trash` of the cache first.
    Gc(CacheGc),
    /// Put back what was removed and is still in the trash.
    ///
    /// Objects that were made again meanwhile are left alone. The next `gc` removes the restored
    /// ones again, unless a kept run reaches them.
    Restore(CacheRestore),
    /// Keep the results of a run until it is unpinned.
    Pin(CachePin),
    /// No longer keep the results of a run in any case.
    Unpin(CachePin),
}

#[derive(Args, Debug)]
pub struct CacheStats {
    /// Print the figures as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct CacheVerify {
    /// Set what is damaged aside and build the index again, so that the next run makes it anew.
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct CacheGc {
    /// Do it, instead of only showing it.
    #[arg(long)]
    pub yes: bool,
    /// The size to come down to, such as `20GB`: what is cheapest to make again for its size is
    /// given up first.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_size: Option<u64>,
    /// Only give up the results of runs that are older than this, such as `720h`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Option<f64>,
    /// How many of the last runs of every pipeline are kept.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub keep_runs: usize,
    /// Empty the trash as well, instead of leaving it for a while.
    #[arg(long)]
    pub empty_trash: bool,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct CacheRestore {
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct CachePin {
    /// The number of the run, as `throstle log` lists it.
    pub run: u64,
    #[command(flatten)]
    pub location: CacheLocation,
}

fn duration(text: &str) -> Result<f64, String> {
    crate::manifest::duration(text)
        .ok_or_else(|| "expected a time such as `90s` or `11h30m`".into())
}

fn size(text: &str) -> Result<u64, String> {
    crate::manifest::size(text).ok_or_else(|| "expected a size such as `500MB` or `20GiB`".into())
}

fn volume(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 16_000_000;
    let bytes = size(text)?;
    if bytes >= LEAST { Ok(bytes) } else { Err("expected a size of 16MB at least".into()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command)
    }

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_contract_of_run_is_understood() {
        let line = "throstle run demo voice pack --keep-going --json --cache /c --set a.b=c \
                    --set d=1 --verify --threads 3 --stop-after 11h30m";
        let Command::Run(run) = parse(line).unwrap() else { panic!("not a run") };
        assert_eq!(run.manifest.manifest, "demo");
        assert_eq!(run.stages, ["voice", "pack"]);
        assert_eq!(run.settings.set, ["a.b=c", "d=1"]);
        assert_eq!(run.settings.cache.unwrap(), "/c");
        assert_eq!((run.threads, run.stop_after), (Some(3), Some(41_400.0)));
        assert!(run.keep_going && run.json && run.verify);
    }

    #[test]
    fn the_manifest_is_that_of_the_present_folder_unless_given() {
        let Command::Check(check) = parse("throstle check").unwrap() else { panic!() };
        assert_eq!(check.manifest.manifest, ".");
        let Command::Why(why) = parse("throstle why voice clip7 -m demo").unwrap() else {
            panic!()
        };
        assert_eq!((why.stage.as_str(), why.item.as_deref()), ("voice", Some("clip7")));
        assert_eq!(why.manifest.manifest, "demo");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "throstle fly",
            "throstle run . --threads 0",
            "throstle run . --stop-after soon",
            "throstle items",
            "throstle cache gc --max-size big",
            "throstle pack-cache",
            "throstle pack-cache --to /a --volume 1MB",
            "throstle unpack-cache",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
