//! Names that are not known.

use crate::support::{errors, errors_of};

#[test]
fn an_unknown_key_offers_the_nearest() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
raet = 22050
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_key

  x `audio.resample` has no port or parameter `raet`
    ,-[home/voice.toml:12:1]
 11 | input = "clips"
 12 | raet = 22050
    : ^^|^
    :   `-- unknown key
    `----
  help: did you mean `rate`?
"#);
}

#[test]
fn an_unknown_key_without_a_near_one_lists_what_there_is() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
zzz = 1
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_key

  x `audio.resample` has no port or parameter `zzz`
    ,-[home/voice.toml:12:1]
 11 | input = "clips"
 12 | zzz = 1
    : ^|^
    :  `-- unknown key
    `----
  help: ports and parameters of `audio.resample`: `input`, `rate`
"#);
}

#[test]
fn an_unknown_section_offers_the_nearest() {
    let shown = errors(
        r#"[stages.voice]
use = "audio.resample"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_key

  x a manifest has no key `stages`
    ,-[home/voice.toml:9:2]
  8 |
  9 | [stages.voice]
    :  ^^^|^^
    :     `-- unknown key
 10 | use = "audio.resample"
    `----
  help: did you mean `stage`?
"#);
}

#[test]
fn an_unknown_key_of_the_pipeline_an_asset_or_the_session_is_an_error() {
    let shown = errors_of(
        r#"[pipeline]
name = "x"
sed = 1
[assets.a]
path = "data/wavs"
licence = "MIT"
[session]
stop = "1h"
"#,
        &[],
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 3 errors

Error: throstle::unknown_key

  x `[pipeline]` has no key `sed`
   ,-[home/voice.toml:3:1]
 2 | name = "x"
 3 | sed = 1
   : ^|^
   :  `-- unknown key
 4 | [assets.a]
   `----
  help: did you mean `seed`?

Error: throstle::unknown_key

  x `[assets.a]` has no key `licence`
   ,-[home/voice.toml:6:1]
 5 | path = "data/wavs"
 6 | licence = "MIT"
   : ^^^|^^^
   :    `-- unknown key
 7 | [session]
   `----
  help: did you mean `license`?

Error: throstle::unknown_key

  x `[session]` has no key `stop`
   ,-[home/voice.toml:8:1]
 7 | [session]
 8 | stop = "1h"
   : ^^|^
   :   `-- unknown key
   `----
  help: did you mean `stop_after`?
"#);
}

#[test]
fn an_unknown_stage_kind_offers_the_nearest() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resampel"
input = "clips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_kind

  x there is no stage kind `audio.resampel`
    ,-[home/voice.toml:10:7]
  9 | [stage.voice]
 10 | use = "audio.resampel"
    :       ^^^^^^^^|^^^^^^^
    :               `-- unknown kind
 11 | input = "clips"
    `----
  help: did you mean `audio.resample`?
"#);
}

#[test]
fn a_kind_without_its_family_is_found() {
    let shown = errors(
        r#"[stage.voice]
use = "resample"
input = "clips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_kind

  x there is no stage kind `resample`
    ,-[home/voice.toml:10:7]
  9 | [stage.voice]
 10 | use = "resample"
    :       ^^^^^|^^^^
    :            `-- unknown kind
 11 | input = "clips"
    `----
  help: did you mean `audio.resample`?
"#);
}

#[test]
fn an_unknown_stage_offers_the_nearest() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clip"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_reference

  x there is no stage `clip`
    ,-[home/voice.toml:11:9]
 10 | use = "audio.resample"
 11 | input = "clip"
    :         ^^^|^^
    :            `-- unknown stage
    `----
  help: did you mean `clips`?
"#);
}

#[test]
fn an_unknown_output_lists_those_of_the_stage() {
    let shown = errors(
        r#"[stage.split]
use = "dataset.split"
input = "clips"
[stage.voice]
use = "audio.resample"
input = "split.trian"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_port

  x stage `split` has no output `trian`
    ,-[home/voice.toml:9:8]
  8 |
  9 | [stage.split]
    :        ^^|^^
    :          `-- `dataset.split`
 10 | use = "dataset.split"
 11 | input = "clips"
 12 | [stage.voice]
 13 | use = "audio.resample"
 14 | input = "split.trian"
    :         ^^^^^^^^^^^^^
    `----
  help: did you mean `train`?
"#);
}

#[test]
fn an_unknown_asset_offers_the_nearest() {
    let shown = errors(
        r#"[assets.codec]
path = "models/codec"
[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "assets.kodec"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_reference

  x there is no asset `kodec`
    ,-[home/voice.toml:14:9]
 13 | input = "clips"
 14 | codec = "assets.kodec"
    :         ^^^^^^^^^^^^^^
    `----
  help: did you mean `assets.codec`?
"#);
}

#[test]
fn an_asset_without_its_prefix_is_found() {
    let shown = errors(
        r#"[assets.weights]
path = "models/codec"
[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "weights"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_reference

  x there is no stage `weights`
    ,-[home/voice.toml:14:9]
 13 | input = "clips"
 14 | codec = "weights"
    :         ^^^^|^^^^
    :             `-- unknown stage
    `----
  help: did you mean `assets.weights`?
"#);
}

#[test]
fn an_unknown_instance_of_a_matrix_lists_those_that_are() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
matrix = { rate = [16000, 22050] }
[stage.loud]
use = "audio.loudness"
input = "voice[rate=44100]"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_reference

  x stage `voice` has no instance `[rate=44100]`
    ,-[home/voice.toml:15:9]
 14 | use = "audio.loudness"
 15 | input = "voice[rate=44100]"
    :         ^^^^^^^^^^^^^^^^^^^
    `----
  help: known instances: `voice[rate=16000]`, `voice[rate=22050]`
"#);
}

#[test]
fn an_unknown_value_of_params_offers_the_nearest() {
    let shown = errors(
        r#"[params]
rate = 8000
[stage.voice]
use = "audio.resample"
input = "clips"
rate = "$rat"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::unknown_param

  x there is no value `rat` in `[params]`
    ,-[home/voice.toml:14:8]
 13 | input = "clips"
 14 | rate = "$rat"
    :        ^^^^^^
    `----
  help: did you mean `rate`? To start a text with `$`, write `"$$rat"`
"#);
}

#[test]
fn a_name_takes_letters_digits_and_two_signs() {
    let shown = errors(
        r#"[stage."a b"]
use = "corpus.open"
[stage."bell\u0007"]
use = "corpus.open"
[stage.assets]
use = "corpus.open"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 3 errors

Error: throstle::bad_name

  x `a b` cannot be the name of a stage
    ,-[home/voice.toml:9:8]
  8 |
  9 | [stage."a b"]
    :        ^^^^^
 10 | use = "corpus.open"
    `----
  help: use letters, digits, `-` and `_`; `assets` is reserved

Error: throstle::bad_name

  x the name contains a control character
    ,-[home/voice.toml:11:8]
 10 | use = "corpus.open"
 11 | [stage."bell\u0007"]
    :        ^^^^^^^^^^^^
 12 | use = "corpus.open"
    `----
  help: use letters, digits, `-` and `_`

Error: throstle::bad_name

  x `assets` cannot be the name of a stage
    ,-[home/voice.toml:13:8]
 12 | use = "corpus.open"
 13 | [stage.assets]
    :        ^^^^^^
 14 | use = "corpus.open"
    `----
  help: use letters, digits, `-` and `_`; `assets` is reserved
"#);
}

#[test]
fn a_key_that_is_missing_is_named_with_what_it_is_for() {
    let shown = errors_of(
        r#"[pipeline]
[assets.a]
[stage.clips]
use = "corpus.table"
[stage.voice]
input = "clips"
"#,
        &[],
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 4 errors

Error: throstle::missing_key

  x `[pipeline]` has no `name`
   ,-[home/voice.toml:1:2]
 1 | [pipeline]
   :  ^^^^^^^^
 2 | [assets.a]
   `----
  help: add `name = "my-voice"`

Error: throstle::missing_key

  x `[assets.a]` has no `path`
   ,-[home/voice.toml:2:9]
 1 | [pipeline]
 2 | [assets.a]
   :         ^
 3 | [stage.clips]
   `----
  help: add `path = "…"`, relative to the manifest

Error: throstle::missing_key

  x stage `clips` has no `table`, which `corpus.table` needs
   ,-[home/voice.toml:3:8]
 2 | [assets.a]
 3 | [stage.clips]
   :        ^^^^^
 4 | use = "corpus.table"
   `----
  help: `table`: The table.

Error: throstle::missing_key

  x stage `voice` has no `use`
   ,-[home/voice.toml:5:8]
 4 | use = "corpus.table"
 5 | [stage.voice]
   :        ^^^^^
 6 | input = "clips"
   `----
  help: add its kind: `use = "audio.resample"`; `throstle stages` lists
        all kinds
"#);
}

#[test]
fn a_misspelled_key_is_not_reported_as_missing_too() {
    let shown = errors(
        r#"[stage.a]
use = "corpus.table"
tabel = "data/metadata.csv"
[stage.voice]
use = "audio.resample"
imput = "clips"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::unknown_key

  x `corpus.table` has no port or parameter `tabel`
    ,-[home/voice.toml:11:1]
 10 | use = "corpus.table"
 11 | tabel = "data/metadata.csv"
    : ^^|^^
    :   `-- unknown key
 12 | [stage.voice]
    `----
  help: did you mean `table`?

Error: throstle::unknown_key

  x `audio.resample` has no port or parameter `imput`
    ,-[home/voice.toml:14:1]
 13 | use = "audio.resample"
 14 | imput = "clips"
    : ^^|^^
    :   `-- unknown key
    `----
  help: did you mean `input`?
"#);
}

#[test]
fn a_manifest_without_a_pipeline_is_told_how_to_begin() {
    let shown = errors_of(
        r#"[stage.clips]
use = "corpus.open"
"#,
        &[],
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::missing_key

  x the manifest has no `[pipeline]`
   ,-[home/voice.toml:1:2]
 1 | [stage.clips]
   :  ^
 2 | use = "corpus.open"
   `----
  help: begin with
        [pipeline]
        name = "my-voice"
"#);
}
