//! The texts that problems are shown in, made safe to print.

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::problem::Span;

/// Longer lines are shown in part: a hostile file can be one line of many megabytes.
const LONGEST_LINES: usize = 2_000;
const AROUND: usize = 60;

/// A named text with the same length in bytes as the original, so that positions stay right.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Replaces control characters, and masks secrets.
    pub fn new(name: &str, text: &str, number: usize, secrets: &[Span]) -> Source {
        let mut safe = String::with_capacity(text.len());
        let covered = |at: usize| {
            let inside =
                |span: &&Span| span.source == number && (span.start..span.end).contains(&at);
            secrets.iter().find(inside).is_some()
        };
        for (at, letter) in text.char_indices() {
            match letter {
                '\n' | '\t' => safe.push(letter),
                _ if !secrets.is_empty() && covered(at) => {
                    safe.extend(std::iter::repeat_n('*', letter.len_utf8()));
                }
                _ => safe.push(harmless(letter)),
            }
        }
        Source { name: printable(name), text: safe }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn boundary(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// The position with a little context.
    fn excerpt(&self, span: &SourceSpan, line: usize, column: usize) -> MietteSpanContents<'_> {
        let start = self.boundary(span.offset());
        let end = self.boundary(start + span.len().min(LONGEST_LINES / 10) + AROUND);
        let data = self.text.as_bytes().get(start..end).unwrap_or_default();
        let first_line = data.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let shown = (start, first_line.len()).into();
        MietteSpanContents::new_named(self.name.clone(), first_line, shown, line, column, 1)
    }
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let contents = self.text.as_str().read_span(span, before, after)?;
        if contents.data().len() > LONGEST_LINES {
            let own = self.text.as_str().read_span(span, 0, 0)?;
            return Ok(Box::new(self.excerpt(span, own.line(), own.column())));
        }
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            contents.data(),
            *contents.span(),
            contents.line(),
            contents.column(),
            contents.line_count(),
        )))
    }
}

/// A text without terminal control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter == '\n' { letter } else { harmless(letter) }).collect()
}

/// The character itself, or a printable one with the same number of bytes.
fn harmless(letter: char) -> char {
    let acts = letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match letter.len_utf8() {
        _ if !acts => letter,
        1 => '?',
        2 => '\u{bf}',
        _ => '\u{fffd}',
    }
}
