//! The lines at the end of a terminal that are redrawn repeatedly.
//!
//! The cursor always rests in the first column of an empty line above them. A terminal that rewraps
//! its lines when it is resized moves the cursor along, so that everything below it can always be
//! erased; typed text lands on the empty line. No mode of the terminal is changed, so a killed
//! process has none to restore.

use std::fmt::Write as _;
use std::io::Write;

/// From the cursor's line to the end of the screen.
const ERASE: &str = "\r\u{1b}[J";

/// Columns and rows.
pub type Size = (usize, usize);

pub struct Area {
    output: Box<dyn Write + Send>,
    lines: Vec<String>,
    size: Size,
}

impl Area {
    pub fn new(output: Box<dyn Write + Send>) -> Area {
        Area { output, lines: Vec::new(), size: (0, 0) }
    }

    /// Writes text that stays, and below it the lines, one row each. Unchanged lines are not
    /// written again.
    pub fn draw(&mut self, above: &str, lines: Vec<String>, size: Size) {
        if above.is_empty() && lines == self.lines && size == self.size {
            return;
        }
        let mut text = String::new();
        if !self.lines.is_empty() && (size != self.size || !above.is_empty()) {
            text.push_str(ERASE);
        }
        text.push_str(above);
        if !lines.is_empty() {
            text.push_str("\r\u{1b}[K");
            lines.iter().for_each(|line| text.extend(["\r\n", line, "\u{1b}[K"]));
            let _ = write!(text, "\u{1b}[J\r\u{1b}[{}A", lines.len());
        } else if !self.lines.is_empty() {
            text.push_str(ERASE);
        }
        (self.lines, self.size) = (lines, size);
        // A run continues if nobody sees it.
        let _ = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
    }

    /// Leaves only the text.
    pub fn end(&mut self, text: &str) {
        self.draw(text, Vec::new(), self.size);
    }
}
