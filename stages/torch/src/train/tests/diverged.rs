//! Trainings that end in a state without a finite loss.

use stage_core::StageError;
use tch::Kind;

use super::memory::MemoryHost;
use super::rescue::{narrow, recalled, spoiled};
use super::tiny::{Corpus, Tiny};
use super::{clips, run};
use crate::runtime::threads::one_thread;
use crate::train::schedule::Schedule;
use crate::train::settings::Settings;
use crate::train::{TrainingJob, TrainingResult, train};

/// Steps so large that the weights overflow; too few are skipped for a return.
fn wild(warm_up: u64) -> Settings {
    let schedule = Schedule { rate: 1e38, warm_up, ..narrow().schedule };
    Settings { schedule, clip: None, bad_steps: 100, validate_every: 1, ..narrow() }
}

fn trained(settings: &Settings, corpus: &Corpus) -> (TrainingResult, MemoryHost) {
    let (mut tiny, mut host) = (Tiny::new(Kind::Float, 0.0), MemoryHost::default());
    let trained = run(std::slice::from_mut(&mut tiny), corpus, settings, &mut host).unwrap();
    (trained, host)
}

fn without_validation(settings: &Settings, corpus: &Corpus) -> TrainingResult {
    one_thread();
    let (mut tiny, mut host) = (Tiny::new(Kind::Float, 0.0), MemoryHost::default());
    let (replicas, clips) = (std::slice::from_mut(&mut tiny), clips(corpus));
    let held_out = vec![false; clips.len()];
    let job = TrainingJob { replicas, data: corpus, clips: &clips, held_out: &held_out, settings };
    train(job, &mut host).unwrap()
}

fn refusal(trained: &TrainingResult, best: bool) -> StageError {
    trained.taken(best).unwrap_err()
}

#[test]
fn a_training_without_a_finite_loss_after_its_first_step_is_no_result() {
    let (trained, host) = trained(&wild(0), &Corpus::new(60));
    let losses = host.values("held_out");
    assert!(losses[0].is_finite() && losses[1..].iter().all(|loss| !loss.is_finite()));
    assert!(trained.skipped < trained.steps && trained.best.is_empty());
    for best in [true, false] {
        let error = refusal(&trained, best);
        let message = error.to_string();
        assert!(message.starts_with("the training diverged: after step 12, the loss"), "{message}");
        assert!(message.contains("before the first step; "), "{message}");
        assert!(message.ends_with("of 12 steps were skipped"), "{message}");
        let help = error.help().unwrap();
        assert!(help.contains("lower `learning_rate`, raise `warm_up`"), "{help}");
        assert!(!help.contains("`take"), "{help}");
    }
}

#[test]
fn the_best_finite_state_of_a_training_that_diverged_can_be_taken() {
    // The first step has the rate 0, and the second overflows.
    let (trained, mut host) = trained(&wild(2), &Corpus::new(60));
    let places: Vec<u64> = trained.best.iter().map(|(place, _)| place.step).collect();
    assert_eq!(places, [1]);
    let taken = trained.taken(true).unwrap();
    let finite = recalled(&mut host, &taken)
        .iter()
        .all(|(_, values)| values.iter().all(|value| value.is_finite() && value.abs() < 1e3));
    assert!(finite);
    let error = refusal(&trained, false);
    assert!(error.help().unwrap().ends_with("; `take = \"best\"` uses the state of step 1"));
}

#[test]
fn without_held_out_clips_the_clips_themselves_tell_that_training_diverged() {
    let corpus = Corpus::new(60);
    let error = refusal(&without_validation(&wild(0), &corpus), true).to_string();
    let expected = "the training diverged: after step 12, no clip has a finite loss; ";
    assert!(error.starts_with(expected), "{error}");
    let calm = without_validation(&narrow(), &corpus);
    assert_eq!(calm.taken(true).unwrap(), calm.last);
}

#[test]
fn a_bad_clip_in_the_last_step_is_no_divergence() {
    let corpus = spoiled(11..12, usize::MAX);
    let (trained, _) = trained(&narrow(), &corpus);
    assert_eq!((trained.skipped, &trained.diverged), (1, &None));
    assert_eq!(without_validation(&narrow(), &corpus).diverged, None);
}
