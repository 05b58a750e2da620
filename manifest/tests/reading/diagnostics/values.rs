//! Values of the wrong type, unit or range.

use crate::support::{errors, errors_of, warnings};

#[test]
fn a_wrong_type_says_what_is_wanted_and_what_is_there() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
rate = true
[stage.text]
use = "text.normalize"
input = 3
strict = "yes"
case = 1
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 4 errors

Error: throstle::wrong_type

  x `rate` should be an integer
    ,-[home/voice.toml:12:8]
 11 | input = "clips"
 12 | rate = true
    :        ^^|^
    :          `-- this is `true`
 13 | [stage.text]
    `----
  help: such as `16000` or `"16kHz"`

Error: throstle::wrong_type

  x `input` should be the name of a stage or asset
    ,-[home/voice.toml:15:9]
 14 | use = "text.normalize"
 15 | input = 3
    :         |
    :         `-- this is an integer
 16 | strict = "yes"
    `----

Error: throstle::wrong_type

  x `strict` should be true or false
    ,-[home/voice.toml:16:10]
 15 | input = 3
 16 | strict = "yes"
    :          ^^|^^
    :            `-- this is a text
 17 | case = 1
    `----

Error: throstle::wrong_type

  x `case` should be a text
    ,-[home/voice.toml:17:8]
 16 | strict = "yes"
 17 | case = 1
    :        |
    :        `-- this is an integer
    `----
  help: allowed values: `keep`, `lower`, `upper`
"#);
}

#[test]
fn a_wrong_unit_shows_how_it_is_written() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
rate = "16 kilo"
[stage.loud]
use = "audio.loudness"
input = "clips"
target = "-23dB"
ceiling = "loud"
silence = "5s"
fade = "1 week"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 5 errors

Error: throstle::wrong_unit

  x `rate` should be an integer in hertz
    ,-[home/voice.toml:12:8]
 11 | input = "clips"
 12 | rate = "16 kilo"
    :        ^^^^|^^^^
    :            `-- invalid value
 13 | [stage.loud]
    `----
  help: write `16000` or `"16kHz"`

Error: throstle::wrong_unit

  x `target` should be a number in LUFS
    ,-[home/voice.toml:16:10]
 15 | input = "clips"
 16 | target = "-23dB"
    :          ^^^|^^^
    :             `-- invalid value
 17 | ceiling = "loud"
    `----
  help: write `-23` or `"-23LUFS"`

Error: throstle::wrong_unit

  x `ceiling` should be a number in decibels
    ,-[home/voice.toml:17:11]
 16 | target = "-23dB"
 17 | ceiling = "loud"
    :           ^^^|^^
    :              `-- invalid value
 18 | silence = "5s"
    `----
  help: write `-3` or `"-3dB"`

Error: throstle::wrong_unit

  x `silence` should be a number in percent
    ,-[home/voice.toml:18:11]
 17 | ceiling = "loud"
 18 | silence = "5s"
    :           ^^|^
    :             `-- invalid value
 19 | fade = "1 week"
    `----
  help: write `5` or `"5%"`

Error: throstle::wrong_unit

  x `fade` should be a duration
    ,-[home/voice.toml:19:8]
 18 | silence = "5s"
 19 | fade = "1 week"
    :        ^^^^|^^^
    :            `-- invalid value
    `----
  help: write `"90s"`, `"1.5h"` or `"11h30m"`
"#);
}

