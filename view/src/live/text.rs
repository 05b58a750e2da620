//! A line of the display in pieces of one style each, with known widths.

use super::super::escape::{fit, width};
use super::super::paint::Paint;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Faint,
    Strong,
    Good,
    Figure,
    Warning,
    Bad,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<(Style, String)>);

impl Text {
    pub fn of(style: Style, text: impl Into<String>) -> Text {
        Text::default().with(style, text)
    }

    pub fn with(mut self, style: Style, text: impl Into<String>) -> Text {
        self.0.push((style, text.into()));
        self
    }

    pub fn spaces(self, count: usize) -> Text {
        self.with(Style::Plain, " ".repeat(count))
    }

    pub fn then(mut self, other: Text) -> Text {
        self.0.extend(other.0);
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    /// Padded with spaces on one side.
    pub fn padded(self, columns: usize, is_right: bool) -> Text {
        let missing = columns.saturating_sub(self.width());
        if is_right { Text::default().spaces(missing).then(self) } else { self.spaces(missing) }
    }

    /// Shortened to this number of columns, with colours.
    pub fn render(&self, columns: usize, paint: Paint) -> String {
        let mut left = columns;
        let mut line = String::new();
        for (style, text) in &self.0 {
            if left == 0 {
                break;
            }
            let text = fit(text, left);
            left -= width(&text).min(left);
            line.push_str(&painted(*style, &text, paint));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn painted(style: Style, text: &str, paint: Paint) -> String {
    match style {
        _ if text.trim().is_empty() => text.to_owned(),
        Style::Plain => text.to_owned(),
        Style::Faint => paint.faint(text),
        Style::Strong => paint.strong(text),
        Style::Good => paint.good(text),
        Style::Figure => paint.figure(text),
        Style::Warning => paint.warning(text),
        Style::Bad => paint.bad(text),
    }
}

/// Fills lines with as many parts as fit; lines after the first are indented.
pub fn flow(parts: Vec<Text>, between: &Text, indent: usize, columns: usize) -> Vec<Text> {
    let mut lines: Vec<Text> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.width() + between.width() + part.width() <= columns => {
                *line = std::mem::take(line).then(between.clone()).then(part);
            }
            _ => lines.push(Text::default().spaces(indent).then(part)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_columns_and_keeps_its_colours() {
        let line = Text::of(Style::Good, "漢字").with(Style::Plain, " abcdef");
        assert_eq!(line.width(), 11);
        let colour = Paint { colour: true, ..Paint::default() };
        assert_eq!(line.render(8, colour), "\u{1b}[32m漢字\u{1b}[0m ab…");
        assert_eq!(line.render(80, Paint::default()), "漢字 abcdef");
    }

    #[test]
    fn parts_that_do_not_fit_go_to_the_next_line() {
        let parts = ["one", "two", "three"].map(|part| Text::of(Style::Plain, part)).to_vec();
        let lines = flow(parts, &Text::of(Style::Faint, " · "), 2, 11);
        let lines: Vec<String> =
            lines.iter().map(|line| line.render(11, Paint::default())).collect();
        assert_eq!(lines, ["  one · two", "  three"]);
    }
}
