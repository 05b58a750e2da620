//! The capabilities of the terminal, detected once.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use view::paint::Paint;

#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// For standard output.
    pub data: Paint,
    /// For standard error.
    pub errors: Paint,
    /// Standard output is a terminal.
    pub data_is_seen: bool,
    /// Standard error is a terminal.
    pub errors_are_seen: bool,
    /// Standard error is a terminal that can move the cursor.
    pub errors_are_drawn: bool,
    pub columns: usize,
}

/// Used if there is no terminal.
const COLUMNS: usize = 100;
const ROWS: usize = 24;
/// Prose is not made wider than this.
const WIDEST: usize = 160;
/// Terminals that say they are narrower do not know their size.
const NARROWEST: usize = 20;

impl Terminal {
    pub fn look() -> Terminal {
        let stdout = std::io::stdout().is_terminal();
        let stderr = std::io::stderr().is_terminal();
        let is_able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let wanted = is_able && wants_colour();
        Terminal {
            data: Paint {
                colour: stdout && wanted,
                columns: stdout.then(|| columns(std::io::stdout())),
            },
            errors: Paint {
                colour: stderr && wanted,
                columns: stderr.then(|| columns(std::io::stderr())),
            },
            data_is_seen: stdout,
            errors_are_seen: stderr,
            errors_are_drawn: stderr && is_able,
            columns: if stderr { columns(std::io::stderr()).min(WIDEST) } else { COLUMNS },
        }
    }
}

fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn columns(terminal: impl AsFd) -> usize {
    let (columns, _) = size_of(terminal);
    if columns < NARROWEST { COLUMNS } else { columns }
}

/// The current size of the terminal in columns and rows.
pub fn size() -> (usize, usize) {
    size_of(std::io::stderr())
}

fn size_of(terminal: impl AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(terminal);
    let size = size.map_or((0, 0), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let known = |given, otherwise| if given == 0 { otherwise } else { given };
    (known(size.0, COLUMNS), known(size.1, ROWS))
}
