//! The arguments. Their doc comments are the help texts.

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::setup::templates::{self, Template};

mod common;
mod given;
mod new_stage;
mod rate;
mod remote;
mod review;
mod submit;
mod sweep;
mod voice;

use common::duration;
pub use common::{ManifestArgument, ManifestOption, Settings};
pub use new_stage::NewStage;
pub use rate::Rate;
pub use remote::{Pull, Push, RemoteCommand, RemoteGc, RemoteLog, RemoteStats, RemoteVerify, Work};
pub use review::Review;
pub use submit::Submit;
pub use sweep::{Compare, Promote, Sweep, SweepFormat};
pub use voice::{Card, OnUnknown, Say, Serve, VoiceOptions};

/// Declarative pipelines for speech and voice fine-tuning.
///
/// A TOML manifest describes a graph of stages. throstle runs it, stores every output by its
/// content, and after a change repeats only the affected work.
///
/// Exit codes: 0 success; 1 a stage failed, a sentence is missing, or another error occurred; 2 the
/// manifest or the arguments are wrong; 75 stopped on purpose, run again to continue. A stage that
/// aborts ends the program with a signal.
#[derive(Debug, Parser)]
#[command(name = "throstle", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented manifest to start with; for the demo also its data.
    Init(Init),
    /// Write a crate with a stage of your own, and a program with this stage and all others.
    ///
    /// The stage makes clips quieter: change it. The crate has a test of the stage.
    NewStage(NewStage),
    /// Check a manifest without reading any data, and show all of its errors.
    Check(Check),
    /// Show what a run would do and why, without running anything.
    Plan(Plan),
    /// Bring every stage up to date.
    ///
    /// Ctrl-C or SIGTERM stops cleanly: current work is finished or saved, and the exit code is 75.
    /// A second one quits immediately. Finished work is kept in both cases.
    Run(Run),
    /// Start an unattended run, as a job of an executor.
    ///
    /// On Slurm, a small job runs `throstle run`, which starts the jobs of the stages. With `use =
    /// "command"`, the run is a process of this machine that outlives the terminal. Both start the
    /// run again when it ends with code 75, such as at its time limit. `throstle status` shows the
    /// progress. A submission that is still waiting or running is not repeated, and another
    /// `throstle run` waits for it. The exit code is 0 if the run was submitted, or if nothing is
    /// left to do.
    Submit(Submit),
    /// Run now, and again whenever the manifest or one of its inputs changes.
    ///
    /// A run begins after a moment without changes. A mistake in the manifest or a failed stage
    /// ends that run, not the watching; Ctrl-C ends both.
    Watch(Run),
    /// Show the state of every stage and the last run.
    Status(Status),
    /// Run the trials of a sweep, and show their results.
    ///
    /// Runs the stages that the score of `[sweep.NAME]` needs, rung by rung, and nothing else. The
    /// exit codes are those of `run`, and 1 if the sweep stays undecided because items failed. A
    /// killed or stopped sweep continues with the next call.
    Sweep(Sweep),
    /// Compare trials or trainings: a table, and curves in one chart.
    Compare(Compare),
    /// Write the values of a trial into the manifest; comments and order are kept.
    Promote(Promote),
    /// Explain why a stage or an item has to run again, or what had changed when the stage last ran.
    Why(Why),
    /// Run one item of a stage, or a whole stage, again in a folder that is kept.
    ///
    /// The folder contains the inputs and outputs, as files where possible, the parameters and a
    /// log; for a command also its command line, its private folder and its output. The result is
    /// compared with the cache, which does not change. Quarantined items can be replayed too. The
    /// exit code is 1 if the stage fails, or if the cache has another result. Sources and trainings
    /// cannot be replayed.
    #[command(allow_missing_positional = true)]
    Replay(Replay),
    /// Forget why items of a stage were quarantined, so that the next run tries them again.
    ///
    /// A quarantine verdict is kept until the item or the stage changes. Machine faults (a full
    /// disk, a killed program) are never kept. Use this after a repair outside the pipeline, such
    /// as of a program or a server that a `command` uses. Finished items stay finished.
    Retry(Retry),
    /// Draw the graph of the stages, coloured by what a run would do.
    Graph(Graph),
    /// List the data set or the artifact that a stage outputs.
    Items(Items),
    /// Write the bytes of one field of an item, as they are.
    ///
    /// For example, `throstle cat voice aino_17 audio | aplay`. Texts and numbers are printed with a
    /// line break.
    Cat(Cat),
    /// List earlier runs with their results, or show the events of one run.
    ///
    /// `--jobs` lists the jobs of executors. `--stage STAGE` prints the logs of the jobs of a stage,
    /// which are read from the remote.
    #[command(visible_alias = "history")]
    Log(Log),
    /// Compare two runs: stages, parameters, data, measures.
    ///
    /// Lists the stages with different keys: the parts of the key that changed, the differences
    /// between their items, and their measures in both runs (results of trainings, numbers of
    /// artifacts, means over items).
    Diff(Diff),
    /// Write one page about a run: reasons, data, training, samples, cost, licences.
    ///
    /// A single HTML file that needs no network, light and dark, for screen and print. Everything in
    /// it comes from the cache: nothing runs, and recordings that left the cache are missing. It
    /// lists up to 20,000 clips, to be searched and sorted. The list and the recordings, samples of
    /// models first, take at most 12 MB; the page shows how many did not fit.
    Report(Report),
    /// Speak a text with a voice: to a file, or aloud.
    ///
    /// Sentences are spoken one after the other, as the synthesis stage speaks them in a run: with
    /// its parameters, and after the stages before it that change texts. Without `--output` the sound
    /// is played on a terminal, and written to standard output otherwise.
    Say(Say),
    /// Serve voices over HTTP: the speech API of OpenAI, and a web page.
    ///
    /// `POST /v1/audio/speech`, `GET /v1/models`, `/v1/audio/voices`, `/health` and `/metrics`; `/`
    /// is a web page for typing texts and listening. Only programs on this machine can connect;
    /// with `--listen`, others can too, with the printed token. Ctrl-C stops the server.
    Serve(Serve),
    /// Compare voices by listening: a blind test in the browser.
    ///
    /// Plays the pairs of a stage `rate.pairs` without naming the voices: `1` and `2` play, the arrow
    /// keys choose, `u` takes the last vote back. Each vote is stored in `ratings/STAGE/NAME.jsonl`,
    /// beside the manifest, before the next pair is shown; the same command continues an unfinished
    /// test. Only this machine can connect, with the printed token. Ctrl-C ends it.
    Rate(Rate),
    /// Listen to doubtful clips on a local page, and correct them with the keyboard.
    ///
    /// Lists the clips of a stage, the most doubtful first, and plays them with their words, waveform
    /// and spectrogram. Corrected texts, drops, splits and joins go at once into the table of the
    /// stage `corpus.corrections`, and the next run does only what they change. The page is for this
    /// machine and needs the printed address. Ctrl-C ends the review.
    Review(Review),
    /// Write the card of a model for a hub: licences, origin, parameters, measures.
    ///
    /// Licences are those of all assets that the model derives from. The contents come from the
    /// manifest and the cache; options add the rest. Prints the commands that publish the exported
    /// folder with `hf`.
    Card(Card),
    /// Write the exported files again from the cache, without running anything.
    Export(Export),
    /// List the stage kinds, or show the documentation of one.
    Stages(Stages),
    /// Print the JSON Schema of manifests, for editors.
    Schema,
    /// Fetch a private libtorch for the worker of an installed package.
    ///
    /// For environments without torch, or with a torch that does not fit: the worker needs exactly
    /// the release that it was built with. Downloads resume where they ended and are compared with
    /// the digests of the package index. The index is the one in pip's settings (PIP_INDEX_URL, pip.conf). Needs Python
    /// 3.8 or newer.
    Setup(Setup),
    /// Check what this machine lacks, and explain how to get it.
    Doctor(Doctor),
    /// Print the completion script of a shell.
    Completions(Completions),
    /// Print the manual page of the program, or write those of all commands.
    ///
    /// `throstle man | man -l -` shows it; `throstle man --to ~/.local/share/man/man1` installs all
    /// of them.
    Man(Man),
    /// Pack the cache into a few large files, to carry it to another machine.
    ///
    /// For platforms that keep only a folder with few files between sessions. Packs everything that
    /// `throstle cache gc` would keep, checkpoints of unfinished trainings included. With `--base`,
    /// packs only what those archives lack. Damaged objects are named and left out, and the exit
    /// code is 1.
    PackCache(PackCache),
    /// Unpack archives of `pack-cache` into the cache, which is created if necessary.
    ///
    /// Everything is checked. Damaged entries are named and left out, everything else is unpacked,
    /// and the exit code is 1. The next run recreates what is missing.
    UnpackCache(UnpackCache),
    /// Write missing results to the remote.
    ///
    /// Writes everything that `throstle cache gc` would keep. If the remote has another result of a
    /// stage, that one is kept, the stage is named, and the exit code is 1.
    Push(Push),
    /// Fetch the results of stages from the remote without running anything.
    ///
    /// A run fetches only the objects that it reads; this fetches all of them, for work without a
    /// network. The exit code is 1 if the remote lacks a part of a result.
    Pull(Pull),
    /// Do one shard of the work of a stage: executors start this as their jobs.
    ///
    /// Reads the batch and its inputs from the remote, and writes the results to it. SIGUSR1 and
    /// SIGTERM save and stop. The exit code is 0 if the result is in the remote, 75 if another job
    /// can continue, and 1 if no other job would succeed.
    Work(Work),
    /// Inspect and clean up the remote.
    #[command(subcommand)]
    Remote(RemoteCommand),
    /// Inspect and clean up the cache.
    #[command(subcommand)]
    Cache(CacheCommand),
}

