//! Networks that are trained in phases, each with its own optimiser.

use tch::{Kind, Tensor};

use super::memory::MemoryHost;
use super::rehearsal::rehearsed;
use super::rescue::{narrow, recalled, spoiled};
use super::resume::{interrupted, straight};
use super::several::{trained, worst};
use super::tiny::{Corpus, Letters, POISON, Tiny, bits};
use super::two::Two;
use super::{run, settings};
use crate::error::TorchError;
use crate::testing::Bench;
use crate::train::precision::Precision;
use crate::train::schedule::Schedule;
use crate::train::settings::Settings;
use crate::train::state::Return;
use crate::train::{Losses, Phase, Totals, Trainee, TrainingResult};

fn two() -> Two {
    Two::new(Kind::Float, 0.0)
}

fn train(two: &mut Two, corpus: &Corpus, settings: &Settings) -> (TrainingResult, MemoryHost) {
    let mut host = MemoryHost::default();
    let trained = run(std::slice::from_mut(two), corpus, settings, &mut host).unwrap();
    (trained, host)
}

#[test]
fn a_phase_sees_what_the_one_before_it_has_learnt() {
    let settings = Settings { steps: 1, ..settings() };
    let settings = Settings { schedule: warm(&settings), ..settings };
    let echo = |is_coupled: bool| {
        let mut two = Two { is_coupled, ..two() };
        let before = two.pull();
        let (_, host) = train(&mut two, &Corpus::new(30), &settings);
        (host.values("loss/echo")[0], before, two.pull())
    };
    let ((with, before, after), (without, _, _)) = (echo(true), echo(false));
    assert!((with / without - 1.0 - after).abs() < 1e-5 * after, "{with} {without} {after}");
    assert!((after - before).abs() > 1e-3 * before, "else it would not be told apart");
}

/// At its full rate from the first step on.
fn warm(settings: &Settings) -> Schedule {
    Schedule { warm_up: 0, ..settings.schedule }
}

#[test]
fn a_training_stopped_at_every_question_equals_one_that_never_was() {
    let (corpus, settings) = (Corpus::new(30), settings());
    let make = || Two::new(Kind::Float, 0.1);
    let (expected, host) = straight(&make, &corpus, &settings);
    // Before each step and each micro-batch of its first phase; then it is completed.
    assert_eq!(host.asked, 12 * 4);
    for question in 0..host.asked {
        let (got, runs) = interrupted(&make, &corpus, &settings, |run, host| {
            host.stop_at = (run == 1).then_some(question);
        });
        assert_eq!((&got, runs), (&expected, 2), "stopped at question {question}");
    }
}

#[test]
fn a_training_stopped_after_every_single_step_equals_one_that_never_was() {
    let corpus = Corpus::new(30);
    for precision in [Precision::F32, Precision::Fp16] {
        let settings = Settings { precision, ..settings() };
        let make = || Two::new(precision.kind(), 0.1);
        let (expected, _) = straight(&make, &corpus, &settings);
        let (got, runs) = interrupted(&make, &corpus, &settings, |_, host| host.stop_at = Some(5));
        assert_eq!((got, runs), (expected, 12));
    }
}

#[test]
fn a_training_killed_at_any_call_equals_one_that_never_was() {
    let (corpus, settings) = (Corpus::new(30), settings());
    let (expected, _) = straight(&two, &corpus, &settings);
    for call in (0..).step_by(7) {
        let (got, runs) = interrupted(&two, &corpus, &settings, |run, host| {
            host.die_at = (run == 1).then_some(call);
        });
        assert_eq!(got, expected, "killed at call {call}");
        if runs == 1 {
            assert!(call > 80, "{call}");
            return;
        }
    }
}

