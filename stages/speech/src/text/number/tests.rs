#![allow(clippy::unwrap_used, clippy::expect_used)]
use proptest::prelude::*;

use super::*;

fn spelled(text: &str, code: &str) -> String {
    spell_out(text, Language::of(code).unwrap()).0
}

fn finnish(text: &str) -> String {
    spelled(text, "fi")
}

fn gujarati(text: &str) -> String {
    spelled(text, "gu")
}

fn cardinal(number: u64, code: &str) -> Option<String> {
    Language::of(code).unwrap().cardinal(number)
}

#[test]
fn finnish_cardinals_follow_the_tables_at_every_boundary() {
    let words = |number| cardinal(number, "fi").unwrap();
    let expected = [
        (0, "nolla"),
        (1, "yksi"),
        (10, "kymmenen"),
        (11, "yksitoista"),
        (19, "yhdeksäntoista"),
        (20, "kaksikymmentä"),
        (21, "kaksikymmentäyksi"),
        (100, "sata"),
        (101, "satayksi"),
        (999, "yhdeksänsataayhdeksänkymmentäyhdeksän"),
        (1000, "tuhat"),
        (1001, "tuhat yksi"),
        (1234, "tuhat kaksisataakolmekymmentäneljä"),
        (2000, "kaksituhatta"),
        (100_000, "satatuhatta"),
        (1_000_000, "miljoona"),
        (2_000_001, "kaksi miljoonaa yksi"),
        (1_000_000_000, "miljardi"),
        (1_000_000_000_000, "biljoona"),
        (21_000_000_000_000, "kaksikymmentäyksi biljoonaa"),
    ];
    for (number, expected) in expected {
        assert_eq!(words(number), expected);
    }
    assert_eq!(cardinal(1_000_000_000_000_000, "fi"), None);
}

#[test]
fn finnish_ordinals_have_their_own_first_two_when_alone() {
    let words = |number| Language::of("fi").unwrap().ordinal(number).unwrap();
    assert_eq!(words(1), "ensimmäinen");
    assert_eq!(words(2), "toinen");
    assert_eq!(words(12), "kahdestoista");
    assert_eq!(words(30), "kolmaskymmenes");
    assert_eq!(words(1995), "tuhannes yhdeksässadasyhdeksäskymmenesviides");
}

#[test]
fn finnish_numbers_in_a_sentence_are_read() {
    assert_eq!(finnish("Tuli 25 miestä."), "Tuli kaksikymmentäviisi miestä.");
    assert_eq!(
        finnish("Se maksoi 10 000 €, siis 1 €."),
        "Se maksoi kymmenentuhatta euroa, siis yksi euro."
    );
    assert_eq!(
        finnish("Nousu oli 3,5 % ja -12"),
        "Nousu oli kolme pilkku viisi prosenttia ja miinus kaksitoista"
    );
    assert_eq!(
        finnish("15-vuotias tuli klo 14.05."),
        "viisitoistavuotias tuli klo neljätoista nolla viisi."
    );
    assert_eq!(
        finnish("Hän syntyi 5. toukokuuta 1995. Sitten"),
        "Hän syntyi viides toukokuuta tuhat yhdeksänsataayhdeksänkymmentäviisi. Sitten"
    );
}

#[test]
fn finnish_numbers_that_need_more_than_their_digits_are_left() {
    for text in [
        "5:n",
        "3. luokalla",
        "Kaarle 12. Ruotsin",
        "1.234",
        "5-10",
        "1,2,3",
        "A4",
        "2.5.2020",
        "4x4",
        "versio 1.2",
        "9999999999999999",
        "1/2",
    ] {
        assert_eq!(finnish(text), text);
    }
}

#[test]
fn gujarati_numbers_group_by_lakhs_and_crores() {
    let words = |number| cardinal(number, "gu").unwrap();
    assert_eq!(words(0), "શૂન્ય");
    assert_eq!(words(99), "નવ્વાણું");
    assert_eq!(words(100), "એકસો");
    assert_eq!(words(245), "બસો પિસ્તાલીસ");
    assert_eq!(words(1995), "એક હજાર નવસો પંચાણું");
    assert_eq!(words(1_234_567), "બાર લાખ ચોત્રીસ હજાર પાંચસો સડસઠ");
    assert_eq!(words(10_000_000), "એક કરોડ");
    assert_eq!(words(1_000_000_000_000), "એક લાખ કરોડ");
    assert_eq!(cardinal(100_000_000_000_000, "gu"), None);
}

#[test]
fn gujarati_and_ascii_digits_read_the_same() {
    assert_eq!(gujarati("૨૫ લોકો"), "પચ્ચીસ લોકો");
    assert_eq!(gujarati("25 લોકો"), "પચ્ચીસ લોકો");
    assert_eq!(gujarati("૧,૦૦,૦૦૦ અને 100,000"), "એક લાખ અને એક લાખ");
    assert_eq!(gujarati("₹૫૦ એટલે ૩.૫%"), "પચાસ રૂપિયા એટલે ત્રણ દશાંશ પાંચ ટકા");
    assert_eq!(gujarati("૨૦૨૦માં"), "બે હજાર વીસમાં");
    for text in ["૫મી", "૨-૩", "૧,૨", "v2", "10:30"] {
        assert_eq!(gujarati(text), text);
    }
}

