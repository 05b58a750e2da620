//! Checks that the program accepts the commands of the documents.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use super::arguments::Arguments;

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = ["README.md", "docs/tour.md", "docs/moving.md"];
    let mut found: Vec<PathBuf> = pages.map(|page| root.join(page)).into();
    let guides = std::fs::read_dir(root.join("docs/guides")).unwrap();
    let guides = guides.map(|guide| guide.unwrap().path());
    found.extend(guides.filter(|guide| guide.extension().is_some_and(|it| it == "md")));
    assert!(found.len() >= 3, "{found:?}");
    found
}

/// Commands in blocks, with or without a prompt, and in code between backticks, which may span a
/// line break.
fn commands(text: &str) -> Vec<String> {
    let mut is_fenced = false;
    let is_block = |line: &&str| {
        is_fenced ^= line.starts_with("```");
        is_fenced || line.starts_with("    ")
    };
    let lines = text.lines().filter(is_block).map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        line.split(" #").next().unwrap_or(line).trim().to_owned()
    });
    let sentences: Vec<&str> = text.lines().filter(|line| !line.starts_with("```")).collect();
    let sentences = sentences.join(" ");
    let quoted = sentences.split('`').skip(1).step_by(2);
    let quoted = quoted.map(|code| code.split('|').next().unwrap_or(code).trim().to_owned());
    lines.chain(quoted).filter(|line| line.starts_with("throstle ")).collect()
}

#[test]
fn every_command_of_the_documents_is_understood() {
    let mut count = 0;
    for path in documents() {
        for command in commands(&std::fs::read_to_string(&path).unwrap()) {
            let words = shlex::split(&command).unwrap();
            let is_named = words.len() == 2;
            let is_understood = match Arguments::try_parse_from(words) {
                Ok(_) => true,
                Err(error) => error.kind() == ErrorKind::DisplayHelp,
            };
            // A command without its required arguments is only a mention.
            assert!(is_understood || is_named, "{}: `{command}`", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} commands were found");
}

#[test]
fn a_command_that_is_not_understood_would_be_found() {
    let text =
        "So `throstle fly --high now`.\n\n    $ throstle run demo   # all\n\n`throstle\nwhy a b`";
    assert_eq!(
        commands(text),
        ["throstle run demo", "throstle fly --high now", "throstle why a b"]
    );
    assert!(Arguments::try_parse_from(["throstle", "fly", "--high", "now"]).is_err());
}
