//! The codes of a language in the files of Piper. MMS names languages by three letters (ISO 639-3), and
//! Piper, Home Assistant and espeak by the two of ISO 639-1 where there are two.

/// Three letters, the two letters, and the region of Piper's voices of that language.
const CODES: [(&str, &str, &str); 50] = [
    ("amh", "am", "ET"),
    ("ara", "ar", "JO"),
    ("ben", "bn", "BD"),
    ("bul", "bg", "BG"),
    ("cat", "ca", "ES"),
    ("ces", "cs", "CZ"),
    ("cym", "cy", "GB"),
    ("dan", "da", "DK"),
    ("deu", "de", "DE"),
    ("ell", "el", "GR"),
    ("eng", "en", "US"),
    ("est", "et", "EE"),
    ("eus", "eu", "ES"),
    ("fas", "fa", "IR"),
    ("fin", "fi", "FI"),
    ("fra", "fr", "FR"),
    ("guj", "gu", "IN"),
    ("heb", "he", "IL"),
    ("hin", "hi", "IN"),
    ("hrv", "hr", "HR"),
    ("hun", "hu", "HU"),
    ("hye", "hy", "AM"),
    ("ind", "id", "ID"),
    ("isl", "is", "IS"),
    ("ita", "it", "IT"),
    ("jpn", "ja", "JP"),
    ("kan", "kn", "IN"),
    ("kat", "ka", "GE"),
    ("kaz", "kk", "KZ"),
    ("kor", "ko", "KR"),
    ("lav", "lv", "LV"),
    ("lit", "lt", "LT"),
    ("mal", "ml", "IN"),
    ("mar", "mr", "IN"),
    ("nld", "nl", "NL"),
    ("nob", "no", "NO"),
    ("pol", "pl", "PL"),
    ("por", "pt", "BR"),
    ("ron", "ro", "RO"),
    ("rus", "ru", "RU"),
    ("slk", "sk", "SK"),
    ("spa", "es", "ES"),
    ("swe", "sv", "SE"),
    ("swh", "sw", "CD"),
    ("tam", "ta", "IN"),
    ("tel", "te", "IN"),
    ("tur", "tr", "TR"),
    ("ukr", "uk", "UA"),
    ("urd", "ur", "PK"),
    ("vie", "vi", "VN"),
];

/// The code of Piper, such as `fi_FI`: the own code of a language that is not listed.
pub fn piper_code(language: &str) -> String {
    match listed(language) {
        Some((_, two, region)) => format!("{two}_{region}"),
        None => language.to_owned(),
    }
}

/// The voice of espeak, such as `fi`.
pub fn espeak_voice(language: &str) -> &str {
    match listed(language) {
        Some(("eng", ..)) => "en-us",
        Some(("nob", ..)) => "nb",
        Some((_, two, _)) => two,
        None => language,
    }
}

fn listed(language: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let is = |(three, two, _): &&(&str, &str, &str)| *three == language || *two == language;
    CODES.iter().find(is).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_letters_become_the_codes_that_players_know() {
        for (language, code, voice) in [
            ("fin", "fi_FI", "fi"),
            ("fi", "fi_FI", "fi"),
            ("eng", "en_US", "en-us"),
            ("guj", "gu_IN", "gu"),
            ("nob", "no_NO", "nb"),
            ("yue", "yue", "yue"),
        ] {
            assert_eq!((piper_code(language).as_str(), espeak_voice(language)), (code, voice));
        }
    }
}
