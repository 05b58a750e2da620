//! The words and signs of Rust code.

/// The words and signs of code, without its comments and texts.
pub fn tokens(code: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), code);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => quoted(rest),
            'r' | 'b' | 'c' if raw(rest).is_some() => raw(rest).unwrap(),
            '\'' => character(rest),
            _ if first.is_alphabetic() || first == '_' || first.is_ascii_digit() => {
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
                let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                tokens.push(rest[..length].to_owned());
                length
            }
            _ if rest.starts_with("::") => {
                tokens.push("::".to_owned());
                2
            }
            _ => {
                tokens.extend((!first.is_whitespace()).then(|| first.to_string()));
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
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
