//! Manifests that are meant to do harm, and manifests that are merely broken.

use std::fmt::Write;

use proptest::prelude::*;

use crate::support::{CORPUS, errors_of, load_with, rendered};

const WHOLE: &str = r#"[pipeline]
name = "voice"
seed = 3

[params]
rate = 22050

[assets.codec]
path = "models/codec"
license = "MIT"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = "$rate"

[stage.loud]
use = "audio.loudness"
input = "voice"
matrix = { target = [-23, "-20LUFS"] }
limits = [{ field = "duration", min = 0.5 }]

[stage.tokens]
use = "vq.encode"
input = "loud"
codec = "assets.codec"
export = "out/{matrix}/{speaker}/{id}.npy"
quarantine = "5%"

[session]
stop_after = "11h30m"
"#;

/// Loads and shows the result; neither may panic.
fn survive(text: &str, set: &[&str]) {
    match load_with(text, set) {
        Ok(loaded) => loaded.warnings.iter().for_each(|warning| drop(rendered(warning))),
        Err(problems) => drop(rendered(&problems)),
    }
}

/// Words of manifests, so that mutations reach beyond the parser.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "[stage.clips]",
        "[stage.x]",
        "use = ",
        "input = ",
        "\"clips\"",
        "\"voice\"",
        "\"loud\"",
        "\"audio.resample\"",
        "\"dataset.merge\"",
        "matrix = ",
        "{ rate = [1, 2] }",
        "rate = ",
        "\"$rate\"",
        "\"assets.codec\"",
        "export = ",
        "\"out/{id}\"",
        "\"../{id}\"",
        "= 1\n",
        "\n",
        "[",
        "]",
        "{",
        "}",
        "\"",
        ".",
        "=",
        "\u{1b}",
        "\u{0}",
        "ä",
        "\"loud[target=-23]\"",
        "99999999999999999999",
        "1e400",
        "nan",
        "-0.0",
        "\"11h\"",
        "[params]\n",
        "[assets.a]\n",
        "tokens",
        "quarantine = \"5%\"",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        survive(&text, &[]);
    }

    #[test]
    fn no_sequence_of_words_makes_it_panic(words in prop::collection::vec(word(), 0..40)) {
        survive(&words.join(" "), &[]);
        survive(&format!("{CORPUS}{}", words.concat()), &[]);
    }

    #[test]
    fn no_change_of_a_valid_manifest_makes_it_panic(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..30, word()), 1..4)
    ) {
        let mut text = WHOLE.to_owned();
        for (at, length, word) in cuts {
            let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let first = at.index(starts.len());
            let start = starts[first];
            let end = starts.get(first + length).copied().unwrap_or(text.len());
            text.replace_range(start..end, &word);
        }
        survive(&text, &[]);
    }

    #[test]
    fn no_override_makes_it_panic(argument in any::<String>(), words in prop::collection::vec(word(), 0..6)) {
        survive(WHOLE, &[&argument]);
        survive(WHOLE, &[&format!("stage.loud.{}={}", words.concat(), words.join(""))]);
        survive(WHOLE, &[&format!("stage.voice.rate={argument}")]);
    }
}

#[test]
fn the_manifest_that_is_mutated_is_valid() {
    assert_eq!(errors_of(WHOLE, &[]), "no errors");
}

#[test]
fn a_million_stages_are_refused() {
    let mut text = String::from("[pipeline]\nname = \"x\"\n");
    for number in 0..1_000_000 {
        let _ = writeln!(text, "[stage.s{number}]\nuse=\"corpus.open\"");
    }
    assert!(errors_of(&text, &[]).contains("throstle::too_large"));
}

#[test]
fn too_many_stages_in_a_small_text_are_refused() {
    let mut text = String::from("[pipeline]\nname = \"x\"\n");
    for number in 0..20_000 {
        let _ = writeln!(text, "[stage.s{number}]\nuse=\"corpus.open\"");
    }
    assert!(errors_of(&text, &[]).contains("more than 10000 stages"));
}

#[test]
fn a_matrix_that_explodes_is_refused() {
    let numbers: Vec<String> = (4_000..5_000).map(|number| number.to_string()).collect();
    let mut text = CORPUS.to_owned();
    let mut input = "clips".to_owned();
    for number in 0..20 {
        let values = numbers.join(", ");
        let _ = writeln!(
            text,
            "[stage.s{number}]\nuse = \"audio.resample\"\ninput = \"{input}\"\nmatrix = {{ rate = [{values}] }}"
        );
        input = format!("s{number}");
    }
    assert!(errors_of(&text, &[]).contains("the matrix makes more than 10000 stages"));
}

#[test]
fn a_matrix_with_too_many_values_says_how_many_it_may_have() {
    let rates: Vec<String> = (0..1_001).map(|at| (8_000 + at).to_string()).collect();
    let stage = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\n";
    let shown = errors_of(&format!("{CORPUS}{stage}matrix.rate = [{}]\n", rates.join(", ")), &[]);
    let message = "the matrix of `rate` has 1001 values: the limit is 1000";
    assert!(shown.contains(message), "{shown}");
    assert!(shown.contains("a matrix runs the stage once for each value"), "{shown}");
}

#[test]
fn values_that_are_copied_without_end_are_refused() {
    let list: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let mut text = format!("{CORPUS}[params]\nlong = [{}]\n", list.join(","));
    for number in 0..20 {
        let _ = writeln!(text, "[stage.s{number}]\nuse = \"corpus.open\"\nx = \"$long\"");
    }
    assert!(errors_of(&text, &[]).contains("expand to more than 1000000 values"));
}

#[test]
fn a_chain_as_long_as_is_allowed_needs_no_stack() {
    let mut text = CORPUS.to_owned();
    let mut input = "clips".to_owned();
    for number in 0..9_000 {
        let _ = writeln!(text, "[stage.s{number}]\nuse = \"audio.resample\"\ninput = \"{input}\"");
        input = format!("s{number}");
    }
    assert_eq!(errors_of(&text, &[]), "no errors");
    let closed = text.replacen("input = \"clips\"", "input = \"s8999\"", 1);
    assert!(errors_of(&closed, &[]).contains("throstle::cycle"));
}

#[test]
fn a_line_of_megabytes_is_shown_in_part() {
    let text =
        format!("pipeline = {{ name = \"x\", long = \"{}\", sed = 1 }}\n", "a".repeat(2_000_000));
    let shown = errors_of(&text, &[]);
    assert!(shown.contains("`[pipeline]` has no key `sed`"), "{shown}");
    assert!(shown.len() < 20_000, "{} bytes", shown.len());
}

#[test]
fn thousands_of_mistakes_are_counted_and_the_first_are_shown() {
    let mut text = CORPUS.to_owned();
    for number in 0..5_000 {
        let _ = writeln!(text, "[stage.s{number}]\nuse = \"no.such\"");
    }
    let shown = errors_of(&text, &[]);
    assert!(shown.contains("has 5000 errors; the first 100 are shown"), "{}", &shown[..200]);
}
