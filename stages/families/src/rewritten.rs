//! The loop that replaces parts of a text.

/// A text in which `rewrite` replaces what it knows. It is given the rest of the text and the
/// character before it, writes the replacement, and returns the length of what it replaces; None
/// leaves a character as it is.
pub fn rewritten(
    text: &str,
    mut rewrite: impl FnMut(&str, Option<char>, &mut String) -> Option<usize>,
) -> String {
    let mut written = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(first) = rest.chars().next() {
        let taken = rewrite(rest, before, &mut written).unwrap_or_else(|| {
            written.push(first);
            first.len_utf8()
        });
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
    written
}
