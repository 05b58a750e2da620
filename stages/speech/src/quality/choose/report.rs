//! The report of a choice: every candidate beside the base, and why each was not chosen.

use std::collections::BTreeSet;

use serde::Serialize;
use stage_core::StageError;

use super::candidate::{Candidate, ComparisonResult};
use super::options::ChoiceOptions;
use super::prefer::Preference;
use super::require::broken_base;
use crate::quality::paired::{MeasureText, Measures, compare_with_base};
use crate::statistics::aggregate::{MeasureValues, all};
use crate::statistics::bootstrap::{Draws, Interval};
use crate::statistics::table::SentenceTable;

/// Sentences that are not understood, and the largest share of them that a base may have.
const BROKEN: &str = "share(cer > 0.3)";
const MOST_BROKEN: f64 = 0.5;
/// Figures of a recogniser, which hears words and no voice.
const HEARD: [&str; 5] = ["cer", "wer", "substitutions", "insertions", "deletions"];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChoiceReport {
    pub base: String,
    /// None: no candidate meets the requirements.
    pub chosen: Option<String>,
    /// The checkpoint with the lowest loss on held-out clips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowest_loss: Option<String>,
    pub confidence: f64,
    pub draws: usize,
    /// Sentences of the choice, and those that took no part in it.
    pub sentences: usize,
    pub fresh_sentences: usize,
    pub requirements: Vec<String>,
    pub models: Vec<CandidateReport>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateReport {
    pub id: String,
    pub step: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
    /// The reason why it was not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    pub requirements: Vec<ComparisonResult>,
    /// Its rank by people, and its strength beside the mean of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated: Option<RatedStrength>,
    /// Over the sentences of the choice.
    pub measures: Measures,
    /// The same over the sentences that took no part in it; of the chosen one alone.
    #[serde(skip_serializing_if = "Measures::is_empty")]
    pub fresh: Measures,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatedStrength {
    pub rank: usize,
    pub strength: Interval,
}

impl ChoiceReport {
    pub fn of(
        chosen: Option<usize>,
        candidates: &[Candidate],
        (own, fresh): (&SentenceTable<'_>, &SentenceTable<'_>),
        draws: &Draws,
        options: &ChoiceOptions,
    ) -> Result<ChoiceReport, StageError> {
        let measures = measures(options);
        let whole = |table: &SentenceTable<'_>, draws: &Draws, id: &str| {
            compare_with_base(&measures, (id, &options.base), table, draws, options.confidence)
        };
        // The base lacks nothing that its sentences could have.
        whole(own, draws, &options.base).map_err(|missing| broken_base(options, &missing))?;
        let of_fresh = Draws::new(fresh.sentences.len(), options.draws, options.seed);
        let mut warnings = warnings(options, fresh.sentences.len());
        warnings.extend(broken_sentences(own, options)?);
        let mut models = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let is_chosen = chosen == Some(at);
            let mut on_fresh = Measures::new();
            if is_chosen && !fresh.sentences.is_empty() {
                match whole(fresh, &of_fresh, &candidate.id) {
                    Ok(found) => on_fresh = found,
                    Err(missing) => {
                        warnings.push(format!(
                            "the figures of the held-out sentences are missing: {missing}"
                        ));
                    }
                }
            }
            models.push(CandidateReport {
                id: candidate.id.clone(),
                step: candidate.step,
                held_out: candidate.held_out,
                out: candidate.out.clone(),
                requirements: candidate.lines.clone(),
                rated: heard(&candidate.id, options),
                // Without a figure it is out, and the reason names it.
                measures: whole(own, draws, &candidate.id).unwrap_or_default(),
                fresh: on_fresh,
            });
        }
        warnings.extend(chosen.and_then(|at| undecided(&models[at], candidates, options)));
        let losses = candidates.iter().filter(|candidate| candidate.held_out.is_some());
        let loss = |candidate: &&Candidate| candidate.held_out.unwrap_or(f64::INFINITY);
        let lowest = losses.min_by(|one, other| loss(one).total_cmp(&loss(other)));
        Ok(ChoiceReport {
            base: options.base.clone(),
            chosen: chosen.map(|at| candidates[at].id.clone()),
            lowest_loss: lowest.map(|candidate| candidate.id.clone()),
            confidence: options.confidence,
            draws: options.draws,
            sentences: own.sentences.len(),
            fresh_sentences: fresh.sentences.len(),
            requirements: options.require.iter().map(|rule| rule.text.clone()).collect(),
            models,
            warnings,
        })
    }
}

