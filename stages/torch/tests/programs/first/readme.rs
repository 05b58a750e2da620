//! Types the commands of the README and of the tour, in their order, on a demo with short trainings.

use throstle_tests::Project;
use throstle_tests::guide::{document, root};

use super::guides::{attach_output, is_run, typed_in};

const DEMO: &str = "pipelines/demo";
const CLIP: &str = "pipelines/demo/data/wavs/aino_17.wav";

/// The commands of a text: lines of blocks, and code between backticks.
fn commands(text: &str) -> Vec<String> {
    let starts = |line: &&str| line.starts_with("throstle ") || line.starts_with("make ");
    let of = |line: &str| -> Vec<String> {
        let found: Vec<&str> = match line.strip_prefix("    ") {
            Some(block) => vec![block.strip_prefix("$ ").unwrap_or(block)],
            None => line.split('`').skip(1).step_by(2).collect(),
        };
        found.into_iter().filter(starts).map(str::to_owned).collect()
    };
    text.lines().flat_map(of).collect()
}

/// Copies the demo, with trainings of two steps, and a recipe to the paths that the README uses.
fn project() -> Project {
    let project = Project::default();
    for recipe in [DEMO, "pipelines/finnish-fish"] {
        let without = ["out", ".throstle", "report.html"];
        throstle_tests::copy_folder(&root().join(recipe), &project.file(recipe), &without);
    }
    shorten(&project, &format!("{DEMO}/pipeline.toml"));
    attach_output(&project);
    project
}

fn shorten(project: &Project, manifest: &str) {
    for steps in ["steps = 100\n", "steps = 40\n"] {
        project.replace(manifest, steps, "steps = 2\npreflight = false\n");
    }
}

/// Fills in names in capitals, and the folder that the text leaves out.
fn completed(command: &str) -> String {
    let command = command.replace("KIND", "vq.fit").replace("/kaggle/input/", "/kaggle/working/");
    let needs_demo =
        ["history", "diff 1 2", "plan", "report", "items tokens", "graph --format svg"];
    match command.strip_prefix("throstle ").filter(|rest| needs_demo.contains(rest)) {
        Some("history" | "diff 1 2" | "items tokens") => format!("{command} -m {DEMO}"),
        Some(_) => format!("{command} {DEMO}"),
        None if command == "throstle completions" => format!("{command} bash"),
        None => command,
    }
}

#[test]
fn every_command_of_the_readme_and_the_tour_works_and_says_what_it_shows() {
    let project = project();
    let text = document("README.md") + &document("docs/tour.md");
    let commands = commands(&text);
    assert!(commands.len() > 20, "{commands:?}");
    let run = format!("throstle run {DEMO}");
    let mut runs = Vec::new();
    for command in commands.iter().filter(|command| is_run(command)) {
        if *command == run && runs.len() == 2 {
            let mut wav = project.read(CLIP);
            let last = wav.len() - 1;
            wav[last] ^= 1;
            project.write(CLIP, wav);
        }
        let printed = typed_in(&project, &completed(command));
        runs.extend((*command == run).then_some(printed));
        if command.starts_with("throstle init voice ") {
            shorten(&project, "voice/pipeline.toml");
        }
    }
    let expected =
        ["done in", "nothing to do", "file `data/wavs/aino_17.wav` changed from ", "nothing to do"];
    for (ran, expected) in runs.iter().zip(expected) {
        assert!(ran.contains(expected), "{expected}: {ran}");
    }
    assert_eq!(runs.len(), expected.len());
}
