//! Allowed paths of exports.

use crate::support::errors;

#[test]
fn one_target_twice_is_an_error_with_both_places() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
export = "out/{id}.wav"
[stage.loud]
use = "audio.loudness"
input = "clips"
export = "./out//{id}.wav"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::duplicate_export

  x two stages would export to `out/{id}.wav`
    ,-[home/voice.toml:12:10]
 11 | input = "clips"
 12 | export = "out/{id}.wav"
    :          ^^^^^^^|^^^^^^
    :                 `-- first export
 13 | [stage.loud]
 14 | use = "audio.loudness"
 15 | input = "clips"
 16 | export = "./out//{id}.wav"
    :          ^^^^^^^^|^^^^^^^^
    :                  `-- second export
    `----
  help: export each to its own folder
"#);
}

#[test]
fn instances_of_a_matrix_need_targets_of_their_own() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
matrix = { rate = [16000, 22050] }
export = "out/{id}.wav"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::duplicate_export

  x all stages made from `voice` would export to `out/{id}.wav`
    ,-[home/voice.toml:13:10]
 12 | matrix = { rate = [16000, 22050] }
 13 | export = "out/{id}.wav"
    :          ^^^^^^^^^^^^^^
    `----
  help: a matrix or a sweep makes several stages of it: add `{matrix}` to
        the path, which stands for `rate=16000` or `trial=3`
"#);
}

#[test]
fn items_need_targets_of_their_own() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
export = "out/clip.wav"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::duplicate_export

  x every item of stage `voice` would be exported to the same file
    ,-[home/voice.toml:12:10]
 11 | input = "clips"
 12 | export = "out/clip.wav"
    :          ^^^^^^^^^^^^^^
    `----
  help: add a field to the path that differs between items: `{id}`
"#);
}

#[test]
fn a_target_stays_below_the_manifest_and_out_of_the_store() {
    let shown = errors(
        r#"[stage.a]
use = "audio.resample"
input = "clips"
export = "../{id}.wav"
[stage.b]
use = "audio.resample"
input = "clips"
export = "/etc/{id}.wav"
[stage.c]
use = "audio.resample"
input = "clips"
export = ".throstle/objects/{id}"
[stage.d]
use = "audio.resample"
input = "clips"
export = "out/\u0000{id}"
[stage.e]
use = "audio.resample"
input = "clips"
export = "{id}"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 5 errors

Error: throstle::unsafe_path

  x an export path cannot contain `..`
    ,-[home/voice.toml:12:10]
 11 | input = "clips"
 12 | export = "../{id}.wav"
    :          ^^^^^^^^^^^^^
 13 | [stage.b]
    `----
  help: export to a folder beside the manifest, such as `out/{id}.wav`

Error: throstle::unsafe_path

  x an export path must be relative, with `/` between folders
    ,-[home/voice.toml:16:10]
 15 | input = "clips"
 16 | export = "/etc/{id}.wav"
    :          ^^^^^^^^^^^^^^^
 17 | [stage.c]
    `----
  help: export to a folder beside the manifest, such as `out/{id}.wav`

Error: throstle::unsafe_path

  x an export path cannot be in the cache folder
    ,-[home/voice.toml:20:10]
 19 | input = "clips"
 20 | export = ".throstle/objects/{id}"
    :          ^^^^^^^^^^^^^^^^^^^^^^^^
 21 | [stage.d]
    `----
  help: export to a folder beside the manifest, such as `out/{id}.wav`

Error: throstle::unsafe_path

  x an export path cannot be empty or contain control characters
    ,-[home/voice.toml:24:10]
 23 | input = "clips"
 24 | export = "out/\u0000{id}"
    :          ^^^^^^^^^^^^^^^^
 25 | [stage.e]
    `----
  help: export to a folder beside the manifest, such as `out/{id}.wav`

Error: throstle::unsafe_path

  x an export path must begin with a folder or fixed text
    ,-[home/voice.toml:28:10]
 27 | input = "clips"
 28 | export = "{id}"
    :          ^^^^^^
    `----
  help: export to a folder beside the manifest, such as `out/{id}.wav`
"#);
}

