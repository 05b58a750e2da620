//! The words, signs and texts of Rust code.

#[derive(PartialEq)]
enum Kind {
    /// A word or a sign.
    Token,
    /// A text with its quotes.
    Text,
    /// A comment, a letter in quotes or white space.
    Other,
}

/// The words and signs of code, without its comments and texts.
pub fn tokens(code: &str) -> Vec<String> {
    pieces(code, Kind::Token).into_iter().map(str::to_owned).collect()
}

/// The texts in code, with their quotes.
pub fn texts(code: &str) -> Vec<&str> {
    pieces(code, Kind::Text)
}

/// The pieces of one kind.
fn pieces(code: &str, wanted: Kind) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), code);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match first {
            _ if rest.starts_with("//") => (Kind::Other, rest.find('\n').unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => {
                (Kind::Other, rest.find("*/").map_or(rest.len(), |at| at + 2))
            }
            '"' => (Kind::Text, quoted(rest)),
            'r' | 'b' | 'c' if raw(rest).is_some() => (Kind::Text, raw(rest).unwrap()),
            '\'' => (Kind::Other, character(rest)),
            _ if first.is_alphabetic() || first == '_' || first.is_ascii_digit() => {
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
                (Kind::Token, rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()))
            }
            _ if rest.starts_with("::") => (Kind::Token, 2),
            _ if first.is_whitespace() => (Kind::Other, first.len_utf8()),
            _ => (Kind::Token, first.len_utf8()),
        };
        let (piece, behind) = rest.split_at(length);
        if kind == wanted {
            pieces.push(piece);
        }
        rest = behind;
    }
    pieces
}

/// The length of a text in quotes.
fn quoted(code: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in code.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    code.len()
}

/// The length of a text such as `r#"..."#` or `b"..."`.
fn raw(code: &str) -> Option<usize> {
    let behind = code.trim_start_matches(['r', 'b', 'c']);
    let prefix = code.len() - behind.len();
    let text = behind.trim_start_matches('#');
    let signs = behind.len() - text.len();
    if prefix > 2 || !text.starts_with('"') {
        return None;
    }
    if !code[..prefix].contains('r') {
        return (signs == 0).then(|| prefix + quoted(text));
    }
    let end = format!("\"{}", "#".repeat(signs));
    Some(prefix + signs + 1 + text[1..].find(&end)? + end.len())
}

/// The length of a letter in quotes, or the sign of a lifetime.
fn character(code: &str) -> usize {
    let mut letters = code.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), _) => code[3..].find('\'').map_or(1, |at| at + 4),
        (_, Some((at, '\''))) => at + 1,
        _ => 1,
    }
}
