//! What the guides tell people to type, typed: all that needs neither weights nor a GPU.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use throstle_tests::{Project, copy_folder, tone, wav};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The lines of the blocks of this kind.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let fence = format!("```{kind}");
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (inside, line.starts_with("```")) {
            (_, true) => inside = line == fence,
            (true, false) => lines.push(line),
            (false, false) => {}
        }
    }
    lines
}

/// Types every command of a guide, and lays out the data in the folder of an `init`.
fn follow(guide: &str, lay_out: impl Fn(&Project, &str)) {
    let project = Project::default();
    let text = document(guide);
    let commands = blocks(&text, "sh");
    assert!(commands.len() > 5, "{guide}: {commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[0], "throstle", "{guide}: {command}");
        let output = project.output(&words[1..]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{guide}: {command}: {errors}");
        if words[1] == "init" {
            lay_out(&project, words[2]);
        }
    }
}

#[test]
fn every_command_of_the_finnish_guide_that_needs_no_gpu_works() {
    follow("docs/guides/finnish-fish.md", |project, folder| {
        // The weights are only looked for by what is run here.
        project.write(&format!("{folder}/models/openaudio-s1-mini/config.json"), "{}");
        let speaker = format!("{folder}/data/aino");
        copy_folder(&root().join("pipelines/demo/data/wavs"), &project.file(&speaker), &[]);
        for name in project.names(&speaker) {
            project.write(&format!("{speaker}/{}", name.replace(".wav", ".lab")), "Hei.");
        }
    });
}

/// Recordings in two folders with their tables, and a folder for the weights.
fn lay_out_vits(project: &Project, folder: &str, model: &str) {
    project.write(&format!("{folder}/models/{model}/config.json"), "{}");
    for (side, pitch) in [("train", 110.0), ("valid", 220.0)] {
        for clip in 0..3 {
            let hum = tone(pitch + f64::from(clip), 1.0, 8_000);
            project.write(&format!("{folder}/data/{side}/wavs/{clip}.wav"), hum);
        }
        let rows = (0..3).map(|clip| format!("wavs/{clip}.wav|Hei {clip}.|meera\n"));
        project.write(&format!("{folder}/data/{side}/metadata.csv"), rows.collect::<String>());
    }
}

#[test]
fn every_command_of_the_gujarati_guide_that_needs_no_gpu_works() {
    follow("docs/guides/gujarati-mms.md", |project, folder| {
        lay_out_vits(project, folder, "mms-tts-guj");
    });
}

#[test]
fn every_command_of_the_kaggle_guide_that_needs_no_gpu_works() {
    follow("docs/guides/kaggle-vits.md", |project, folder| {
        lay_out_vits(project, folder, "mms-tts-fin");
    });
}

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
