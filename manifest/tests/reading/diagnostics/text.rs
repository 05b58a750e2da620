//! Text that is not a manifest, and overrides.

use crate::support::{CORPUS, errors, errors_of};

#[test]
fn a_syntax_error_is_shown_in_its_place() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::syntax

  x invalid TOML: invalid basic string, expected `"`
    ,-[home/voice.toml:10:22]
  9 | [stage.voice]
 10 | use = "audio.resample
    :                      ^
    :                      `-- syntax error
    `----
  help: quote texts, begin tables with `[name]`; see https://toml.io
"#);
}

#[test]
fn every_syntax_error_is_shown() {
    let shown = errors_of(
        r"[pipeline
name = voice
[stage.a]
use =
",
        &[],
    );
    insta::assert_snapshot!(shown, @r"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::syntax

  x invalid TOML: unclosed table, expected `]`
   ,-[home/voice.toml:1:10]
 1 | [pipeline
   :          ^
   :          `-- syntax error
 2 | name = voice
   `----
  help: quote texts, begin tables with `[name]`; see https://toml.io

Error: throstle::syntax

  x invalid TOML: string values must be quoted, expected literal string
   ,-[home/voice.toml:4:6]
 3 | [stage.a]
 4 | use =
   :      ^
   :      `-- syntax error
   `----
  help: quote texts, begin tables with `[name]`; see https://toml.io
");
}

#[test]
fn a_repeated_key_is_shown_with_both_places() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
rate = 8000
rate = 16000
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::duplicate_key

  x `rate` is written twice
    ,-[home/voice.toml:12:1]
 11 | input = "clips"
 12 | rate = 8000
    : ^^|^
    :   `-- the first time
 13 | rate = 16000
    : ^^|^
    :   `-- the second time
    `----
  help: remove one of the two
"#);
}

#[test]
fn a_repeated_table_is_shown_with_both_places() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
[stage.voice]
use = "audio.resample"
input = "klips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::duplicate_key

  x `voice` is written twice
    ,-[home/voice.toml:9:8]
  8 |
  9 | [stage.voice]
    :        ^^|^^
    :          `-- the first time
 10 | use = "audio.resample"
 11 | input = "clips"
 12 | [stage.voice]
    :        ^^|^^
    :          `-- the second time
 13 | use = "audio.resample"
    `----
  help: remove one of the two
"#);
}

#[test]
fn letters_that_act_on_a_terminal_are_not_printed() {
    let shown = errors_of(
        r#"[pipeline]
name = "\u001b[31mred\u202e"
[stage.a]
use = "corpus.open\u001b[2J"
"#,
        &[],
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::bad_name

  x `name` is not a valid name of a pipeline
   ,-[home/voice.toml:2:8]
 1 | [pipeline]
 2 | name = "\u001b[31mred\u202e"
   :        ^^^^^^^^^^^^^^^^^^^^^
 3 | [stage.a]
   `----
  help: use letters, digits, `-` and `_`

Error: throstle::unknown_kind

  x there is no stage kind `corpus.open\u{1b}[2J`
   ,-[home/voice.toml:4:7]
 3 | [stage.a]
 4 | use = "corpus.open\u001b[2J"
   :       ^^^^^^^^^^^|^^^^^^^^^^
   :                  `-- unknown kind
   `----
  help: did you mean `corpus.open`?
"#);
}

#[test]
fn deep_nesting_is_refused() {
    let shown = errors_of(
        r"a = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
",
        &[],
    );
    insta::assert_snapshot!(shown, @r"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::syntax

  x invalid TOML: cannot recurse further; max recursion depth met
   ,-[home/voice.toml:1:85]
 1 | a = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
   :                                                                                     |
   :                                                                                     `-- syntax error
   `----
  help: quote texts, begin tables with `[name]`; see https://toml.io
");
}

#[test]
fn an_override_that_names_nothing_is_an_error_in_its_own_text() {
    let shown = errors_of(
        &format!(
            "{CORPUS}{}",
            r#"[stage.voice]
use = "audio.resample"
input = "clips"
"#
        ),
        &[
            "voise.rate=1",
            "stage.voice.raet=1",
            "rate=1",
            "voice.rate",
            "params.x=1",
            "voice..rate=1",
        ],
    );
    insta::assert_snapshot!(shown, @r"
throstle::manifest

  x `home/voice.toml` has 6 errors

Error: throstle::bad_override

  x there is no stage `voise` to set
   ,-[--set:1:1]
 1 | voise.rate=1
   : ^^^^^
   `----
  help: did you mean `voice`?

Error: throstle::unknown_key

  x `audio.resample` has no port or parameter `raet`
   ,-[--set:1:13]
 1 | stage.voice.raet=1
   :             ^^|^
   :               `-- unknown key
   `----
  help: did you mean `rate`?

Error: throstle::bad_override

  x an override needs a section or stage, and a key
   ,-[--set:1:1]
 1 | rate=1
   : ^^^^
   `----
  help: write `--set stage.voice.rate=22050` or `--set params.rate=22050`

Error: throstle::bad_override

  x `--set voice.rate` has no value
   ,-[--set:1:1]
 1 | voice.rate
   : ^^^^^^^^^^
   `----
  help: write `--set stage.voice.rate=22050` or `--set params.rate=22050`

Error: throstle::bad_override

  x there is no section `params` to set
   ,-[--set:1:1]
 1 | params.x=1
   : ^^^^^^
   `----
  help: known names: `pipeline`, `stage`

Error: throstle::bad_override

  x the path of an override has an empty name
   ,-[--set:1:1]
 1 | voice..rate=1
   : ^^^^^^^^^^^^^
   `----
");
}

#[test]
fn a_wrong_value_of_an_override_is_shown_in_its_text() {
    let shown = errors_of(
        &format!(
            "{CORPUS}{}",
            r#"[stage.voice]
use = "audio.resample"
input = "clips"
"#
        ),
        &["voice.rate=12", "stage.voice.input=klips"],
    );
    insta::assert_snapshot!(shown, @r"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::out_of_range

  x `rate` must be between 4000 and 384000 hertz
   ,-[--set:1:12]
 1 | voice.rate=12
   :            ^|
   :             `-- this is 12
   `----

Error: throstle::unknown_reference

  x there is no stage `klips`
   ,-[--set:1:19]
 1 | stage.voice.input=klips
   :                   ^^|^^
   :                     `-- unknown stage
   `----
  help: did you mean `clips`?
");
}
