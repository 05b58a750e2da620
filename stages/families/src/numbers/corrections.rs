//! Forms that num2words has wrong, for texts that are not for the voices of XTTS.

use std::borrow::Cow;

/// The cardinal as the language has it.
pub fn cardinal(words: String, code: &str) -> String {
    match code {
        // The `o` of `uno` is dropped before `mil` and `millones`.
        "es" => words.replace("veintiuno mil", "veintiún mil").replace("uno mil", "un mil"),
        // `kettő` is `két` before a noun, also in 12,000.
        "hu" => words.replace("tizenkettőe", "tizenkéte").replace("tizenkettőm", "tizenkétm"),
        "ar" => arabic(words),
        _ => words,
    }
}

/// The dual loses its last letter only before a noun, and a noun behind whole hundreds is in the genitive.
fn arabic(words: String) -> String {
    let mut words = ["ألف", "مليون", "مليار"].iter().fold(words, |words, noun| {
        words.replace(&format!("مئتا {noun}اً"), &format!("مئتا {noun}"))
    });
    if ["مئتا", "ألفا", "مليونا", "مليارا"].iter().any(|dual| words.ends_with(dual))
    {
        words.push('ن');
    }
    words
}

/// The words of a number before the word for percent.
pub fn before_percent<'w>(words: &'w str, number: Option<u64>, code: &str) -> Cow<'w, str> {
    match (code, number) {
        ("cs", Some(1)) => "jedno".into(),
        ("cs", Some(2)) => "dvě".into(),
        ("de", Some(1)) => "ein".into(),
        ("hu", Some(_)) => match words.strip_suffix("kettő") {
            Some(start) => format!("{start}két").into(),
            None => words.into(),
        },
        _ => words.into(),
    }
}
