//! What the terminal can do, looked at once.

use std::io::IsTerminal;

use crate::show::paint::Paint;

#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// For standard output.
    pub data: Paint,
    /// For standard error.
    pub errors: Paint,
    /// Somebody may be looking at standard output.
    pub data_is_seen: bool,
    /// Somebody may be looking at standard error.
    pub errors_are_seen: bool,
    pub columns: usize,
}

/// Without a terminal to ask.
const COLUMNS: usize = 100;

impl Terminal {
    pub fn look() -> Terminal {
        let stdout = std::io::stdout().is_terminal();
        let stderr = std::io::stderr().is_terminal();
        let wanted = (stdout || stderr) && wants_colour();
        Terminal {
            data: Paint { colour: stdout && wanted },
            errors: Paint { colour: stderr && wanted },
            data_is_seen: stdout,
            errors_are_seen: stderr,
            columns: if stderr { columns() } else { COLUMNS },
        }
    }
}

fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(COLUMNS, |size| usize::from(size.ws_col));
    if columns < 20 { COLUMNS } else { columns.min(160) }
}
