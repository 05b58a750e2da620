//! The rules of a choice, on figures that are made for them.
#![allow(clippy::unwrap_used)]

use stage_core::Value;

use super::prefer::Preference;
use super::require::RequirementText;
use super::*;
use crate::statistics::bootstrap::Draws;
use crate::statistics::random::Random;

const SENTENCES: usize = 60;

/// Numbers from 0 up to 1.
fn noise(seed: usize) -> impl Iterator<Item = f64> {
    let mut random = Random::new(seed as u64);
    std::iter::repeat_with(move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64)
}

fn options(require: &[&str], prefer: &[(&str, bool)]) -> ChoiceOptions {
    let preference = |(text, is_higher_better): &(&str, bool)| Preference {
        text: (*text).to_owned(),
        measure: stage_expression::measure(text).unwrap(),
        is_higher_better: *is_higher_better,
    };
    ChoiceOptions {
        base: "base".to_owned(),
        require: RequirementText::read(require).unwrap(),
        prefer: prefer.iter().map(preference).collect(),
        confidence: 0.9,
        draws: 500,
        least: 1,
        hold: 0.0,
        ties: true,
        falls_back: true,
        seed: 1,
        rated: None,
        words: CandidateWords { first: "is earlier" },
    }
}

fn checkpoints(steps: &[u32]) -> Vec<Item> {
    let one = |step: &u32| {
        let fields = [("step", Value::Number(f64::from(*step)))].into_iter().collect();
        Item::new(format!("step-{step}"), fields)
    };
    steps.iter().map(one).collect()
}

type Figures<'a> = &'a [(&'a str, Value)];

fn measured(name: &str, sentence: usize, figures: Figures<'_>) -> Item {
    let sentence = format!("s{sentence:03}");
    let own = [("checkpoint", Value::text(name)), ("sentence", Value::text(sentence.as_str()))];
    let fields = own.into_iter().chain(figures.iter().cloned()).collect();
    Item::new(format!("{sentence}@{name}"), fields)
}

/// Sentences of a model with this error rate on average.
fn spoken(name: &str, cer: f64, seed: usize) -> Vec<Item> {
    let errors = noise(seed).take(SENTENCES).enumerate();
    errors.map(|(at, own)| measured(name, at, &[("cer", Value::Number(cer * 2.0 * own))])).collect()
}

fn chosen(
    items: &[Vec<Item>],
    steps: &[u32],
    options: &ChoiceOptions,
) -> (Option<String>, ChoiceReport) {
    let choice = choose(&items.concat(), &checkpoints(steps), options).unwrap();
    let name = choice.chosen.map(|at| choice.candidates[at].id.clone());
    (name, choice.report)
}

fn out<'a>(report: &'a ChoiceReport, id: &str) -> &'a str {
    report.models.iter().find(|model| model.id == id).unwrap().out.as_deref().unwrap()
}

#[test]
fn a_checkpoint_that_is_shown_to_be_good_enough_passes_and_the_others_say_why_not() {
    let items = [spoken("base", 0.1, 1), spoken("step-10", 0.09, 2), spoken("step-20", 0.4, 3)];
    let options = options(&["mean(cer) <= base + 0.05"], &[]);
    let (name, report) = chosen(&items, &[10, 20], &options);
    assert_eq!(name.as_deref(), Some("step-10"));
    let reason = out(&report, "step-20");
    assert!(
        reason.starts_with("the interval does not prove `mean(cer) <= base + 0.05`"),
        "{reason}"
    );
    let line = &report.models[0].requirements[0];
    assert!(line.met && line.high <= 0.0 && line.low < line.difference, "{line:?}");
}

/// A mean below the margin proves nothing on few sentences.
#[test]
fn few_sentences_show_too_little_to_pass() {
    let base = spoken("base", 0.3, 1);
    // Equal on average, and 0.15 to one side or the other in each sentence.
    let other = |(at, item): (usize, &Item)| {
        let moved = if at % 2 == 0 { 0.15 } else { -0.15 };
        let cer = item.fields.number("cer").unwrap() + moved;
        measured("step-10", at, &[("cer", Value::Number(cer))])
    };
    let own = base.iter().enumerate().map(other).collect();
    let items = [base, own];
    let few: Vec<Vec<Item>> = items.iter().map(|items| items[..8].to_vec()).collect();
    let options = options(&["mean(cer) <= base + 0.06"], &[]);
    assert_eq!(chosen(&items, &[10], &options).0.as_deref(), Some("step-10"));
    let (name, report) = chosen(&few, &[10], &options);
    assert_eq!(name, None, "{report:?}");
}

