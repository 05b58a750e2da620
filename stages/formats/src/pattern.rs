//! Patterns for names.

/// Tests if a name matches a pattern, in which `*` means any characters.
pub fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("layers.*.attention.w*", "layers.12.attention.wqkv", true),
            ("layers.*.attention.w*", "fast_layers.1.attention.wo", false),
            ("*layers.*.w?", "layers.1.feed_forward.w1", false),
            ("*.w1", "layers.1.feed_forward.w1", true),
            ("output", "fast_output", false),
            ("*output", "output", true),
            ("a*a", "a", false),
            ("", "", true),
        ] {
            assert_eq!(is_match(pattern, name), expected, "{pattern} {name}");
        }
    }
}
