//! The command line: reads arguments and environment, calls the library, prints, and turns results
//! into exit codes. No other library prints or reads the environment.

mod arguments;
#[cfg(test)]
mod documents;
mod error;
mod inspect;
mod meter;
mod named;
mod outlet;
mod output;
mod project;
mod run;
mod setup;
mod share;
mod terminal;
mod voices;

use std::any::Any;
use std::io::{self, BufWriter, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cache::fs::MachineFault;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use engine::manifest::FILE_NAME as MANIFEST;
use engine::manifest::nearest;
use stage_core::Stage;
use stage_programs::watcher;
use view::escape::clean_lines;

use arguments::{Arguments, Command};
use error::{CliError, Exit, FAILED, PAUSED};
use output::Output;
use project::Program;
use run::guard::Guard;
use terminal::Terminal;

/// The only argument of the process that watches programs; it is this same binary.
const WATCH: &str = "--watch-programs";

const NO_MEMORY: &str = "error: the system has no memory left\n  help: what was finished is kept; \
    run again with more memory or fewer `--threads`\n";

/// The whole program for these stages and those of the worker. A binary with stages of its own only
/// calls this function. With [`cache::memory::Allocator`] as its global allocator, a lack of
/// memory pauses its runs.
pub fn main(stages: Vec<Arc<dyn Stage>>) -> ExitCode {
    let began = Instant::now();
    if std::env::args_os().skip(1).eq([WATCH]) {
        // Errors are not reported: the parent process is gone.
        return watcher::watch().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    watcher::enable(WATCH);
    remember_panics();
    // Half-finished work is not visible, so nothing that the panic may have broken is used.
    let code = panic::catch_unwind(AssertUnwindSafe(|| start(stages, began)));
    ExitCode::from(code.unwrap_or_else(|panic| report_panic(&*panic)))
}

fn start(stages: Vec<Arc<dyn Stage>>, began: Instant) -> u8 {
    if let Some(code) = setup::complete::answer(&stages) {
        return code;
    }
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return report_arguments(error),
    };
    cache::fs::outlive_file_size_limit();
    cache::memory::outlive(NO_MEMORY, PAUSED);
    let terminal = Terminal::look();
    let _guard = Guard::new();
    let output = match Output::take() {
        Ok(output) => output,
        Err(error) => {
            let error = CliError::process("keep standard output open")(error);
            let code = report_error(&error, &terminal);
            let is_pause = matches!(arguments.command, Command::Run(_));
            return if is_pause && error.machine_fault().is_some() { PAUSED } else { code };
        }
    };
    let program = Program::new(stages, terminal, output, began);
    match execute(&program, &arguments.command) {
        Ok(exit) => exit.code(),
        Err(error) => report_error(&error, &program.terminal),
    }
}

fn report_error(error: &CliError, terminal: &Terminal) -> u8 {
    // A failure cannot be reported: standard error is the last resort.
    let _ = io::stderr().write_all(error.render(terminal).as_bytes());
    error.code()
}

fn execute(program: &Program, command: &Command) -> Result<Exit, CliError> {
    // `run` prints its lines immediately.
    match command {
        Command::Run(arguments) => return run::command::run(program, arguments),
        Command::Sweep(arguments) => return run::sweep::sweep(program, arguments),
        Command::Work(arguments) => return run::work::work(program, arguments),
        _ => {}
    }
    let mut output = BufWriter::new(program.output.clone());
    let exit = print(program, command, &mut output)?;
    output.flush()?;
    Ok(exit)
}

fn print(program: &Program, command: &Command, output: &mut dyn Write) -> Result<Exit, CliError> {
    match command {
        Command::Init(arguments) => setup::init::init(&program.catalogue, arguments, output),
        Command::NewStage(arguments) => setup::new_stage::new_stage(arguments, output),
        Command::Check(arguments) => inspect::plan::check(program, arguments, output),
        Command::Plan(arguments) => inspect::plan::plan(program, arguments, output),
        Command::Run(arguments) => run::command::run(program, arguments),
        Command::Submit(arguments) => run::submit::submit(program, arguments, output),
        Command::Watch(arguments) => run::watch::watch(program, arguments),
        Command::Status(arguments) => inspect::plan::status(program, arguments, output),
        Command::Sweep(arguments) => run::sweep::sweep(program, arguments),
        Command::Compare(arguments) => run::sweep::compare(program, arguments, output),
        Command::Promote(arguments) => run::sweep::promote(program, arguments, output),
        Command::Why(arguments) => inspect::why::why(program, arguments, output),
        Command::Replay(arguments) => run::replay::replay(program, arguments, output),
        Command::Retry(arguments) => run::retry::retry(program, arguments, output),
        Command::Graph(arguments) => inspect::graph::graph(program, arguments, output),
        Command::Items(arguments) => inspect::items::items(program, arguments, output),
        Command::Cat(arguments) => inspect::items::cat(program, arguments, output),
        Command::Log(arguments) => inspect::log::log(program, arguments, output),
        Command::Diff(arguments) => inspect::diff::diff(program, arguments, output),
        Command::Report(arguments) => inspect::report::report(program, arguments, output),
        Command::Say(arguments) => voices::say::say(program, arguments, output),
        Command::Serve(arguments) => voices::serve::serve(program, arguments, output),
        Command::Rate(arguments) => voices::rate::rate(program, arguments, output),
        Command::Review(arguments) => voices::review::review(program, arguments, output),
        Command::Card(arguments) => share::card::write(program, arguments, output),
        Command::Export(arguments) => share::export::export(program, arguments, output),
        Command::Stages(arguments) => inspect::catalogue::stages(program, arguments, output),
        Command::Schema => inspect::catalogue::schema(program, output),
        Command::Setup(arguments) => setup::libtorch::setup(program, arguments),
        Command::Doctor(arguments) => setup::doctor::doctor(program, arguments, output),
        Command::Completions(arguments) => setup::complete::script(arguments, output),
        Command::Man(arguments) => setup::manual::man(arguments, output),
        Command::PackCache(arguments) => share::archive::pack(program, arguments, output),
        Command::UnpackCache(arguments) => share::archive::unpack(program, arguments, output),
        Command::Push(arguments) => share::remote::push(program, arguments, output),
        Command::Pull(arguments) => share::remote::pull(program, arguments, output),
        Command::Work(arguments) => run::work::work(program, arguments),
        Command::Remote(arguments) => share::remote::remote(program, arguments, output),
        Command::Cache(command) => share::cache_commands::run(program, command, output),
    }
}

/// Help and version are no errors; neither is a closed pipe.
fn report_arguments(error: clap::Error) -> u8 {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let error = with_nearest(error, &words);
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_help || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        // The usage repeats the arguments.
        let tip = tip_about_manifest(&error, &words).unwrap_or_default();
        let text = clean_lines(&format!("{}{tip}", error.render())) + "\n";
        let _ = io::stderr().write_all(text.as_bytes());
    }
    if is_help { Exit::Done.code() } else { error::USAGE }
}

