#![allow(clippy::unwrap_used, clippy::expect_used)]
use proptest::prelude::*;

use super::*;

fn finnish(text: &str) -> String {
    spell_out(text, Language::Finnish).0
}

fn gujarati(text: &str) -> String {
    spell_out(text, Language::Gujarati).0
}

#[test]
fn finnish_cardinals_follow_the_tables_at_every_boundary() {
    let words = |number| cardinal(number, Language::Finnish).unwrap();
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
    assert_eq!(cardinal(1_000_000_000_000_000, Language::Finnish), None);
}

#[test]
fn finnish_ordinals_have_their_own_first_two_when_alone() {
    let words = |number| finnish_ordinal(number).unwrap();
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
        "007",
        "2.5.2020",
        "4x4",
        "versio 1.2",
        "9999999999999999",
        "1/2",
        "0401234567",
    ] {
        assert_eq!(finnish(text), text);
    }
}

#[test]
fn gujarati_numbers_group_by_lakhs_and_crores() {
    let words = |number| cardinal(number, Language::Gujarati).unwrap();
    assert_eq!(words(0), "શૂન્ય");
    assert_eq!(words(99), "નવ્વાણું");
    assert_eq!(words(100), "એકસો");
    assert_eq!(words(245), "બસો પિસ્તાલીસ");
    assert_eq!(words(1995), "એક હજાર નવસો પંચાણું");
    assert_eq!(words(1_234_567), "બાર લાખ ચોત્રીસ હજાર પાંચસો સડસઠ");
    assert_eq!(words(10_000_000), "એક કરોડ");
    assert_eq!(words(1_000_000_000_000), "એક લાખ કરોડ");
    assert_eq!(cardinal(100_000_000_000_000, Language::Gujarati), None);
}

#[test]
fn gujarati_and_ascii_digits_read_the_same() {
    assert_eq!(gujarati("૨૫ લોકો"), "પચ્ચીસ લોકો");
    assert_eq!(gujarati("25 લોકો"), "પચ્ચીસ લોકો");
    assert_eq!(gujarati("૧,૦૦,૦૦૦ અને 100,000"), "એક લાખ અને એક લાખ");
    assert_eq!(gujarati("₹૫૦ એટલે ૩.૫%"), "પચાસ રૂપિયા એટલે ત્રણ દશાંશ પાંચ ટકા");
    assert_eq!(gujarati("૨૦૨૦માં"), "બે હજાર વીસમાં");
    for text in ["૫મી", "૨-૩", "૧,૨", "૦૭", "v2", "10:30"] {
        assert_eq!(gujarati(text), text);
    }
}

#[test]
fn the_irregular_numbers_below_a_hundred_are_all_different() {
    let words: std::collections::BTreeSet<_> =
        (0..100).map(|number| cardinal(number, Language::Gujarati)).collect();
    assert_eq!(words.len(), 100);
}

proptest! {
    #[test]
    fn different_numbers_have_different_words(one in 0u64..10_000_000_000_000, other in 0u64..10_000_000_000_000) {
        prop_assume!(one != other);
        for language in [Language::Finnish, Language::Gujarati] {
            let words = cardinal(one, language).unwrap();
            prop_assert!(words != cardinal(other, language).unwrap());
            prop_assert!(!words.contains(|c: char| c.is_numeric()));
        }
    }

    #[test]
    fn text_without_digits_stays(text in "[a-zäö .,:%€-]{0,40}") {
        prop_assert_eq!(finnish(&text), text.clone());
        prop_assert_eq!(gujarati(&text), text);
    }
}
