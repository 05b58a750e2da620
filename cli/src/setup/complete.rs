//! Completion in shells: commands and flags, and the names in a manifest and in its cache.
//!
//! `completions` prints a script that makes the shell ask this program whenever the Tab key is
//! pressed. A question never fails: what cannot be read offers nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;

use cache::fs::{Fs, RealFs};
use cache::stat::StatIndex;
use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use engine::history;
use engine::manifest::FILE_NAME as MANIFEST;
use engine::record::PortValue;
use engine::store::Store;
use stage_core::{Catalogue, Item, Stage};

use crate::arguments::{Arguments, Completions, Settings};
use crate::error::{CliError, Exit, FAILED};
use crate::project::{self, Project};

const PROGRAM: &str = "throstle";
/// The environment variable by which the script asks; its value is the name of the shell.
const VARIABLE: &str = "THROSTLE_COMPLETE";

/// `completions`: prints the script of a shell.
pub fn script(arguments: &Completions, output: &mut dyn Write) -> Result<Exit, CliError> {
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(&arguments.shell.to_string()) {
        shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, output)?;
    }
    Ok(Exit::Done)
}

/// The exit code if a shell asks, else `None`.
pub fn answer(stages: &[Arc<dyn Stage>]) -> Option<u8> {
    std::env::var_os(VARIABLE)?;
    let names = CompletionNames { catalogue: Arc::new(project::catalogue(stages)), words: words() };
    let command = || hinted(Arguments::command(), &names);
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE).bin(PROGRAM);
    match asked.try_complete(std::env::args_os(), folder.as_deref()) {
        Ok(true) => Some(Exit::Done.code()),
        Ok(false) => None,
        Err(_) => Some(FAILED),
    }
}

/// The words typed so far, which the script passes after `--`.
fn words() -> Vec<String> {
    let typed = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let words = typed.filter_map(|word: OsString| word.into_string().ok());
    // The word that is just begun names nothing, and no manifest either.
    words.filter(|word| !word.is_empty()).collect()
}

/// The command with what its arguments can be.
fn hinted(command: Command, names: &CompletionNames) -> Command {
    let command = command.mut_args(|arg| hinted_argument(arg, names));
    command.mut_subcommands(|command| hinted(command, names))
}

fn hinted_argument(arg: Arg, names: &CompletionNames) -> Arg {
    let names = names.clone();
    let is_path = arg.get_value_names().is_some_and(|values| {
        values.iter().any(|value| value.contains("FILE") || value.contains("DIR"))
    });
    match arg.get_id().as_str() {
        "stage" | "stages" => arg.add(ArgValueCandidates::new(move || names.stages())),
        "kind" => arg.add(ArgValueCandidates::new(move || names.kinds())),
        "fields" => arg.add(ArgValueCandidates::new(move || names.fields())),
        _ if is_path => arg.value_hint(ValueHint::AnyPath),
        _ => arg,
    }
}

/// The names that complete what has been typed.
#[derive(Clone)]
struct CompletionNames {
    catalogue: Arc<Catalogue>,
    words: Vec<String>,
}

impl CompletionNames {
    fn kinds(&self) -> Vec<CompletionCandidate> {
        let kind = |kind: &stage_core::Kind| candidate(kind.name, kind.summary);
        self.catalogue.iter().map(kind).collect()
    }

    /// The stages of the manifest, and the common names of those that a matrix makes.
    fn stages(&self) -> Vec<CompletionCandidate> {
        let Some(project) = self.project() else {
            // A manifest with mistakes still has names.
            let names = project::stage_names(&self.manifest());
            return names.iter().map(|name| candidate(name, "")).collect();
        };
        let mut seen = BTreeSet::new();
        let mut candidates = Vec::new();
        for spec in &project.pipeline.stages {
            let common = spec.name.split('[').next().unwrap_or(&spec.name);
            for name in [common, &spec.name] {
                if seen.insert(name.to_owned()) {
                    candidates.push(candidate(name, spec.kind.name));
                }
            }
        }
        candidates
    }

    /// The fields that the stage gives, as far as the manifest or its last outcome says.
    fn fields(&self) -> Vec<CompletionCandidate> {
        let Some(project) = self.project() else { return Vec::new() };
        let mut fields = BTreeSet::from(["id".to_owned()]);
        for word in &self.words {
            let (name, port) = match word.rsplit_once('.') {
                Some((stage, port)) if project.pipeline.find(stage).is_some() => {
                    (stage, Some(port))
                }
                _ => (word.as_str(), None),
            };
            let Some(spec) = project.pipeline.find(name) else { continue };
            let Some(port) = port.or(spec.kind.outputs.first().map(|port| port.name)) else {
                continue;
            };
            if let Some(known) = spec.fields.get(port) {
                fields.extend(known.fields.keys().cloned());
            }
            fields.extend(given(&project, &spec.name, port).unwrap_or_default());
        }
        fields.iter().map(|field| candidate(field, "")).collect()
    }

    fn project(&self) -> Option<Project> {
        project::load(&self.catalogue, &self.manifest(), &Settings::default()).ok()
    }

    /// The manifest that one of the words names, else that of the folder.
    fn manifest(&self) -> Utf8PathBuf {
        let values =
            self.words.iter().map(|word| word.rsplit_once('=').map_or(&**word, |(_, v)| v));
        let mut paths = values.map(Utf8Path::new);
        let is_manifest = |path: &&Utf8Path| {
            let is_file =
                |path: &Utf8Path| RealFs.metadata(path).is_ok_and(|found| !found.is_dir());
            path.extension() == Some("toml") && is_file(path) || is_file(&path.join(MANIFEST))
        };
        paths.find(is_manifest).unwrap_or(Utf8Path::new(".")).to_owned()
    }
}

/// The fields of some items of what the stage gave last.
fn given(project: &Project, stage: &str, port: &str) -> Option<Vec<String>> {
    let cache = Cache::open(&project.cache_folder, Arc::new(RealFs), Access::ReadOnly).ok()?;
    let last = history::last(&cache, &project.pipeline.name, stage).ok()??;
    let record = history::outcome(&cache, &last).ok()??;
    let root = match record.outputs.get(port)? {
        PortValue::Dataset { root, .. } => *root,
        PortValue::Artifact(fields) => {
            return Some(fields.iter().map(|(name, _)| name.to_string()).collect());
        }
    };
    let index = Arc::new(StatIndex::load(&cache).ok()?);
    let store = Store::new(cache, &project.pipeline.base, index);
    let first = store.dataset(&root).ok()?.buckets.first()?.chunk;
    let names =
        |item: &Item| item.fields.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
    Some(store.chunk(&first).ok()?.items.iter().flat_map(names).collect())
}

fn candidate(name: &str, help: impl Display) -> CompletionCandidate {
    let help = help.to_string();
    CompletionCandidate::new(name).help((!help.is_empty()).then(|| help.into()))
}
