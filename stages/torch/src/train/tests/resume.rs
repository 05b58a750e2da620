//! An interrupted training ends with the same bits as one that was not.

use stage_core::{Blob, StageError};
use tch::{Kind, Tensor};

use super::memory::MemoryHost;
use super::tiny::{Bits, Corpus, Letters, Tiny, bits};
use super::{run, settings};
use crate::train::notes::Notes;
use crate::train::precision::Precision;
use crate::train::record::Record;
use crate::train::settings::Settings;
use crate::train::state::{Switch, TrainingState};
use crate::train::{Host, Trainee, TrainingResult};

/// All results of a training.
#[derive(Debug, PartialEq)]
pub struct Left {
    parameters: Bits,
    best: Vec<(u64, Bits)>,
    regular: Vec<(u64, Bits)>,
    record: Record,
    samples: Vec<(u64, Bits)>,
    passes: f64,
}

/// A model of letters with accessible tensors.
pub trait LetterModel: Trainee<Batch = Letters> {
    /// All tensors but adapters, by name.
    fn base(&self) -> Vec<(String, Tensor)> {
        self.parameters()
    }
}

impl LetterModel for Tiny {
    fn base(&self) -> Vec<(String, Tensor)> {
        Tiny::base(self)
    }
}

fn left<T: LetterModel>(model: &T, trained: &TrainingResult, host: &mut MemoryHost) -> Left {
    let mut recall = |weights: &[(String, Blob)]| {
        let tensor = |(name, kept): &(String, Blob)| (name.clone(), host.recall(kept).unwrap());
        bits(&weights.iter().map(tensor).collect::<Vec<_>>())
    };
    assert_eq!(recall(&trained.last).len(), model.parameters().len());
    Left {
        parameters: bits(&model.parameters()),
        best: trained.best.iter().map(|(place, kept)| (place.step, recall(kept))).collect(),
        regular: trained.regular.iter().map(|(step, kept)| (*step, recall(kept))).collect(),
        record: trained.record.clone(),
        samples: trained
            .samples
            .iter()
            .map(|own| (own.step, recall(&[(own.tag.clone(), own.kept.clone())])))
            .collect(),
        passes: trained.passes,
    }
}

pub fn straight<T: LetterModel>(
    make: &dyn Fn() -> T,
    corpus: &Corpus,
    settings: &Settings,
) -> (Left, MemoryHost) {
    let (mut model, mut host) = (make(), MemoryHost::default());
    let trained = run(std::slice::from_mut(&mut model), corpus, settings, &mut host).unwrap();
    (left(&model, &trained, &mut host), host)
}

/// Restarts with a fresh model until a run finishes; `harm` determines the end of each run.
pub fn interrupted<T: LetterModel>(
    make: &dyn Fn() -> T,
    corpus: &Corpus,
    settings: &Settings,
    harm: impl Fn(usize, &mut MemoryHost),
) -> (Left, usize) {
    let mut host = MemoryHost::default();
    for runs in 1.. {
        assert!(runs < 500, "no progress");
        let mut model = make();
        let base = bits(&model.base());
        host.survive();
        harm(runs, &mut host);
        let result = run(std::slice::from_mut(&mut model), corpus, settings, &mut host);
        if model.parameters().len() != model.base().len() {
            assert_eq!(bits(&model.base()), base, "a frozen tensor has moved");
        }
        if let Ok(trained) = result {
            return (left(&model, &trained, &mut host), runs);
        }
    }
    unreachable!("the loop ends only by returning")
}

#[test]
fn a_training_stopped_at_every_question_equals_one_that_never_was() {
    let (corpus, settings) = (Corpus::new(30), settings());
    for make in [&|| Tiny::new(Kind::Float, 0.1) as _, &Tiny::adapted as &dyn Fn() -> Tiny] {
        let (expected, host) = straight(make, &corpus, &settings);
        // Four questions per step: before it, and before each of its micro-batches.
        assert_eq!(host.asked, 12 * 4);
        for question in 0..host.asked {
            let (got, runs) = interrupted(make, &corpus, &settings, |run, host| {
                host.stop_at = (run == 1).then_some(question);
            });
            assert_eq!((&got, runs), (&expected, 2), "stopped at question {question}");
        }
    }
}

