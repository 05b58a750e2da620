//! The symbols of a model as the players of its graph read them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stage_core::StageError;
use unicode_normalization::UnicodeNormalization;

use super::language::{espeak_voice, piper_code};
use crate::vits::{VitsConfig, VitsTokenizer};

/// Tokens of Piper that are no symbols: padding, the begin and the end of a text.
const RESERVED: [(&str, i64); 3] = [("_", 0), ("^", 1), ("$", 2)];
const FIRST: i64 = RESERVED.len() as i64;

/// The comma below of Romanian, and the cedilla in its place in the published vocabularies.
const ROMANIAN: [(char, char); 1] = [('\u{21B}', '\u{163}')];

/// The symbols with their tokens, and other spellings of them.
fn symbols(tokenizer: &VitsTokenizer) -> BTreeMap<char, i64> {
    let mut symbols: BTreeMap<char, i64> = tokenizer.symbols().collect();
    if tokenizer.language() == Some("ron") {
        for (written, known) in ROMANIAN {
            if let Some(token) = symbols.get(&known).copied() {
                symbols.entry(written).or_insert(token);
            }
        }
    }
    symbols
}

/// The capital of a letter, if it is one character that is no symbol itself.
fn capital(symbols: &BTreeMap<char, i64>, symbol: char) -> Option<char> {
    let mut upper = symbol.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) if one != symbol && !symbols.contains_key(&one) => Some(one),
        _ => None,
    }
}

fn refuse_romanised(tokenizer: &VitsTokenizer, player: &str) -> Result<(), StageError> {
    match tokenizer.is_romanised() {
        false => Ok(()),
        true => Err(StageError::with_help(
            format!("the model reads romanised texts, but {player} does not romanise"),
            "use `target = \"plain\"` and run uroman before the graph",
        )),
    }
}

/// `tokens.txt` of sherpa: a symbol and its token on each line, capitals as the letters that they
/// are read as, since it lowers ASCII letters only.
pub fn sherpa_tokens(tokenizer: &VitsTokenizer) -> Result<String, StageError> {
    refuse_romanised(tokenizer, "sherpa")?;
    let symbols = symbols(tokenizer);
    if let Some(symbol) = symbols.keys().find(|symbol| symbol.is_ascii_uppercase()) {
        let message = format!(
            "sherpa converts ASCII letters to lower case, but `{symbol}` is a symbol of the model"
        );
        return Err(StageError::with_help(message, "use `target = \"plain\"`"));
    }
    let mut lines = String::new();
    for (symbol, token) in &symbols {
        lines.push_str(&format!("{symbol} {token}\n"));
        if let Some(capital) = capital(&symbols, *symbol).filter(|capital| !capital.is_ascii()) {
            lines.push_str(&format!("{capital} {token}\n"));
        }
    }
    Ok(lines)
}

/// The metadata that sherpa needs. Without `use_eos_bos` it would add a token at each end.
pub fn sherpa_metadata(config: &VitsConfig, tokenizer: &VitsTokenizer) -> BTreeMap<String, String> {
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let number = |key: &str, value: i64| (key.to_owned(), value.to_string());
    BTreeMap::from([
        text("model_type", "vits"),
        text("comment", "throstle"),
        text("frontend", "characters"),
        text("language", tokenizer.language().unwrap_or("unknown")),
        text("punctuation", ""),
        text("voice", ""),
        number("add_blank", i64::from(tokenizer.adds_blank())),
        number("blank_id", 0),
        number("use_eos_bos", 0),
        number("n_speakers", config.num_speakers),
        number("sample_rate", config.sampling_rate),
    ])
}

/// The symbols as Piper reads a text: decomposed, each letter and each mark on its own. The graph
/// puts them together again.
#[derive(Debug, PartialEq)]
pub struct DecomposedSymbols {
    /// Letters in the order of their ids, from [`FIRST`] on.
    pub letters: Vec<char>,
    /// Marks, behind the letters.
    pub marks: Vec<char>,
    /// For each id below the marks, and for each number of a mark from 0 (none) on: the token, or -1.
    pub tokens: Vec<i64>,
}