#[test]
fn too_few_sentences_are_an_error_with_their_number() {
    let items = [spoken("base", 0.1, 1), spoken("step-10", 0.1, 2)].concat();
    let options = ChoiceOptions { least: 50, hold: 0.5, ..options(&[], &[]) };
    let error = choose(&items, &checkpoints(&[10]), &options).err().unwrap().to_string();
    assert!(
        error.contains("sentences to choose by: ") && error.contains("kept for the report"),
        "{error}"
    );
    assert!(error.contains("expected at least 50"), "{error}");
}

#[test]
fn what_no_measure_tells_apart_goes_to_the_earlier_step() {
    let items = [spoken("base", 0.3, 1), spoken("step-10", 0.101, 2), spoken("step-20", 0.1, 3)];
    let prefer = [("mean(cer)", false)];
    let (name, report) = chosen(&items, &[20, 10], &options(&[], &prefer));
    assert_eq!(name.as_deref(), Some("step-10"));
    assert!(out(&report, "step-20").contains("which is earlier"));

    let exact = ChoiceOptions { ties: false, ..options(&[], &prefer) };
    let means: Vec<f64> =
        report.models.iter().map(|model| model.measures["mean(cer)"].own.value).collect();
    let better = if means[0] <= means[1] { "step-10" } else { "step-20" };
    assert_eq!(chosen(&items, &[10, 20], &exact).0.as_deref(), Some(better));
}

/// The base is a candidate: a training that made the voice worse is no result.
#[test]
fn a_base_that_speaks_better_than_every_checkpoint_is_chosen() {
    let items = [spoken("base", 0.05, 1), spoken("step-10", 0.3, 2), spoken("step-20", 0.4, 3)];
    let prefer = [("mean(cer)", false)];
    for ties in [true, false] {
        let options = ChoiceOptions { ties, ..options(&[], &prefer) };
        let (name, report) = chosen(&items, &[10, 20], &options);
        assert_eq!((name.as_deref(), report.chosen.as_deref()), (Some("base"), Some("base")));
        assert!(out(&report, "step-10").starts_with("`base` is better in"), "{report:?}");
    }
    let (name, _) = chosen(&items, &[10, 20], &options(&["mean(cer) >= base + 0.1"], &prefer));
    assert_eq!(name.as_deref(), Some("step-10"), "a base that does not meet a requirement is out");
    let (name, _) = chosen(&items, &[10, 20], &options(&["mean(cer) <= 0.1"], &prefer));
    assert_eq!(name, None, "a base alone is no choice");
}

#[test]
fn a_checkpoint_that_nothing_separates_from_the_base_is_chosen_and_told() {
    let items = [spoken("base", 0.1, 1), spoken("step-10", 0.101, 2)];
    let (name, report) = chosen(&items, &[10], &options(&[], &[("mean(cer)", false)]));
    assert_eq!(name.as_deref(), Some("step-10"));
    assert!(out(&report, "base").ends_with("`step-10`, which is trained"), "{report:?}");
    let warned = |report: &ChoiceReport| {
        report.warnings.iter().any(|warning| warning.contains("the training shows no gain"))
    };
    assert!(warned(&report), "{report:?}");
    let items = [spoken("base", 0.4, 1), spoken("step-10", 0.1, 2)];
    let (_, report) = chosen(&items, &[10], &options(&[], &[("mean(cer)", false)]));
    assert!(!warned(&report), "{report:?}");
}

#[test]
fn a_clear_difference_beats_an_earlier_step() {
    let items = [spoken("base", 0.3, 1), spoken("step-10", 0.25, 2), spoken("step-20", 0.05, 3)];
    let (name, report) = chosen(&items, &[10, 20], &options(&[], &[("mean(cer)", false)]));
    assert_eq!(name.as_deref(), Some("step-20"));
    assert!(out(&report, "step-10").contains("`step-20` is better in"), "{report:?}");
}

#[test]
fn of_two_measures_the_first_decides_among_those_that_none_beats_in_both() {
    let both = |name: &str, cer: f64, similarity: f64, seed: usize| -> Vec<Item> {
        let own = noise(seed).take(SENTENCES).enumerate();
        own.map(|(at, own)| {
            let figures = [
                ("cer", Value::Number(cer + 0.02 * own)),
                ("similarity", Value::Number(similarity + 0.02 * own)),
            ];
            measured(name, at, &figures)
        })
        .collect()
    };
    let items = [
        both("base", 0.5, 0.1, 1),
        both("step-10", 0.2, 0.9, 2),
        both("step-20", 0.1, 0.7, 3),
        both("step-30", 0.3, 0.6, 4),
    ];
    let prefer = [("mean(cer)", false), ("mean(similarity)", true)];
    let (name, report) = chosen(&items, &[10, 20, 30], &options(&[], &prefer));
    assert_eq!(name.as_deref(), Some("step-20"));
    assert!(out(&report, "step-30").contains("in none worse"), "{report:?}");
    let turned = [prefer[1], prefer[0]];
    let (name, _) = chosen(&items, &[10, 20, 30], &options(&[], &turned));
    assert_eq!(name.as_deref(), Some("step-10"));
}

