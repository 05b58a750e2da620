//! Learning, validation, early stopping, and unusable steps.

use stage_core::StageError;
use tch::Kind;

use super::memory::MemoryHost;
use super::tiny::{Corpus, POISON, Tiny, bits};
use super::{run, settings};
use crate::train::early_stop::EarlyStopSettings;
use crate::train::precision::Precision;
use crate::train::settings::Settings;
use crate::train::{Host, Trainee, TrainingResult};

fn train(
    tiny: &mut Tiny,
    corpus: &Corpus,
    settings: &Settings,
) -> (Result<TrainingResult, StageError>, MemoryHost) {
    let mut host = MemoryHost::with_clock(0.5);
    let result = run(std::slice::from_mut(tiny), corpus, settings, &mut host);
    (result, host)
}

#[test]
fn a_training_that_is_shown_of_a_few_held_out_clips_goes_on_where_they_do_not_fit() {
    let corpus = Corpus::new(60);
    let shown = |tiny: &mut Tiny| {
        let trained = train(tiny, &corpus, &settings()).0.unwrap();
        let named = trained.samples.iter().map(|sample| (sample.step, sample.tag.clone()));
        named.collect::<Vec<_>>()
    };
    let clips = ["losses/0", "losses/1", "losses/2"];
    let all = [0, 4, 8, 12].map(|step| clips.map(|tag| (step, tag.to_owned())));
    assert_eq!(shown(&mut Tiny::new(Kind::Float, 0.0)), all.concat());
    let mut tight = Tiny::new(Kind::Float, 0.0);
    tight.can_show = false;
    assert_eq!(shown(&mut tight), []);
}

#[test]
fn the_loss_on_held_out_clips_falls_in_every_precision() {
    for precision in [Precision::F32, Precision::Bf16, Precision::Fp16] {
        let settings = Settings { steps: 60, precision, ..settings() };
        let mut tiny = Tiny::new(precision.kind(), 0.0);
        let (result, host) = train(&mut tiny, &Corpus::new(60), &settings);
        let losses = host.values("held_out");
        assert_eq!(losses.len(), 16, "before the first step and after every fourth");
        let trained = result.unwrap();
        assert_eq!(trained.held_out, losses.last().copied());
        assert!(losses[15] < 0.7 * losses[0], "{precision:?} {losses:?}");
    }
}

#[test]
fn adapters_learn_too() {
    let settings = Settings { steps: 60, ..settings() };
    let (result, host) = train(&mut Tiny::adapted(), &Corpus::new(60), &settings);
    result.unwrap();
    let losses = host.values("held_out");
    assert!(losses[15] < 0.8 * losses[0], "{losses:?}");
}

#[test]
fn held_out_clips_are_never_trained_on() {
    // A held-out clip with poison spoils each validation and no step.
    let mut corpus = Corpus::new(30);
    corpus.0[4][0] = POISON;
    let (result, host) = train(&mut Tiny::new(Kind::Float, 0.0), &corpus, &settings());
    let trained = result.unwrap();
    assert!(host.values("held_out").iter().all(|loss| loss.is_nan()));
    assert!(host.values("loss").iter().all(|loss| loss.is_finite()));
    assert_eq!((trained.skipped, trained.best.len()), (0, 0));
}

#[test]
fn training_ends_early_when_held_out_clips_stop_to_gain() {
    let early_stop = Some(EarlyStopSettings { patience: 2, min_delta: 10.0 });
    let settings = Settings { early_stop, ..settings() };
    let (result, mut host) = train(&mut Tiny::new(Kind::Float, 0.0), &Corpus::new(30), &settings);
    let trained = result.unwrap();
    assert_eq!((trained.steps, trained.stopped_early), (8, true));
    // A run that finds it ended does nothing more.
    host.survive();
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    let result = run(std::slice::from_mut(&mut tiny), &Corpus::new(30), &settings, &mut host);
    assert_eq!((result.unwrap().steps, host.asked), (8, 0));
}

#[test]
fn the_best_states_are_kept_as_they_were() {
    let settings = Settings { validate_every: 1, keep_best: 3, ..settings() };
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    let (result, mut host) = train(&mut tiny, &Corpus::new(30), &settings);
    let trained = result.unwrap();
    let losses: Vec<f64> = trained.best.iter().map(|(place, _)| place.loss).collect();
    let mut all = host.values("held_out");
    all.remove(0);
    all.sort_by(f64::total_cmp);
    assert_eq!(losses, all[..3]);
    let last = host.recall(&trained.last[0].1).unwrap();
    assert_eq!(trained.last[0].0, "embeddings.weight");
    assert_eq!(last, tiny.parameters()[0].1);
    assert_eq!(trained.best[0].1.len(), tiny.parameters().len());
}

/// The loss picks the wrong checkpoint often enough: others have to be there to be listened to.
#[test]
fn states_of_a_fixed_interval_are_kept_whatever_their_loss() {
    let settings = Settings { keep_every: Some(5), keep_best: 0, ..settings() };
    let mut half = Tiny::new(Kind::Float, 0.0);
    let (result, mut host) = train(&mut half, &Corpus::new(30), &settings);
    let trained = result.unwrap();
    let steps: Vec<u64> = trained.regular.iter().map(|(step, _)| *step).collect();
    assert_eq!((steps, trained.best.len()), (vec![5, 10], 0));

    let mut short = Tiny::new(Kind::Float, 0.0);
    let (result, mut other) =
        train(&mut short, &Corpus::new(30), &Settings { steps: 5, ..settings });
    let last = result.unwrap().last;
    for ((name, kept), (own, wanted)) in trained.regular[0].1.iter().zip(&last) {
        assert_eq!(name, own);
        assert_eq!(host.recall(kept).unwrap(), other.recall(wanted).unwrap(), "{name}");
    }
}

