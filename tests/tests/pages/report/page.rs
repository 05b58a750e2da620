//! A project with a report.

use throstle_tests::{Project, command, voice};

/// A run of the voice pipeline with this number of clips.
pub fn done(clips: usize) -> Project {
    let project = voice::project(clips);
    run(&project);
    project
}

pub fn run(project: &Project) {
    let output = command("small_world", project.path(), &["run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes the report, and returns its text.
pub fn report(project: &Project, arguments: &[&str]) -> String {
    let arguments = [&["report", "."], arguments].concat();
    let output = command("small_world", project.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    project.text("report.html")
}
