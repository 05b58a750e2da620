//! One JSON object per line: the interface for programs.

use std::io::{self, Write};

use engine::event::Event;

use super::Reporter;

pub struct JsonLines<W>(pub W);

impl<W: Write + Send> Reporter for JsonLines<W> {
    /// A line is written in one piece and flushed, so that a reader sees whole objects.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.0.write_all(&line)?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_event_is_one_line_whatever_is_in_it() {
        let mut written = Vec::new();
        let note = Event::Note { stage: None, message: "two\nlines \u{2028} \u{1b}".into() };
        JsonLines(&mut written).event(&note).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), note);
    }
}
