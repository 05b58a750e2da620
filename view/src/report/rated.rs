//! Voices as people ranked them: the results of `rate.result`.

use engine::store::ReadError;
use serde_json::Value;

use super::run_data::{RunData, json};

const KIND: &str = "rate.result";

/// The result of one listening test.
#[derive(Debug, Default, PartialEq)]
pub struct Test {
    pub stage: String,
    pub summary: String,
    pub confidence: f64,
    pub votes: u64,
    /// The best first.
    pub voices: Vec<Voice>,
    pub raters: Vec<Rater>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Voice {
    pub name: String,
    pub rank: u64,
    pub strength: f64,
    pub low: f64,
    pub high: f64,
    pub wins: f64,
    pub votes: u64,
}

#[derive(Debug, Default, PartialEq)]
pub struct Rater {
    pub name: String,
    pub votes: u64,
    pub left: u64,
    pub sided: u64,
    pub agreed: u64,
    pub repeats: u64,
    pub passed: u64,
    pub traps: u64,
    /// The reason why the votes do not count.
    pub out: Option<String>,
}

/// All of them, by the stages in their order.
pub fn tests(seen: &RunData) -> Result<Vec<Test>, ReadError> {
    let mut found = Vec::new();
    for stage in seen.stages.iter().filter(|stage| stage.spec.kind.name == KIND) {
        let Some(outcome) = &stage.outcome else { continue };
        if let Some(report) = json(seen.store, outcome, ("output", "report"))? {
            found.extend(read(&stage.spec.name, &report));
        }
    }
    Ok(found)
}

fn read(stage: &str, report: &Value) -> Option<Test> {
    let list = |name: &str| report[name].as_array().into_iter().flatten();
    Some(Test {
        stage: stage.to_owned(),
        summary: text(&report["summary"])?,
        confidence: report["confidence"].as_f64()?,
        votes: report["votes"].as_u64()?,
        voices: list("voices").filter_map(voice).collect(),
        raters: list("raters").filter_map(rater).collect(),
        warnings: list("warnings").filter_map(text).collect(),
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn voice(voice: &Value) -> Option<Voice> {
    let strength = |name: &str| voice["strength"][name].as_f64();
    Some(Voice {
        name: text(&voice["id"])?,
        rank: voice["rank"].as_u64()?,
        strength: strength("value")?,
        low: strength("low")?,
        high: strength("high")?,
        wins: voice["wins"].as_f64()?,
        votes: voice["votes"].as_u64()?,
    })
}

fn rater(rater: &Value) -> Option<Rater> {
    let count = |name: &str| rater[name].as_u64();
    Some(Rater {
        name: text(&rater["name"])?,
        votes: count("votes")?,
        left: count("left")?,
        sided: count("sided")?,
        agreed: count("agreed")?,
        repeats: count("repeats")?,
        passed: count("passed")?,
        traps: count("traps")?,
        out: text(&rater["out"]),
    })
}