#[derive(Args, Debug)]
pub struct Init {
    /// The folder to write to; it is created if necessary.
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// The template to start with. Default: `corpus`.
    #[arg(long, value_parser = templates::parser())]
    pub template: Option<&'static Template>,
    /// Also write pages for coding agents: `llms.txt`, a reference, and `AGENTS.md`, instructions. If
    /// the folder has a manifest and no template is named, write only these.
    #[arg(long)]
    pub agent: bool,
}

#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Print the result as one JSON object, also for a manifest with errors.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Only these stages and their upstream stages.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// First run a few items of every item stage and ten steps of every training, as far as their
    /// inputs exist, and keep nothing but the measured times.
    ///
    /// The estimates of these stages then rest on this machine instead of formulas. Other stages
    /// that work on a whole data set are not probed, nor are their downstream stages: run the
    /// stages that a training reads first.
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
    /// Only these stages and their upstream stages.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// After a stage has failed, continue with the stages that do not depend on it. By default, a run
    /// continues only if the failed stage just compares models and a training is unfinished.
    #[arg(long)]
    pub keep_going: bool,
    /// Print every event as a JSON object on a line of its own; the last one is `finished`. The
    /// `seconds` of a stage are the sum over all threads and devices that worked on it.
    #[arg(long)]
    pub json: bool,
    /// Hash every source file again instead of trusting size and time.
    #[arg(long)]
    pub verify: bool,
    /// Also replace exported files that were edited. By default they are kept.
    #[arg(long)]
    pub overwrite: bool,
    /// The number of threads in this process. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Stop cleanly after this time, such as `11h30m`; overrides `stop_after` of the manifest. A run
    /// that has only loaded a model by then makes one step of its training first.
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
    /// The stage to explain. A name without brackets means every instance of a matrix.
    pub stage: String,
    /// The id of an input item of the stage. STAGE and ITEM may come in either order.
    pub item: Option<String>,
    /// Also show every part of the key.
    #[arg(long)]
    pub key: bool,
    /// Print one JSON object a line, one for each stage.
    #[arg(long, conflicts_with = "key")]
    pub json: bool,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Replay {
    /// The id of an input item of the stage; omit it for stages that work on all items together. May
    /// come second if no stage has that name.
    pub item: Option<String>,
    /// The stage.
    #[arg(required = true)]
    pub stage: String,
    /// The folder to write, which must be empty. Default: `replay/STAGE/ITEM` in the cache folder,
    /// which the next replay of the same item empties.
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Retry {
    /// The stage. A name without brackets means every instance of a matrix.
    pub stage: String,
    /// The id of a quarantined item. Default: all quarantined items of the stage. May come first if
    /// no stage has that name.
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
    /// The format of the picture.
    #[arg(long, value_enum, default_value_t = GraphFormat::Mermaid)]
    pub format: GraphFormat,
    /// The file to write. Default, or with `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// Draw without colours, and do not read the data.
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

/// The forms of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ItemFormat {
    /// Aligned columns for reading; long values are cut.
    Table,
    /// One JSON object a line.
    #[value(name = "jsonl")]
    JsonLines,
    /// Comma-separated values with a heading.
    Csv,
    /// A Parquet file.
    Parquet,
    /// One JSON object a line, with the file and the position of each blob: for programs that map
    /// the cache. The first line has the fields.
    Places,
    /// A folder for `datasets`: `load_dataset("audiofolder", data_dir=DIR)`.
    Hf,
    /// Tar files of about 1 GB for WebDataset.
    Webdataset,
    /// Shards of 1,000 recordings for lhotse: `CutSet.from_shar(in_dir=DIR)`. WAV only.
    Shar,
}

#[derive(Args, Debug)]
pub struct Cat {
    /// The stage, or `stage.port` for an output other than its first.
    pub stage: String,
    /// The item, or for an artifact the name of a value.
    pub item: String,
    /// The field; it may be left out if the item has only one file.
    pub field: Option<String>,
    /// The file to write. Default, or with `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Setup {
    /// Without the CUDA libraries (0.6 GB). Default where there is no GPU.
    #[arg(long, conflicts_with = "cuda")]
    pub cpu: bool,
    /// With all libraries for CUDA (3 GB). Default where there is a GPU.
    #[arg(long)]
    pub cuda: bool,
    /// Only onnxruntime (28 MB), which speaks with `.onnx` voices without libtorch.
    #[arg(long, conflicts_with_all = ["cpu", "cuda"])]
    pub player: bool,
    /// Fetch it again even if it is installed.
    #[arg(long)]
    pub again: bool,
}

#[derive(Args, Debug)]
pub struct Items {
    /// The stage, or `stage.port` for an output other than its first.
    pub stage: String,
    /// The format of the list, or of the files in `--to`.
    #[arg(long, value_enum, default_value_t = ItemFormat::Table)]
    pub format: ItemFormat,
    /// Print one JSON object a line, as `--format jsonl` does.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// The folder for the files of `hf`, `webdataset` and `shar`: a new or an empty one.
    #[arg(long, value_name = "DIR", required_if_eq_any = [
        ("format", "hf"), ("format", "webdataset"), ("format", "shar"),
    ])]
    pub to: Option<Utf8PathBuf>,
    /// Only these fields, separated by commas.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// List the quarantined items of the stage, with the reasons.
    #[arg(long)]
    pub quarantined: bool,
    /// List the items that the stage has notes on, such as `clipped`, with the notes.
    #[arg(long, conflicts_with = "quarantined")]
    pub noted: bool,
    /// List the items of its input that the stage has left out, such as those that a filter did not keep.
    #[arg(long, conflicts_with_all = ["quarantined", "noted"])]
    pub left_out: bool,
    /// The file to write. Default, or with `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Log {
    /// The number of a run. Default: list all runs.
    pub run: Option<u64>,
    /// List the jobs of executors: of this run, or of all runs.
    #[arg(long)]
    pub jobs: bool,
    /// Print the logs of the jobs of this stage.
    #[arg(long, value_name = "STAGE")]
    pub stage: Option<String>,
    /// Print the events, or the list, as JSON lines.
    #[arg(long)]
    pub json: bool,
    /// The remote with the logs of jobs; overrides `url` in `[remote]`.
    #[arg(long, value_name = "URL", env = "THROSTLE_REMOTE", hide_env_values = true)]
    pub remote: Option<String>,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct Diff {
    /// The number of the old run, as `throstle history` lists it.
    #[arg(value_name = "RUN")]
    pub old: u64,
    /// The number of the new run.
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
    /// The file to write, `-` for standard output. Default: `report.html` beside the manifest.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// The number of the run to show. Default: the last one.
    #[arg(long, value_name = "N")]
    pub run: Option<u64>,
    /// The numbers of runs to compare, such as `12,14`: their curves share charts, and a table has
    /// their parameters and figures. Everything else on the page is about the last of them.
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with = "run")]
    pub runs: Vec<u64>,
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
    /// Also replace exported files that were edited. By default they are kept.
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Stages {
    /// The stage kind to document, such as `audio.resample`, or a family to list, such as `audio`.
    pub kind: Option<String>,
}