fn typed(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

/// The command that is named by the words before `typed`.
fn command_before(typed: &str, words: &[String]) -> clap::Command {
    let mut command = Arguments::command();
    for word in words.iter().take_while(|word| *word != typed) {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner.clone();
        }
    }
    command
}

/// Says how the command takes a manifest, if the error is about a manifest in the wrong place.
fn tip_about_manifest(error: &clap::Error, words: &[String]) -> Option<String> {
    let kinds = [ContextKind::InvalidArg, ContextKind::InvalidValue];
    let typed = words.iter().find(|word| {
        let of = |kind| typed(error, kind);
        kinds.map(of).contains(*word)
    })?;
    let command = command_before(typed, words);
    let takes = |short| command.get_arguments().any(|of| of.get_short() == Some(short));
    let path = std::path::Path::new(typed);
    let is_manifest = path.extension().is_some_and(|end| end == "toml") && path.is_file();
    let is_named = is_manifest || path.join(MANIFEST).is_file();
    (takes('m') && is_named).then(|| format!("\n  tip: `-m {typed}` names the manifest\n"))
}

/// Offers the name that was probably meant in place of an unknown command or value.
fn with_nearest(mut error: clap::Error, words: &[String]) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = typed(&error, ContextKind::InvalidSubcommand);
            let command = command_before(&typed, words);
            let known =
                command.get_subcommands().flat_map(clap::Command::get_name_and_visible_aliases);
            if let Some(near) = nearest(&typed, known) {
                let near = ContextValue::Strings(vec![near.to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, near);
            }
        }
        ErrorKind::InvalidValue => {
            let typed = typed(&error, ContextKind::InvalidValue);
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => known.clone(),
                _ => Vec::new(),
            };
            if let Some(near) = nearest(&typed, known.iter().map(String::as_str)) {
                let near = ContextValue::String(near.to_owned());
                error.insert(ContextKind::SuggestedValue, near);
            }
        }
        _ => {}
    }
    error
}

/// The help of every command as one Markdown page.
pub fn reference() -> String {
    let mut page = String::from(
        "# The command line\n\nThis page consists of the help texts of the program; \
         `cargo run -p cli --example bless-cli` writes it.\n",
    );
    let mut command = Arguments::command().term_width(96);
    command.build();
    write_help(&mut page, &mut command);
    page
}

/// The page for coding agents, without stages of other crates.
pub fn agents_reference() -> String {
    setup::agents::reference(&project::catalogue(&[]), Arguments::command())
}

fn write_help(page: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("throstle").to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    let inner = command.get_subcommands_mut().filter(|command| command.get_name() != "help");
    inner.for_each(|command| write_help(page, command));
}

/// The location of the last panic. A panic inside a stage is caught and becomes that stage's error,
/// so the hook must not print.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

fn remember_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }));
}

fn report_panic(panic: &(dyn Any + Send)) -> u8 {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let place = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    let place = place.unwrap_or_else(|| "an unknown place".into());
    if MachineFault::of_panic(text).is_some() {
        let message = format!("error: {text}\n  help: finished work is kept; run again\n");
        let _ = io::stderr().write_all(message.as_bytes());
        return PAUSED;
    }
    let message = format!(
        "error: throstle has a bug at {place}: {text}\n  help: please report it; finished work is kept\n"
    );
    let _ = io::stderr().write_all(message.as_bytes());
    FAILED
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mistyped_command_or_value_offers_the_nearest() {
        for (line, meant) in [
            ("throstle rnu demo", "run"),
            ("throstle hsitory", "history"),
            ("throstle cache staats", "stats"),
            ("throstle init --template tokns", "tokens"),
            ("throstle items voice --format cvs", "csv"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = Arguments::read(words.iter().map(Into::into)).unwrap_err();
            let error = with_nearest(error, &words[1..]);
            let told = error.render().to_string();
            assert!(told.contains(&format!("'{meant}'")), "{line}: {told}");
        }
    }

    #[test]
    fn the_page_of_the_command_line_is_what_the_program_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == reference(),
            "docs/cli.md is old: run `cargo run -p cli --example bless-cli`"
        );
    }
}
