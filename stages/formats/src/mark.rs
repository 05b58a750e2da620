//! The byte order mark that some editors and tools write before a text in UTF-8.

pub const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A text in UTF-8 without its mark, if it has one.
pub fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}
