//! Numbers as words: one list of languages for `text.normalize` and for the cleaners of XTTS.
//!
//! `languages.toml` has the words, and describes them.

mod chinese;
mod corrections;
mod decimals;
mod ordinals;
mod spelling;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use self::ordinals::Ordinals;
use self::spelling::Spelling;

/// Runs of digits that may not be one number, such as dates, times and telephone numbers: `12.05.2024`,
/// `14:30`, `8-800-555`. The cleaners of XTTS read their parts as numbers of their own.
pub fn compounds(text: &str) -> Vec<&str> {
    let is_inner = |character: char| character.is_numeric() || COMPOUND_MARKS.contains(&character);
    let runs = text.split(|character: char| !is_inner(character));
    let runs = runs.map(|run| run.trim_matches(|character: char| !character.is_numeric()));
    runs.filter(|run| is_compound(run)).collect()
}

/// Characters within dates, times, ranges and telephone numbers.
const COMPOUND_MARKS: [char; 7] = ['.', ',', ':', '/', '-', '\u{2010}', '\u{2013}'];

fn is_compound(run: &str) -> bool {
    let marks: Vec<char> = run.chars().filter(|character| !character.is_numeric()).collect();
    let Some(first) = marks.first() else { return false };
    if marks.iter().any(|mark| !matches!(mark, '.' | ',')) {
        return true;
    }
    // Groups of thousands, and maybe a decimal mark of the other kind behind them.
    let (whole, decimals) =
        match run.rsplit_once(|mark| mark != *first && (mark == '.' || mark == ',')) {
            Some((whole, decimals)) => (whole, Some(decimals)),
            None => (run, None),
        };
    let mut groups = whole.split(*first);
    let is_head = groups.next().is_some_and(|head| (1..=3).contains(&head.chars().count()));
    let is_grouped = is_head && groups.all(|group| group.chars().count() == 3);
    marks.len() > 1
        && !(is_grouped && decimals.is_none_or(|rest| rest.chars().all(char::is_numeric)))
}

/// The words of a language.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    rules: String,
    /// Words for numbers before a noun.
    #[serde(default)]
    attributes: String,
    #[serde(default)]
    feminine: String,
    /// Numbers from here on stay digits.
    #[serde(default = "usual_limit")]
    limit: u64,
    /// The word for the decimal mark.
    point: String,
    /// The characters that may stand before decimals.
    pub decimal: String,
    /// The characters that may stand between thousands.
    pub groups: String,
    minus: String,
    percent: String,
    ordinals: Option<Ordinals>,
}

fn usual_limit() -> u64 {
    1_000_000_000_000
}

static ALL: LazyLock<BTreeMap<String, Words>> =
    LazyLock::new(|| toml::from_str(include_str!("languages.toml")).unwrap_or_default());

/// A language with words for numbers.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    code: &'static str,
    words: &'static Words,
    /// The words are those of num2words, mistakes included, which the voices of XTTS were trained with.
    is_original: bool,
}

impl PartialEq for Language {
    fn eq(&self, other: &Language) -> bool {
        self.code == other.code
    }
}

impl Language {
    pub fn of(code: &str) -> Option<Language> {
        ALL.get_key_value(code).map(|(code, words)| Language { code, words, is_original: false })
    }

    /// The words of the original XTTS, which are those of num2words.
    pub fn of_xtts(code: &str) -> Option<Language> {
        Language::of(code).map(|language| Language { is_original: true, ..language })
    }

    pub fn all() -> impl Iterator<Item = Language> {
        ALL.keys().filter_map(|code| Language::of(code))
    }

