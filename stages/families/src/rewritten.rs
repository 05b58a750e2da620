//! Replaces parts of a text.

/// Calls `rewrite` with the rest of the text and the character before it. It writes a replacement
/// and returns the length of the replaced part; with None, the next character stays as it is.
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
