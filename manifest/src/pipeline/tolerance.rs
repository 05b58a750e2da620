//! The number of items that a stage may quarantine before it fails.

use std::fmt;

/// A single item is a large share of a few, so the default limit has two numbers, and both have to
/// be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The allowed share of all items, 0 to 1.
    pub share: f64,
    /// This number of items is always allowed, as long as other items are left. `None` if the
    /// manifest gives the share.
    pub few: Option<u64>,
}

impl Tolerance {
    /// The default, if the manifest gives no share.
    pub const USUAL: Tolerance = Tolerance { share: 0.05, few: Some(3) };

    pub fn of_share(share: f64) -> Tolerance {
        Tolerance { share, few: None }
    }

    pub fn is_exceeded(&self, aside: u64, items: u64) -> bool {
        if aside as f64 <= self.share * items as f64 {
            return false;
        }
        self.few.is_none_or(|few| aside > few || aside >= items)
    }

    /// The exceeded limit, with its numbers. `of`: the data sets of the items, such as ` of `voice``.
    pub fn violation(&self, aside: u64, items: u64, of: &str) -> String {
        match self.few {
            Some(_) if items == 1 => format!("the only item{of} was quarantined"),
            Some(_) if aside >= items => format!("all {items} items{of} were quarantined"),
            _ => format!("{aside} of {items} items{of} were quarantined, more than {self}"),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 0.07 times 100 is a little more than 7.
        let percent = (self.share * 1e8).round() / 1e6;
        write!(formatter, "{percent} %")?;
        match self.few {
            Some(few) => write!(formatter, " and more than {few} items"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limit_needs_a_share_and_a_number_or_all() {
        let usual = Tolerance::USUAL;
        for (aside, items, fails) in [
            (0, 0, false),
            (0, 5, false),
            (1, 1, true),
            (1, 2, false),
            (3, 3, true),
            (1, 19, false),
            (3, 4, false),
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
    }

    #[test]
    fn a_share_that_is_written_is_meant_exactly() {
        let exact = Tolerance::of_share(0.05);
        assert!(exact.is_exceeded(1, 19));
        assert!(!exact.is_exceeded(1, 20));
        assert_eq!(exact.violation(1, 19, ""), "1 of 19 items were quarantined, more than 5 %");
        assert_eq!(Tolerance::of_share(0.07).to_string(), "7 %");
        assert!(!Tolerance::of_share(1.0).is_exceeded(7, 7));
        assert!(Tolerance::of_share(0.0).is_exceeded(1, 1_000));
    }
}
