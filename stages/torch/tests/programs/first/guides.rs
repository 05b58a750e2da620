//! Types the commands of the guides, line by line.

use throstle_tests::Project;
use throstle_tests::guide::{document, typed};

use super::{models, recordings};

/// Commands that are not run: their prefix, and the reason.
const NOT_RUN: [(&str, &str); 4] = [
    ("tensorboard ", "a program of others: its files are read in the tests of the formats"),
    ("make ", "builds everything, and runs these tests among others"),
    ("throstle setup", "fetches libtorch: python/tests/wheel.py runs it"),
    ("throstle watch", "never ends: tests/tests/binary/watching.rs runs it"),
];

pub fn is_run(command: &str) -> bool {
    !NOT_RUN.iter().any(|(start, _)| command.starts_with(start))
}

/// Types a command in the project's folder, which replaces the machine's own paths; returns its
/// output.
pub fn typed_in(project: &Project, command: &str) -> String {
    let kaggle = project.file("kaggle-machine");
    let command = command.replace("/tmp/project", "kaggle");
    let command = command.replace("/kaggle/", &format!("{}/", kaggle.display()));
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words[0], "throstle", "{command}");
    let output = project.output(&words[1..]);
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(0), "{command}: {said:?}");
    said.concat()
}

/// Attaches the output of the previous session.
pub fn attach_output(project: &Project) {
    let machine = project.file("kaggle-machine");
    std::fs::create_dir_all(machine.join("input")).unwrap();
    std::fs::create_dir_all(machine.join("working")).unwrap();
    std::os::unix::fs::symlink("../working", machine.join("input/session-1")).unwrap();
}

/// Types every command of a guide, and adds the files that a user has to provide after each `init`.
fn follow(guide: &str, bring: impl Fn(&Project, &str)) {
    let project = Project::default();
    attach_output(&project);
    let text = document(guide);
    let lines = typed(&text).into_iter();
    let commands: Vec<&str> =
        lines.filter_map(|(kind, line)| kind.starts_with("sh").then_some(line)).collect();
    assert!(commands.len() > 10, "{guide}: {commands:?}");
    for command in commands.into_iter().filter(|command| is_run(command)) {
        typed_in(&project, command);
        if let Some(begun) = command.strip_prefix("throstle init ") {
            let folder = begun.split(' ').next().unwrap();
            let manifest = format!("{folder}/pipeline.toml");
            project.replace(&manifest, "device = \"cuda:0\"", "device = \"cpu\"");
            project.edit(&manifest, |text| {
                text.replace("precision = \"bf16\"", "precision = \"f32\"")
                    .replace("precision = \"fp16\"", "precision = \"f32\"")
            });
            bring(&project, folder);
        }
    }
}

#[test]
fn every_command_of_the_finnish_guide_works() {
    follow("docs/guides/finnish-fish.md", |project, folder| {
        models::write_fish(&project.file(&format!("{folder}/models/openaudio-s1-mini")));
        recordings::write_folders(project, folder);
        project.write(&format!("{folder}/sentences.txt"), "Hei vaan.\nTule tänne.\n");
        let manifest = format!("{folder}/pipeline.toml");
        // The preflight would correctly find that the base is untrained.
        project.replace(&manifest, "epochs = 60.0", "steps = 1\npreflight = false");
        project.replace(&manifest, "epochs = 100.0", "steps = 1\npreflight = false");
        // One step ends before any patience.
        project.replace(&manifest, "patience = 5", "patience = 0");
        // An untrained model does not know when to end.
        let speaks = "\nuse = \"fish.synthesize\"\n";
        project.replace(&manifest, speaks, &format!("{speaks}max_frames = 9\n"));
    });
}

#[test]
fn every_command_of_the_gujarati_guide_works() {
    follow("docs/guides/gujarati-mms.md", |project, folder| {
        models::write_vits(&project.file(&format!("{folder}/models/mms-tts-guj")));
        recordings::write_table_of_one(project, folder, "આજે હવામાન ખૂબ સરસ છે.");
        project.write(&format!("{folder}/sentences.txt"), "આજે હવામાન સરસ છે.\n");
        let manifest = format!("{folder}/pipeline.toml");
        for (epochs, patience) in [("150.0", "20"), ("50.0", "10")] {
            project.replace(&manifest, &format!("epochs = {epochs}"), "steps = 1");
            project.replace(&manifest, &format!("patience = {patience}"), "patience = 0");
        }
    });
}

#[test]
fn every_command_of_the_amharic_guide_works() {
    follow("docs/guides/amharic-xtts.md", |project, folder| {
        models::write_xtts(&project.file(&format!("{folder}/models/xtts-v2")));
        recordings::write_table(project, folder, "ሰላም ለሁሉም። ዛሬ አየሩ በጣም ጥሩ ነው። እንደምን አደርክ?");
        project.write(&format!("{folder}/sentences.txt"), "ዛሬ አየሩ ጥሩ ነው።\n");
        let manifest = format!("{folder}/pipeline.toml");
        project.replace(&manifest, "epochs = 2.0", "steps = 1\npreflight = false");
        project.replace(&manifest, "epochs = 38.0", "steps = 1\npreflight = false");
        project.replace(&manifest, "patience = 5", "patience = 0");
        // The clips have too few characters for the sentences of the recipe.
        project.edit(&manifest, |text| {
            let start = text.find("sentences = [").unwrap();
            let end = start + text[start..].find("\n]").unwrap() + 2;
            format!("{}sentences = [\"ዛሬ አየሩ ጥሩ ነው።\"]{}", &text[..start], &text[end..])
        });
        // An untrained model does not know when to end.
        project.edit(&manifest, |text| {
            let speaks = "\nuse = \"xtts.synthesize\"\n";
            text.replace(speaks, &format!("{speaks}max_codes = 9\n"))
        });
    });
}

#[test]
fn every_command_of_the_kaggle_guide_works() {
    follow("docs/guides/kaggle-vits.md", |project, folder| {
        models::write_vits(&project.file(&format!("{folder}/models/mms-tts-fin")));
        recordings::write_table_of_one(project, folder, "Kello löi 8.");
        let manifest = format!("{folder}/pipeline.toml");
        project.replace(&manifest, "devices = [\"cuda:0\", \"cuda:1\"]", "devices = []");
        project.replace(&manifest, "steps = 100_000", "steps = 1");
        project.replace(&manifest, "patience = 20", "patience = 0");
    });
}
