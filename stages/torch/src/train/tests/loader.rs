//! Batches are made once a step, by a thread that is one step ahead.

use std::sync::Mutex;

use stage_core::StageError;
use tch::Kind;

use super::memory::MemoryHost;
use super::tiny::{Corpus, Letters, Tiny, bits};
use super::two::Two;
use super::{run, run_on, settings};
use crate::error::TorchError;
use crate::train::order::Row;
use crate::train::run::{Data, Purpose};
use crate::train::settings::Settings;
use crate::train::{Trainee, TrainingResult};

/// Notes the batches that are made of training clips.
struct Watched<'a> {
    corpus: &'a Corpus,
    /// The seed of the step, the number of rows, and the name of the thread.
    made: Mutex<Vec<(u64, usize, String)>>,
    /// The batch, by number, that cannot be made.
    broken: Option<usize>,
}

impl<'a> Watched<'a> {
    fn new(corpus: &'a Corpus) -> Watched<'a> {
        Watched { corpus, made: Mutex::default(), broken: None }
    }

    fn made(&self) -> Vec<(u64, usize, String)> {
        self.made.lock().unwrap().clone()
    }

    /// The number of different steps.
    fn steps(&self) -> usize {
        let mut seeds: Vec<u64> = self.made().iter().map(|(seed, ..)| *seed).collect();
        seeds.dedup();
        seeds.len()
    }
}

impl Data<Letters> for Watched<'_> {
    fn batch(&self, rows: &[Row], purpose: Purpose) -> Result<Letters, TorchError> {
        if let Purpose::Step { seed } = purpose {
            let mut made = self.made.lock().unwrap();
            if self.broken == Some(made.len()) {
                return Err(TorchError::Input("a file is gone".into()));
            }
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            made.push((seed, rows.len(), thread));
        }
        self.corpus.batch(rows, purpose)
    }

    fn name(&self, clip: usize) -> String {
        self.corpus.name(clip)
    }
}

fn trained<T: Trainee<Batch = Letters>>(
    model: &mut T,
    data: &Watched<'_>,
    settings: &Settings,
    host: &mut MemoryHost,
) -> Result<TrainingResult, StageError> {
    run_on(std::slice::from_mut(model), data.corpus, data, settings, host)
}

#[test]
fn batches_are_made_once_a_step_for_all_phases_and_ahead_by_another_thread() {
    let corpus = Corpus::new(30);
    let (data, settings) = (Watched::new(&corpus), settings());
    let mut model = Two::new(Kind::Float, 0.0);
    trained(&mut model, &data, &settings, &mut MemoryHost::default()).unwrap();
    let made = data.made();
    let per_step = settings.accumulate;
    assert_eq!((made.len(), data.steps()), (12 * per_step, 12));
    let (here, ahead) = made.split_at(per_step);
    assert!(here.iter().all(|(.., thread)| thread != "loader"), "{here:?}");
    assert!(ahead.iter().all(|(.., thread)| thread == "loader"), "{ahead:?}");
}

#[test]
fn the_loader_is_one_step_ahead_at_most_and_a_stop_loses_nothing() {
    let corpus = Corpus::new(30);
    let settings = Settings { keep_best: 0, ..settings() };
    let mut straight = Tiny::new(Kind::Float, 0.3);
    run(std::slice::from_mut(&mut straight), &corpus, &settings, &mut MemoryHost::default())
        .unwrap();
    // A step asks before it begins and before each of its micro-batches, and stops at its second.
    let asks = settings.accumulate + 1;
    for steps in [1, 4, 11] {
        let mut host = MemoryHost::default();
        host.stop_at = Some(steps * asks + 2);
        let data = Watched::new(&corpus);
        let mut model = Tiny::new(Kind::Float, 0.3);
        let stopped = trained(&mut model, &data, &settings, &mut host);
        assert!(matches!(stopped, Err(StageError::Stopped)));
        let state = host.checkpoint.as_ref().unwrap().state.clone();
        assert!(state.contains(&format!(r#""step":{steps},"#)), "{state}");
        // The step that was given up, and the one after it.
        assert!(data.steps() <= steps + 2, "{} for {steps}", data.steps());
        assert!(data.steps() > steps, "{} for {steps}", data.steps());

        host.survive();
        let again = Watched::new(&corpus);
        let mut resumed = Tiny::new(Kind::Float, 0.3);
        trained(&mut resumed, &again, &settings, &mut host).unwrap();
        assert_eq!(again.steps(), settings.steps as usize - steps);
        assert_eq!(bits(&resumed.parameters()), bits(&straight.parameters()));
    }
}

#[test]
fn a_batch_that_cannot_be_made_fails_its_own_step_and_no_earlier_one() {
    let corpus = Corpus::new(30);
    let settings = settings();
    let data = Watched { broken: Some(3 * settings.accumulate), ..Watched::new(&corpus) };
    let mut host = MemoryHost::default();
    let mut model = Tiny::new(Kind::Float, 0.0);
    let error = trained(&mut model, &data, &settings, &mut host).unwrap_err();
    assert_eq!(error.to_string(), "a file is gone");
    assert_eq!(host.values("loss").len(), 3);
}

#[test]
fn batches_that_were_made_ahead_in_another_size_are_made_again() {
    let corpus = Corpus::new(30);
    let settings = Settings { rows: 6, accumulate: 1, ..settings() };
    // Six rows in the first step, and six that were made ahead; then three each.
    let data = Watched::new(&corpus);
    let mut model = Tiny::new(Kind::Float, 0.0);
    model.fits = 3;
    trained(&mut model, &data, &settings, &mut MemoryHost::default()).unwrap();
    let mut sizes: Vec<usize> = data.made().iter().map(|(_, rows, _)| *rows).collect();
    sizes.retain(|rows| *rows == 6);
    assert_eq!(sizes.len(), 2);
    assert_eq!(data.made().len(), 2 + 2 * 12);
}
