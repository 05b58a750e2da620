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
    /// Starts of words that 1 is the name of, as in `tasto 1`: it is counted, whatever follows.
    named: &'static [&'static str],
    /// Articles: 1 behind them is an ordinal, such as that of a day.
    articles: &'static [&'static str],
    months: &'static [&'static str],
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
        "dalla", "è", "ma", "non", "ha", "sono", "era", "va", "fa", "fino", "contro", "adesso",
    ],
    named: &[
        "prem", "digit", "selezion", "scegli", "compon", "tast", "intern", "line", "numer",
        "opzion", "capitol", "pagin", "part", "canal", "pian", "stanz", "camer", "grupp", "livell",
        "fas", "codic", "sezion", "binari", "uscit", "articol", "version", "modell", "puntat",
        "volum",
    ],
    articles: &["il", "lo", "la", "i", "gli", "le", "del", "al", "dal", "nel", "sul"],
    months: &[
        "gennaio",
        "febbraio",
        "marzo",
        "aprile",
        "maggio",
        "giugno",
        "luglio",
        "agosto",
        "settembre",
        "ottobre",
        "novembre",
        "dicembre",
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
        "pero", "no", "ha", "era", "va", "contra", "como", "ahora",
    ],
    named: &[
        "puls",
        "marq",
        "marc",
        "presion",
        "oprim",
        "digit",
        "elij",
        "elig",
        "seleccion",
        "tecl",
        "númer",
        "líne",
        "extensi",
        "opci",
        "capítul",
        "págin",
        "part",
        "canal",
        "pis",
        "sal",
        "grup",
        "nivel",
        "fas",
        "códig",
        "secci",
        "andén",
        "artícul",
        "versi",
        "model",
        "volum",
    ],
    articles: &["el", "la", "los", "las", "del", "al"],
    months: &[
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre",
        "octubre",
        "noviembre",
        "diciembre",
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
        "ao", "é", "mas", "não", "há", "era", "vai", "contra", "como", "agora",
    ],
    named: &[
        "pression", "prim", "premi", "marq", "marc", "digit", "escolh", "selecion", "tecl",
        "númer", "linh", "rama", "opç", "capítul", "págin", "part", "cana", "andar", "sal", "grup",
        "níve", "fas", "códig", "secç", "seç", "artig", "vers", "model", "volum",
    ],
    articles: &["o", "os", "as", "do", "no"],
    months: &[
        "janeiro",
        "fevereiro",
        "março",
        "abril",
        "maio",
        "junho",
        "julho",
        "agosto",
        "setembro",
        "outubro",
        "novembro",
        "dezembro",
    ],
};

/// The words for 1 before the noun that follows, and the length of the space that they take. `Some(None)`:
/// the noun does not show its gender, or the number is an ordinal, so the digit stays. None if no noun
/// follows, or if the number names what stands before it.
pub(super) fn before_noun(
    before: &str,
    after: &str,
    code: &str,
) -> Option<Option<(&'static str, usize)>> {
    let forms = match code {
        "it" => &ITALIAN,
        "es" => &SPANISH,
        "pt" => &PORTUGUESE,
        _ => return None,
    };
    let rest = after.strip_prefix(' ')?;
    let noun: String = rest.chars().take_while(|letter| letter.is_alphabetic()).collect();
    let is_noun = noun.chars().count() > 1 && noun.starts_with(char::is_lowercase);
    let last = last_word(before);
    let is_name = forms.named.iter().any(|start| last.starts_with(start));
    if !is_noun || is_name || forms.others.contains(&noun.as_str()) {
        return None;
    }
    if forms.articles.contains(&last.as_str()) || forms.months.contains(&noun.as_str()) {
        return Some(None);
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

/// The word right before a number, in small letters.
fn last_word(before: &str) -> String {
    let word = before.trim_end_matches(' ').rsplit(|letter: char| !letter.is_alphabetic()).next();
    word.unwrap_or_default().to_lowercase()
}

const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];

/// Tests if an Italian noun begins with a group of consonants such as that of `studente`.
fn takes_uno(noun: &str) -> bool {
    let is_s_group = noun.strip_prefix('s').is_some_and(|rest| !rest.starts_with(VOWELS));
    is_s_group || ["z", "gn", "ps", "pn", "x", "y"].iter().any(|start| noun.starts_with(start))
}
