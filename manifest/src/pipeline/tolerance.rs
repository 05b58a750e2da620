//! The number of items that a stage may quarantine before it fails.

/// The default limit has two numbers, and both have to be exceeded: a single item is a large share
/// of a few. More than half of the items exceed it too, however few they are.
const USUAL_SHARE: f64 = 0.05;
const USUAL_ITEMS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The default.
    Usual,
    /// The default of stages on sentences that a person has asked for: the stage goes on with the
    /// others, and the run ends as failed if one is missing.
    Each,
    /// The allowed share of all items, 0 to 1, as written in the manifest.
    Share(f64),
}

impl Tolerance {
    pub fn is_exceeded(&self, aside: u64, items: u64) -> bool {
        match self {
            Tolerance::Usual => {
                let is_many = aside > USUAL_ITEMS || aside * 2 > items;
                is_more(aside, items, USUAL_SHARE) && is_many
            }
            Tolerance::Each => aside > 0 && aside >= items,
            Tolerance::Share(share) => is_more(aside, items, *share),
        }
    }

    /// The exceeded limit, with its numbers. `of`: the data sets of the items, such as ` of `voice``.
    pub fn violation(&self, aside: u64, items: u64, of: &str) -> String {
        let limit = match self {
            Tolerance::Share(share) => percent(*share),
            _ if items == 1 => return format!("the only item{of} was quarantined"),
            _ if aside >= items => return format!("all {items} items{of} were quarantined"),
            _ if aside > USUAL_ITEMS => {
                format!("{} and more than {USUAL_ITEMS} items", percent(USUAL_SHARE))
            }
            _ => "half".to_owned(),
        };
        format!("{aside} of {items} items{of} were quarantined, more than {limit}")
    }
}

fn is_more(aside: u64, items: u64, share: f64) -> bool {
    aside as f64 > share * items as f64
}

fn percent(share: f64) -> String {
    // 0.07 times 100 is a little more than 7.
    format!("{} %", (share * 1e8).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limit_needs_a_share_and_a_number_or_more_than_half() {
        let usual = Tolerance::Usual;
        for (aside, items, fails) in [
            (0, 0, false),
            (0, 5, false),
            (1, 1, true),
            (1, 2, false),
            (2, 3, true),
            (3, 3, true),
            (1, 19, false),
            (2, 4, false),
            (3, 4, true),
            (3, 5, true),
            (3, 6, false),
            (4, 79, true),
            (4, 80, false),
            (50, 1_000, false),
            (51, 1_000, true),
        ] {
            assert_eq!(usual.is_exceeded(aside, items), fails, "{aside} of {items}");
        }
        assert_eq!(
            usual.violation(4, 20, " of `voice`"),
            "4 of 20 items of `voice` were quarantined, more than 5 % and more than 3 items"
        );
        assert_eq!(usual.violation(2, 2, ""), "all 2 items were quarantined");
        assert_eq!(usual.violation(3, 5, ""), "3 of 5 items were quarantined, more than half");
    }

    #[test]
    fn a_stage_on_sentences_of_a_person_fails_only_without_any() {
        let each = Tolerance::Each;
        for (aside, items, fails) in [(0, 0, false), (1, 1, true), (4, 5, false), (5, 5, true)] {
            assert_eq!(each.is_exceeded(aside, items), fails, "{aside} of {items}");
        }
        assert_eq!(each.violation(1, 1, ""), "the only item was quarantined");
    }

    #[test]
    fn a_share_that_is_written_is_meant_exactly() {
        let exact = Tolerance::Share(0.05);
        assert!(exact.is_exceeded(1, 19));
        assert!(!exact.is_exceeded(1, 20));
        assert_eq!(exact.violation(1, 19, ""), "1 of 19 items were quarantined, more than 5 %");
        let told = Tolerance::Share(0.07).violation(2, 3, "");
        assert_eq!(told, "2 of 3 items were quarantined, more than 7 %");
        assert!(!Tolerance::Share(1.0).is_exceeded(7, 7));
        assert!(Tolerance::Share(0.0).is_exceeded(1, 1_000));
    }
}
