//! Characters of a text that a model does not know: the names under which people see them, and the
//! notes in which syntheses count them.

use std::collections::BTreeMap;

use crate::kinds::parameters::choice;
use stage_core::{Parameter, Reject};

/// Characters with the number of times that they were left out.
pub type Dropped = BTreeMap<char, u64>;

/// The parameter that decides about letters and digits that would not be spoken.
pub const ON_UNKNOWN: Parameter = choice(
    "on_unknown",
    &["fail", "report"],
    "The effect of letters and digits that the model does not know: fail the sentence, which is then \
     quarantined, or speak it without them and report them like other dropped characters.",
);

/// The advice where letters or digits would be lost, up to the parameter.
pub const ADVICE: &str = "put the text stages of the training before this stage, such as \
                          `text.normalize` with `numbers`, or rewrite the text";

/// Letters and digits, and marks that make another letter of the one before: without them, other
/// words are spoken than those that are written.
pub fn is_spoken(character: char) -> bool {
    const NUKTA: u8 = 7;
    const VIRAMA: u8 = 9;
    let class = unicode_normalization::char::canonical_combining_class(character);
    character.is_alphanumeric() || class == NUKTA || class == VIRAMA
}

/// The name of a character for people; invisible ones are named by their code point.
pub fn named(character: char) -> String {
    let is_visible = !character.is_control()
        && !character.is_whitespace()
        && !unicode_normalization::char::is_combining_mark(character)
        && !matches!(
            character,
            '\u{200B}'..='\u{200F}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
        );
    match is_visible {
        true => format!("`{character}`"),
        false => code_point(character),
    }
}

/// For example `U+0033`.
pub fn code_point(character: char) -> String {
    format!("U+{:04X}", character as u32)
}

/// All characters by name and count, such as "`3` (2 times), U+200B (1 time)".
pub fn listed(dropped: &Dropped) -> String {
    let one = |(character, count): (&char, &u64)| {
        let times = if *count == 1 { "time" } else { "times" };
        format!("{} ({count} {times})", named(*character))
    };
    dropped.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The letters and digits among dropped characters.
pub fn spoken(dropped: &Dropped) -> Dropped {
    let spoken = dropped.iter().filter(|(character, _)| is_spoken(**character));
    spoken.map(|(character, count)| (*character, *count)).collect()
}

/// The note of a synthesis about a character that it left out.
pub fn note(character: char) -> String {
    format!("{} dropped", code_point(character))
}

/// The reject of a sentence of which these letters and digits would be lost.
pub fn reject(lost: &Dropped) -> Reject {
    let reason = format!(
        "the model does not know {}, which would not be spoken: {ADVICE}; `on_unknown = \"report\"` \
         speaks without them",
        listed(lost)
    );
    Reject::new("unknown-letters", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_a_name_and_a_count() {
        let dropped = Dropped::from([('3', 2), ('\u{200B}', 1), ('ж', 1), ('\u{308}', 4)]);
        assert_eq!(
            listed(&dropped),
            "`3` (2 times), U+0308 (4 times), `ж` (1 time), U+200B (1 time)"
        );
        assert_eq!(note('3'), "U+0033 dropped");
    }

    #[test]
    fn letters_and_digits_of_any_script_are_spoken_and_signs_are_not() {
        let dropped = Dropped::from([('3', 2), (',', 7), ('ж', 1), ('«', 1), ('૨', 1)]);
        assert_eq!(spoken(&dropped), Dropped::from([('3', 2), ('ж', 1), ('૨', 1)]));
        assert!(is_spoken('\u{9bc}') && is_spoken('\u{94d}') && !is_spoken('\u{301}'));
        let reject = reject(&spoken(&dropped));
        assert_eq!(reject.code, "unknown-letters");
        assert!(reject.reason.contains("`3` (2 times)") && !reject.reason.contains('«'));
        assert!(reject.reason.contains("`text.normalize`"), "{}", reject.reason);
    }
}