#[test]
fn a_checkpoint_has_the_state_of_both_optimisers_by_name() {
    let (_, host) = train(&mut two(), &Corpus::new(30), &settings());
    let checkpoint = host.checkpoint.unwrap();
    for name in
        ["master/first.output.weight", "first/second.output.weight", "second/second.hidden.bias"]
    {
        checkpoint.tensor(name).unwrap();
    }
    assert!(checkpoint.state.contains(r#""updates":12,"later_updates":[12]"#));
}

#[test]
fn a_model_of_one_phase_has_the_state_that_it_always_had() {
    let mut host = MemoryHost::default();
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    run(std::slice::from_mut(&mut tiny), &Corpus::new(30), &settings(), &mut host).unwrap();
    assert!(host.checkpoint.unwrap().state.contains(r#""updates":12,"cursor""#));
}

#[test]
fn micro_batches_and_devices_only_cut_a_step_up() {
    let whole = trained(&two, 1, &Settings { rows: 6, accumulate: 1, ..settings() });
    for (replicas, rows, accumulate) in [(1, 1, 6), (1, 3, 2), (2, 1, 6), (2, 3, 2), (3, 2, 3)] {
        let settings = Settings { rows, accumulate, ..settings() };
        let parts = trained(&two, replicas, &settings);
        let worst = worst(&whole, &parts);
        assert!(worst < 1e-5, "{replicas} {rows}: {worst}");
    }
}

#[test]
fn what_was_made_of_a_micro_batch_is_kept_for_the_next_phase_where_it_comes_next() {
    let reused = |rows, accumulate, replicas: usize| {
        let settings = Settings { rows, accumulate, ..settings() };
        let mut replicas: Vec<Two> = (0..replicas).map(|_| two()).collect();
        run(&mut replicas, &Corpus::new(30), &settings, &mut MemoryHost::default()).unwrap();
        replicas.iter().map(|two| two.reused).collect::<Vec<_>>()
    };
    assert_eq!(reused(6, 1, 1), [12]);
    assert_eq!(reused(3, 2, 2), [12, 12]);
    assert_eq!(reused(3, 2, 1), [0]);
    assert_eq!(reused(2, 3, 2), [0, 0]);
}

#[test]
fn a_second_phase_that_does_not_fit_is_halved_and_the_first_is_not_taken_again() {
    let settings = Settings { rows: 6, accumulate: 1, ..settings() };
    let whole = trained(&two, 1, &settings);
    let small = || {
        let mut two = two();
        two.nets[1].fits = 2;
        two
    };
    let worst = worst(&whole, &trained(&small, 1, &settings));
    assert!(worst < 1e-5, "{worst}");
}

/// The parameters that a first step changes if its second or both phases give NaN.
fn moved(is_sick: [bool; 2]) -> ([bool; 2], u64, MemoryHost) {
    let mut corpus = Corpus::new(30);
    corpus.0.iter_mut().for_each(|clip| clip[0] = POISON);
    let settings = Settings { steps: 1, schedule: warm(&settings()), ..settings() };
    let mut two = Two { is_sick, ..two() };
    let before = two.nets.each_ref().map(|net| bits(&net.base()));
    let mut host = MemoryHost::default();
    let result = run(std::slice::from_mut(&mut two), &corpus, &settings, &mut host);
    let after = two.nets.each_ref().map(|net| bits(&net.base()));
    let skipped = host.values("skipped").last().map_or(0, |skipped| *skipped as u64);
    assert_eq!(result.is_err(), skipped == 1, "a training without a whole step is no result");
    ([before[0] != after[0], before[1] != after[1]], skipped, host)
}

#[test]
fn a_phase_that_cannot_be_used_ends_the_step() {
    let (neither, skipped, host) = moved([true, true]);
    assert_eq!((neither, skipped), ([false, false], 1));
    assert!(host.values("loss/echo").is_empty(), "the second phase was not taken");
    assert!(host.checkpoint.unwrap().state.contains(r#""updates":0,"later_updates":[0]"#));
    let (first, skipped, host) = moved([false, true]);
    assert_eq!((first, skipped), ([true, false], 1));
    assert!(host.checkpoint.unwrap().state.contains(r#""updates":1,"later_updates":[0]"#));
    assert_eq!(moved([false, false]).0, [true, true]);
}

#[test]
fn too_many_bad_second_turns_lead_both_nets_back() {
    let (corpus, settings) = (spoiled(6..9, usize::MAX), Settings { steps: 9, ..narrow() });
    let mut two = Two { is_sick: [false, true], ..two() };
    let (trained, mut host) = train(&mut two, &corpus, &settings);
    let to = trained.best[0].0.step;
    assert_eq!((trained.skipped, trained.went_back), (3, Some(Return { after: 9, to })));
    assert_eq!(recalled(&mut host, &trained.last), recalled(&mut host, &trained.best[0].1));
    assert_eq!(bits(&two.parameters()), recalled(&mut host, &trained.last));
    assert!(host.checkpoint.unwrap().state.contains(r#""updates":0,"later_updates":[0]"#));
}

#[test]
fn states_are_ranked_by_what_the_model_says() {
    let (trained, host) = train(&mut two(), &Corpus::new(30), &settings());
    assert_eq!(host.values("held_out"), host.values("held_out/echo"));
    assert_eq!(trained.held_out, host.values("held_out/echo").last().copied());
}

#[test]
fn the_norm_of_each_net_is_told() {
    let (_, host) = train(&mut two(), &Corpus::new(30), &settings());
    for name in ["gradient_norm/first", "gradient_norm/second"] {
        assert_eq!(host.values(name).len(), 12, "{name}");
    }
    assert!(host.values("gradient_norm").is_empty());
}

#[test]
fn a_rehearsal_of_phases_leaves_nothing_behind() {
    let mut replicas = [Two::new(Kind::Float, 0.1), Two::new(Kind::Float, 0.1)];
    let before = bits(&replicas[0].parameters());
    let mut bench = Bench::default();
    rehearsed(true, &mut replicas, &settings(), &mut bench).unwrap();
    replicas.iter().for_each(|replica| assert_eq!(bits(&replica.parameters()), before));
}

/// A second network without parameters.
struct Lame(Two);

impl Trainee for Lame {
    type Batch = Letters;
    type Network = Self;

    fn network(&self) -> &Self {
        self
    }

    fn network_mut(&mut self) -> &mut Self {
        self
    }

    const PHASES: &'static [&'static str] = Two::PHASES;

    fn parameters(&self) -> Vec<(String, Tensor)> {
        self.0.parameters()
    }

    fn accumulate(&mut self, batch: &Letters, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        self.0.accumulate(batch, phase)
    }

    fn evaluate(&self, batch: &Letters) -> Result<Losses, TorchError> {
        self.0.evaluate(batch)
    }

    fn count(batch: &Letters) -> Totals {
        Two::count(batch)
    }
}

#[test]
fn a_phase_with_nothing_to_train_is_refused() {
    let mut host = MemoryHost::default();
    let error = run(&mut [Lame(two())], &Corpus::new(30), &settings(), &mut host).unwrap_err();
    assert_eq!(error.to_string(), "the phase `second` has no parameters to train");
}
