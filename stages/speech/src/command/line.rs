//! Command lines with placeholders: `say {text} -o {out.audio}`.
//!
//! `${NAME}` is left for the shell, and `{{` and `}}` are plain braces. A value never becomes a part
//! of the program: it reaches the shell as a variable. Where a variable does not stay one word, or
//! where its content would be run, a value has no place.

mod command;
mod document;
mod place;
mod prefix;
mod rules;
mod shell;
mod taint;
mod word;

pub use place::{Misplaced, Place, Writing};

use command::SimpleCommand;
use shell::Script;

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

/// Facts about a line for `sh`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shell<'a> {
    /// The placeholders, in their order.
    pub places: Vec<Place<'a>>,
    /// The programs at the start of the line, unless the line says with `||` what happens if they
    /// fail: several for `nice foo`.
    pub first: Vec<String>,
    /// The programs on the left of a pipe, as far as they are known: a pipeline ends with the status
    /// of its last program, so the shell does not report that one of these is missing. A path that
    /// is relative to the folder of the command is known only where no command ran before.
    pub piped: Vec<String>,
}

impl<'a> Shell<'a> {
    /// # Errors
    ///
    /// A brace that is not closed.
    pub fn read(line: &'a str) -> Result<Shell<'a>, Unclosed> {
        let mut script = Script::read(line)?;
        rules::apply(&mut script);
        let Script { places, commands, functions, is_odd, .. } = script;
        if is_odd || commands.iter().any(SimpleCommand::looks_for_programs) {
            return Ok(Shell { places, ..Shell::default() });
        }
        let known = |is_one_of: fn(&SimpleCommand) -> bool| {
            let mut known = Vec::new();
            let programs = commands.iter().filter(|command| is_one_of(command));
            for name in programs.flat_map(SimpleCommand::programs) {
                if !functions.contains(&name) && !known.contains(&name) {
                    known.push(name);
                }
            }
            known
        };
        let (first, piped) = (known(|command| command.is_first), known(|command| command.is_piped));
        Ok(Shell { places, first, piped })
    }
}

#[cfg(test)]
mod tests;
