//! `rate.result`: the ranks of voices by the votes of raters.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, PortOutput, Setup,
    StageError,
};

use super::ranks::{RankOptions, ranks};
use super::rater_checks::{PairVote, raters};
use super::report::RatingReport;
use super::sheet::{Pair, PairRole};
use super::votes::VotePreference;
use crate::plain::{JSON, to_json};

struct RatingResult(RankOptions);

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    Ok(Job::Gather(Box::new(RatingResult(RankOptions {
        prior: parameters.number("prior")?,
        confidence: parameters.number("confidence")?,
        draws: usize::try_from(parameters.integer("bootstrap")?).unwrap_or_default(),
        seed: parameters.integer("seed")? as u64,
    }))))
}

impl GatherJob for RatingResult {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let pairs: Vec<Pair> = input.items("input")?.iter().filter_map(Pair::of).collect();
        let report = rated(&pairs, input.items("votes")?, self.0)?;
        let counted = report.raters.iter().filter(|rater| rater.out.is_none()).count();
        let output = PortOutput::Artifact(vec![
            ("report".to_owned(), NewValue::bytes(JSON, to_json(&report)?)),
            ("votes".to_owned(), NewValue::Number(report.votes as f64)),
            ("raters".to_owned(), NewValue::Number(counted as f64)),
        ]);
        let told = std::iter::once(&report.summary).chain(&report.warnings);
        let notes = told.map(|note| (note.clone(), 1)).collect();
        Ok(GatherOutput { notes, ..GatherOutput::default().with("output", output) })
    }
}

/// The report on these votes.
pub fn rated(
    pairs: &[Pair],
    votes: &[Item],
    options: RankOptions,
) -> Result<RatingReport, StageError> {
    let compared = pairs.iter().filter(|pair| pair.role == PairRole::Pair);
    let voices: BTreeSet<&str> = compared.flat_map(|pair| [&*pair.one, &*pair.other]).collect();
    let voices: Vec<&str> = voices.into_iter().collect();
    let places: BTreeMap<&str, usize> =
        pairs.iter().enumerate().map(|(at, pair)| (&*pair.id, at)).collect();
    let (mut heard, mut stale) = (Vec::new(), 0_u64);
    for vote in votes {
        match read(vote, &places)? {
            Some(vote) => heard.push(vote),
            None => stale += 1,
        }
    }
    let raters = raters(pairs, &heard);
    let is_out = |name: &str| raters.iter().any(|own| own.name == name && own.out.is_some());
    let counts = |vote: &&PairVote| {
        pairs[vote.pair].role == PairRole::Pair && !vote.repeat && !is_out(&vote.rater)
    };
    let counted: Vec<&PairVote> = heard.iter().filter(counts).collect();
    let ranks = ranks(&voices, pairs, &counted, options);
    let mut report = RatingReport::of(&voices, &ranks, raters, options.confidence);
    if stale > 0 {
        report.warnings.push(format!("{stale} votes are on recordings that have changed since"));
    }
    Ok(report)
}

/// A vote; None if its pair is not played any more.
fn read(item: &Item, places: &BTreeMap<&str, usize>) -> Result<Option<PairVote>, StageError> {
    let text = |name: &str| item.fields.text(name).unwrap_or_default();
    let wrong = |name: &str| {
        StageError::failed(format!("the vote `{}` has the `{name}` `{}`", item.id, text(name)))
    };
    let preferred = match text("answer") {
        "one" => VotePreference::One,
        "other" => VotePreference::Other,
        "same" => VotePreference::Same,
        _ => return Err(wrong("answer")),
    };
    let left = match text("side") {
        "left" => Some(true),
        "right" => Some(false),
        "none" => None,
        _ => return Err(wrong("side")),
    };
    let repeat = match text("repeat") {
        "yes" => true,
        "no" => false,
        _ => return Err(wrong("repeat")),
    };
    let place = places.get(text("pair"));
    Ok(place.map(|pair| PairVote {
        rater: text("rater").to_owned(),
        pair: *pair,
        preferred,
        left,
        repeat,
    }))
}
