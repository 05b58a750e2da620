//! Command lines with placeholders: `say {text} -o {out.audio}`.
//!
//! `${NAME}` is left for the shell, and `{{` and `}}` are plain braces.

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

/// Where the shell is in a line.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    /// Up to the character that ends it, if any.
    Plain(Option<char>),
    Single,
    Double,
}

/// The places inside the quotes of the shell. A value is quoted already: in quotes of the line its
/// own would end them, and the shell would run what it says.
pub fn quoted<'a>(pieces: &[Piece<'a>]) -> Vec<&'a str> {
    let mut contexts = vec![Context::Plain(None)];
    let mut found = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => pass(text, &mut contexts),
            Piece::Place(name) => {
                if !matches!(contexts.last(), None | Some(Context::Plain(_))) {
                    found.push(*name);
                }
            }
        }
    }
    found
}

/// Follows the quotes and substitutions of a text.
fn pass(text: &str, contexts: &mut Vec<Context>) {
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let context = contexts.last().copied().unwrap_or(Context::Plain(None));
        let is_single = context == Context::Single;
        match (context, letter) {
            (Context::Single, '\'') | (Context::Double, '"') => drop(contexts.pop()),
            (Context::Plain(Some(end)), letter) if letter == end => drop(contexts.pop()),
            _ if is_single => {}
            (_, '\\') => drop(letters.next()),
            (Context::Plain(_), '\'') => contexts.push(Context::Single),
            (_, '"') => contexts.push(Context::Double),
            (_, '`') => contexts.push(Context::Plain(Some('`'))),
            (_, '$') if letters.next_if_eq(&'(').is_some() => {
                contexts.push(Context::Plain(Some(')')));
            }
            (Context::Plain(_), '(') => contexts.push(Context::Plain(Some(')'))),
            (Context::Plain(_), '#') if before.is_whitespace() => {
                // A comment.
                while letters.next_if(|letter| *letter != '\n').is_some() {}
            }
            _ => {}
        }
        before = letter;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_in_quotes_of_the_line_is_found_and_others_are_not() {
        let of = |line| quoted(&pieces(line).unwrap()).join(" ");
        for line in [
            "say {text} -o {out}",
            "say 'it is' {text}",
            "say \"$(cat {text})\" > {out}",
            "say \"`cat {text}`\" {out}",
            "awk '{{print}}' {text}",
            "say \\\"{text}\\\"",
            "say it\\'s {text}",
            "# don't\nsay {text}",
            "(say {text}) | sed \"s/a/b/\" > {out}",
            "sed \"s/'//\" {text}",
        ] {
            assert_eq!(of(line), "", "{line}");
        }
        for line in [
            "say \"{text}\"",
            "say '{text}' {out}",
            "say \"it is {text}\"",
            "say \"$(cat '{text}')\" {out}",
            "say \"$(cat x) {text}\"",
            "say a#'{text}'",
        ] {
            assert_eq!(of(line), "text", "{line}");
        }
    }
}
