//! The candidates: checkpoints that have spoken, and the untuned base.

use serde::Serialize;
use stage_core::{Item, StageError};
use stage_formats::checkpoint::{HELD_OUT, STEP};

use crate::statistics::table::SentenceTable;

#[derive(Debug, Clone)]
pub struct Candidate {
    pub id: String,
    pub step: f64,
    /// The loss on held-out clips, for the report only.
    pub held_out: Option<f64>,
    /// Its position among the checkpoints; none for a base that is not one of them.
    pub checkpoint: Option<usize>,
    /// The reason why it is not chosen.
    pub out: Option<String>,
    /// The requirements, each with its comparison.
    pub lines: Vec<ComparisonResult>,
}

/// A comparison of one candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonResult {
    pub comparison: String,
    /// Left minus right, and the bounds of it for all candidates at once.
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    pub met: bool,
}

impl ComparisonResult {
    /// The reason for which it is not met.
    pub fn told(&self) -> Option<String> {
        let ComparisonResult { comparison, difference, low, high, met } = self;
        (!met).then(|| {
            format!(
                "the interval does not prove `{comparison}`: left minus right is {difference} \
                 ({low} to {high})"
            )
        })
    }
}

impl Candidate {
    pub fn is_in(&self) -> bool {
        self.out.is_none()
    }

    /// True for a base that is not one of the checkpoints.
    pub fn is_base(&self) -> bool {
        self.checkpoint.is_none()
    }

    /// The first reason is kept.
    pub fn leave(&mut self, reason: impl Into<String>) {
        self.out.get_or_insert(reason.into());
    }
}

/// The checkpoints in the order of their steps, and the base behind them: where nothing tells them apart, a
/// checkpoint is chosen.
pub fn candidates(
    table: &SentenceTable<'_>,
    checkpoints: &[Item],
    base: &str,
) -> Result<Vec<Candidate>, StageError> {
    let is_known = |name: &str| checkpoints.iter().any(|item| &*item.id == name);
    if let Some(name) = table.candidates().find(|name| *name != base && !is_known(name)) {
        return Err(StageError::with_help(
            format!("`{name}` has sentences, but is not among the checkpoints"),
            "set `checkpoints` to those that `model.audition` reads; remove other models from its \
             `models`, or their sentences with `dataset.filter`",
        ));
    }
    let candidate = |(at, item): (usize, &Item)| Candidate {
        id: item.id.to_string(),
        step: item.fields.number(STEP).unwrap_or(f64::INFINITY),
        held_out: item.fields.number(HELD_OUT),
        checkpoint: Some(at),
        out: (!table.has(&item.id)).then(|| "no sentence of it was measured".to_owned()),
        lines: Vec::new(),
    };
    let mut found: Vec<Candidate> = checkpoints.iter().enumerate().map(candidate).collect();
    found.sort_by(|one, other| one.step.total_cmp(&other.step).then_with(|| one.id.cmp(&other.id)));
    found.extend((!is_known(base)).then(|| untuned(base)));
    Ok(found)
}

fn untuned(base: &str) -> Candidate {
    Candidate {
        id: base.to_owned(),
        step: 0.0,
        held_out: None,
        checkpoint: None,
        out: None,
        lines: Vec::new(),
    }
}