impl DecomposedSymbols {
    pub fn of(tokenizer: &VitsTokenizer) -> Result<DecomposedSymbols, StageError> {
        refuse_romanised(tokenizer, "Piper")?;
        let symbols = symbols(tokenizer);
        let mut parts: Vec<(char, Option<char>, i64)> = Vec::new();
        for (symbol, token) in &symbols {
            let decomposed: Vec<char> = symbol.nfd().collect();
            match decomposed.as_slice() {
                [letter] => parts.push((*letter, None, *token)),
                [letter, mark] => parts.push((*letter, Some(*mark), *token)),
                _ => {
                    let count = decomposed.len() - 1;
                    return Err(StageError::with_help(
                        format!(
                            "Piper splits `{symbol}` into a letter and {count} marks, expected one"
                        ),
                        "use `target = \"sherpa\"`, which reads composed letters",
                    ));
                }
            }
        }
        let (mut letters, mut marks): (Vec<char>, Vec<char>) = (Vec::new(), Vec::new());
        for (letter, mark, _) in &parts {
            letters.extend(Some(*letter).filter(|own| !letters.contains(own)));
            marks.extend(mark.filter(|own| !marks.contains(own)));
        }
        if let Some(both) = marks.iter().find(|mark| letters.contains(mark)) {
            return Err(StageError::with_help(
                format!(
                    "U+{:04X} is a symbol of the model and part of other symbols",
                    *both as u32
                ),
                "use `target = \"sherpa\"`, which reads composed letters",
            ));
        }
        let width = marks.len() + 1;
        let mut tokens = vec![-1; (FIRST as usize + letters.len()) * width];
        let place = |letter: char| letters.iter().position(|own| *own == letter).unwrap_or(0);
        let row = |letter: char| (FIRST as usize + place(letter)) * width;
        // A letter with a mark that it has in no symbol is the plain letter.
        for (letter, _, token) in parts.iter().filter(|(_, mark, _)| mark.is_none()) {
            tokens[row(*letter)..][..width].fill(*token);
        }
        for (letter, mark, token) in &parts {
            if let Some(number) = marks.iter().position(|own| Some(*own) == *mark) {
                tokens[row(*letter) + number + 1] = *token;
            }
        }
        Ok(DecomposedSymbols { letters, marks, tokens })
    }

    /// The first id of a mark.
    pub fn first_mark(&self) -> i64 {
        FIRST + self.letters.len() as i64
    }

    /// The last id that is no symbol.
    pub fn last_reserved(&self) -> i64 {
        FIRST - 1
    }

    /// The symbols with their ids; capitals are those of their letters.
    fn ids(&self) -> Map<String, Value> {
        let mut ids = Map::new();
        let known: BTreeMap<char, i64> = self.letters.iter().map(|letter| (*letter, 0)).collect();
        let all = self.letters.iter().chain(&self.marks);
        for (number, symbol) in all.enumerate() {
            let id = json!([FIRST + number as i64]);
            ids.insert(symbol.to_string(), id.clone());
            if let Some(capital) = capital(&known, *symbol) {
                ids.entry(capital.to_string()).or_insert(id);
            }
        }
        // These have to be those of the program, whatever the model has.
        ids.extend(RESERVED.map(|(symbol, id)| (symbol.to_owned(), json!([id]))));
        ids
    }
}

/// The `.onnx.json` of Piper.
pub fn piper_config(
    config: &VitsConfig,
    tokenizer: &VitsTokenizer,
    decomposed: &DecomposedSymbols,
    speakers: Option<&[String]>,
) -> Value {
    PiperReading {
        // Texts are read letter by letter: the voice only names the language.
        voice: tokenizer.language().map_or("en-us", espeak_voice),
        language: tokenizer.language().map(piper_code).unwrap_or_default(),
        phoneme_type: "text",
        symbols: decomposed.first_mark() + decomposed.marks.len() as i64,
        ids: decomposed.ids(),
    }
    .description(config, speakers)
}

/// How Piper reads texts for a graph.
pub struct PiperReading<'a> {
    /// Of espeak-ng.
    pub voice: &'a str,
    /// Such as `fi_FI`.
    pub language: String,
    pub phoneme_type: &'static str,
    /// The number of symbols.
    pub symbols: i64,
    pub ids: Map<String, Value>,
}