#[test]
fn numbers_are_read_in_each_language() {
    for (code, text, expected) in [
        (
            "en",
            "The 3rd of 1,204 was -5, or 3.50%.",
            "The third of one thousand, two hundred and four was minus five, or three point five zero percent.",
        ),
        (
            "de",
            "Es waren 1.234 und 21, also 3,5 %.",
            "Es waren eintausendzweihundertvierunddreißig und einundzwanzig, also drei Komma fünf Prozent.",
        ),
        ("fr", "Le 2e de 10 000, 80 fois.", "Le deuxième de dix mille, quatre-vingts fois."),
        ("es", "El 3.º vale 3,5 o 2.5", "El tercero vale tres punto cinco o dos punto cinco"),
        ("it", "Il 3º di 28.", "Il terzo di ventotto."),
        ("pt", "O 2º de 1.100", "O segundo de mil e cem"),
        (
            "pl",
            "Ma 3,05 i 1995. Potem",
            "Ma trzy przecinek zero pięć i tysiąc dziewięćset dziewięćdziesiąt pięć. Potem",
        ),
        ("tr", "%20 ve 5'te, 3üncü", "yüzde yirmi ve beş'te, üçüncü"),
        ("ru", "1-й из 21% и 3,5", "первый из двадцать один процент и три целых пять десятых"),
        ("nl", "De 2de van 21", "De tweede van eenentwintig"),
        ("cs", "Bylo 3 % z 21.", "Bylo tři procenta z dvacet jedna."),
        ("ar", "٢٥ و 3.5", "خمسة و عشرون و ثلاثة فاصلة خمسة"),
        ("hu", "Az 5-ödik 3,5", "Az ötödik három egész öt tized"),
        ("ko", "2번째는 2024년", "두 번째는 이천이십사년"),
        ("ja", "3番目は12,000円", "三番目は一万二千円"),
        ("zh", "2024年有3人,占20%", "二零二四年有三人,占百分之二十"),
        ("hi", "१२ और 1,00,000", "बारह और एक लाख"),
        ("am", "በ2016 5ኛው", "በሁለት ሺህ አሥራ ስድስት አምስተኛው"),
    ] {
        assert_eq!(spelled(text, code), expected);
    }
}

#[test]
fn numbers_with_another_reading_are_left() {
    for (code, text) in [
        ("en", "5-10 v2 1/2 10:30 2.5.2020 $5 5kg 1,2,3 90's 1,23 € 5"),
        ("de", "der 3. Platz, 15-jährig, 5:3, 5 €"),
        ("pl", "3. maja 600 100 200"),
        ("ru", "13812345678"),
        ("hi", "9876543210"),
        ("zh", "13812345678"),
        ("fi", "600 100 200"),
        ("fr", "1.234"),
        ("zh", "2个"),
        ("ko", "3개"),
        ("ru", "5-я 5-10"),
        ("tr", "3. sınıf 5%5"),
    ] {
        let read = spelled(text, code);
        let left = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        assert_eq!(left(&read), left(text), "{code}: {read}");
    }
}

#[test]
fn what_may_be_a_telephone_number_keeps_digits_that_stop_an_audit() {
    for (code, text) in [("ru", "8 800 555 35 35"), ("en", "call 13812345678")] {
        let read = spelled(text, code);
        assert!(read.contains(|letter: char| letter.is_ascii_digit()), "{code}: {read}");
    }
    assert_eq!(spelled("8 800 555", "ru"), spelled("8800555", "ru"));
}

#[test]
fn telephone_numbers_and_codes_are_read_digit_by_digit() {
    for (code, text, expected) in [
        ("it", "tel. 02 1234567", "tel. zero due uno due tre quattro cinque sei sette"),
        ("it", "Tel: 3471234567.", "Tel: tre quattro sette uno due tre quattro cinque sei sette."),
        ("it", "02 1234567", "zero due uno due tre quattro cinque sei sette"),
        ("it", "Agente 007, ore 9", "Agente zero zero sette, ore nove"),
        ("fr", "tél. 06-12-34-56", "tél. zéro six un deux trois quatre cinq six"),
        (
            "ru",
            "тел. 8 495 123 45 67",
            "тел. восемь четыре девять пять один два три четыре пять шесть семь",
        ),
        (
            "fi",
            "puh. 0401234567",
            "puh. nolla neljä nolla yksi kaksi kolme neljä viisi kuusi seitsemän",
        ),
        ("en", "+44 20 7946", "+four four two zero seven nine four six"),
        ("gu", "૦૭", "શૂન્ય સાત"),
    ] {
        assert_eq!(spelled(text, code), expected);
    }
    for (code, text) in [
        ("it", "05.06.2020"),
        ("en", "0.5%"),
        ("en", "08:30"),
        ("it", "00-11"),
        ("en", "a007"),
        ("en", "007€"),
        ("en", "+1500 and tel. 112"),
    ] {
        let read = spelled(text, code);
        assert!(!read.contains("zero zero") && !read.contains("zero cinque"), "{code}: {read}");
    }
    // The number of a day before a year is no telephone number.
    assert_eq!(spelled("il 05 2020", "it"), "il zero cinque duemilaventi");
}

