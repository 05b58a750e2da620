//! Command lines with placeholders: `say {text} -o {out.audio}`.
//!
//! `${NAME}` is left for the shell, and `{{` and `}}` are plain braces.

mod prefix;
mod shell;

pub use shell::Shell;

/// A piece of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    /// The name in braces.
    Place(&'a str),
}

/// An opening brace without a closing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclosed;

/// The pieces of a line, in order.
pub fn pieces(line: &str) -> Result<Vec<Piece<'_>>, Unclosed> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        pieces.push(Piece::Text(before));
        if behind.starts_with("{{") || behind.starts_with("}}") {
            pieces.push(Piece::Text(&behind[..1]));
            rest = &behind[2..];
        } else if behind.starts_with('}') || before.ends_with('$') {
            pieces.push(Piece::Text(&behind[..1]));
            rest = &behind[1..];
        } else {
            let end = behind.find('}').ok_or(Unclosed)?;
            pieces.push(Piece::Place(&behind[1..end]));
            rest = &behind[end + 1..];
        }
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}