impl PiperReading<'_> {
    pub fn description(self, config: &VitsConfig, speakers: Option<&[String]>) -> Value {
        let numbered = speakers.unwrap_or_default().iter().enumerate();
        let speakers: Map<String, Value> =
            numbered.map(|(number, name)| (name.clone(), json!(number))).collect();
        json!({
            "audio": {"sample_rate": config.sampling_rate, "quality": "medium"},
            "espeak": {"voice": self.voice},
            "language": {"code": self.language},
            "phoneme_type": self.phoneme_type,
            "inference": {
                "noise_scale": config.noise_scale,
                "length_scale": 1.0 / config.speaking_rate,
                "noise_w": config.noise_scale_duration,
            },
            "num_symbols": self.symbols,
            "num_speakers": config.num_speakers,
            "speaker_id_map": speakers,
            "phoneme_id_map": self.ids,
            "hop_length": config.hop(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tokenizer(vocabulary: Value, settings: Value) -> VitsTokenizer {
        let (vocabulary, settings) = (vocabulary.to_string(), settings.to_string());
        VitsTokenizer::read(vocabulary.as_bytes(), settings.as_bytes()).unwrap()
    }

    fn plain() -> Value {
        json!({"phonemize": false})
    }

    #[test]
    fn sherpa_reads_capitals_beyond_ascii_as_their_letters() {
        let tokenizer = tokenizer(json!({"_": 0, "a": 1, " ": 2, "ä": 3, "ab": 4}), plain());
        assert_eq!(sherpa_tokens(&tokenizer).unwrap(), "  2\n_ 0\na 1\nä 3\nÄ 3\n");
        let metadata = sherpa_metadata(&VitsConfig::default(), &tokenizer);
        assert_eq!((&*metadata["use_eos_bos"], &*metadata["add_blank"]), ("0", "1"));
        for word in ["piper", "coqui", "icefall", "melo"] {
            assert!(!metadata["comment"].contains(word), "sherpa takes another path for `{word}`");
        }
    }

    #[test]
    fn what_a_player_cannot_read_is_refused_with_the_reason() {
        let romanised = tokenizer(json!({"a": 0}), json!({"phonemize": false, "is_uroman": true}));
        for error in
            [sherpa_tokens(&romanised).unwrap_err(), DecomposedSymbols::of(&romanised).unwrap_err()]
        {
            assert!(error.to_string().contains("romanised"), "{error}");
        }
        let capital = tokenizer(json!({"a": 0, "A": 1}), plain());
        assert!(sherpa_tokens(&capital).unwrap_err().to_string().contains("`A` is a symbol"));
        let several = tokenizer(json!({"a": 0, "ấ": 1}), plain());
        let error = DecomposedSymbols::of(&several).unwrap_err().to_string();
        assert!(error.contains("a letter and 2 marks"), "{error}");
        let both = tokenizer(json!({"ä": 0, "\u{308}": 1}), plain());
        assert!(DecomposedSymbols::of(&both).unwrap_err().to_string().contains("U+0308"));
    }

    #[test]
    fn letters_and_marks_become_the_tokens_of_composed_letters() {
        let tokenizer = tokenizer(json!({"k": 0, "a": 1, "ä": 2, "ö": 3}), plain());
        let decomposed = DecomposedSymbols::of(&tokenizer).unwrap();
        assert_eq!(
            (&*decomposed.letters, &*decomposed.marks),
            (&['a', 'k', 'o'][..], &['\u{308}'][..])
        );
        // Three reserved rows, then a, k and o, each without and with the mark.
        let expected = [-1, -1, -1, -1, -1, -1, 1, 2, 0, 0, -1, 3];
        assert_eq!((&*decomposed.tokens, decomposed.first_mark()), (&expected[..], 6));
        let config = piper_config(&VitsConfig::default(), &tokenizer, &decomposed, None);
        let ids = &config["phoneme_id_map"];
        assert_eq!(
            (&ids["A"], &ids["o"], &ids["\u{308}"]),
            (&json!([3]), &json!([5]), &json!([6]))
        );
        assert_eq!((&ids["_"], &config["num_symbols"]), (&json!([0]), &json!(7)));
    }

    #[test]
    fn the_file_of_piper_names_the_language_as_piper_and_espeak_do() {
        let settings = json!({"phonemize": false, "language": "fin"});
        let tokenizer = tokenizer(json!({"k": 0, "a": 1}), settings);
        let decomposed = DecomposedSymbols::of(&tokenizer).unwrap();
        let config = piper_config(&VitsConfig::default(), &tokenizer, &decomposed, None);
        let named = (&config["language"]["code"], &config["espeak"]["voice"]);
        assert_eq!(named, (&json!("fi_FI"), &json!("fi")));
    }

    #[test]
    fn romanian_may_be_written_with_the_comma() {
        let settings = json!({"phonemize": false, "language": "ron"});
        let tokenizer = tokenizer(json!({"ţ": 0, "t": 1}), settings);
        assert!(sherpa_tokens(&tokenizer).unwrap().contains("ț 0\n"));
    }
}
