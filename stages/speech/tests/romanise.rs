//! Texts in another script than that of the recogniser: `text.romanise` with a small program, and
//! `text.align` with its words.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use std::collections::BTreeMap;

use stage_core::{GatherOutput, Item, NewValue, PortInput, Setup, StageError, Value};
use stage_families::wav2vec2::Alphabet;
use stage_formats::npy::{FloatArray, write_halves};
use stage_speech::align::text::{Romanisation, Script, foreign_words};
use stage_speech::align::viterbi::{Label, Target};
use support::spoken::*;
use support::*;

const LATIN: &str = "abdefghiklmnoprstuvw";
const CYRILLIC: &str = "абдефгхиклмнопрстувщ";
/// Letter by letter, small and capital. It counts its runs in a file of the manifest's folder.
const PROGRAM: &str = "echo run >> {base}/runs; sed y/абдефгхиклмнопрстувщАБДЕФГХИКЛМНОПРСТУВЩ/\
                       abdefghiklmnoprstuvwABDEFGHIKLMNOPRSTUVW/ {words} > {out.words}";

/// The text in the other script, with quotes around the first word.
fn cyrillic(text: &str) -> String {
    let letter = |letter: char| {
        let small = letter.to_ascii_lowercase();
        let found = LATIN.chars().position(|one| one == small);
        let other = found.and_then(|at| CYRILLIC.chars().nth(at)).unwrap_or(letter);
        if letter.is_uppercase() { other.to_uppercase().next().unwrap() } else { other }
    };
    let text: String = text.chars().map(letter).collect();
    let (first, rest) = text.split_once(' ').unwrap();
    format!("\u{AB}{first}\u{BB}, {rest}")
}

struct Case {
    bench: Bench,
    folder: tempfile::TempDir,
}

impl Case {
    fn new() -> Case {
        Case { bench: Bench::default(), folder: tempfile::tempdir().unwrap() }
    }

