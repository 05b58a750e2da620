//! Targets of exports: no two have the same path, and none is an input of the pipeline.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};

use super::export::WrittenExport;
use super::problem::{Collector, Problem, Span};
use crate::pipeline::{Export, Template, TemplatePart};

/// Finds templates that mean the same paths, or files that the pipeline reads.
pub struct Targets {
    seen: HashMap<String, Span>,
    /// Input files and folders, by the parts of their paths below the manifest.
    read: Vec<(Vec<String>, Span)>,
}

impl Targets {
    pub fn new(base: &Utf8Path, read: Vec<(Utf8PathBuf, Span)>) -> Targets {
        let below = |(path, span): (Utf8PathBuf, Span)| {
            let path = path.strip_prefix(base).unwrap_or(&path).to_owned();
            let parts = parts(path.as_str());
            let inside = !path.is_absolute() && !parts.is_empty() && parts[0] != "..";
            inside.then_some((parts, span))
        };
        let seen = HashMap::new();
        Targets { seen, read: read.into_iter().filter_map(below).collect() }
    }

    /// An export into an input folder would change the pipeline's own input.
    fn check_read(
        &self,
        stage: &str,
        path: &str,
        written: &WrittenExport,
        problems: &mut Collector,
    ) {
        let target = parts(path);
        let Some((read, span)) = self.read.iter().find(|(read, _)| target.starts_with(read)) else {
            return;
        };
        let read = read.join("/");
        let message =
            format!("stage `{stage}` would export into `{read}`, which the pipeline reads");
        let problem = Problem::new("unsafe_path", written.span, message)
            .label("this would change the input")
            .also(*span, "read here");
        problems.add(problem.help("export to a folder of its own, such as `out/{id}.wav`"));
    }

    pub fn add(
        &mut self,
        stage: &str,
        export: &Export,
        written: &WrittenExport,
        problems: &mut Collector,
    ) {
        let path = path(&export.template);
        self.check_read(stage, &path, written, problems);
        let Some(span) = self.seen.get(&path) else {
            self.seen.insert(path, written.span);
            return;
        };
        let problem = if *span == written.span {
            let message = format!("all stages made from `{stage}` would export to `{path}`");
            Problem::new("duplicate_export", written.span, message).help(
                "a matrix or a sweep makes several stages of it: add `{matrix}` to the path, \
                     which stands for `rate=16000` or `trial=3`",
            )
        } else {
            let message = format!("two stages would export to `{path}`");
            Problem::new("duplicate_export", written.span, message)
                .label("second export")
                .also(*span, "first export")
                .help("export each to its own folder")
        };
        problems.add(problem);
    }
}

fn parts(path: &str) -> Vec<String> {
    let named = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    named.map(str::to_owned).collect()
}

fn path(template: &Template) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Field(name) => format!("{{{name}}}"),
    };
    template.0.iter().map(part).collect()
}
