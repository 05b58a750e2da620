//! Problems of a manifest, with their positions and advice.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};

use super::source::{Source, printable};

/// Further problems of one file are counted, not shown.
const SHOWN: usize = 100;

/// A position in one of the texts that a pipeline is loaded from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// 0 is the manifest, `n` the override number `n`.
    pub source: usize,
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn new(source: usize, range: std::ops::Range<usize>) -> Span {
        Span { source, start: range.start, end: range.end }
    }

    fn labelled(self, text: String) -> LabeledSpan {
        let text = if text.is_empty() { None } else { Some(text) };
        LabeledSpan::new(text, self.start, self.end.saturating_sub(self.start))
    }
}

/// One error or warning, with positions in the text.
#[derive(Clone, Debug)]
pub struct Problem {
    code: &'static str,
    message: String,
    help: Option<String>,
    /// The first one determines the order and is shown.
    labels: Vec<(Span, String)>,
    severity: Severity,
    source: Option<Arc<Source>>,
}

impl Problem {
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Problem {
        Problem {
            code,
            message: printable(&message.into()),
            help: None,
            labels: vec![(span, String::new())],
            severity: Severity::Error,
            source: None,
        }
    }

    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::new(code, span, message) }
    }

    /// Describes the first position.
    pub fn label(mut self, text: impl Into<String>) -> Problem {
        if let Some(first) = self.labels.first_mut() {
            first.1 = printable(&text.into());
        }
        self
    }

    /// Another related position; left out if it is in another text.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Problem {
        if span.source == self.span().source && span != self.span() {
            self.labels.push((span, printable(&text.into())));
        }
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(printable(&help.into()));
        self
    }

    pub fn help_if(self, help: Option<String>) -> Problem {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// A stable word, such as `unknown_key`.
    pub fn name(&self) -> &'static str {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub fn span(&self) -> Span {
        self.labels.first().map(|(span, _)| *span).unwrap_or_default()
    }

    /// Line and column of the first position, counted from 1; columns in characters.
    pub fn position(&self) -> (usize, usize) {
        let text = self.source.as_ref().map(|source| source.text()).unwrap_or_default();
        let mut start = self.span().start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        (line, column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(format!("throstle::{}", self.code)))
    }

    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_deref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let labels = self.labels.iter().map(|(span, text)| span.labelled(text.clone()));
        Some(Box::new(labels))
    }
}

/// All errors of a manifest, in the order of their positions, with its warnings.
#[derive(Clone, Debug)]
pub struct Problems {
    file: String,
    problems: Vec<Problem>,
    /// The number of problems beyond those kept.
    more: usize,
}

impl Problems {
    /// A fallback in case that neither a pipeline nor a problem was produced.
    pub fn unexplained(file: &str) -> Problems {
        let problem =
            Problem::new("internal", Span::default(), "the manifest could not be resolved")
                .help("this is a bug in throstle: please report it with the manifest");
        Problems { file: file.to_owned(), problems: vec![problem], more: 0 }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.more + self.problems.iter().filter(|problem| problem.is_error()).count();
        let noun = if errors == 1 { "error" } else { "errors" };
        write!(formatter, "`{}` has {errors} {noun}", self.file)?;
        if self.more > 0 {
            write!(formatter, "; the first {SHOWN} are shown")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Diagnostic for Problems {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new("throstle::manifest"))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.problems.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

/// Collects problems while a manifest is read and resolved.
#[derive(Default)]
pub struct Collector {
    problems: Vec<Problem>,
    /// Values that must not be shown, whatever is wrong around them.
    secrets: Vec<Span>,
    /// Positions that need no further message.
    done: HashSet<Span>,
}

impl Collector {
    /// The same problem at the same position is reported once, however many stages of a matrix
    /// share it.
    pub fn add(&mut self, problem: Problem) {
        if !self.done.contains(&problem.span()) {
            self.problems.push(problem);
        }
    }

    /// Further problems at this position would be consequences.
    pub fn add_last(&mut self, problem: Problem) {
        let span = problem.span();
        self.add(problem);
        self.done.insert(span);
    }

    /// Makes an error at this position a warning.
    pub fn soften(&mut self, code: &str, span: Span) {
        let is_it = |problem: &&mut Problem| problem.code == code && problem.span() == span;
        self.problems
            .iter_mut()
            .filter(is_it)
            .for_each(|problem| problem.severity = Severity::Warning);
    }

    /// Masks this text wherever it is shown.
    pub fn cover(&mut self, span: Span) {
        self.secrets.push(span);
    }

    /// True when there are problems with one of these codes.
    pub fn has_any(&self, codes: &[&str]) -> bool {
        self.problems.iter().any(|problem| codes.contains(&problem.code))
    }

    /// Takes over the problems of another collection.
    pub fn take(&mut self, other: Collector) {
        other.problems.into_iter().for_each(|problem| self.add(problem));
        self.secrets.extend(other.secrets);
        self.done.extend(other.done);
    }

    fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    fn sorted(mut self, texts: &[(&str, &str)]) -> Vec<Problem> {
        if self.problems.is_empty() {
            return self.problems;
        }
        self.problems
            .sort_by(|a, b| (a.span(), a.code, &a.message).cmp(&(b.span(), b.code, &b.message)));
        self.problems
            .dedup_by(|a, b| a.span() == b.span() && a.code == b.code && a.message == b.message);
        let source = |(number, (name, text)): (usize, &(&str, &str))| {
            Arc::new(Source::new(name, text, number, &self.secrets))
        };
        let sources: Vec<Arc<Source>> = texts.iter().enumerate().map(source).collect();
        for problem in &mut self.problems {
            problem.source = sources.get(problem.span().source).cloned();
        }
        self.problems
    }

    /// The warnings if there are no errors, else all errors. `texts` are the names and texts that
    /// positions point into.
    pub fn finish(self, file: &str, texts: &[(&str, &str)]) -> Result<Vec<Problem>, Problems> {
        let failed = self.has_errors();
        let mut problems = self.sorted(texts);
        if !failed {
            return Ok(problems);
        }
        problems.retain(Problem::is_error);
        let more = problems.len().saturating_sub(SHOWN);
        problems.truncate(SHOWN);
        Err(Problems { file: printable(file), problems, more })
    }
}
