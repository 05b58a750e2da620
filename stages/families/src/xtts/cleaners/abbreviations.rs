//! Abbreviations as words.

/// Abbreviations with their meanings, by language. All but the Russian ones end with a dot.
#[rustfmt::skip]
const FORMS: [(&str, &[(&str, &str)]); 12] = [
    ("en", &[
        ("mrs", "misess"), ("mr", "mister"), ("dr", "doctor"), ("st", "saint"), ("co", "company"),
        ("jr", "junior"), ("maj", "major"), ("gen", "general"), ("drs", "doctors"),
        ("rev", "reverend"), ("lt", "lieutenant"), ("hon", "honorable"), ("sgt", "sergeant"),
        ("capt", "captain"), ("esq", "esquire"), ("ltd", "limited"), ("col", "colonel"),
        ("ft", "fort"),
    ]),
    ("es", &[
        ("sra", "señora"), ("sr", "señor"), ("dr", "doctor"), ("dra", "doctora"), ("st", "santo"),
        ("co", "compañía"), ("jr", "junior"), ("ltd", "limitada"),
    ]),
    ("fr", &[
        ("mme", "madame"), ("mr", "monsieur"), ("dr", "docteur"), ("st", "saint"),
        ("co", "compagnie"), ("jr", "junior"), ("ltd", "limitée"),
    ]),
    ("de", &[
        ("fr", "frau"), ("dr", "doktor"), ("st", "sankt"), ("co", "firma"), ("jr", "junior"),
    ]),
    ("it", &[
        ("sig", "signore"), ("dr", "dottore"), ("st", "santo"), ("co", "compagnia"),
        ("jr", "junior"), ("ltd", "limitata"),
    ]),
    ("pt", &[
        ("sra", "senhora"), ("sr", "senhor"), ("dr", "doutor"), ("dra", "doutora"),
        ("st", "santo"), ("co", "companhia"), ("jr", "júnior"), ("ltd", "limitada"),
    ]),
    ("pl", &[
        ("p", "pani"), ("m", "pan"), ("dr", "doktor"), ("sw", "święty"), ("jr", "junior"),
    ]),
    ("cs", &[("dr", "doktor"), ("ing", "inženýr"), ("p", "pan")]),
    ("ru", &[("г-жа", "госпожа"), ("г-н", "господин"), ("д-р", "доктор")]),
    ("nl", &[("dhr", "de heer"), ("mevr", "mevrouw"), ("dr", "dokter"), ("jhr", "jonkheer")]),
    ("tr", &[("b", "bay"), ("byk", "büyük"), ("dr", "doktor")]),
    ("hu", &[("dr", "doktor"), ("b", "bácsi"), ("nőv", "nővér")]),
];

/// Expands a lower-case text.
pub fn expand(text: &str, code: &str) -> String {
    let Some((_, forms)) = FORMS.iter().find(|(own, _)| *own == code) else {
        return text.to_owned();
    };
    let mut expanded = String::with_capacity(text.len());
    let (mut rest, mut is_inside) = (text, false);
    while let Some(character) = rest.chars().next() {
        let found = if is_inside { None } else { form(rest, forms, code) };
        let length = match found {
            Some((length, word)) => {
                expanded.push_str(word);
                length
            }
            None => {
                expanded.push(character);
                character.len_utf8()
            }
        };
        is_inside = rest[..length].chars().next_back().is_some_and(is_word);
        rest = &rest[length..];
    }
    expanded
}

/// The length and the meaning of an abbreviation at the start of a text.
fn form(text: &str, forms: &[(&str, &'static str)], code: &str) -> Option<(usize, &'static str)> {
    forms.iter().find_map(|(form, word)| {
        let rest = text.strip_prefix(form)?;
        match code {
            "ru" => (!rest.starts_with(is_word)).then_some((form.len(), *word)),
            _ => rest.starts_with('.').then_some((form.len() + 1, *word)),
        }
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
