//! Runs the example of a page, and compares the list of benchmarks with its page. The commands of the
//! guides and the README are tested with the worker (stages/torch/tests/first).
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeSet;

use throstle_tests::guide::{blocks, document};
use throstle_tests::{Project, wav};

#[test]
fn the_example_of_the_moving_page_runs() {
    let text = document("docs/moving.md");
    let project = Project::new(&blocks(&text, "toml").join("\n"));
    for (name, level) in [("a", 1_000), ("b", 2_000)] {
        project.write(&format!("data/wavs/{name}.wav"), wav(level));
    }
    project.write("data/metadata.csv", "a.wav|Yksi.\nb.wav|Kaksi.\n");
    project.write("pitch.py", "import sys\nopen(sys.argv[2], 'w').write('pitch')\n");
    assert_eq!(project.run().executed(), [("clips", 1), ("pitch", 2)].into());
    assert_eq!(project.names("out/pitch"), ["a.npy", "b.npy"]);
}

#[test]
fn the_page_of_benchmarks_has_every_part_with_its_limits() {
    let code = document("tests/benches/numbers/arguments.rs");
    let (_, list) = code.split_once("pub const PARTS").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let groups = list.lines().map(|line| line.split('"').skip(1).step_by(2).collect::<Vec<_>>());
    let parts = groups.flat_map(|names| match names.len() {
        0 | 1 => names,
        _ => names[1..].to_vec(),
    });
    let parts: BTreeSet<&str> = parts.collect();
    let page = document("docs/benchmarks.md");
    let (_, table) = page.split_once("| part | row | measured | limit |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('|').map(str::trim).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 6 && !row[4].is_empty()), "{rows:?}");
    let named = rows.iter().map(|row| row[1].trim_matches('`')).filter(|part| !part.is_empty());
    assert_eq!(named.collect::<BTreeSet<_>>(), parts);
    assert!(parts.len() > 9, "{parts:?}");
}