#[test]
fn a_place_in_a_target_is_a_field_with_a_text() {
    let shown = errors(
        r#"[stage.a]
use = "audio.resample"
input = "clips"
export = "out/{speeker}/{id}.wav"
[stage.b]
use = "audio.resample"
input = "clips"
export = "out/{audio}.wav"
[stage.c]
use = "audio.resample"
input = "clips"
export = "out/{matrix}/{id}.wav"
[stage.d]
use = "audio.resample"
input = "clips"
export = "out/{id.wav"
[stage.fit]
use = "vq.fit"
input = "clips"
export = "out/{speaker}.bin"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 5 errors

Error: throstle::unknown_field

  x stage `a` has no field `speeker`
    ,-[home/voice.toml:12:10]
 11 | input = "clips"
 12 | export = "out/{speeker}/{id}.wav"
    :          ^^^^^^^^^^^^^^^^^^^^^^^^
 13 | [stage.b]
    `----
  help: did you mean `speaker`?

Error: throstle::wrong_field_type

  x field `audio` is a file, which cannot be part of a path
    ,-[home/voice.toml:16:10]
 15 | input = "clips"
 16 | export = "out/{audio}.wav"
    :          ^^^^^^^^^^^^^^^^^
 17 | [stage.c]
    `----
  help: known fields: `duration`, `id`, `speaker`, `text`

Error: throstle::unknown_field

  x stage `c` has no matrix for the placeholder `{matrix}`
    ,-[home/voice.toml:20:10]
 19 | input = "clips"
 20 | export = "out/{matrix}/{id}.wav"
    :          ^^^^^^^^^^^^^^^^^^^^^^^
 21 | [stage.d]
    `----

Error: throstle::unsafe_path

  x an export path has an unmatched brace
    ,-[home/voice.toml:24:10]
 23 | input = "clips"
 24 | export = "out/{id.wav"
    :          ^^^^^^^^^^^^^
 25 | [stage.fit]
    `----
  help: write the name of a field in braces: `{speaker}`

Error: throstle::unknown_field

  x stage `fit` outputs no items, so it has no field `speaker`
    ,-[home/voice.toml:28:10]
 27 | input = "clips"
 28 | export = "out/{speaker}.bin"
    :          ^^^^^^^^^^^^^^^^^^^
    `----
  help: write a fixed path
"#);
}

#[test]
fn an_unknown_field_to_export_offers_the_nearest() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
export = { audoi = "out/{id}.wav" }
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_field

  x stage `voice` has no output or field `audoi`
    ,-[home/voice.toml:12:12]
 11 | input = "clips"
 12 | export = { audoi = "out/{id}.wav" }
    :            ^^^^^
    `----
  help: did you mean `audio`?
"#);
}

#[test]
fn only_files_are_exported() {
    let shown = errors(
        r#"[stage.text]
use = "text.normalize"
input = "clips"
export = { text = "out/{id}.txt" }
[stage.more]
use = "text.normalize"
input = "a"
export = "out/{id}.txt"
[stage.a]
use = "command"
run = "x"
outputs = { a = "a.txt", b = "b.txt" }
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 3 errors

Error: throstle::wrong_field_type

  x field `text` is a text, but only files can be exported
    ,-[home/voice.toml:12:12]
 11 | input = "clips"
 12 | export = { text = "out/{id}.txt" }
    :            ^^^^
 13 | [stage.more]
    `----
  help: fields with files: `audio`; `throstle items` writes tables of
        texts and numbers

Error: throstle::unknown_field

  x `text.normalize` of stage `more` needs the field `text`, which `a`
  | does not have
    ,-[home/voice.toml:15:9]
 14 | use = "text.normalize"
 15 | input = "a"
    :         ^|^
    :          `-- no `text` here
 16 | export = "out/{id}.txt"
    `----
  help: `a` has the fields `a`, `b`; `text` is written by `clips`, `text`,
        `more`

Error: throstle::unknown_field

  x the export of stage `more` does not name a field
    ,-[home/voice.toml:16:1]
 15 | input = "a"
 16 | export = "out/{id}.txt"
    : ^^^^^^
 17 | [stage.a]
    `----
  help: write `export = { a = "out/{id}" }`; fields with files: `a`, `b`
"#);
}

#[test]
fn several_files_to_choose_from_need_a_choice() {
    let shown = errors(
        r#"[stage.a]
use = "command"
run = "x"
outputs = { a = "a.txt", b = "b.txt" }
export = "out/{id}"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_field

  x the export of stage `a` does not name a field
    ,-[home/voice.toml:13:1]
 12 | outputs = { a = "a.txt", b = "b.txt" }
 13 | export = "out/{id}"
    : ^^^^^^
    `----
  help: write `export = { a = "out/{id}" }`; fields with files: `a`, `b`
"#);
}

#[test]
fn the_files_that_a_stage_reads_are_not_overwritten() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
export = "data/wavs/{id}.wav"
[stage.loud]
use = "audio.loudness"
input = "clips"
export = "data/{id}.wav"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unsafe_path

  x stage `voice` would export into `data/wavs`, which the pipeline reads
    ,-[home/voice.toml:7:9]
  6 | table = "data/metadata.csv"
  7 | audio = "data/wavs"
    :         ^^^^^|^^^^^
    :              `-- read here
  8 |
  9 | [stage.voice]
 10 | use = "audio.resample"
 11 | input = "clips"
 12 | export = "data/wavs/{id}.wav"
    :          ^^^^^^^^^^|^^^^^^^^^
    :                    `-- this would change the input
 13 | [stage.loud]
    `----
  help: export to a folder of its own, such as `out/{id}.wav`
"#);
}

#[test]
fn a_link_is_a_copy_or_hard_and_stands_beside_a_path() {
    let shown = |export: &str| {
        let stage = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nexport = ";
        errors(&format!("{stage}{export}\n"))
    };
    let other = shown(r#"{ audio = "out/{id}.wav", link = "soft" }"#);
    assert!(other.contains("`link` should be `copy` or `hard`"), "{other}");
    let number = shown(r#"{ audio = "out/{id}.wav", link = 3 }"#);
    assert!(number.contains("`link` should be `copy` or `hard`"), "{number}");
    let alone = shown(r#"{ link = "hard" }"#);
    assert!(alone.contains("`link` needs an export path in the same table"), "{alone}");
}
