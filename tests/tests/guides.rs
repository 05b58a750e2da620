//! Runs the example of a page. The commands of the guides and the README are tested with the worker
//! (stages/torch/tests/first).
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

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