    pub fn code(self) -> &'static str {
        self.code
    }

    pub fn words(self) -> &'static Words {
        self.words
    }

    /// None if the number is too large.
    pub fn cardinal(self, number: u64) -> Option<String> {
        if number >= self.words.limit {
            return None;
        }
        let words = match self.code {
            "zh" => chinese::cardinal(number),
            "it" => with_italian_accents(self.spelling().spell(number)?),
            _ => self.spelling().spell(number)?,
        };
        Some(if self.is_original { words } else { corrections::cardinal(words, self.code) })
    }

    /// None if the language has no words for ordinals, or not for this one.
    pub fn ordinal(self, number: u64) -> Option<String> {
        self.words.ordinals.as_ref()?.spell(number, self)
    }

    /// The same in the feminine, of a language with [`Language::feminine_marks`].
    pub fn feminine_ordinal(self, number: u64) -> Option<String> {
        let feminine = |word: &str| match word.strip_suffix('o') {
            Some(stem) => format!("{stem}a"),
            None => word.to_owned(),
        };
        Some(self.ordinal(number)?.split(' ').map(feminine).collect::<Vec<_>>().join(" "))
    }

    pub fn feminine_marks(self) -> &'static [String] {
        self.words.ordinals.as_ref().map_or(&[], |ordinals| &ordinals.feminine_marks)
    }

    /// The marks that may follow the digits of an ordinal.
    pub fn ordinal_marks(self) -> &'static [String] {
        self.words.ordinals.as_ref().map_or(&[], |ordinals| &ordinals.marks)
    }

    /// A number with decimals, as they are written. None if the number is too large for the words of the language.
    pub fn decimal(self, number: u64, digits: &str) -> Option<String> {
        decimals::decimal(self, number, digits)
    }

    /// The digits one by one.
    pub fn digits(self, digits: &str) -> Option<String> {
        let words: Option<Vec<String>> =
            digits.chars().map(|digit| self.cardinal(u64::from(digit.to_digit(10)?))).collect();
        Some(words?.join(if self.joins_digits() { "" } else { " " }))
    }

    /// The words of a number with percent; without the number, it has decimals.
    pub fn percent(self, words: &str, number: Option<u64>) -> String {
        let (before, forms, behind) = match self.words.percent.split_once('(') {
            Some((before, rest)) => {
                let (forms, behind) = rest.split_once(')').unwrap_or((rest, ""));
                (before, forms, behind)
            }
            None => (self.words.percent.as_str(), "", ""),
        };
        let form = match number {
            None => 3,
            Some(number) if self.code == "ru" => spelling::slavic_form(number),
            Some(1) => 0,
            Some(2..=4) => 1,
            Some(_) => 2,
        };
        let ending = forms.split('|').nth(form).unwrap_or("");
        let words = corrections::before_percent(words, number, self.code);
        format!("{}{ending}{behind}", before.replace("{}", &words))
    }

    /// A number of up to two digits in the feminine, if the language has one.
    pub fn feminine(self, number: u64) -> Option<String> {
        self.by_rules(&self.words.feminine, number)
    }

    /// The words of a number with the word for minus.
    pub fn negative(self, words: &str) -> String {
        let space = if self.joins_digits() { "" } else { " " };
        format!("{}{space}{words}", self.words.minus)
    }

    /// True if no spaces stand between the words.
    fn joins_digits(self) -> bool {
        ["zh", "ja"].contains(&self.code)
    }

    fn spelling(self) -> Spelling<'static> {
        Spelling { rules: &self.words.rules, attributes: &self.words.attributes }
    }

    /// A number by other rules, in which `<` stands for a cardinal.
    fn by_rules(self, rules: &str, number: u64) -> Option<String> {
        self.spelling().by_rules(rules, number)
    }
}

/// Drops one of two vowels before `otto`, and accents `tre` at the end of a longer word only.
fn with_italian_accents(words: String) -> String {
    let mut words = words.replace("oo", "o").replace("trémila", "tremila");
    let last = words.rsplit(' ').next().unwrap_or_default();
    if last.len() > "tre".len() && last.ends_with("tre") {
        words.pop();
        words.push('é');
    }
    words
}

#[cfg(test)]
mod compound_tests {
    use super::compounds;

