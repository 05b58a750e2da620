//! References, ports, fields and cycles.

use crate::support::{errors, warnings};

#[test]
fn a_cycle_is_shown_as_a_whole() {
    let shown = errors(
        r#"[stage.a]
use = "audio.resample"
input = "c"
[stage.b]
use = "audio.resample"
input = "a"
[stage.c]
use = "audio.loudness"
input = "b"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::cycle

  x these stages form a cycle: `a` needs `c` needs `b` needs `a`
    ,-[home/voice.toml:11:9]
 10 | use = "audio.resample"
 11 | input = "c"
    :         ^|^
    :          `-- `a` needs `c`
 12 | [stage.b]
 13 | use = "audio.resample"
 14 | input = "a"
    :         ^|^
    :          `-- `b` needs `a`
 15 | [stage.c]
 16 | use = "audio.loudness"
 17 | input = "b"
    :         ^|^
    :          `-- `c` needs `b`
    `----
  help: a stage cannot depend on its own output: change one of these
        references
"#);
}

#[test]
fn a_stage_that_reads_itself_is_a_cycle() {
    let shown = errors(
        r#"[stage.a]
use = "audio.resample"
input = "a"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::cycle

  x stage `a` reads its own output
    ,-[home/voice.toml:11:9]
 10 | use = "audio.resample"
 11 | input = "a"
    :         ^|^
    :          `-- `a` needs `a`
    `----
  help: a stage cannot depend on its own output: change one of these
        references
"#);
}

#[test]
fn a_port_that_is_missing_is_an_error_that_lists_the_ports() {
    let shown = errors(
        r#"[stage.tokens]
use = "vq.encode"
input = "clips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::missing_port

  x stage `tokens` has no `codec`, which `vq.encode` needs
    ,-[home/voice.toml:9:8]
  8 |
  9 | [stage.tokens]
    :        ^^^^^^
 10 | use = "vq.encode"
    `----
  help: name the stage that it reads: `codec = "…"`; its ports are
        `input`, `codec`
"#);
}

#[test]
fn an_artifact_is_no_data_set_and_a_data_set_no_artifact() {
    let shown = errors(
        r#"[stage.fit]
use = "vq.fit"
input = "clips"
[stage.voice]
use = "audio.resample"
input = "fit"
[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "clips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::wrong_port

  x `input` takes a data set, but `fit` is an artifact
    ,-[home/voice.toml:14:9]
 13 | use = "audio.resample"
 14 | input = "fit"
    :         ^^|^^
    :           `-- an artifact
 15 | [stage.tokens]
    `----

Error: throstle::wrong_port

  x `codec` takes an artifact, but `clips` is a data set
    ,-[home/voice.toml:18:9]
 17 | input = "clips"
 18 | codec = "clips"
    :         ^^^|^^^
    :            `-- a data set
    `----
  help: `codec`: What turns audio into tokens.
"#);
}

#[test]
fn an_artifact_without_what_is_read_is_named() {
    let shown = errors(
        r#"[stage.fit]
use = "vq.fit"
input = "clips"
[stage.spoken]
use = "my.speak"
input = "clips"
model = "fit"
codec = "fit"
reference = "fit"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::unknown_field

  x `my.speak` of stage `spoken` needs the field `text`, which `fit` does
  | not have
    ,-[home/voice.toml:17:13]
 16 | codec = "fit"
 17 | reference = "fit"
    :             ^^|^^
    :               `-- no `text` here
    `----
  help: `fit` has no fields; `text` is written by `clips`

Error: throstle::unknown_field

  x `my.speak` of stage `spoken` needs the field `tokens`, which `fit`
  | does not have
    ,-[home/voice.toml:17:13]
 16 | codec = "fit"
 17 | reference = "fit"
    :             ^^|^^
    :               `-- no `tokens` here
    `----
  help: `fit` has no fields; `tokens` is written by `spoken`
"#);
}

#[test]
fn an_asset_is_no_data_set() {
    let shown = errors(
        r#"[assets.codec]
path = "models/codec"
[stage.voice]
use = "audio.resample"
input = "assets.codec"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::wrong_port

  x `input` takes a data set, but `assets.codec` is an artifact
    ,-[home/voice.toml:13:9]
 12 | use = "audio.resample"
 13 | input = "assets.codec"
    :         ^^^^^^^|^^^^^^
    :                `-- an artifact
    `----
"#);
}

#[test]
fn a_list_is_only_for_ports_that_take_many() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = ["clips", "clips"]
[stage.all]
use = "dataset.merge"
input = []
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::wrong_type

  x `input` takes one reference, not a list
    ,-[home/voice.toml:11:9]
 10 | use = "audio.resample"
 11 | input = ["clips", "clips"]
    :         ^^^^^^^^^^^^^^^^^^
 12 | [stage.all]
    `----

Error: throstle::missing_port

  x `input` does not name a stage
    ,-[home/voice.toml:14:9]
 13 | use = "dataset.merge"
 14 | input = []
    :         ^|
    :          `-- an empty list
    `----
"#);
}

#[test]
fn a_field_that_does_not_arrive_is_named_with_those_that_write_it() {
    let shown = errors(
        r#"[stage.fit]
use = "vq.fit"
input = "clips"
[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "fit"
[stage.pack]
use = "dataset.pack"
input = "clips"
fields = ["txt"]
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::unknown_field

  x `dataset.pack` of stage `pack` needs the field `tokens`, which `clips`
  | does not have
    ,-[home/voice.toml:18:9]
 17 | use = "dataset.pack"
 18 | input = "clips"
    :         ^^^|^^^
    :            `-- no `tokens` here
 19 | fields = ["txt"]
    `----
  help: `clips` has the fields `audio`, `duration`, `speaker`, `text`;
        `tokens` is written by `tokens`

Error: throstle::unknown_field

  x `dataset.pack` of stage `pack` needs the field `txt`, which `clips`
  | does not have
    ,-[home/voice.toml:19:10]
 18 | input = "clips"
 19 | fields = ["txt"]
    :          ^^^|^^^
    :             `-- no `txt` here
    `----
  help: did you mean `text`?
"#);
}

#[test]
fn a_field_of_another_type_is_an_error() {
    let shown = errors(
        r#"[stage.a]
use = "command"
input = "clips"
run = "x"
outputs = { text = "a.txt" }
[stage.text]
use = "text.normalize"
input = "a"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::wrong_field_type

  x `text.normalize` of stage `text` needs the field `text` as a text, but
  | `a` has it as a file
    ,-[home/voice.toml:16:9]
 15 | use = "text.normalize"
 16 | input = "a"
    :         ^|^
    :          `-- `text` is a file here
    `----
"#);
}

#[test]
fn one_mistake_is_not_reported_again_downstream() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "nothing-like-it"
[stage.text]
use = "text.normalize"
input = "voice"
[stage.wrong]
use = "no.such"
[stage.loud]
use = "audio.loudness"
input = "wrong"
export = "out/{speaker}/{id}.wav"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::unknown_reference

  x there is no stage `nothing-like-it`
    ,-[home/voice.toml:11:9]
 10 | use = "audio.resample"
 11 | input = "nothing-like-it"
    :         ^^^^^^^^|^^^^^^^^
    :                 `-- unknown stage
 12 | [stage.text]
    `----
  help: known stages: `clips`, `loud`, `text`, `voice`, `wrong`

Error: throstle::unknown_kind

  x there is no stage kind `no.such`
    ,-[home/voice.toml:16:7]
 15 | [stage.wrong]
 16 | use = "no.such"
    :       ^^^^|^^^^
    :           `-- unknown kind
 17 | [stage.loud]
    `----
  help: `throstle stages` lists the kinds; a kind of another crate needs
        the program that links it
"#);
}

#[test]
fn a_matrix_is_a_table_of_lists_of_parameters() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
rate = 8000
matrix = { rate = [16000, 16000], input = ["clips"], speed = [1] }
[stage.w]
use = "audio.resample"
input = "clips"
matrix = { rate = 5 }
[stage.x]
use = "audio.resample"
input = "clips"
matrix = [1]
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 6 errors

Error: throstle::duplicate_key

  x `rate` is set here and in `matrix`
    ,-[home/voice.toml:12:1]
 11 | input = "clips"
 12 | rate = 8000
    : ^^^^
 13 | matrix = { rate = [16000, 16000], input = ["clips"], speed = [1] }
    `----
  help: remove one of the two

Error: throstle::duplicate_value

  x the matrix has `16000` twice for `rate`
    ,-[home/voice.toml:13:27]
 12 | rate = 8000
 13 | matrix = { rate = [16000, 16000], input = ["clips"], speed = [1] }
    :                           ^^|^^
    :                             `-- the second time
 14 | [stage.w]
    `----

Error: throstle::unknown_key

  x `audio.resample` has no parameter `input`
    ,-[home/voice.toml:13:35]
 12 | rate = 8000
 13 | matrix = { rate = [16000, 16000], input = ["clips"], speed = [1] }
    :                                   ^^|^^
    :                                     `-- not a parameter
 14 | [stage.w]
    `----
  help: parameters: `rate`

Error: throstle::unknown_key

  x `audio.resample` has no parameter `speed`
    ,-[home/voice.toml:13:54]
 12 | rate = 8000
 13 | matrix = { rate = [16000, 16000], input = ["clips"], speed = [1] }
    :                                                      ^^|^^
    :                                                        `-- not a parameter
 14 | [stage.w]
    `----
  help: parameters: `rate`

Error: throstle::wrong_type

  x the matrix of `rate` should be a list of values
    ,-[home/voice.toml:17:19]
 16 | input = "clips"
 17 | matrix = { rate = 5 }
    :                   ^
 18 | [stage.x]
    `----
  help: write `rate = [first, second]`

Error: throstle::wrong_type

  x `matrix` should be a table of lists
    ,-[home/voice.toml:21:10]
 20 | input = "clips"
 21 | matrix = [1]
    :          ^^^
    `----
  help: write `matrix = { rate = [16000, 22050] }`
"#);
}

#[test]
fn a_matrix_with_too_many_values_says_how_many_it_may_have() {
    let rates: Vec<String> = (0..1_001).map(|at| (8_000 + at).to_string()).collect();
    let stage = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\n";
    let shown = errors(&format!("{stage}matrix.rate = [{}]\n", rates.join(", ")));
    let message = "the matrix of `rate` has 1001 values: the limit is 1000";
    assert!(shown.contains(message), "{shown}");
    assert!(shown.contains("a matrix runs the stage once for each value"), "{shown}");
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_text() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clip"
rate = "fast"
[stage.text]
use = "text.normalise"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 3 errors

Error: throstle::unknown_reference

  x there is no stage `clip`
    ,-[home/voice.toml:11:9]
 10 | use = "audio.resample"
 11 | input = "clip"
    :         ^^^|^^
    :            `-- unknown stage
 12 | rate = "fast"
    `----
  help: did you mean `clips`?

Error: throstle::wrong_unit

  x `rate` should be an integer in hertz
    ,-[home/voice.toml:12:8]
 11 | input = "clip"
 12 | rate = "fast"
    :        ^^^|^^
    :           `-- invalid value
 13 | [stage.text]
    `----
  help: write `16000` or `"16kHz"`

Error: throstle::unknown_kind

  x there is no stage kind `text.normalise`
    ,-[home/voice.toml:14:7]
 13 | [stage.text]
 14 | use = "text.normalise"
    :       ^^^^^^^^|^^^^^^^
    :               `-- unknown kind
    `----
  help: did you mean `text.normalize`?
"#);
}

#[test]
fn what_nothing_uses_is_a_warning() {
    let shown = warnings(
        r#"[assets.codec]
path = "models/codec"
[params]
rate = 1
[stage.voice]
use = "audio.resample"
input = "clips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::unused_asset

  ! no stage uses the asset `codec`
    ,-[home/voice.toml:9:9]
  8 |
  9 | [assets.codec]
    :         ^^^^^
 10 | path = "models/codec"
    `----throstle::unused_param

  ! the value `rate` is not used
    ,-[home/voice.toml:12:1]
 11 | [params]
 12 | rate = 1
    : ^^^^
 13 | [stage.voice]
    `----
  help: use it as `"$rate"`, or remove itthrostle::unused_stage

  ! nothing reads stage `voice`, and it exports nothing
    ,-[home/voice.toml:13:8]
 12 | rate = 1
 13 | [stage.voice]
    :        ^^^^^
 14 | use = "audio.resample"
    `----
  help: its results stay in the cache; `export = "out/…"` writes files
"#);
}
