//! The words of an expression.

use std::ops::Range;

use super::Fault;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Number(f64),
    Text(String),
    Name(String),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// Longer signs first.
const SIGNS: [&str; 12] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")"];

/// The words with their positions, and [`Token::End`].
pub fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], letter)
            .map_err(|fault| Fault { span: at + fault.span.start..at + fault.span.end, ..fault })?;
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens.push((Token::End, text.len()..text.len()));
    Ok(tokens)
}

/// The first word of a text that begins with a letter, and its length.
fn token(rest: &str, letter: char) -> Result<(Token, usize), Fault> {
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    match letter {
        '"' | '\'' => quoted(rest, letter).map(|(text, length)| (Token::Text(text), length)),
        '`' => quoted(rest, letter).map(|(text, length)| (Token::Name(text), length)),
        '0'..='9' | '.' => number(rest),
        _ if is_of_name(letter) => {
            let length = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            Ok((Token::Name(rest[..length].to_owned()), length))
        }
        _ => {
            let message = format!("unexpected `{}`", letter.escape_debug());
            let fault = Fault::new(0..letter.len_utf8(), message);
            Err(match letter {
                '=' => fault.help("compare two texts or numbers with `==`"),
                '&' | '|' | '!' => fault.help("write `and`, `or` and `not`"),
                _ => fault,
            })
        }
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn quoted(rest: &str, quote: char) -> Result<(String, usize), Fault> {
    match rest[1..].find(quote) {
        Some(length) => Ok((rest[1..=length].to_owned(), length + 2)),
        None => Err(Fault::new(0..1, format!("the closing {quote} is missing"))),
    }
}

fn number(rest: &str) -> Result<(Token, usize), Fault> {
    let digits = |from: usize| {
        let end = rest[from..].find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        end.map_or(rest.len(), |end| from + end)
    };
    let mut length = digits(0);
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        length = digits(length + 1 + sign);
    }
    // `1x` is no number and a name.
    let end = rest[length..].find(|letter| !is_of_name(letter));
    let length = end.map_or(rest.len(), |end| length + end);
    match rest[..length].parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((Token::Number(number), length)),
        _ => Err(Fault::new(0..length, format!("`{}` is not a number", &rest[..length]))),
    }
}