    fn romanise(&mut self, command: &str, items: &[Item]) -> Result<GatherOutput, StageError> {
        let kind = stage("text.romanise").kind();
        let written = [("command", text(command))];
        let written = if command.is_empty() { &[][..] } else { &written[..] };
        let setup = Setup {
            parameters: parameters(kind, written),
            base: self.folder.path().to_str().unwrap().to_owned(),
            environment: ["PATH", "HOME"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
                .collect(),
            ..Setup::default()
        };
        let ports = vec![("input", vec![dataset("segments", items.to_vec())])];
        self.bench.gather_with("text.romanise", setup, ports)
    }

    /// Starts of the program.
    fn runs(&self) -> usize {
        let counted = std::fs::read_to_string(self.folder.path().join("runs"));
        counted.unwrap_or_default().lines().count()
    }

    /// The segments of a recording as `asr.emit` leaves them.
    fn heard(&mut self, spoken: &Spoken, script: &str) -> Vec<Item> {
        let symbols = LETTERS.len() + 1;
        let script = self.bench.blob("text/plain", script.as_bytes().to_vec());
        let mut values = spoken.values.as_slice();
        let mut items = Vec::new();
        for (at, segment) in spoken.segments.iter().enumerate() {
            let (own, rest) = values.split_at(segment.frames * symbols);
            values = rest;
            let shape = vec![segment.frames as u64, symbols as u64];
            let array = FloatArray { shape, values: own.to_vec() };
            let fields = [
                ("recording", Value::text("one")),
                ("script", script.clone()),
                ("emissions", self.bench.blob("emissions/npy", write_halves(&array).unwrap())),
                ("alphabet", Value::text(serde_json::to_string(&alphabet()).unwrap())),
                ("hop", Value::Number(HOP)),
                ("start", Value::Number(segment.start)),
                ("seconds", Value::Number(segment.seconds)),
            ];
            items.push(item(&format!("one/{at:02}"), &fields));
        }
        items
    }

    /// The texts of the aligned segments, and the words of each.
    fn align(&mut self, heard: &[Item], romanised: Option<&GatherOutput>) -> Vec<(String, Words)> {
        let mut ports = vec![("input", vec![dataset("heard", heard.to_vec())])];
        if let Some(output) = romanised {
            let bytes = words_of(output);
            let fields = [("words", self.bench.blob("application/json", bytes))];
            let fields = fields.into_iter().collect();
            let artifact = PortInput::Artifact { stage: "romanised".to_owned(), fields };
            ports.push(("romanised", vec![artifact]));
        }
        let output = self.bench.gather_ports("text.align", &[], ports).unwrap();
        let aligned = |item: &stage_core::NewItem| {
            let values: BTreeMap<_, _> =
                item.values.iter().map(|(name, value)| (name.as_str(), value)).collect();
            let NewValue::Bytes { bytes, .. } = values["words"] else { panic!() };
            (shown(values["text"]), serde_json::from_slice(bytes).unwrap())
        };
        items(&output, "output").iter().map(aligned).collect()
    }
}

type Words = Vec<(f64, f64, String)>;

fn words_of(output: &GatherOutput) -> Vec<u8> {
    let NewValue::Bytes { bytes, .. } = artifact(output, "output")["words"] else { panic!() };
    bytes.to_vec()
}

fn latin_of(output: &GatherOutput) -> BTreeMap<String, String> {
    serde_json::from_slice(&words_of(output)).unwrap()
}

fn script_of(bench: &mut Bench, id: &str, script: &str) -> Item {
    let script = bench.blob("text/plain", script.as_bytes().to_vec());
    item(id, &[("script", script)])
}

#[test]
fn texts_of_another_script_are_aligned_by_their_latin_letters_and_stay_as_they_are_written() {
    let said = sentences(40, 30);
    let written: Vec<String> = said.iter().map(|sentence| cyrillic(sentence)).collect();
    let mut spoken = Spoken::new(41, 0.02);
    said.iter().for_each(|sentence| spoken.say(sentence));
    let mut case = Case::new();
    let mut heard = case.heard(&spoken, &written.join(" "));
    let romanised = case.romanise(PROGRAM, &heard).unwrap();
    let aligned = case.align(&heard, Some(&romanised));
    let texts: Vec<&String> = aligned.iter().map(|(text, _)| text).collect();
    assert_eq!(texts, written.iter().collect::<Vec<_>>());
    let mut errors = Vec::new();
    for ((text, words), truth) in aligned.iter().zip(&spoken.words) {
        let bare = |word: &str| word.trim_matches(['\u{AB}', '\u{BB}', ',', '.']).to_owned();
        let expected: Vec<String> = text.split_whitespace().map(bare).collect();
        assert_eq!(words.iter().map(|(.., word)| word.clone()).collect::<Vec<_>>(), expected);
        for (pair, true_pair) in words.windows(2).zip(truth.windows(2)) {
            let middle = (true_pair[0].0.end + true_pair[1].0.start) as f64 / 2.0 * HOP;
            errors.push((pair[0].1 - middle).abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() * 95 / 100] <= 0.040, "{errors:?}");
    // Without the stage, no word of the text has a letter that the recogniser knows.
    case.bench.aside.clear();
    assert_eq!(case.align(&heard, None), []);
    assert!(case.bench.set_aside().iter().all(|one| one.ends_with("no-text")));
    // The text of a person is romanised as well; the script is remembered.
    heard[3].fields.set("corrected", Value::text(format!("{} \u{2014}", written[3])));
    let again = case.romanise(PROGRAM, &heard).unwrap();
    let aligned = case.align(&heard, Some(&again));
    assert_eq!(aligned[3].0, format!("{} \u{2014}", written[3]));
    assert_eq!(aligned[3].1.len(), spoken.words[3].len());
    assert_eq!(case.runs(), 1, "no word is new");
}

fn letters_of(letters: &str) -> Alphabet {
    let symbols = std::iter::once(String::new()).chain(letters.chars().map(String::from));
    Alphabet { blank: 0, symbols: symbols.collect() }
}

/// The targets of a script: `~` for a pause, `*` for any sound.
fn told(script: &Script, alphabet: &Alphabet) -> String {
    let symbol = |target: &Target| match target.label {
        Label::Symbol(at) => alphabet.symbols[at].clone(),
        Label::Gap => "~".to_owned(),
        Label::Star => "*".to_owned(),
    };
    script.targets.iter().map(symbol).collect()
}

#[test]
fn a_romanised_word_keeps_its_place_and_its_punctuation() {
    let english = alphabet();
    // The last word ends with a mark that is no letter.
    let text = "\u{AB}Привет,\u{BB} said Tom \u{2014} नमस्, 42!";
    let words: Vec<&str> = foreign_words(text).collect();
    assert_eq!(words, ["Привет", "नमस्"]);
    let pairs = [("Привет", "Privet"), ("नमस्", "na-mas"), ("Tom", "wrong"), ("other", "x")];
    let pairs = pairs.map(|(word, latin)| (word.to_owned(), latin.to_owned()));
    let romanised = Romanisation(pairs.into_iter().collect());
    assert_eq!(romanised.of(text).0.len(), 2);
    let script = Script::new(text, &romanised, &english, true);
    assert_eq!(told(&script, &english), "~privet said tom namas *~");
    let words: Vec<&str> = script.words.iter().map(|word| &text[word.bytes.clone()]).collect();
    assert_eq!(words, ["Привет", "said", "Tom", "नमस्", "42"]);
    assert_eq!(script.slice(text, 0..2), "\u{AB}Привет,\u{BB} said");
    // A recogniser of that script needs no romanisation, and an empty one changes nothing.
    let russian = letters_of(" приветadimost");
    assert!(told(&Script::new("Привет", &romanised, &russian, false), &russian) == "привет");
    let empty = Romanisation([("Привет".to_owned(), String::new())].into_iter().collect());
    assert_eq!(told(&Script::new("Привет", &empty, &english, false), &english), "*");
}

#[test]
fn the_program_gets_each_new_word_once_and_only_those_of_other_scripts() {
    let mut case = Case::new();
    let one = script_of(&mut case.bench, "a", "\u{AB}Мана,\u{BB} said Tom. мана 42 Мана!");
    let output = case.romanise(PROGRAM, &[one.clone(), one.clone()]).unwrap();
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(word, latin)| ((*word).to_owned(), (*latin).to_owned())).collect()
    };
    assert_eq!(latin_of(&output), pairs(&[("Мана", "Mana"), ("мана", "mana")]));
    assert_eq!((case.runs(), output.notes), (1, vec![]));
    case.romanise(PROGRAM, std::slice::from_ref(&one)).unwrap();
    assert_eq!(case.runs(), 1, "the text is remembered");
    // Another text has only its new word done. The program leaves it.
    let two = script_of(&mut case.bench, "b", "мана \u{5D0}\u{5D1}");
    let output = case.romanise(PROGRAM, &[one.clone(), two]).unwrap();
    assert_eq!(latin_of(&output)["\u{5D0}\u{5D1}"], "\u{5D0}\u{5D1}");
    assert_eq!(output.notes, [("words that the program left without Latin letters".to_owned(), 1)]);
    assert_eq!(case.runs(), 2);
    // Another command runs anew.
    let other = PROGRAM.replace(" {words}", " < {words}");
    case.romanise(&other, &[one]).unwrap();
    assert_eq!(case.runs(), 3);
    let plain = script_of(&mut case.bench, "c", "Only plain words, 42.");
    assert_eq!(latin_of(&case.romanise(PROGRAM, &[plain]).unwrap()), pairs(&[]));
    assert_eq!(case.runs(), 3, "no word, no program");
}