/// Rungs at a validation, between two, and right after a checkpoint; the last one is the whole
/// training.
#[test]
fn rungs_that_go_on_from_each_other_equal_a_training_that_never_was_interrupted() {
    let (corpus, settings) = (Corpus::new(30), settings());
    for make in [&|| Tiny::new(Kind::Float, 0.1) as _, &Tiny::adapted as &dyn Fn() -> Tiny] {
        let (expected, _) = straight(make, &corpus, &settings);
        for rungs in [vec![1, 4, 7, 10], vec![3], vec![5, 6], vec![11]] {
            let mut host = MemoryHost::default();
            for rung in rungs {
                let settings = Settings { until: Some(rung), ..settings.clone() };
                let mut model = make();
                host.survive();
                let model = std::slice::from_mut(&mut model);
                let trained = run(model, &corpus, &settings, &mut host).unwrap();
                assert_eq!((trained.steps, trained.stopped_early), (rung, false));
                let measured = trained.record.iter().filter(|(_, name, _)| *name == "held_out");
                assert_eq!(measured.map(|(step, ..)| step).last(), Some(rung), "it has no score");
                // Killed after its last save, it is made again from there.
                let mut again = make();
                host.survive();
                let again =
                    run(std::slice::from_mut(&mut again), &corpus, &settings, &mut host).unwrap();
                assert_eq!((again.record, again.held_out), (trained.record, trained.held_out));
            }
            let mut model = make();
            host.survive();
            let trained =
                run(std::slice::from_mut(&mut model), &corpus, &settings, &mut host).unwrap();
            assert_eq!(left(&model, &trained, &mut host), expected);
        }
    }
}

#[test]
fn a_training_stopped_after_every_single_step_equals_one_that_never_was() {
    let corpus = Corpus::new(30);
    for (precision, dropout) in [(Precision::Bf16, 0.0), (Precision::Fp16, 0.1)] {
        let settings = Settings { precision, ..settings() };
        let make = || Tiny::new(precision.kind(), dropout);
        let (expected, _) = straight(&make, &corpus, &settings);
        let (got, runs) = interrupted(&make, &corpus, &settings, |_, host| host.stop_at = Some(5));
        assert_eq!((got, runs), (expected, 12));
    }
}

#[test]
fn a_training_killed_at_every_call_equals_one_that_never_was() {
    let (corpus, settings) = (Corpus::new(30), settings());
    let make = || Tiny::new(Kind::Float, 0.1);
    let (expected, _) = straight(&make, &corpus, &settings);
    for call in (0..).step_by(3) {
        let (got, runs) = interrupted(&make, &corpus, &settings, |run, host| {
            host.die_at = (run == 1).then_some(call);
        });
        assert_eq!(got, expected, "killed at call {call}");
        if runs == 1 {
            assert!(call > 40, "{call}");
            return;
        }
    }
}

#[test]
fn a_result_in_f32_shares_its_tensors_with_the_last_checkpoint() {
    let (corpus, mut host) = (Corpus::new(30), MemoryHost::default());
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    let trained = run(std::slice::from_mut(&mut tiny), &corpus, &settings(), &mut host).unwrap();
    let checkpoint = host.checkpoint.unwrap();
    for (name, kept) in &trained.last {
        assert_eq!(checkpoint.tensor(&format!("master/{name}")).unwrap(), kept);
    }
}

