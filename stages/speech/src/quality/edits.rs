//! The smallest number of edits between two sequences, by kind (V. Levenshtein, 1966). Libraries
//! only return their number.

/// The edits from the expected to the found sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edits {
    pub substitutions: u64,
    /// Found, and not expected.
    pub insertions: u64,
    /// Expected, and not found.
    pub deletions: u64,
}

impl Edits {
    pub fn total(self) -> u64 {
        self.substitutions + self.insertions + self.deletions
    }
}

/// Of several ways with equally few edits, it is the one with the most substitutions.
pub fn edits<T: PartialEq>(wanted: &[T], found: &[T]) -> Edits {
    let inserted = |count: usize| Edits { insertions: count as u64, ..Edits::default() };
    let mut above: Vec<Edits> = (0..=found.len()).map(inserted).collect();
    for (row, own) in wanted.iter().enumerate() {
        let mut current = Vec::with_capacity(above.len());
        current.push(Edits { deletions: row as u64 + 1, ..Edits::default() });
        for (column, other) in found.iter().enumerate() {
            let mut both = above[column];
            both.substitutions += u64::from(own != other);
            let mut deleted = above[column + 1];
            deleted.deletions += 1;
            let mut inserted = current[column];
            inserted.insertions += 1;
            // The first of equals stays, so that the result is deterministic.
            let ways = [deleted, inserted].into_iter();
            current.push(
                ways.fold(both, |best, way| if way.total() < best.total() { way } else { best }),
            );
        }
        above = current;
    }
    above.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(wanted: &str, found: &str) -> (u64, u64, u64) {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        let edits = edits(&characters(wanted), &characters(found));
        (edits.substitutions, edits.insertions, edits.deletions)
    }

    #[test]
    fn edits_are_counted_by_kind() {
        assert_eq!(counted("kitten", "sitting"), (2, 1, 0));
        assert_eq!(counted("talo", "tao"), (0, 0, 1));
        assert_eq!(counted("tao", "talo"), (0, 1, 0));
        assert_eq!(counted("", "abc"), (0, 3, 0));
        assert_eq!(counted("abc", ""), (0, 0, 3));
        assert_eq!(counted("äiti", "äiti"), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn their_number_is_that_of_a_library(one in "[abcä ]{0,12}", other in "[abcä ]{0,12}") {
            let (substitutions, insertions, deletions) = counted(&one, &other);
            let total = (substitutions + insertions + deletions) as usize;
            prop_assert_eq!(total, strsim::levenshtein(&one, &other));
            let longer = one.chars().count() as i64 - other.chars().count() as i64;
            prop_assert_eq!(deletions as i64 - insertions as i64, longer);
        }
    }
}
