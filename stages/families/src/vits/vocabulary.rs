//! The two files of a tokenizer in the format of transformers, from a list of symbols.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use stage_formats::FormatError;

/// The settings of a tokenizer of single characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRules {
    /// Blanks are put around every token.
    pub add_blank: bool,
    /// Texts have to be romanised first.
    pub is_uroman: bool,
}

/// `vocab.json`: each symbol with its index in the list.
///
/// # Errors
///
/// If a symbol is repeated, or there is none.
pub fn vocabulary_file(symbols: &[String]) -> Result<Vec<u8>, FormatError> {
    let damaged = |why: String| FormatError::damaged("vocabulary", why);
    let mut known = BTreeSet::new();
    if let Some(twice) = symbols.iter().find(|symbol| !known.insert(symbol.as_str())) {
        return Err(damaged(format!("`{twice}` occurs twice in it")));
    }
    if symbols.is_empty() {
        return Err(damaged("it has no symbols".into()));
    }
    let entries = symbols.iter().enumerate();
    let entries: Vec<String> =
        entries.map(|(id, symbol)| format!("  {}: {id}", Value::from(symbol.as_str()))).collect();
    Ok(format!("{{\n{}\n}}\n", entries.join(",\n")).into_bytes())
}

/// `tokenizer_config.json`. Rows are padded with the first symbol, which every model has.
pub fn tokenizer_config_file(symbols: &[String], rules: TextRules) -> Vec<u8> {
    let TextRules { add_blank, is_uroman } = rules;
    let config = json!({
        "add_blank": add_blank,
        "is_uroman": is_uroman,
        "normalize": true,
        "pad_token": symbols.first().map_or("", String::as_str),
        "phonemize": false,
        "tokenizer_class": "VitsTokenizer",
        "unk_token": "<unk>",
    });
    format!("{config:#}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vits::VitsTokenizer;

    fn symbols(symbols: &[&str]) -> Vec<String> {
        symbols.iter().map(|symbol| (*symbol).to_owned()).collect()
    }

    #[test]
    fn the_tokenizer_reads_what_is_written() {
        let symbols = symbols(&["k", "\"", "\\", "ા", " "]);
        let rules = TextRules { add_blank: false, is_uroman: true };
        let vocabulary = vocabulary_file(&symbols).unwrap();
        let tokenizer =
            VitsTokenizer::read(&vocabulary, &tokenizer_config_file(&symbols, rules)).unwrap();
        let tokens = tokenizer.encode("K \"\\ા");
        assert_eq!((tokens.ids, tokens.needs_uroman), (vec![0, 4, 1, 2, 3], true));
        assert_eq!(tokenizer.size(), 5);
    }

    #[test]
    fn a_symbol_has_one_number() {
        let error = vocabulary_file(&symbols(&["a", "b", "a"])).unwrap_err().to_string();
        assert!(error.contains("`a` occurs twice in it"), "{error}");
        assert!(vocabulary_file(&[]).is_err());
    }
}
