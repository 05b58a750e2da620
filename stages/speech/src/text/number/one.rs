//! The number 1 before a noun in Italian, Spanish and Portuguese: its form follows the noun.

/// The words of a language for 1.
struct Forms {
    masculine: &'static str,
    feminine: &'static str,
    /// Nouns with a gender that their ending does not show.
    nouns: &'static [(&'static str, Gender)],
    /// Endings of other nouns: the first that fits.
    endings: &'static [(&'static str, Gender)],
    /// Words that are no noun: 1 before them is counted.
    others: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Gender {
    Masculine,
    Feminine,
    Unknown,
}

use Gender::{Feminine, Masculine, Unknown};

const ITALIAN: Forms = Forms {
    masculine: "un",
    feminine: "una",
    nouns: &[
        ("mano", Feminine),
        ("foto", Feminine),
        ("radio", Feminine),
        ("auto", Feminine),
        ("moto", Feminine),
        ("clima", Masculine),
        ("crema", Feminine),
    ],
    endings: &[
        ("ista", Unknown),
        ("eta", Unknown),
        ("ema", Masculine),
        ("gramma", Masculine),
        ("ma", Unknown),
        ("ione", Feminine),
        ("tà", Feminine),
        ("tù", Feminine),
        ("tudine", Feminine),
        ("tore", Masculine),
        ("a", Feminine),
        ("o", Masculine),
    ],
    others: &[
        "e", "ed", "o", "od", "a", "ad", "di", "da", "in", "con", "su", "per", "tra", "fra", "del",
        "della", "dello", "dei", "delle", "al", "alla", "nel", "nella", "sul", "sulla", "dal",
        "dalla", "è", "ma", "non", "ha", "sono", "era", "va", "fa", "fino", "contro",
    ],
};

const SPANISH: Forms = Forms {
    masculine: "un",
    feminine: "una",
    nouns: &[
        ("mano", Feminine),
        ("foto", Feminine),
        ("moto", Feminine),
        ("radio", Unknown),
        ("día", Masculine),
        ("mapa", Masculine),
        ("clima", Masculine),
        ("idioma", Masculine),
        ("crema", Feminine),
        ("agua", Masculine),
        ("flor", Feminine),
    ],
    endings: &[
        ("ista", Unknown),
        ("eta", Unknown),
        ("ema", Masculine),
        ("grama", Masculine),
        ("ma", Unknown),
        ("ión", Feminine),
        ("dad", Feminine),
        ("tad", Feminine),
        ("tud", Feminine),
        ("dor", Masculine),
        ("tor", Masculine),
        ("a", Feminine),
        ("o", Masculine),
    ],
    others: &[
        "y", "e", "o", "u", "a", "de", "en", "con", "por", "para", "entre", "del", "al", "es",
        "pero", "no", "ha", "era", "va", "contra", "como",
    ],
};

const PORTUGUESE: Forms = Forms {
    masculine: "um",
    feminine: "uma",
    nouns: &[
        ("mão", Feminine),
        ("foto", Feminine),
        ("moto", Feminine),
        ("dia", Masculine),
        ("mapa", Masculine),
        ("clima", Masculine),
        ("idioma", Masculine),
    ],
    endings: &[
        ("ista", Unknown),
        ("eta", Unknown),
        ("ema", Masculine),
        ("grama", Masculine),
        ("ma", Unknown),
        ("ção", Feminine),
        ("são", Feminine),
        ("dade", Feminine),
        ("tude", Feminine),
        ("gem", Feminine),
        ("a", Feminine),
        ("o", Masculine),
    ],
    others: &[
        "e", "ou", "a", "o", "de", "em", "com", "por", "para", "entre", "do", "da", "no", "na",
        "ao", "é", "mas", "não", "há", "era", "vai", "contra", "como",
    ],
};

/// The words for 1 before the noun that follows, and the length of the space that they take. `Some(None)`:
/// the noun does not show its gender, so the digit stays. None if no noun follows.
pub(super) fn before_noun(after: &str, code: &str) -> Option<Option<(&'static str, usize)>> {
    let forms = match code {
        "it" => &ITALIAN,
        "es" => &SPANISH,
        "pt" => &PORTUGUESE,
        _ => return None,
    };
    let rest = after.strip_prefix(' ')?;
    let noun: String = rest.chars().take_while(|letter| letter.is_alphabetic()).collect();
    let is_noun = noun.chars().count() > 1 && noun.starts_with(char::is_lowercase);
    if !is_noun || forms.others.contains(&noun.as_str()) {
        return None;
    }
    Some(match forms.gender(&noun) {
        Feminine if code == "it" && noun.starts_with(VOWELS) => Some(("un'", 1)),
        Feminine => Some((forms.feminine, 0)),
        Masculine if code == "it" && takes_uno(&noun) => Some(("uno", 0)),
        Masculine => Some((forms.masculine, 0)),
        Unknown => None,
    })
}

impl Forms {
    fn gender(&self, noun: &str) -> Gender {
        let own = self.nouns.iter().find(|(own, _)| noun == *own);
        let by_ending = || self.endings.iter().find(|(ending, _)| noun.ends_with(ending));
        own.or_else(by_ending).map_or(Unknown, |(_, gender)| *gender)
    }
}

const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];

/// Tests if an Italian noun begins with a group of consonants such as that of `studente`.
fn takes_uno(noun: &str) -> bool {
    let is_s_group = noun.strip_prefix('s').is_some_and(|rest| !rest.starts_with(VOWELS));
    is_s_group || ["z", "gn", "ps", "pn", "x", "y"].iter().any(|start| noun.starts_with(start))
}