#[test]
fn one_agrees_with_the_noun_that_follows() {
    for (code, text, expected) in [
        ("it", "1 casa", "una casa"),
        ("it", "1 libro e 1 stadio", "un libro e uno stadio"),
        ("it", "1 studente", "1 studente"),
        ("it", "1 ora", "un'ora"),
        ("it", "capitolo 1 della storia", "capitolo uno della storia"),
        ("it", "1.", "uno."),
        ("it", "1 problema", "un problema"),
        ("it", "1 fiume", "1 fiume"),
        ("es", "1 casa, 1 libro y 1 canción", "una casa, un libro y una canción"),
        ("es", "1 o 2", "uno o dos"),
        ("pt", "1 casa e 1 livro", "uma casa e um livro"),
        ("en", "1 house", "one house"),
        ("it", "Premi 1 ora, o 1 adesso", "Premi uno ora, o uno adesso"),
        ("it", "Il tasto 1 attiva la voce", "Il tasto uno attiva la voce"),
        ("it", "Interno 1 occupato, linea 1 bloccata", "Interno uno occupato, linea uno bloccata"),
        ("it", "Il 1 maggio", "Il 1 maggio"),
        ("it", "dura 1 ora", "dura un'ora"),
        ("es", "Pulse 1 ahora", "Pulse uno ahora"),
        ("pt", "Pressione 1 agora", "Pressione um agora"),
    ] {
        assert_eq!(spelled(text, code), expected);
    }
}

#[test]
fn parts_of_ranges_fractions_and_numbers_with_other_marks_stay() {
    for (code, text) in [
        ("en", "10 000 pounds, 1 234 567 and 555 1234."),
        ("de", "1’000 und 12'345'678"),
        ("it", "10%–20%, 1º-2º, 1⁄2"),
        ("en", "Pages 12 - 34"),
    ] {
        let read = spelled(text, code);
        let left = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        assert_eq!(left(&read), left(text), "{code}: {read}");
    }
    assert_eq!(spelled("at -5 or 7, 3 of 20", "en"), "at minus five or seven, three of twenty");
}

#[test]
fn amounts_of_money_with_a_named_currency_keep_their_digits() {
    for (code, text) in [
        ("it", "Costa 3,50 euro, non 12,99 dollari"),
        ("de", "3,50 Euro"),
        ("en", "It costs 3.50 dollars"),
        ("fi", "3,50 euroa"),
    ] {
        assert_eq!(spelled(text, code), text);
    }
    assert_eq!(spelled("3 euro e 3,5 metri", "it"), "tre euro e tre virgola cinque metri");
}

#[test]
fn ordinals_with_a_feminine_mark_are_feminine() {
    for (code, text, expected) in [
        ("it", "La 2ª volta", "La seconda volta"),
        ("es", "la 1ª y la 3.ª", "la primera y la tercera"),
        ("pt", "a 2ª", "a segunda"),
    ] {
        assert_eq!(spelled(text, code), expected);
    }
}

#[test]
fn thousands_grouped_with_spaces_are_one_number() {
    for number in ["12 345 678", "100 200 000", "600 100"] {
        for code in ["pl", "fi", "fr"] {
            let joined = number.replace(' ', "");
            assert_eq!(spelled(number, code), spelled(&joined, code), "{code}: {number}");
        }
    }
}

/// The parameter of the manifest lists the languages that have words.
#[test]
fn the_manifest_knows_the_languages() {
    let known = &crate::text::kinds::NUMBERS[1..];
    assert_eq!(Language::all().map(Language::code).collect::<Vec<_>>(), known);
}

#[test]
fn the_irregular_numbers_below_a_hundred_are_all_different() {
    let words: std::collections::BTreeSet<_> =
        (0..100).map(|number| cardinal(number, "gu")).collect();
    assert_eq!(words.len(), 100);
}

proptest! {
    #[test]
    fn different_numbers_have_different_words(one in 0u64..10_000_000_000_000, other in 0u64..10_000_000_000_000) {
        prop_assume!(one != other);
        for language in ["fi", "gu"] {
            let words = cardinal(one, language).unwrap();
            prop_assert!(words != cardinal(other, language).unwrap());
            prop_assert!(!words.contains(|c: char| c.is_numeric()));
        }
    }

    #[test]
    fn text_without_digits_stays(text in "[a-zäö .,:%€-]{0,40}") {
        for language in Language::all() {
            prop_assert_eq!(spell_out(&text, language).0, text.clone());
        }
    }
}