#[test]
fn a_candidate_with_a_missing_figure_is_out_and_says_which() {
    let mut lost = spoken("step-10", 0.01, 2);
    lost.remove(7);
    let mut broken = spoken("step-20", 0.01, 3);
    broken[3] = measured("step-20", 3, &[("cer", Value::Number(f64::NAN))]);
    let items = [spoken("base", 0.3, 1), lost, broken, spoken("step-30", 0.1, 4)];
    for options in [options(&["mean(cer) < base"], &[]), options(&[], &[("mean(cer)", false)])] {
        let (name, report) = chosen(&items, &[10, 20, 30], &options);
        assert_eq!(name.as_deref(), Some("step-30"));
        assert_eq!(out(&report, "step-10"), "the sentence `s007` was not measured");
        assert_eq!(out(&report, "step-20"), "the sentence `s003` has no number `cer`");
    }
}

#[test]
fn a_base_that_lacks_a_figure_or_a_sentence_is_an_error() {
    let options = options(&["mean(cer) <= base"], &[]);
    let mut base = spoken("base", 0.1, 1);
    base.remove(5);
    let items = [base, spoken("step-10", 0.1, 2)].concat();
    let error = choose(&items, &checkpoints(&[10]), &options).err().unwrap().to_string();
    assert!(error.contains("the sentence `s005` was not measured"), "{error}");
    let mut base = spoken("base", 0.1, 1);
    base[5] = measured("base", 5, &[("cer", Value::Number(f64::NAN))]);
    let items = [base, spoken("step-10", 0.1, 2)].concat();
    let error = choose(&items, &checkpoints(&[10]), &options).err().unwrap().to_string();
    assert!(error.contains("the sentence `s005` has no number `cer`"), "{error}");
    let items = spoken("step-10", 0.1, 2);
    let error = choose(&items, &checkpoints(&[10]), &options).err().unwrap().to_string();
    assert!(error.contains("the base `base` has no sentences"), "{error}");
}

/// Every model beats a base that nobody understands.
#[test]
fn a_base_that_breaks_in_most_sentences_is_told() {
    let warned = |cer: f64| {
        let items = [spoken("base", cer, 1), spoken("step-10", 0.1, 2)];
        let (name, report) = chosen(&items, &[10], &options(&["mean(cer) <= base"], &[]));
        assert_eq!(name.as_deref(), Some("step-10"));
        report.warnings.iter().any(|warning| warning.contains("the base, `base`, breaks in"))
    };
    assert_eq!([2.0, 0.2].map(warned), [true, false]);
}

#[test]
fn sentences_of_an_unknown_checkpoint_are_an_error_and_an_unheard_one_is_out() {
    let items = [spoken("base", 0.3, 1), spoken("step-10", 0.1, 2)];
    let error = choose(&items.concat(), &checkpoints(&[20]), &options(&[], &[])).err().unwrap();
    assert!(error.to_string().contains("`step-10` has sentences, but is not among"), "{error}");
    let (name, report) = chosen(&items, &[5, 10], &options(&[], &[]));
    assert_eq!(name.as_deref(), Some("step-10"));
    assert_eq!(out(&report, "step-5"), "no sentence of it was measured");
}

/// A voice without melody is understood perfectly.
#[test]
fn no_errors_at_one_pitch_are_refused_where_the_range_is_required_and_told_where_not() {
    let voice = |name: &str, cer: f64, range: f64| -> Vec<Item> {
        let own = noise(9).take(SENTENCES).enumerate();
        own.map(|(at, own)| {
            let figures =
                [("cer", Value::Number(cer * own)), ("f0_range", Value::Number(range + own))];
            measured(name, at, &figures)
        })
        .collect()
    };
    let items = [voice("base", 0.3, 9.0), voice("step-10", 0.1, 9.0), voice("step-20", 0.0, 0.1)];
    let prefer = [("mean(cer)", false)];
    let deaf = options(&["mean(cer) <= base"], &prefer);
    let (name, report) = chosen(&items, &[10, 20], &deaf);
    assert_eq!(name.as_deref(), Some("step-20"));
    assert!(report.warnings[0].contains("a voice at one pitch"), "{report:?}");
    let hearing = options(&["mean(cer) <= base", "median(f0_range) >= base * 0.7"], &prefer);
    let (name, report) = chosen(&items, &[10, 20], &hearing);
    assert_eq!(name.as_deref(), Some("step-10"));
    assert!(!report.warnings.iter().any(|warning| warning.contains("pitch")), "{report:?}");
}