#[test]
fn a_duration_or_size_needs_its_unit() {
    let shown = errors(
        r#"[stage.fit]
use = "vq.fit"
input = "clips"
[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "fit"
batch = 64
timeout = 90
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::wrong_type

  x `batch` should be a size
    ,-[home/voice.toml:16:9]
 15 | codec = "fit"
 16 | batch = 64
    :         ^|
    :          `-- this is an integer
 17 | timeout = 90
    `----
  help: write the number with its unit: `"64MB"` or `"12GiB"`

Error: throstle::wrong_type

  x `timeout` should be a duration
    ,-[home/voice.toml:17:11]
 16 | batch = 64
 17 | timeout = 90
    :           ^|
    :            `-- this is an integer
    `----
  help: write the number with its unit: `"90s"`, `"1.5h"` or `"11h30m"`
"#);
}

#[test]
fn a_value_out_of_range_is_shown_with_its_bounds() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
rate = 400
[stage.loud]
use = "audio.loudness"
input = "clips"
target = 3.5
retries = 1000
quarantine = "500%"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 4 errors

Error: throstle::out_of_range

  x `rate` must be between 4000 and 384000 hertz
    ,-[home/voice.toml:12:8]
 11 | input = "clips"
 12 | rate = 400
    :        ^|^
    :         `-- this is 400
 13 | [stage.loud]
    `----

Error: throstle::out_of_range

  x `target` must be between -70 and 0 LUFS
    ,-[home/voice.toml:16:10]
 15 | input = "clips"
 16 | target = 3.5
    :          ^|^
    :           `-- this is 3.5
 17 | retries = 1000
    `----

Error: throstle::out_of_range

  x `retries` must be between 0 and 100
    ,-[home/voice.toml:17:11]
 16 | target = 3.5
 17 | retries = 1000
    :           ^^|^
    :             `-- this is 1000
 18 | quarantine = "500%"
    `----

Error: throstle::out_of_range

  x `quarantine` must be between 0 and 1
    ,-[home/voice.toml:18:14]
 17 | retries = 1000
 18 | quarantine = "500%"
    :              ^^^|^^
    :                 `-- this is 5
    `----
"#);
}

#[test]
fn not_a_number_is_out_of_range() {
    let shown = errors(
        r#"[stage.loud]
use = "audio.loudness"
input = "clips"
target = nan
ceiling = -inf
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::out_of_range

  x `target` must be between -70 and 0 LUFS
    ,-[home/voice.toml:12:10]
 11 | input = "clips"
 12 | target = nan
    :          ^|^
    :           `-- this is NaN
 13 | ceiling = -inf
    `----

Error: throstle::out_of_range

  x `ceiling` must be between -20 and 0 decibels
    ,-[home/voice.toml:13:11]
 12 | target = nan
 13 | ceiling = -inf
    :           ^^|^
    :             `-- this is -inf
    `----
"#);
}

#[test]
fn an_integer_beyond_64_bits_is_out_of_range() {
    let shown = errors(
        r#"[stage.voice]
use = "audio.resample"
input = "clips"
rate = 99999999999999999999
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::out_of_range

  x `99999999999999999999` is too large
    ,-[home/voice.toml:12:8]
 11 | input = "clips"
 12 | rate = 99999999999999999999
    :        ^^^^^^^^^^^^^^^^^^^^
    `----
  help: integers have 64 bits
"#);
}

#[test]
fn an_unknown_choice_offers_the_nearest() {
    let shown = errors(
        r#"[stage.text]
use = "text.normalize"
input = "clips"
case = "lowre"
device = "gpu"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::unknown_choice

  x `case` cannot be `lowre`
    ,-[home/voice.toml:12:8]
 11 | input = "clips"
 12 | case = "lowre"
    :        ^^^^^^^
 13 | device = "gpu"
    `----
  help: did you mean `lower`? allowed values: `keep`, `lower`, `upper`

Error: throstle::unknown_choice

  x there is no device `gpu`
    ,-[home/voice.toml:13:10]
 12 | case = "lowre"
 13 | device = "gpu"
    :          ^^^^^
    `----
  help: did you mean `cuda`? use `auto`, `cpu`, `cuda`, or `cuda:1` for
        the second GPU
"#);
}

#[test]
fn a_device_has_one_spelling() {
    let shown = |device: &str| {
        let stage = "[stage.text]\nuse = \"text.normalize\"\ninput = \"clips\"\n";
        errors(&format!("{stage}device = \"{device}\"\n"))
    };
    for (written, nearest) in [
        ("cuda:01", "cuda:1"),
        ("CUDA:1", "cuda:1"),
        ("cuda:1 ", "cuda:1"),
        ("gpu:1", "cuda:1"),
        ("cuda:-1", "cuda:1"),
        ("cuda:\u{ff11}", "cuda:1"),
        ("cuda:1000", "cuda"),
        ("Auto", "auto"),
    ] {
        let shown = shown(written);
        assert!(shown.contains(&format!("there is no device `{written}`")), "{shown}");
        assert!(shown.contains(&format!("did you mean `{nearest}`? use `auto`")), "{shown}");
    }
    let shown = shown("tpu");
    assert!(shown.contains("help: use `auto`, `cpu`, `cuda`, or `cuda:1`"), "{shown}");
}

#[test]
fn places_inside_of_records_and_lists_are_exact() {
    let shown = errors(
        r#"[stage.loud]
use = "audio.loudness"
input = "clips"
limits = [
  { field = "duration", min = 1 },
  { feild = "text", min = "x" },
]
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::unknown_key

  x `limits` has no key `feild`
    ,-[home/voice.toml:14:5]
 13 |   { field = "duration", min = 1 },
 14 |   { feild = "text", min = "x" },
    :     ^^|^^
    :       `-- unknown key
 15 | ]
    `----
  help: did you mean `field`?

Error: throstle::wrong_type

  x `min` should be a number
    ,-[home/voice.toml:14:27]
 13 |   { field = "duration", min = 1 },
 14 |   { feild = "text", min = "x" },
    :                           ^|^
    :                            `-- this is a text
 15 | ]
    `----
"#);
}

#[test]
fn a_wrong_value_of_params_is_shown_with_its_use() {
    let shown = errors(
        r#"[params]
rate = 400
[stage.voice]
use = "audio.resample"
input = "clips"
rate = "$rate"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 1 error

Error: throstle::out_of_range

  x `rate` must be between 4000 and 384000 hertz
    ,-[home/voice.toml:10:8]
  9 | [params]
 10 | rate = 400
    :        ^|^
    :         `-- this is 400
 11 | [stage.voice]
 12 | use = "audio.resample"
 13 | input = "clips"
 14 | rate = "$rate"
    :        ^^^|^^^
    :           `-- used here
    `----
"#);
}

#[test]
fn a_missing_file_is_found_before_the_run() {
    let shown = errors(
        r#"[assets.codec]
path = "models/kodec"
[stage.codec]
use = "model.import"
asset = "assets.codec"
[stage.more]
use = "corpus.table"
table = "~/metadata.csv"
audio = "data/wav"
[stage.folder]
use = "corpus.table"
table = "data/wavs"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 4 errors

Error: throstle::missing_file

  x there is no file or folder `models/kodec`
    ,-[home/voice.toml:10:8]
  9 | [assets.codec]
 10 | path = "models/kodec"
    :        ^^^^^^^|^^^^^^
    :               `-- not found
 11 | [stage.codec]
    `----
  help: paths are relative to the folder of the manifest, `home`

Error: throstle::missing_file

  x there is no file or folder `~/metadata.csv`
    ,-[home/voice.toml:16:9]
 15 | use = "corpus.table"
 16 | table = "~/metadata.csv"
    :         ^^^^^^^^|^^^^^^^
    :                 `-- not found
 17 | audio = "data/wav"
    `----
  help: `~` is not expanded: write the full path

Error: throstle::missing_file

  x there is no file or folder `data/wav`
    ,-[home/voice.toml:17:9]
 16 | table = "~/metadata.csv"
 17 | audio = "data/wav"
    :         ^^^^^|^^^^
    :              `-- not found
 18 | [stage.folder]
    `----
  help: paths are relative to the folder of the manifest, `home`

Error: throstle::missing_file

  x `data/wavs` should be a file but is a folder
    ,-[home/voice.toml:20:9]
 19 | use = "corpus.table"
 20 | table = "data/wavs"
    :         ^^^^^|^^^^^
    :              `-- a folder
    `----
"#);
}

#[test]
fn a_missing_file_of_an_asset_that_nothing_uses_is_a_warning() {
    let shown = warnings(
        r#"[assets.codec]
path = "models/kodec"
"#,
    );
    assert!(shown.contains("! no stage uses the asset `codec`"), "{shown}");
    assert!(shown.contains("! there is no file or folder `models/kodec`"), "{shown}");
}

#[test]
fn a_secret_that_is_not_set_is_named_and_one_that_is_set_is_not_shown() {
    let shown = errors(
        r#"[stage.a]
use = "command"
run = "x"
outputs = {}
token = "NO_SUCH_TOKEN"
[stage.b]
use = "command"
run = "x"
outputs = {}
token = "HUB_TOKEN"
[stage.c]
use = "command"
run = "x"
outputs = {}
token = "hf_aRealSecret"
"#,
    );
    insta::assert_snapshot!(shown, @r#"
throstle::manifest

  x `home/voice.toml` has 2 errors

Error: throstle::missing_secret

  x the environment variable `NO_SUCH_TOKEN` is not set
    ,-[home/voice.toml:13:9]
 12 | outputs = {}
 13 | token = "NO_SUCH_TOKEN"
    :         ^^^^^^^^^^^^^^^
 14 | [stage.b]
    `----
  help: `token` reads this variable: `export NO_SUCH_TOKEN=…`

Error: throstle::missing_secret

  x `token` should be the name of an environment variable that is set
    ,-[home/voice.toml:23:9]
 22 | outputs = {}
 23 | token = ****************
    :         ^^^^^^^^^^^^^^^^
    `----
  help: write the name, not the secret itself: others may read the
        manifest
"#);
}

#[test]
fn a_duration_that_no_clock_counts_and_a_timeout_of_nothing_are_refused() {
    let of = |timeout: &str| {
        let stage = "[stage.text]\nuse = \"text.normalize\"\ninput = \"clips\"\n";
        errors(&format!("{stage}timeout = \"{timeout}\"\n"))
    };
    assert!(of("300000000000000d").contains("`timeout` must be at most `\"10000d\"`"));
    assert!(of("0s").contains("`timeout` must be more than 0"));
    let session = errors("[session]\nstop_after = \"300000000000000d\"\n");
    assert!(session.contains("`stop_after` must be at most"), "{session}");
}

#[test]
fn a_seed_below_nothing_is_refused() {
    let shown = errors_of("[pipeline]\nname = \"voice\"\nseed = -1\n", &[]);
    assert!(shown.contains("`seed` must be "), "{shown}");
}
