//! A rehearsal leaves nothing behind, and detects state that would not be restored.

use stage_core::{Context, StageError};
use tch::{Kind, Tensor};

use super::settings;
use super::tiny::{Bits, Corpus, Letters, POISON, Tiny, bits};
use crate::error::TorchError;
use crate::runtime::threads::one_thread;
use crate::testing::Bench;
use crate::train::order::ClipEntry;
use crate::train::precision::Precision;
use crate::train::rehearsal::rehearse_as;
use crate::train::settings::Settings;
use crate::train::{Losses, Phase, Totals, Trainee};

pub fn rehearsed<T: Trainee<Batch = Letters>>(
    is_exact: bool,
    replicas: &mut [T],
    settings: &Settings,
    bench: &mut Bench,
) -> Result<(), StageError> {
    rehearsed_on(&Corpus::new(8), is_exact, replicas, settings, bench)
}

fn rehearsed_on<T: Trainee<Batch = Letters>>(
    corpus: &Corpus,
    is_exact: bool,
    replicas: &mut [T],
    settings: &Settings,
    bench: &mut Bench,
) -> Result<(), StageError> {
    one_thread();
    let clip = |(number, letters): (usize, &Vec<i64>)| ClipEntry {
        id: format!("clip{number}"),
        length: letters.len(),
        group: 0,
    };
    let clips: Vec<ClipEntry> = corpus.0.iter().enumerate().map(clip).collect();
    rehearse_as(is_exact, replicas, corpus, &clips, settings, bench)
}

#[test]
fn weights_gradients_and_files_are_as_they_were_before() {
    use Precision::{Bf16, F32, Fp16};
    for (precision, is_exact) in [(F32, true), (Bf16, true), (Fp16, true), (Bf16, false)] {
        let new = || Tiny::new(precision.kind(), 0.1);
        let settings = Settings { precision, ..settings() };
        let (mut replicas, mut bench) = ([new(), new()], Bench::default());
        let before: Bits = bits(&replicas[0].parameters());
        rehearsed(is_exact, &mut replicas, &settings, &mut bench).unwrap();
        for replica in &replicas {
            assert_eq!(bits(&replica.parameters()), before);
            let gradients = replica.parameters().into_iter().map(|(_, tensor)| tensor.grad());
            let is_clear =
                |one: &Tensor| !one.defined() || one.abs().max().double_value(&[]) == 0.0;
            assert!(gradients.into_iter().all(|gradient| is_clear(&gradient)));
        }
        let folder = bench.scratch().unwrap();
        assert_eq!(folder.read_dir_utf8().unwrap().count(), 0);
    }
}

/// Its gradients depend on the number of calls, which no checkpoint has.
struct Forgetful {
    tiny: Tiny,
    asked: u64,
    /// The call from which on they differ.
    from: u64,
}

impl Trainee for Forgetful {
    type Batch = Letters;
    type Network = Self;

    fn network(&self) -> &Self {
        self
    }

    fn network_mut(&mut self) -> &mut Self {
        self
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        self.tiny.parameters()
    }

    fn accumulate(&mut self, batch: &Letters, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        self.asked += 1;
        let losses = self.tiny.accumulate(batch, phase)?;
        if self.asked > self.from {
            for (_, tensor) in self.parameters() {
                let _ = tensor.grad().g_mul_scalar_(-1.0);
            }
        }
        Ok(losses)
    }

    fn evaluate(&self, batch: &Letters) -> Result<Losses, TorchError> {
        self.tiny.evaluate(batch)
    }

    fn count(batch: &Letters) -> Totals {
        Tiny::count(batch)
    }
}

/// The result of a rehearsal for a model with gradients that change sign at a step unknown to
/// checkpoints: there is one step before the stop, one after it, and two without a stop.
fn found(is_exact: bool, from: u64) -> Option<String> {
    let mut forgetful = Forgetful { tiny: Tiny::new(Kind::Float, 0.0), asked: 0, from };
    let before = bits(&forgetful.parameters());
    let replicas = std::slice::from_mut(&mut forgetful);
    let settings = Settings { clip: None, ..settings() };
    let result = rehearsed(is_exact, replicas, &settings, &mut Bench::default());
    assert_eq!(bits(&forgetful.parameters()), before, "the weights are put back");
    result.err().map(|error| error.to_string())
}

#[test]
fn a_state_that_no_checkpoint_has_is_found() {
    assert_eq!((found(true, 0), found(true, 4)), (None, None));
    for from in [2, 3] {
        let expected = "a stopped training would not resume correctly: `master/embeddings.weight` \
                        differs from a run without a stop";
        assert_eq!(found(true, from).as_deref(), Some(expected));
    }
}

#[test]
fn where_sums_are_not_the_same_each_time_the_loss_tells() {
    assert_eq!((found(false, 0), found(false, 4)), (None, None));
    let told = found(false, 2).unwrap();
    let expected = "a stopped training would not resume correctly: the loss of its second step is ";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn a_loss_that_is_no_number_is_not_taken_for_a_defect() {
    let mut corpus = Corpus::new(8);
    corpus.0.iter_mut().for_each(|clip| clip[0] = POISON);
    let mut replicas = [Tiny::new(Kind::Float, 0.0)];
    let result = rehearsed_on(&corpus, false, &mut replicas, &settings(), &mut Bench::default());
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "a training step produced a loss that is not finite");
    assert!(error.help().unwrap().contains("a lower `learning_rate`"));
}

#[test]
fn a_stop_ends_it_between_its_parts() {
    for looks in 0..3 {
        let mut replicas = [Tiny::new(Kind::Float, 0.1)];
        let before = bits(&replicas[0].parameters());
        let mut bench = Bench::default();
        bench.stop_after = Some(looks);
        let result = rehearsed(true, &mut replicas, &settings(), &mut bench);
        assert_eq!(result, Err(StageError::Stopped), "{looks}");
        assert_eq!(bits(&replicas[0].parameters()), before);
        assert!(bench.checkpoints.is_empty());
    }
}