#[derive(Args, Debug)]
pub struct Doctor {
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Args, Debug)]
pub struct Man {
    /// The folder to write one page per command to; it is created if necessary.
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
}

/// The location of a cache, for commands that need no manifest.
#[derive(Args, Clone, Debug)]
pub struct CacheLocation {
    /// The manifest, or its folder, beside the cache.
    #[arg(short, long, value_name = "FILE|DIR", default_value = ".")]
    pub manifest: Utf8PathBuf,
    /// The folder of the cache. Default: `.throstle` beside the manifest.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<Utf8PathBuf>,
}

/// The same, with the manifest as the first argument.
#[derive(Args, Clone, Debug)]
pub struct CacheArgument {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// The folder of the cache. Default: `.throstle` beside the manifest.
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
    /// The folder to write; it must not contain an archive yet.
    #[arg(long, value_name = "DIR")]
    pub to: Utf8PathBuf,
    /// An archive that will be present when this one is unpacked. Can be repeated.
    #[arg(long, value_name = "DIR")]
    pub base: Vec<Utf8PathBuf>,
    /// The largest size of one file, such as `500MB`; at least 16MB.
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = volume)]
    pub volume: u64,
    /// The number of last runs of every pipeline to keep.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub keep_runs: usize,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct UnpackCache {
    #[command(flatten)]
    pub location: CacheArgument,
    /// The folder of an archive. Can be repeated: first the base, then the archives written on top
    /// of it.
    #[arg(long, value_name = "DIR", required = true)]
    pub from: Vec<Utf8PathBuf>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show the size of the cache.
    Stats(CacheStats),
    /// Read everything in the cache and compare it with its digest.
    Verify(CacheVerify),
    /// Show what could be removed; with `--yes`, remove it.
    ///
    /// The results of pinned runs and of the last runs of every pipeline are kept. Removed entries
    /// go to the folder `trash` of the cache first. On a completely full disk, add `--empty-trash`:
    /// it needs no free space itself.
    Gc(CacheGc),
    /// Put back what was removed and is still in the trash.
    ///
    /// Objects that were recreated meanwhile do not change. The next `gc` removes restored objects
    /// again, unless a kept run needs them.
    Restore(CacheRestore),
    /// Keep the results of a run until it is unpinned.
    Pin(CachePin),
    /// Unpin a run: its results are kept only as long as those of other runs.
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
    /// Quarantine damaged entries and rebuild the index, so that the next run recreates them.
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub location: CacheLocation,
}