    #[test]
    fn dates_times_and_telephone_numbers_are_told_from_numbers() {
        let told = |text| compounds(text).join(" ");
        assert_eq!(told("Встреча 12.05.2024 в 14:30."), "12.05.2024 14:30");
        assert_eq!(told("call 8-800-555-35-35, room 7/8"), "8-800-555-35-35 7/8");
        assert_eq!(told("3 cats, 2.5 %, 1,500.25 or 1.500.000 and -4, 7."), "");
        assert_eq!(told("1,50,00 and 1.2.3"), "1,50,00 1.2.3");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_file_is_read_and_each_language_spells_up_to_its_limit() {
        let all: BTreeMap<String, Words> = toml::from_str(include_str!("languages.toml")).unwrap();
        assert_eq!(all.len(), 20);
        for language in Language::all() {
            let limit = language.words.limit;
            for number in [0, 1, 7, 10, 11, 100, 999, 1000, 1100, 12_345, 1_000_000, limit - 1] {
                let words = language.cardinal(number).unwrap();
                let is_spelt = !words.is_empty() && !words.contains(|c: char| c.is_numeric());
                assert!(is_spelt, "{} {number}: {words}", language.code);
            }
            assert_eq!(language.cardinal(limit), None);
            let decimal = language.decimal(3, "05").unwrap();
            assert!(!decimal.contains(|c: char| c.is_ascii_digit()), "{decimal}");
        }
    }

    #[test]
    fn different_numbers_have_different_words() {
        for language in Language::all() {
            let all: std::collections::BTreeSet<_> =
                (0..12_000).map(|number| language.cardinal(number).unwrap()).collect();
            assert_eq!(all.len(), 12_000, "{}", language.code);
        }
    }

    #[test]
    fn percent_follows_the_number() {
        let percent = |code: &str, number: u64| {
            let language = Language::of(code).unwrap();
            language.percent(&language.cardinal(number).unwrap(), Some(number))
        };
        assert_eq!(percent("ru", 21), "двадцать один процент");
        assert_eq!(percent("ru", 12), "двенадцать процентов");
        assert_eq!(percent("cs", 1), "jedno procento");
        assert_eq!(percent("cs", 2), "dvě procenta");
        assert_eq!(percent("cs", 3), "tři procenta");
        assert_eq!(percent("de", 1), "ein Prozent");
        assert_eq!(percent("hu", 2), "két százalék");
        assert_eq!(percent("hu", 12), "tizenkét százalék");
        assert_eq!(percent("tr", 5), "yüzde beş");
        assert_eq!(percent("zh", 20), "百分之二十");
        let russian = Language::of("ru").unwrap();
        assert_eq!(russian.percent("x", None), "x процента");
    }

    #[test]
    fn words_that_no_reference_has_or_that_it_has_wrong() {
        for (code, number, expected) in [
            ("hi", 1_234_567, "बारह लाख चौंतीस हज़ार पाँच सौ सड़सठ"),
            ("hi", 100, "एक सौ"),
            ("es", 21_000, "veintiún mil"),
            ("es", 131_001, "ciento treinta y un mil uno"),
            ("es", 21_000_000, "veintiún millones"),
            ("es", 1_021, "mil veintiuno"),
            ("hu", 12_000, "tizenkétezer"),
            ("hu", 12_012, "tizenkétezer-tizenkettő"),
            ("ar", 200, "مئتان"),
            ("ar", 202, "مئتان و اثنان"),
            ("ar", 1_200, "ألف و مئتان"),
            ("ar", 2_000, "ألفان"),
            ("ar", 200_000, "مئتا ألف"),
            ("ar", 200_200, "مئتا ألف و مئتان"),
            ("it", 103, "centotré"),
            ("it", 23_000, "ventitremila"),
            ("it", 1_000_003, "un milione e tre"),
            ("gu", 1_234_567, "બાર લાખ ચોત્રીસ હજાર પાંચસો સડસઠ"),
            ("am", 2_016, "ሁለት ሺህ አሥራ ስድስት"),
            ("am", 1_995, "አንድ ሺህ ዘጠኝ መቶ ዘጠና አምስት"),
            ("zh", 10_010, "一万零一十"),
            ("zh", 100_200_003, "一亿零二十万零三"),
            ("zh", 201_000, "二十万一千"),
            ("zh", 100_001_000, "一亿零一千"),
        ] {
            assert_eq!(Language::of(code).unwrap().cardinal(number).unwrap(), expected);
        }
        // XTTS was trained with the words of num2words.
        let original = Language::of_xtts("es").unwrap();
        assert_eq!(original.cardinal(21_000).unwrap(), "veintiuno mil");
    }

    #[test]
    fn feminine_ordinals_end_in_a() {
        for (code, number, expected) in [
            ("it", 2, "seconda"),
            ("it", 20, "ventesima"),
            ("es", 1, "primera"),
            ("es", 22, "vigésima segunda"),
            ("pt", 2, "segunda"),
        ] {
            assert_eq!(Language::of(code).unwrap().feminine_ordinal(number).unwrap(), expected);
        }
    }
}
