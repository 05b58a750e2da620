//! Micro-batches and replicas: the same step, divided differently.

use tch::{Kind, Tensor};

use super::memory::MemoryHost;
use super::tiny::{Corpus, Letters, Tiny};
use super::{run, settings};
use crate::train::Trainee;
use crate::train::settings::Settings;

/// The parameters after a training without dropout, since its masks depend on the micro-batch.
fn parameters(replicas: usize, settings: &Settings) -> Vec<(String, Tensor)> {
    trained(&|| Tiny::new(Kind::Float, 0.0), replicas, settings)
}

/// The same for any model.
pub fn trained<T: Trainee<Batch = Letters>>(
    make: &dyn Fn() -> T,
    replicas: usize,
    settings: &Settings,
) -> Vec<(String, Tensor)> {
    let mut replicas: Vec<T> = (0..replicas).map(|_| make()).collect();
    run(&mut replicas, &Corpus::new(30), settings, &mut MemoryHost::default()).unwrap();
    let first = replicas[0].parameters();
    for other in &replicas[1..] {
        assert_eq!(first, other.parameters());
    }
    first
}

pub fn worst(one: &[(String, Tensor)], other: &[(String, Tensor)]) -> f64 {
    let far = |((_, one), (_, other)): (&(String, Tensor), &(String, Tensor))| {
        (one - other).abs().max().double_value(&[])
    };
    one.iter().zip(other).map(far).fold(0.0, f64::max)
}

#[test]
fn micro_batches_of_any_size_add_up_to_the_same_step() {
    // Clips and rows have different lengths, so a mean of means would be off.
    let whole = parameters(1, &Settings { rows: 6, accumulate: 1, ..settings() });
    for (rows, accumulate) in [(1, 6), (2, 3), (3, 2)] {
        let parts = parameters(1, &Settings { rows, accumulate, ..settings() });
        let worst = worst(&whole, &parts);
        assert!(worst < 1e-5, "{worst}");
    }
}

#[test]
fn two_devices_equal_one_with_twice_the_micro_batches() {
    let settings = Settings { rows: 2, accumulate: 4, ..settings() };
    let one = parameters(1, &settings);
    for replicas in [2, 3] {
        let several = parameters(replicas, &settings);
        let worst = worst(&one, &several);
        assert!(worst < 1e-5, "{worst}");
    }
}

#[test]
fn a_step_of_one_micro_batch_is_divided_among_the_devices() {
    let settings = Settings { rows: 6, accumulate: 1, ..settings() };
    let one = parameters(1, &settings);
    for replicas in [2, 3] {
        // More rows than its share fit on no device.
        let make = || {
            let mut tiny = Tiny::new(Kind::Float, 0.0);
            tiny.fits = 6usize.div_ceil(replicas);
            tiny
        };
        let mut host = MemoryHost::default();
        let mut several: Vec<Tiny> = (0..replicas).map(|_| make()).collect();
        run(&mut several, &Corpus::new(30), &settings, &mut host).unwrap();
        let checkpoint = host.checkpoint.unwrap();
        assert!(checkpoint.state.contains(r#""rows":6"#), "{}", checkpoint.state);
        let worst = worst(&one, &several[0].parameters());
        assert!(worst < 1e-5, "{worst}");
    }
}

#[test]
fn two_devices_give_the_same_bits_each_time_also_with_dropout() {
    let bits = || {
        let mut replicas = [Tiny::new(Kind::Float, 0.3), Tiny::new(Kind::Float, 0.3)];
        run(&mut replicas, &Corpus::new(30), &settings(), &mut MemoryHost::default()).unwrap();
        replicas[0].parameters()
    };
    assert_eq!(bits(), bits());
}

#[test]
fn a_micro_batch_that_does_not_fit_is_halved_until_it_does() {
    let settings = Settings { rows: 6, accumulate: 1, ..settings() };
    let whole = parameters(1, &settings);
    let train = |fits| {
        let mut tiny = Tiny::new(Kind::Float, 0.0);
        tiny.fits = fits;
        let mut host = MemoryHost::default();
        let result = run(std::slice::from_mut(&mut tiny), &Corpus::new(30), &settings, &mut host);
        (result, tiny.parameters(), host)
    };
    let (result, halved, host) = train(2);
    result.unwrap();
    assert!(worst(&whole, &halved) < 1e-5);
    assert!(host.checkpoint.unwrap().state.contains(r#""rows":2"#));
    let (result, _, _) = train(0);
    assert!(matches!(result, Err(stage_core::StageError::OutOfMemory { .. })), "{result:?}");
}

#[test]
fn replicas_of_different_models_are_refused() {
    let mut replicas = [Tiny::new(Kind::Float, 0.0), Tiny::adapted()];
    let error = run(&mut replicas, &Corpus::new(30), &settings(), &mut MemoryHost::default());
    let expected = "the replicas train different tensors";
    assert_eq!(error.unwrap_err().to_string(), expected);
    let error = run::<Tiny>(&mut [], &Corpus::new(30), &settings(), &mut MemoryHost::default());
    assert_eq!(error.unwrap_err().to_string(), "there is no device to train on");
}
