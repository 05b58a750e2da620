//! Expressions are checked before anything runs, and their mistakes are marked where they are.

use crate::support::{load_from, rendered};

fn manifest(require: &str) -> String {
    format!(
        r#"
[pipeline]
name = "choice"

[assets.voice]
path = "models/codec"

[stage.said]
use = "corpus.sentences"
sentences = ["a"]

[stage.heard]
use = "model.audition"
input = "said"
base = "assets.voice"

[stage.spoken]
use = "command"
input = "heard"
fields = ["text"]
command = "speak {{text}} {{out.audio}}"
outputs = {{ audio = "audio.wav" }}

[stage.measured]
use = "quality.measure"
input = "spoken"

[stage.chosen]
use = "quality.choose"
input = "measured"
checkpoints = "heard"
require = [{require}]
prefer = [{{ measure = "p90(longest_silence)" }}]
"#
    )
}

/// The messages, each with the text that it marks from there on.
fn mistakes(require: &str) -> Vec<(String, String)> {
    let text = manifest(require);
    let Err(problems) = load_from(&stage_families::catalogue(), &text, &[]) else {
        return Vec::new();
    };
    let marked = |(line, column): (usize, usize)| {
        let line = text.lines().nth(line - 1).unwrap_or_default();
        line.chars().skip(column - 1).collect::<String>()
    };
    let found = problems.iter();
    found.map(|one| (one.message().to_owned(), marked(one.position()))).collect()
}

#[test]
fn expressions_of_known_fields_are_no_mistakes() {
    let require = r#""mean(seconds) <= base + 0.5", 'share(text == "a" or snr < 10) <= 0.1'"#;
    let text = manifest(require);
    if let Err(problems) = load_from(&stage_families::catalogue(), &text, &[]) {
        panic!("{}", rendered(&problems));
    }
    assert!(mistakes("").is_empty());
}

#[test]
fn a_mistake_is_marked_inside_of_the_expression() {
    for (require, message, marked) in [
        (r#""mean(snr) <= base", "mean(snr) >= bse""#, "`bse` has a value", "bse\"]"),
        ("'maen(snr) <= base'", "there is no function `maen`", "maen(snr) <= base']"),
        (r#""""mean(snr) + <= 1""""#, "expected a number", "<= 1\"\"\"]"),
        // With escapes, the position inside is unknown.
        (r#""share(text == \"a) < 1""#, "the closing", r#""share(text == \"a) < 1"]"#),
    ] {
        let found = mistakes(require);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0.contains(message), "{found:?}");
        assert_eq!(found[0].1, marked);
    }
}

#[test]
fn a_field_that_does_not_arrive_or_has_another_type_is_a_mistake() {
    let found = mistakes(r#""mean(cer) <= base""#);
    assert!(
        found[0].0.contains("needs the field `cer`, which `measured` does not have"),
        "{found:?}"
    );
    let found = mistakes(r#""share(snr == 'good') >= 0.5""#);
    assert!(found[0].0.contains("needs the field `snr` as a text"), "{found:?}");
    let found = mistakes("3");
    assert!(found[0].0.contains("should be an expression"), "{found:?}");
}
