//! Compares the names and shapes of the tensors that a model needs with those of a file.

use std::collections::BTreeMap;

/// The number of names in a message; further ones are counted.
const LISTED: usize = 6;

/// A name and its expected shape, in the integers of libtorch.
pub type Expected = (String, Vec<i64>);

/// Reports all missing, unexpected and misshapen tensors at once.
pub fn compare(found: &BTreeMap<&str, Vec<i64>>, expected: &[Expected]) -> Result<(), String> {
    let known: BTreeMap<&str, &[i64]> =
        expected.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
    let missing = known.keys().filter(|name| !found.contains_key(*name)).map(quoted);
    let unexpected = found.keys().filter(|name| !known.contains_key(*name)).map(quoted);
    let other = found.iter().filter_map(|(name, shape)| {
        let wanted = known.get(name)?;
        (shape != wanted).then(|| format!("`{name}` {shape:?} instead of {wanted:?}"))
    });
    let problems: Vec<String> = [
        ("missing", missing.collect::<Vec<_>>()),
        ("unexpected", unexpected.collect()),
        ("wrong shape", other.collect()),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| format!("{what}: {}", counted(&names)))
    .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// A few names in backticks, and the number of further ones.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    counted(&names.map(|name| quoted(&name)).collect::<Vec<_>>())
}

fn quoted(name: &&str) -> String {
    format!("`{name}`")
}

fn counted(entries: &[String]) -> String {
    let shown = entries[..entries.len().min(LISTED)].join(", ");
    match (entries.len(), entries.len().saturating_sub(LISTED)) {
        (0, _) => "nothing".to_owned(),
        (_, 0) => shown,
        (_, more) => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_does_not_fit_is_told_at_once() {
        let found = [("a", vec![2, 3]), ("b", vec![1]), ("x", vec![1])].into();
        let expected = [("a", vec![3, 2]), ("b", vec![1]), ("c", vec![])];
        let expected = expected.map(|(name, shape)| (name.to_owned(), shape));
        assert_eq!(
            compare(&found, &expected),
            Err("missing: `c`; unexpected: `x`; wrong shape: `a` [2, 3] instead of [3, 2]"
                .to_owned())
        );
    }

    #[test]
    fn long_lists_are_counted() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(listed(names.into_iter()), "`a`, `b`, `c`, `d`, `e`, `f` and 2 more");
        assert_eq!(listed(names.into_iter().take(1)), "`a`");
        assert_eq!(listed([].into_iter()), "nothing");
    }
}