#[test]
fn kept_states_are_rounded_on_request() {
    let settings = Settings { keep_kind: Some(Kind::BFloat16), ..settings() };
    let (result, mut host) = train(&mut Tiny::new(Kind::Float, 0.0), &Corpus::new(30), &settings);
    let trained = result.unwrap();
    let kinds = trained.best.iter().flat_map(|(_, kept)| kept).chain(&trained.last);
    for (name, kept) in kinds {
        assert_eq!(host.recall(kept).unwrap().kind(), Kind::BFloat16, "{name}");
    }
}

#[test]
fn a_bad_clip_costs_its_step_and_nothing_else() {
    let mut corpus = Corpus::new(60);
    corpus.0[0][0] = POISON;
    let (result, host) = train(&mut Tiny::new(Kind::Float, 0.0), &corpus, &settings());
    let trained = result.unwrap();
    let bad = host.values("loss").iter().filter(|loss| loss.is_nan()).count();
    assert_eq!(trained.skipped as usize, bad);
    assert!((1..6).contains(&bad), "{bad}");
    assert!(host.values("held_out").iter().all(|loss| loss.is_finite()));
}

#[test]
fn bad_steps_in_a_row_end_the_training_with_advice() {
    let mut corpus = Corpus::new(30);
    corpus.0.iter_mut().for_each(|clip| clip[0] = POISON);
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    let before = bits(&tiny.parameters());
    let (result, _) = train(&mut tiny, &corpus, &settings());
    let message = result.unwrap_err().to_string();
    let expected = "the loss or its gradients were not finite for 3 steps in a row, up to step 3; \
                    there is no earlier state to return to, since none was kept by its held-out \
                    loss; no clip of the last step has a finite loss: `clip ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(bits(&tiny.parameters()), before);
}

#[test]
fn an_overflow_of_fp16_lowers_the_scale_and_is_no_failure() {
    // Gradients near the largest number of fp16: the first scales are too large.
    let settings = Settings { precision: Precision::Fp16, bad_steps: 1, ..settings() };
    let mut corpus = Corpus::new(5);
    corpus.0.iter_mut().for_each(|clip| clip.truncate(3));
    let mut tiny = Tiny::new(Kind::Half, 0.0);
    tiny.amplify(20.0);
    let (result, host) = train(&mut tiny, &corpus, &settings);
    let trained = result.unwrap();
    assert!((1..8).contains(&trained.skipped), "{}", trained.skipped);
    let scales = host.values("loss_scale");
    assert!(scales.last() < Some(&65_536.0), "{scales:?}");
    assert!(host.values("gradient_norm").last().unwrap().is_finite());
}

/// Gradients too large for every tried loss scale.
fn overflowing(steps: u64) -> (Result<TrainingResult, StageError>, MemoryHost) {
    let settings = Settings { precision: Precision::Fp16, steps, ..settings() };
    let mut corpus = Corpus::new(5);
    corpus.0.iter_mut().for_each(|clip| clip.truncate(3));
    let mut tiny = Tiny::new(Kind::Half, 0.0);
    tiny.amplify(200.0);
    train(&mut tiny, &corpus, &settings)
}

#[test]
fn a_training_without_one_step_that_could_be_used_fails_and_says_what_to_do() {
    let error = overflowing(2).0.unwrap_err();
    let expected = "all 2 steps were skipped, since losses or gradients were not finite in fp16: \
                    nothing was learned, and the weights are the initial ones";
    assert_eq!(error.to_string(), expected);
    assert!(error.help().unwrap().contains("`precision` to `\"bf16\"`"));
    assert!(overflowing(1).0.unwrap_err().to_string().starts_with("the only step was skipped"));
}

#[test]
fn a_state_that_has_learnt_nothing_is_not_kept_as_one_of_the_best() {
    let trained = overflowing(12).0.unwrap();
    assert!(trained.skipped >= 4, "{}: the first validation comes too late", trained.skipped);
    assert!(trained.best.iter().all(|(place, _)| place.step > 4), "{:?}", trained.best);
}

#[test]
fn a_report_says_how_fast_it_goes_and_how_long_it_takes() {
    let (_, host) = train(&mut Tiny::new(Kind::Float, 0.0), &Corpus::new(30), &settings());
    let count = |name: &str| host.values(name).len();
    for name in ["loss", "loss/next", "loss/end", "rate", "gradient_norm", "passes"] {
        assert_eq!(count(name), 12, "{name}");
    }
    for name in ["clips_per_second", "tokens_per_second", "seconds_left"] {
        assert!(host.values(name).iter().all(|value| *value >= 0.0));
        assert_eq!(count(name), 12, "{name}");
    }
    assert_eq!(host.values("rate")[..3], [0.0, 0.01, 0.02]);
    assert_eq!(host.values("seconds_left").last(), Some(&0.0));
    assert_eq!(count("save_seconds"), 3);
}

#[test]
fn how_often_it_is_told_changes_nothing_in_what_is_recorded() {
    let trained = |record_every, report_every| {
        let settings = Settings { record_every, report_every, ..settings() };
        let (result, host) = train(&mut Tiny::new(Kind::Float, 0.0), &Corpus::new(30), &settings);
        (result.unwrap().record, host.values("loss").len())
    };
    let (each, told) = trained(1, 1);
    let (same, seldom) = trained(1, 5);
    assert_eq!((same == each, told, seldom), (true, 12, 3), "5, 10, and the last");
    let (fewer, told) = trained(5, 1);
    let steps: Vec<u64> =
        fewer.iter().filter(|(_, name, _)| *name == "loss").map(|(step, ..)| step).collect();
    assert_eq!((steps, told), (vec![5, 10, 12], 12));
}
