//! Stages that are the user's Python programs, with only its standard library.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod commands;
mod faults;
mod functions;
mod judges;
mod onnx;
mod reading;
mod whole;

use throstle_tests::Project;

/// A project with a stage `python` on the clips `names`; `more` are lines of the stage.
fn project(names: &[&str], script: &str, more: &str) -> Project {
    let stage = format!(
        "[stage.measured]\nuse = \"python\"\ninput = \"clips\"\nscript = \"measure.py\"\n{more}\n"
    );
    let project = Project::of_clips(names, &stage);
    project.write("measure.py", script);
    project
}

/// The values of one field of a stage's items, by id.
fn values(project: &Project, stage: &str, field: &str) -> Vec<(String, serde_json::Value)> {
    let listed = project.printed(&["items", stage, "--format", "jsonl"]);
    let rows = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row[field].clone())).collect()
}
