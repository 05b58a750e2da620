//! The demo in its own folder, before and after its first run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use throstle_tests::{Project, RanProgram, copy_folder};

/// Clips that arrive downstream of `checked`: all but the one that is broken on purpose.
pub const CLIPS: u64 = 32;

/// The demo with its cache and outputs after a first run, which happens once per test program.
pub fn done() -> Project {
    Project::copy_of(&first().0, &[])
}

/// The folder of the first run, and the run.
pub fn first() -> &'static (PathBuf, RanProgram) {
    static FIRST: OnceLock<(PathBuf, RanProgram)> = OnceLock::new();
    FIRST.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/demo");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo");
        // Remains of an earlier test program.
        let _ = std::fs::remove_dir_all(&folder);
        copy_folder(&source, &folder, &["out", ".throstle"]);
        shorten(&folder.join("pipeline.toml"));
        let ran = RanProgram::of_folder(&folder);
        (folder, ran)
    })
}

/// Trains for a few steps without a preflight: most tests are about executed work, not about
/// learning.
fn shorten(manifest: &Path) {
    let mut text = std::fs::read_to_string(manifest).unwrap();
    for (steps, few) in [("steps = 100", TRAINED), ("steps = 40", ADAPTED)] {
        assert!(text.contains(steps), "{steps}");
        text = text.replace(steps, &format!("{few}\npreflight = false"));
    }
    std::fs::write(manifest, text).unwrap();
}

/// The lengths of the two trainings: enough steps to see every clip once, so that another clip
/// gives another model.
pub const TRAINED: &str = "steps = 5";
pub const ADAPTED: &str = "steps = 2";
