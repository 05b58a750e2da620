//! The arguments as they were given, with the manifest of `-m` in its place.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::{Arguments, Command, ManifestArgument};

impl Arguments {
    /// Reads the words of a command line, the program first.
    pub fn read(words: impl Iterator<Item = OsString>) -> Result<Arguments, clap::Error> {
        let mut arguments = Arguments::try_parse_from(words)?;
        if let Some((manifest, stages)) = arguments.command.manifest_and_stages() {
            manifest
                .settle(stages)
                .map_err(|why| Arguments::command().error(ErrorKind::ArgumentConflict, why))?;
        }
        Ok(arguments)
    }
}

impl Command {
    /// The manifest of a command that takes it as its first argument, and the stages behind it.
    fn manifest_and_stages(&mut self) -> Option<(&mut ManifestArgument, Option<&mut Vec<String>>)> {
        Some(match self {
            Command::Check(check) => (&mut check.manifest, None),
            Command::Plan(plan) => (&mut plan.manifest, Some(&mut plan.stages)),
            Command::Run(run) | Command::Watch(run) => (&mut run.manifest, Some(&mut run.stages)),
            Command::Submit(submit) => (&mut submit.manifest, Some(&mut submit.stages)),
            Command::Status(status) => (&mut status.manifest, None),
            Command::Sweep(sweep) => (&mut sweep.manifest, None),
            Command::Graph(graph) => (&mut graph.manifest, None),
            Command::Report(report) => (&mut report.manifest, None),
            Command::Export(export) => (&mut export.manifest, Some(&mut export.stages)),
            Command::PackCache(pack) => (&mut pack.location.manifest, None),
            Command::UnpackCache(unpack) => (&mut unpack.location.manifest, None),
            Command::Push(push) => (&mut push.manifest, None),
            Command::Pull(pull) => (&mut pull.manifest, Some(&mut pull.stages)),
            _ => return None,
        })
    }
}