/// A warning about a base that every model beats, since nobody understands it.
fn broken_sentences(
    table: &SentenceTable<'_>,
    options: &ChoiceOptions,
) -> Result<Option<String>, StageError> {
    let broken = MeasureText::read(BROKEN)?;
    let places = all(table.sentences.len());
    // Without a recogniser there is no figure of this.
    let Ok(share) = MeasureValues::of(&broken.whole, &options.base, table) else { return Ok(None) };
    let share = share.value(&places, 0.0);
    Ok((share > MOST_BROKEN).then(|| {
        format!(
            "the base, `{}`, breaks in {:.0} % of the sentences (`{BROKEN}`): to be better proves \
             little, so require fixed bounds too, such as `mean(cer) <= 0.1`",
            options.base,
            100.0 * share
        )
    }))
}

/// A warning about a chosen checkpoint that no preferred measure separates from the base.
fn undecided(
    chosen: &CandidateReport,
    candidates: &[Candidate],
    options: &ChoiceOptions,
) -> Option<String> {
    let is_trained = candidates.iter().any(|one| one.is_base() && one.id != chosen.id);
    let has_difference = |one: &Preference| {
        let own = chosen.measures.get(&one.text).map(|own| own.difference);
        own.is_none_or(|difference| difference.low > 0.0 || difference.high < 0.0)
    };
    let is_told = is_trained && options.heard().is_none() && !options.prefer.is_empty();
    (is_told && !options.prefer.iter().any(has_difference)).then(|| {
        format!(
            "no preferred measure separates `{}` from the base, `{}`: the training shows no gain",
            chosen.id, options.base
        )
    })
}

fn heard(id: &str, options: &ChoiceOptions) -> Option<RatedStrength> {
    let voice = options.heard()?.voices.iter().find(|voice| voice.id == id)?;
    Some(RatedStrength { rank: voice.rank, strength: voice.strength })
}

/// Everything that is required or preferred, once.
fn measures(options: &ChoiceOptions) -> Vec<MeasureText> {
    let required = options.require.iter().flat_map(|rule| rule.comparisons());
    let required = required.map(|comparison| comparison.measure());
    let preferred = options.prefer.iter().map(|one| (&one.measure, one.text.as_str()));
    let mut known = BTreeSet::new();
    let all = required.chain(preferred).filter(|(whole, text)| {
        // A side that needs the base has no value of its own.
        !whole.has_base() && known.insert((*text).to_owned())
    });
    all.map(|(whole, text)| MeasureText { text: text.to_owned(), whole: whole.clone() }).collect()
}

fn warnings(options: &ChoiceOptions, fresh: usize) -> Vec<String> {
    let texts = options.require.iter().map(|rule| &rule.text);
    let texts = texts.chain(options.prefer.iter().map(|one| &one.text));
    let fields: BTreeSet<String> =
        texts.flat_map(|text| stage_expression::fields(text).into_keys()).collect();
    let mut warnings = Vec::new();
    let is_deaf = options.heard().is_none();
    if is_deaf && !fields.is_empty() && fields.iter().all(|field| HEARD.contains(&field.as_str())) {
        warnings.push(
            "only a recogniser chose, which also understands a voice at one pitch: require \
             `median(f0_range)` too"
                .to_owned(),
        );
    }
    if let Some(rated) = &options.rated {
        warnings.push(format!("listening test: {}", rated.summary));
        warnings.extend(rated.warnings.iter().cloned());
    }
    if fresh == 0 {
        warnings.push(
            "the choice saw every sentence, which flatters the chosen one: look at its figures for \
             other sentences"
                .to_owned(),
        );
    }
    warnings
}
