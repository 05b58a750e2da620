//! `init`: what it writes, and that it runs.

use throstle_tests::{Project, tone};

/// A project in `voice`, from a template.
fn begun(template: &str) -> Project {
    let project = Project::default();
    project.printed(&["init", "voice", "--template", template]);
    project
}

#[test]
fn a_folder_of_recordings_with_their_texts_becomes_a_voice() {
    let project = begun("folder");
    for (at, path) in ["anna/001", "anna/002", "ben/001"].iter().enumerate() {
        let wav = tone(200.0 + at as f64 * 50.0, 1.0, 9_000);
        project.write(&format!("voice/data/{path}.wav"), wav);
    }
    project.write("voice/data/anna/001.txt", "Ensimmäinen lause.");
    project.write("voice/data/anna/002.lab", "Toinen lause.");
    project.write("voice/data/ben/001.lab", "Kolmas lause.");
    project.printed(&["run", "voice", "--set", "checked.min_snr=-20"]);
    let voice = project.files("voice/out/voice");
    let names: Vec<&str> = voice.keys().map(String::as_str).collect();
    assert_eq!(names, ["anna/001.wav", "anna/002.wav", "ben/001.wav"]);
    let items = project.printed(&[
        "items",
        "clips",
        "-m",
        "voice",
        "--format",
        "csv",
        "--fields",
        "text,speaker",
    ]);
    assert!(items.contains("anna/001,Ensimmäinen lause.,anna"), "{items}");
}

#[test]
fn git_sees_nothing_that_is_made_again() {
    let project = begun("corpus");
    let ignored = project.text("voice/.gitignore");
    assert!(ignored.lines().any(|line| line == "/.throstle/"), "{ignored}");
    let project = Project::default();
    project.write("voice/.gitignore", "mine\n");
    project.printed(&["init", "voice"]);
    assert_eq!(project.text("voice/.gitignore"), "mine\n");
}
