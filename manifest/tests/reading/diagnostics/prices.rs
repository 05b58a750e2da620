//! Mistakes in prices, budgets and expectations.

use crate::support::errors;

#[test]
fn a_price_says_what_it_lacks_and_what_it_does_not_know() {
    insta::assert_snapshot!(errors("[prices]\nt4 = { vram = \"15GB\", spede = 0.2 }\n"), @r#"
        throstle::manifest

          x `home/voice.toml` has 2 errors

        Error: throstle::missing_key

          x `[prices.t4]` has no `per_hour`
            ,-[home/voice.toml:10:1]
          9 | [prices]
         10 | t4 = { vram = "15GB", spede = 0.2 }
            : ^^
            `----
          help: add `per_hour = 1.20`

        Error: throstle::unknown_key

          x `[prices.t4]` has no key `spede`
            ,-[home/voice.toml:10:23]
          9 | [prices]
         10 | t4 = { vram = "15GB", spede = 0.2 }
            :                       ^^|^^
            :                         `-- unknown key
            `----
          help: did you mean `speed`?
        "#);
}

#[test]
fn a_gpu_that_does_nothing_is_refused() {
    insta::assert_snapshot!(
        errors("[prices]\nt4 = { per_hour = 0.3, vram = \"15GB\", speed = 0 }\n"),
        @r#"
        throstle::manifest

          x `home/voice.toml` has 1 error

        Error: throstle::out_of_range

          x `speed` must be more than 0
            ,-[home/voice.toml:10:47]
          9 | [prices]
         10 | t4 = { per_hour = 0.3, vram = "15GB", speed = 0 }
            :                                               ^
            `----
          help: an A100 has 1; a GPU that takes twice as long has 0.5
        "#
    );
}

#[test]
fn a_budget_needs_a_price() {
    insta::assert_snapshot!(errors("[session]\nbudget = 5\n"), @r#"
        throstle::manifest

          x `home/voice.toml` has 1 error

        Error: throstle::missing_key

          x `budget` needs `price_per_hour`
            ,-[home/voice.toml:10:10]
          9 | [session]
         10 | budget = 5
            :          ^
            `----
          help: add `price_per_hour = 1.20` to `[session]`
        "#);
}

#[test]
fn what_is_expected_has_its_units() {
    insta::assert_snapshot!(errors("[expect]\nclips = 4000\nsound = 8\n"), @r#"
        throstle::manifest

          x `home/voice.toml` has 1 error

        Error: throstle::wrong_type

          x `sound` should be a duration
            ,-[home/voice.toml:11:9]
         10 | clips = 4000
         11 | sound = 8
            :         |
            :         `-- this is an integer
            `----
          help: write the number with its unit: `"90s"`, `"1.5h"` or `"11h30m"`
        "#);
}
