//! Pages of cases: manifests in Markdown with the messages about them.
//!
//! Each section is a case. Its blocks are read in order:
//!
//! | block | contents |
//! |---|---|
//! | `toml head` | the beginning of all following manifests of the case; before the first case, of all cases |
//! | `toml` | a manifest, which follows after [`CORPUS`] and the head |
//! | `sh` | `throstle check` with the `--set` for this manifest |
//! | `errors` | the errors in short: code and message, each marked place, advice |
//! | `text` | the errors as a person sees them |
//! | `warnings` | the warnings of a manifest without errors, in short |
//!
//! The words `alone` (without [`CORPUS`]) and `built-in` (with the kinds of the program in place of
//! the small catalogue of these tests) may follow after `toml`.

use std::fmt::Write;

use manifest::Problem;
use miette::Diagnostic;

use crate::catalogue;
use crate::support::{CORPUS, load_from, rendered};

/// Set this variable to write the pages again: `UPDATE_CASES=1 cargo test -p manifest`.
const UPDATE: &str = "UPDATE_CASES";

/// Compares a page with the messages of today.
pub fn check(name: &str) {
    let file = format!("{}/tests/reading/diagnostics/{name}.md", env!("CARGO_MANIFEST_DIR"));
    let kept = std::fs::read_to_string(&file).expect("a page");
    let page = Page::read(&kept);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(file, page.text).expect("the folder can be written");
        return;
    }
    assert!(!page.cases.is_empty(), "{name}.md has no cases");
    for case in &page.cases {
        assert!(case.results > 0, "the case `{}` of {name}.md has no result", case.name);
    }
    let differing = page.cases.iter().filter(|case| case.differs);
    let differing: Vec<&str> = differing.map(|case| case.text.as_str()).collect();
    assert!(
        differing.is_empty(),
        "{name}.md is out of date ({UPDATE}=1 writes it again); now:\n{}",
        differing.join("\n")
    );
}

#[derive(Default)]
struct Case {
    name: String,
    /// With the messages of today.
    text: String,
    results: usize,
    differs: bool,
}

/// A page with the messages of today.
#[derive(Default)]
struct Page {
    text: String,
    cases: Vec<Case>,
}

impl Page {
    fn read(kept: &str) -> Page {
        let mut page = Page::default();
        let mut step = Step::default();
        let mut of_page = None;
        let mut lines = kept.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("## ") {
                page.cases.push(Case { name: name.to_owned(), ..Case::default() });
                step = of_page.get_or_insert_with(|| step.clone()).clone();
            }
            page.add(line);
            let Some(info) = line.strip_prefix("```") else { continue };
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let inside = inside.iter().map(|line| format!("{line}\n")).collect::<String>();
            let now = step.block(info, &inside);
            if let Some(case) = page.cases.last_mut() {
                case.results += usize::from(Step::is_result(info));
                case.differs |= now != inside;
            }
            now.lines().for_each(|line| page.add(line));
            page.add("```");
        }
        page
    }

    fn add(&mut self, line: &str) {
        let texts = std::iter::once(&mut self.text);
        let texts = texts.chain(self.cases.last_mut().map(|case| &mut case.text));
        texts.for_each(|text| {
            text.push_str(line);
            text.push('\n');
        });
    }
}

/// A manifest of a case, and what is loaded with it.
#[derive(Clone, Default)]
struct Step {
    head: String,
    /// The words of the head and of the manifest.
    head_words: String,
    words: String,
    manifest: String,
    set: Vec<String>,
}

impl Step {
    fn is_result(info: &str) -> bool {
        ["errors", "text", "warnings"].contains(&info)
    }

    /// Reads a block, and says what it should contain.
    fn block(&mut self, info: &str, inside: &str) -> String {
        let (kind, words) = info.split_once(' ').unwrap_or((info, ""));
        match kind {
            "toml" if words.starts_with("head") => {
                inside.clone_into(&mut self.head);
                words.clone_into(&mut self.head_words);
            }
            "toml" => {
                inside.clone_into(&mut self.manifest);
                words.clone_into(&mut self.words);
                self.set.clear();
            }
            "sh" => {
                let arguments = inside.trim().strip_prefix("throstle check --set ");
                let arguments = arguments.expect("`throstle check` with `--set`");
                self.set = arguments.split(" --set ").map(str::to_owned).collect();
            }
            kind if Step::is_result(info) => return self.result(kind),
            other => panic!("there is no block `{other}`"),
        }
        inside.to_owned()
    }

    fn has(&self, word: &str) -> bool {
        [&self.head_words, &self.words].iter().any(|words| words.split(' ').any(|own| own == word))
    }

    fn result(&self, kind: &str) -> String {
        let corpus = if self.has("alone") { "" } else { CORPUS };
        let text = format!("{corpus}{}{}", self.head, self.manifest);
        let catalogue =
            if self.has("built-in") { stage_speech::catalogue() } else { catalogue::catalogue() };
        let set: Vec<&str> = self.set.iter().map(String::as_str).collect();
        let texts = [&[text.as_str()], &set[..]].concat();
        match (kind, load_from(&catalogue, &text, &set)) {
            ("warnings", Ok(loaded)) => short(loaded.warnings.iter(), &texts),
            ("text", Err(problems)) => rendered(&problems) + "\n",
            ("errors", Err(problems)) => short(problems.iter(), &texts),
            (_, Ok(_)) => "no errors\n".to_owned(),
            (_, Err(problems)) => panic!("{}", rendered(&problems)),
        }
    }
}

/// The problems in short. `texts` are the manifest and the overrides, which places are in.
fn short<'a>(problems: impl Iterator<Item = &'a Problem>, texts: &[&str]) -> String {
    problems.map(|problem| one(problem, texts)).collect()
}

fn one(problem: &Problem, texts: &[&str]) -> String {
    let mut told = format!("{}: {problem}\n", problem.name());
    let text = texts[problem.span().source];
    let origin = if problem.span().source > 0 { "--set " } else { "" };
    for label in problem.labels().into_iter().flatten() {
        let (before, from) = text.split_at(label.offset());
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        let marked = from[..label.len()].replace('\n', " ");
        let what = label.label().map(|what| format!(" <- {what}")).unwrap_or_default();
        let _ =
            writeln!(told, "{}", format!("  {origin}{line}:{column} {marked}{what}").trim_end());
    }
    if let Some(help) = problem.advice() {
        let _ = writeln!(told, "  help: {}", help.replace('\n', "\n        "));
    }
    told
}
