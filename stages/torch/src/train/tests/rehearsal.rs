//! A rehearsal leaves nothing behind, and finds what would not come back.

use stage_core::{Context, StageError};
use tch::{Kind, Tensor};

use super::settings;
use super::tiny::{Bits, Corpus, Letters, Tiny, bits};
use crate::error::TorchError;
use crate::testing::Bench;
use crate::threads::one_thread;
use crate::train::order::Clip;
use crate::train::precision::Precision;
use crate::train::rehearsal::rehearse;
use crate::train::settings::Settings;
use crate::train::{Losses, Totals, Trainee};

fn rehearsed<T: Trainee<Batch = Letters>>(
    replicas: &mut [T],
    settings: &Settings,
    bench: &mut Bench,
) -> Result<(), StageError> {
    one_thread();
    let corpus = Corpus::new(8);
    let clip = |(number, letters): (usize, &Vec<i64>)| Clip {
        id: format!("clip{number}"),
        length: letters.len(),
    };
    let clips: Vec<Clip> = corpus.0.iter().enumerate().map(clip).collect();
    rehearse(replicas, &corpus, &clips, settings, bench)
}

#[test]
fn weights_gradients_and_files_are_as_they_were_before() {
    for precision in [Precision::F32, Precision::Bf16, Precision::Fp16] {
        let new = || Tiny::new(precision.kind(), 0.1);
        let settings = Settings { precision, ..settings() };
        let (mut replicas, mut bench) = ([new(), new()], Bench::default());
        let before: Bits = bits(&replicas[0].parameters());
        rehearsed(&mut replicas, &settings, &mut bench).unwrap();
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

/// Its loss depends on how often it was asked, which no checkpoint knows.
struct Forgetful {
    tiny: Tiny,
    asked: u64,
    /// From which question on.
    from: u64,
}

impl Trainee for Forgetful {
    type Batch = Letters;

    fn parameters(&self) -> Vec<(String, Tensor)> {
        self.tiny.parameters()
    }

    fn accumulate(
        &mut self,
        batch: &Letters,
        totals: &Totals,
        seed: u64,
    ) -> Result<Losses, TorchError> {
        self.asked += 1;
        let losses = self.tiny.accumulate(batch, totals, seed)?;
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

#[test]
fn a_state_that_no_checkpoint_has_is_found_and_the_weights_are_put_back() {
    // A step before the stop, one after it, and two without: all, and those from the third on.
    for (from, is_found) in [(0, false), (2, true), (3, true), (4, false)] {
        let mut forgetful = Forgetful { tiny: Tiny::new(Kind::Float, 0.0), asked: 0, from };
        let before = bits(&forgetful.parameters());
        let replicas = std::slice::from_mut(&mut forgetful);
        let result = rehearsed(replicas, &settings(), &mut Bench::default());
        assert_eq!(result.is_err(), is_found, "{from}: {result:?}");
        assert_eq!(bits(&forgetful.parameters()), before);
        if let Err(error) = result {
            let expected = "a training that is stopped would not go on as it should: \
                            `master/embeddings.weight` differs from that of a run without a stop";
            assert_eq!(error.to_string(), expected);
        }
    }
}