#[test]
fn a_program_that_fails_or_loses_lines_is_told() {
    let mut case = Case::new();
    let one = script_of(&mut case.bench, "a", "мана мана мино");
    let items = std::slice::from_ref(&one);
    let error = case.romanise("head -n 1 {words} > {out.words}", items).unwrap_err();
    assert_eq!(error.to_string(), "the program wrote 1 lines for 2 words");
    assert!(error.help().unwrap().contains("one line"));
    let error = case.romanise("echo lost >&2; exit 3", items).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    let error = case.romanise("printf '\\377' > {out.words}", items).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
    let error = case.romanise("no-such-program-a {words} {out.words}", items).unwrap_err();
    assert!(error.to_string().contains("no-such-program-a"), "{error}");
    // Nothing of these was remembered.
    let output = case.romanise(PROGRAM, items).unwrap();
    assert_eq!(latin_of(&output)["мино"], "mino");
}

#[test]
fn uroman_itself_gives_latin_letters() {
    let found = std::process::Command::new("uroman").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no program `uroman`; `pip install uroman` brings it");
        return;
    }
    let mut case = Case::new();
    let one = script_of(&mut case.bench, "a", "नमस्ते, Привет! Straße \u{2014} Ελλάδα.");
    let output = case.romanise("", &[one]).unwrap();
    let latin = latin_of(&output);
    let words: Vec<(&str, &str)> = latin.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(
        words,
        [("Straße", "Strasse"), ("Ελλάδα", "Ellada"), ("Привет", "Privet"), ("नमस्ते", "namaste")]
    );
}