#[derive(Args, Debug)]
pub struct CacheGc {
    /// Remove the entries instead of only listing them.
    #[arg(long)]
    pub yes: bool,
    /// The target size, such as `20GB`. Entries that cost the least to recreate for their size are
    /// removed first.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_size: Option<u64>,
    /// Only remove the results of runs that are older than this, such as `720h`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Option<f64>,
    /// The number of last runs of every pipeline to keep.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub keep_runs: usize,
    /// Empty the trash too, instead of keeping it for a while.
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

fn size(text: &str) -> Result<u64, String> {
    engine::manifest::size(text).ok_or_else(|| "expected a size such as `500MB` or `20GiB`".into())
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
        Arguments::read(line.split(' ').map(Into::into)).map(|arguments| arguments.command)
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
    fn an_option_names_the_manifest_for_every_command() {
        let Command::Status(status) = parse("throstle status -m demo").unwrap() else { panic!() };
        assert_eq!(status.manifest.manifest, "demo");
        for line in ["throstle run -m demo voice pack", "throstle run voice pack --manifest demo"] {
            let Command::Run(run) = parse(line).unwrap() else { panic!("{line}") };
            assert_eq!((run.manifest.manifest.as_str(), run.stages.len()), ("demo", 2), "{line}");
            assert_eq!(run.stages, ["voice", "pack"], "{line}");
        }
        let Command::Plan(plan) = parse("throstle plan -m demo").unwrap() else { panic!() };
        assert_eq!((plan.manifest.manifest.as_str(), plan.stages.len()), ("demo", 0));
        let told = parse("throstle check demo -m other").unwrap_err().to_string();
        assert!(told.contains("the manifest is named twice: `demo` and `other`"), "{told}");
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
