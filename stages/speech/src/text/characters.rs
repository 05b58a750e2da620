//! The tables of `text.normalize`: characters that are replaced or removed.

/// The category of a change; each category can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Quote,
    Dash,
    Ellipsis,
    Space,
    /// Zero-width spaces, soft hyphens, joiners outside the scripts that need them.
    Invisible,
    /// Control characters and marks for the direction of writing.
    Control,
    Emoji,
}

/// Replaced characters, in the order of their code points.
const REPLACED: [(char, &str, Kind); 46] = [
    ('\t', " ", Kind::Space),
    ('\n', " ", Kind::Space),
    ('\u{000B}', " ", Kind::Space),
    ('\u{000C}', " ", Kind::Space),
    ('\r', " ", Kind::Space),
    ('`', "'", Kind::Quote),
    ('\u{0085}', " ", Kind::Space),
    ('\u{00A0}', " ", Kind::Space),
    ('\u{00AB}', "\"", Kind::Quote),
    ('\u{00B4}', "'", Kind::Quote),
    ('\u{00BB}', "\"", Kind::Quote),
    ('\u{02B9}', "'", Kind::Quote),
    ('\u{02BC}', "'", Kind::Quote),
    ('\u{1680}', " ", Kind::Space),
    ('\u{2010}', "-", Kind::Dash),
    ('\u{2011}', "-", Kind::Dash),
    ('\u{2012}', "-", Kind::Dash),
    ('\u{2013}', "-", Kind::Dash),
    ('\u{2014}', "-", Kind::Dash),
    ('\u{2015}', "-", Kind::Dash),
    ('\u{2018}', "'", Kind::Quote),
    ('\u{2019}', "'", Kind::Quote),
    ('\u{201A}', "'", Kind::Quote),
    ('\u{201B}', "'", Kind::Quote),
    ('\u{201C}', "\"", Kind::Quote),
    ('\u{201D}', "\"", Kind::Quote),
    ('\u{201E}', "\"", Kind::Quote),
    ('\u{201F}', "\"", Kind::Quote),
    ('\u{2026}', "...", Kind::Ellipsis),
    ('\u{2028}', " ", Kind::Space),
    ('\u{2029}', " ", Kind::Space),
    ('\u{202F}', " ", Kind::Space),
    ('\u{2032}', "'", Kind::Quote),
    ('\u{2033}', "\"", Kind::Quote),
    ('\u{2039}', "'", Kind::Quote),
    ('\u{203A}', "'", Kind::Quote),
    ('\u{2043}', "-", Kind::Dash),
    ('\u{205F}', " ", Kind::Space),
    ('\u{2212}', "-", Kind::Dash),
    ('\u{3000}', " ", Kind::Space),
    ('\u{FE58}', "-", Kind::Dash),
    ('\u{FE63}', "-", Kind::Dash),
    ('\u{FF02}', "\"", Kind::Quote),
    ('\u{FF07}', "'", Kind::Quote),
    ('\u{FF0D}', "-", Kind::Dash),
    ('\u{FF40}', "'", Kind::Quote),
];

/// The replacement of a character, if it has one.
pub(super) fn replacement(character: char) -> Option<(&'static str, Kind)> {
    if let Ok(index) = REPLACED.binary_search_by_key(&character, |entry| entry.0) {
        return Some((REPLACED[index].1, REPLACED[index].2));
    }
    let kind = match character {
        '\u{2000}'..='\u{200A}' => return Some((" ", Kind::Space)),
        '\u{00AD}' | '\u{180E}' | '\u{200B}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' => {
            Kind::Invisible
        }
        '\u{200E}' | '\u{200F}' | '\u{061C}' => Kind::Control,
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{206F}' => Kind::Control,
        _ if character.is_control() => Kind::Control,
        _ if is_emoji(character) => Kind::Emoji,
        _ => return None,
    };
    Some(("", kind))
}

/// The zero-width joiner and non-joiner: part of the spelling in Indic scripts, meaningless
/// elsewhere.
pub(super) fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200C}' | '\u{200D}')
}

/// Devanagari to Sinhala, which share the virama that joiners act on.
pub(super) fn is_indic(character: char) -> bool {
    matches!(character, '\u{0900}'..='\u{0DFF}')
}

fn is_emoji(character: char) -> bool {
    matches!(character,
        '\u{2600}'..='\u{27BF}' | '\u{2B50}' | '\u{2B55}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{1F000}'..='\u{1FAFF}' | '\u{E0020}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_that_its_search_needs() {
        assert!(REPLACED.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn no_replacement_is_replaced_again() {
        let again = REPLACED
            .iter()
            .flat_map(|entry| entry.1.chars())
            .find(|character| replacement(*character).is_some());
        assert_eq!(again, None);
    }
}
