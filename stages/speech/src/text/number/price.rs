//! Amounts of money whose currency is a word, such as `3,50 euro`: nobody reads them as decimals.

use super::token::{Token, first_word};

/// Starts of the names of currencies, in small letters.
const CURRENCIES: [&str; 30] = [
    "euro",
    "eur",
    "dollar",
    "dolar",
    "dólar",
    "dollár",
    "usd",
    "pound",
    "gbp",
    "sterlin",
    "peso",
    "real",
    "reais",
    "rupe",
    "rupi",
    "yen",
    "franc",
    "frank",
    "fränk",
    "chf",
    "złot",
    "zlot",
    "koru",
    "kron",
    "forint",
    "lira",
    "евро",
    "доллар",
    "рубл",
    "гривн",
];

/// Tests for an amount with two digits behind its decimal mark, and the name of a currency behind it.
pub(super) fn is_price(token: &Token<'_>) -> bool {
    let cents = token.plain.rsplit(['.', ',']).next().filter(|cents| *cents != token.plain);
    let word = first_word(token.after().trim_start_matches([' ', '\u{a0}', '\u{202f}']));
    cents.is_some_and(|cents| cents.len() == 2)
        && CURRENCIES.iter().any(|start| word.starts_with(start))
}