#[test]
fn sentences_that_are_held_take_no_part_and_are_reported_on() {
    let items = [spoken("base", 0.3, 1), spoken("step-10", 0.1, 2)];
    let half = ChoiceOptions { hold: 0.5, ..options(&["mean(cer) < base"], &[]) };
    let (name, report) = chosen(&items, &[10], &half);
    assert_eq!(name.as_deref(), Some("step-10"));
    assert_eq!(report.sentences + report.fresh_sentences, SENTENCES);
    assert!(report.sentences > 15 && report.fresh_sentences > 15, "{report:?}");
    assert!(report.models[0].fresh["mean(cer)"].difference.high < 0.0);
    assert!(!report.warnings.iter().any(|warning| warning.contains("flatters")));

    // Figures of the held sentences do not move the choice.
    let held = |item: &Item| is_held("choice", place(item).1, 0.5);
    let other = items.iter().flatten().map(|item| {
        if held(item) {
            let (name, sentence) = place(item);
            let at = sentence[1..].parse().unwrap();
            measured(name, at, &[("cer", Value::Number(9.0))])
        } else {
            item.clone()
        }
    });
    let (_, moved) = chosen(&[other.collect()], &[10], &half);
    assert_eq!(moved.models[0].measures, report.models[0].measures);
    assert_ne!(moved.models[0].fresh, report.models[0].fresh);
}

#[test]
fn the_order_of_the_items_changes_nothing() {
    let items = [spoken("base", 0.3, 1), spoken("step-10", 0.1, 2), spoken("step-20", 0.1, 3)];
    let options = options(&["mean(cer) < base"], &[("p90(cer)", false)]);
    let (name, report) = chosen(&items, &[10, 20], &options);
    let mut turned = items.concat();
    turned.reverse();
    assert_eq!(chosen(&[turned], &[20, 10], &options), (name, report));
}

/// A hundred sentences with few errors, and now and then one that breaks.
fn breaking(name: &str, seed: usize) -> Vec<Item> {
    let mut noise = noise(seed);
    let one = |at| {
        let (few, breaks, much) =
            (noise.next().unwrap(), noise.next().unwrap(), noise.next().unwrap());
        let cer = if breaks < 0.02 { 0.2 + 0.6 * much } else { -0.03 * (1.0 - few).ln() };
        measured(name, at, &[("cer", Value::Number(cer))])
    };
    (0..100).map(one).collect()
}

/// One of ten models that equal the base "beats" it in 39 of 100 cases if each is looked at alone.
#[test]
fn of_ten_equal_candidates_at_most_one_in_ten_choices_finds_a_false_winner() {
    let rule = options(&["mean(cer) < base"], &[]);
    let steps: Vec<u32> = (1..=10).collect();
    let (mut together, mut singly, rounds) = (0, 0, 100);
    for round in 0..rounds {
        let base = breaking("base", 1_000 * round);
        let models: Vec<Vec<Item>> = steps
            .iter()
            .map(|step| breaking(&format!("step-{step}"), 1_000 * round + *step as usize))
            .collect();
        let all = [vec![base.clone()], models.clone()].concat();
        together += usize::from(chosen(&all, &steps, &rule).0.is_some());
        let wins = |(model, step): (&Vec<Item>, &u32)| {
            chosen(&[base.clone(), model.clone()], &[*step], &rule).0.is_some()
        };
        singly += usize::from(models.iter().zip(&steps).any(wins));
    }
    assert!(together <= rounds / 10, "{together} of {rounds}");
    assert!(singly > 2 * together, "{singly} alone, {together} together");
}

#[test]
fn one_draw_of_the_bootstrap_has_the_same_sentences_for_all() {
    let draws = Draws::new(3, 2, 1);
    let (base, own) = (spoken("base", 0.2, 1), spoken("step-10", 0.2, 1));
    // A model that equals the base sentence by sentence has no difference in any draw.
    let items = [base, own];
    let options = options(&["mean(cer) <= base"], &[]);
    let (name, report) = chosen(&items, &[10], &options);
    assert_eq!(name.as_deref(), Some("step-10"), "{report:?}");
    let line = &report.models[0].requirements[0];
    assert_eq!((line.low, line.high), (0.0, 0.0));
    assert_eq!(draws.iter().count(), 2);
}
