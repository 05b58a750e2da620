//! Pages for coding agents, which `init --agent` writes beside a manifest: `llms.txt`, a reference of
//! the manifest, the stage kinds and the commands, and `AGENTS.md`, instructions to work with them.

use std::fmt::Write;

use clap::{Arg, Command};
use engine::manifest::brief;
use stage_core::Catalogue;

pub const REFERENCE: &str = "llms.txt";
/// The file that coding agents look for by themselves.
pub const INSTRUCTIONS: &str = "AGENTS.md";

const FRAME: &str = include_str!("../../../docs/agents/reference.md");
/// Placeholders in the frame, each on a line of its own.
const KINDS: &str = "KINDS\n";
const COMMANDS: &str = "COMMANDS\n";
const SHAPES: &str = "SHAPES\n";
const EXAMPLES: &str = "EXAMPLES\n";

const MANIFESTS: [&str; 5] = [
    include_str!("../../../docs/agents/examples/corpus.toml"),
    include_str!("../../../docs/agents/examples/long.toml"),
    include_str!("../../../docs/agents/examples/finetune.toml"),
    include_str!("../../../docs/agents/examples/programs.toml"),
    include_str!("../../../docs/agents/examples/sweep.toml"),
];

/// Arguments that most commands have, explained once.
const COMMON: [&str; 8] =
    ["help", "version", "manifest", "named_manifest", "cache", "set", "remote", "json"];
/// Commands that other programs call, and those for shells.
const UNLISTED: [&str; 4] = ["help", "work", "completions", "man"];

/// The contents of `llms.txt`: `program` has the commands.
pub fn reference(catalogue: &Catalogue, program: Command) -> String {
    let examples = MANIFESTS.map(|manifest| format!("```toml\n{manifest}```\n"));
    FRAME
        .replace(KINDS, &brief(catalogue))
        .replace(COMMANDS, &commands(program))
        .replace(SHAPES, include_str!("../../../docs/agents/shapes.json"))
        .replace(EXAMPLES, &examples.join("\n"))
}

/// The pages by file name.
pub fn pages(catalogue: &Catalogue, program: Command) -> [(&'static str, String); 2] {
    let instructions = include_str!("../../../docs/agents/AGENTS.md").to_owned();
    [(REFERENCE, reference(catalogue, program)), (INSTRUCTIONS, instructions)]
}

fn commands(mut program: Command) -> String {
    program.build();
    let mut lines = String::new();
    add_commands(&mut lines, &program);
    lines
}

fn add_commands(lines: &mut String, command: &Command) {
    for inner in command.get_subcommands().filter(|inner| !UNLISTED.contains(&inner.get_name())) {
        if inner.has_subcommands() {
            add_commands(lines, inner);
            continue;
        }
        let name = inner.get_bin_name().unwrap_or_else(|| inner.get_name());
        let name = name.strip_prefix("throstle ").unwrap_or(name);
        let arguments: String = inner.get_arguments().filter_map(usage).collect();
        let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
        // The next sentences are details.
        let about = about.split_once([':', ';']).map_or(about.as_str(), |(about, _)| about);
        let _ = writeln!(lines, "{name}{arguments}: {about}");
    }
}

/// The form of an argument in the help, such as `FILE`; None for common ones.
fn usage(argument: &Arg) -> Option<String> {
    if COMMON.contains(&argument.get_id().as_str()) {
        return None;
    }
    let Some(long) = argument.get_long() else { return Some(format!(" {argument}")) };
    if !argument.get_action().takes_values() {
        return Some(format!(" --{long}"));
    }
    let values = argument.get_possible_values();
    let value = if values.is_empty() {
        argument.get_value_names().unwrap_or_default().iter().map(|name| name.to_string()).collect()
    } else {
        values.iter().map(|value| value.get_name().to_owned()).collect::<Vec<String>>()
    };
    Some(format!(" --{long} {}", value.join("|")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;
    use crate::arguments::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_page_for_agents_is_what_the_program_writes_and_is_short() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/llms.txt");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let page = reference(&stage_speech::catalogue(), Arguments::command());
        assert!(kept == page, "docs/llms.txt is old: run `cargo run -p cli --example bless-cli`");
        assert!(page.len() < 60_000, "{} bytes", page.len());
        assert!([KINDS, COMMANDS, SHAPES, EXAMPLES].iter().all(|own| !page.contains(*own)));
    }

    #[test]
    fn every_command_is_on_the_page_with_its_own_flags() {
        let page = commands(Arguments::command());
        for line in [
            "init [DIR] --template corpus|",
            "plan [STAGE]... --probe --verify: Show what",
            "items <STAGE> --format table|jsonl|",
            "cache gc --yes --max-size SIZE ",
            "pack-cache --to DIR ",
            "remote stats: ",
            "report --output FILE --run N --runs N,N: Write one page about a run\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        let common = ["--set", "--cache ", "--remote", "--help", "\ncache:"];
        assert!(common.iter().all(|own| !page.contains(own)), "{page}");
    }

    /// The commands with this flag, as a person types them.
    fn with_flag(command: &Command, flag: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            if inner.get_arguments().any(|argument| argument.get_long() == Some(flag)) {
                let name = inner.get_bin_name().unwrap_or_default();
                found.push(name.trim_start_matches("throstle ").to_owned());
            }
            with_flag(inner, flag, found);
        }
    }

    #[test]
    fn every_command_with_json_has_a_shape() {
        let mut command = Arguments::command();
        command.build();
        let mut commands = Vec::new();
        with_flag(&command, "json", &mut commands);
        assert!(commands.len() > 9, "{commands:?}");
        let shapes: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/agents/shapes.json")).unwrap();
        let keys = shapes.as_object().unwrap().keys();
        let named: Vec<&str> = keys.flat_map(|key| key.split(", ")).collect();
        for command in commands {
            let begins = |name: &&str| name.starts_with(&format!("{command} "));
            assert!(named.iter().any(begins), "{command}: {named:?}");
        }
    }
}