#[test]
fn stopping_says_so_and_saves() {
    let (corpus, mut host) = (Corpus::new(30), MemoryHost::default());
    host.stop_at = Some(14);
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    let result = run(std::slice::from_mut(&mut tiny), &corpus, &settings(), &mut host);
    assert!(matches!(result, Err(StageError::Stopped)), "{result:?}");
    // Three whole steps; the fourth was given up in its accumulation.
    assert!(host.checkpoint.unwrap().state.contains(r#""step":3"#));
    assert_eq!(host.commits, 1);
}

#[test]
fn checkpoints_come_by_steps_or_by_time() {
    let commits = |steps, seconds, tick| {
        let (corpus, mut host) = (Corpus::new(30), MemoryHost::with_clock(tick));
        let mut settings = settings();
        settings.checkpoint = crate::train::settings::Checkpoints { steps, seconds };
        let mut tiny = Tiny::new(Kind::Float, 0.0);
        run(std::slice::from_mut(&mut tiny), &corpus, &settings, &mut host).unwrap();
        host.commits
    };
    assert_eq!(commits(None, None, 0.0), 1, "the last state is always saved");
    assert_eq!(commits(Some(4), None, 0.0), 3);
    assert_eq!(commits(Some(5), None, 0.0), 3);
    assert_eq!(commits(None, Some(1e9), 1.0), 1);
    assert_eq!(commits(None, Some(1e-9), 1.0), 12);
}

#[test]
fn a_frozen_tensor_is_never_saved() {
    let (_, host) = straight(&Tiny::adapted, &Corpus::new(30), &settings());
    let checkpoint = host.checkpoint.unwrap();
    let names = checkpoint.tensors.iter().map(|(name, _)| name.as_str());
    let is_frozen = |name: &&str| !name.contains("lora_") && !name.starts_with("sample/");
    assert_eq!(names.filter(is_frozen).collect::<Vec<_>>(), ["record"]);
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let (_, mut host) = straight(&Tiny::adapted, &Corpus::new(30), &settings());
    let mut tiny = Tiny::new(Kind::Float, 0.0);
    let corpus = Corpus::new(30);
    let result = run(std::slice::from_mut(&mut tiny), &corpus, &settings(), &mut host);
    let expected = "the checkpoint has no tensor `master/embeddings.weight`";
    assert_eq!(result.unwrap_err().to_string(), expected);
}

/// Trains in one precision for three steps, and in another one to the end.
fn continued(first: Precision, then: Precision) -> (TrainingResult, TrainingState, MemoryHost) {
    let (corpus, mut host) = (Corpus::new(30), MemoryHost::default());
    let part = |precision: Precision, host: &mut MemoryHost| {
        let mut tiny = Tiny::new(precision.kind(), 0.0);
        let settings = Settings { precision, ..settings() };
        run(std::slice::from_mut(&mut tiny), &corpus, &settings, host)
    };
    host.stop_at = Some(14);
    assert!(matches!(part(first, &mut host), Err(StageError::Stopped)));
    host.survive();
    let trained = part(then, &mut host).unwrap();
    let state = serde_json::from_str(&host.checkpoint.as_ref().unwrap().state).unwrap();
    (trained, state, host)
}

#[test]
fn a_training_that_goes_on_in_another_precision_begins_its_loss_scale_anew_and_says_so() {
    let (trained, state, host) = continued(Precision::Bf16, Precision::Fp16);
    assert!(state.scaler.is_of(Precision::Fp16), "{:?}", state.scaler);
    assert!(state.scaler.scale() > 1.0, "{:?}", state.scaler);
    let from = Some(Precision::Bf16);
    assert_eq!(trained.switched, Some(Switch { after: 3, from, to: Precision::Fp16 }));
    assert_eq!(host.values("precision_changed"), [1.0]);
    let notes = Notes::default().close(&trained);
    let told = ("switched from bf16 to fp16 after step 3".to_owned(), 1);
    assert!(notes.contains(&told), "{notes:?}");

    let (_, state, _) = continued(Precision::Fp16, Precision::Bf16);
    assert_eq!(state.scaler.scale(), 1.0);
    let (trained, _, host) = continued(Precision::Fp16, Precision::Fp16);
    assert_eq!((trained.switched, host.values("precision_changed").len()), (None, 0));
}

#[test]
fn a_checkpoint_without_a_precision_is_known_by_its_loss_scale() {
    for (first, then, is_same) in [
        (Precision::Bf16, Precision::F32, true),
        (Precision::Bf16, Precision::Fp16, false),
        (Precision::Fp16, Precision::Fp16, true),
    ] {
        let mut state = TrainingState::new(first, 1);
        state.precision = None;
        assert_eq!(state.continue_in(then).is_none(), is_same, "{first:?} {then:?}");
        assert!(state.scaler.is_of(then));
    }
}
