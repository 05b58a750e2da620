//! One model on several devices: a thread each, gradients summed on the first, weights copied back
//! from it.
//!
//! Threads share no random numbers: each micro-batch has its own seed, and dropout is a function of
//! the seed alone (`layers::dropout`), not of libtorch's generator, which all threads of the
//! process share.

use std::io;
use std::thread::{Builder, ScopedJoinHandle};

use tch::Tensor;

use super::gradients;
use super::losses::Losses;
use super::optimisers::of_phase;
use super::trainee::{Phase, Trainee};
use crate::error::{TorchError, caught};

/// A piece of work for one replica.
pub struct MicroBatch<'a, B> {
    pub batch: &'a B,
    pub seed: u64,
}

/// Accumulates one micro-batch on each replica at a time; at most as many as there are replicas.
/// The seeds are those of the micro-batches, and that of `phase` is ignored.
pub fn accumulate<T: Trainee>(
    replicas: &mut [T],
    round: &[MicroBatch<'_, T::Batch>],
    phase: &Phase<'_>,
) -> Result<Losses, TorchError> {
    let work = |replica: &mut T, micro: &MicroBatch<'_, T::Batch>| {
        replica.accumulate(micro.batch, &Phase { seed: micro.seed, ..*phase })
    };
    together(replicas, round, work)
}

/// The losses of a batch on each replica, without gradients.
pub fn evaluate<T: Trainee>(
    replicas: &mut [T],
    round: &[MicroBatch<'_, T::Batch>],
) -> Result<Losses, TorchError> {
    let work = |replica: &mut T, micro: &MicroBatch<'_, T::Batch>| {
        let _guard = tch::no_grad_guard();
        replica.evaluate(micro.batch)
    };
    together(replicas, round, work)
}

/// Runs the work of a round, on the calling thread if there is only one replica; losses are added
/// in the order of the replicas.
fn together<T: Trainee>(
    replicas: &mut [T],
    round: &[MicroBatch<'_, T::Batch>],
    work: impl Fn(&mut T, &MicroBatch<'_, T::Batch>) -> Result<Losses, TorchError> + Sync,
) -> Result<Losses, TorchError> {
    // Methods of tch may panic with the text of libtorch, out of memory included.
    let guarded =
        |replica: &mut T, micro: &MicroBatch<'_, T::Batch>| caught(|| work(replica, micro));
    let mut pairs = replicas.iter_mut().zip(round);
    let (1, Some((replica, micro))) = (round.len(), pairs.next()) else {
        return spread(replicas, round, guarded);
    };
    guarded(replica, micro)
}

fn spread<T: Trainee>(
    replicas: &mut [T],
    round: &[MicroBatch<'_, T::Batch>],
    work: impl Fn(&mut T, &MicroBatch<'_, T::Batch>) -> Result<Losses, TorchError> + Sync,
) -> Result<Losses, TorchError> {
    // A new thread starts with libtorch's default, which may differ.
    let threads = tch::get_num_threads();
    let work = &work;
    let results: Vec<Result<Losses, TorchError>> = std::thread::scope(|scope| {
        let start = |(replica, micro)| {
            Builder::new().spawn_scoped(scope, move || {
                tch::set_num_threads(threads);
                work(replica, micro)
            })
        };
        let running: Vec<_> = replicas.iter_mut().zip(round).map(start).collect();
        let end = |thread: io::Result<ScopedJoinHandle<'_, Result<Losses, TorchError>>>| {
            let thread = thread.map_err(TorchError::no_thread)?;
            thread.join().unwrap_or_else(|panic| Err(TorchError::from_panic(panic)))
        };
        running.into_iter().map(end).collect()
    });
    let mut losses = Losses::default();
    for result in results {
        losses.add(result?);
    }
    Ok(losses)
}

/// The gradients of a phase's parameters, summed over all replicas, on the device of the first.
pub fn gradients<T: Trainee>(replicas: &[T], phase: usize) -> Vec<Option<Tensor>> {
    let Some((first, others)) = replicas.split_first() else { return Vec::new() };
    let parameters = of_phase(first, phase);
    let mut sums = gradients::of(&parameters);
    for other in others {
        gradients::add(&mut sums, &parameters, &gradients::of(&of_phase(other, phase)));
    }
    sums
}

/// See [`gradients::sum_in_f32`].
pub fn sum_in_f32<T: Trainee>(replicas: &[T]) {
    replicas.iter().for_each(|replica| gradients::sum_in_f32(&replica.parameters()));
}

pub fn clear_gradients<T: Trainee>(replicas: &[T]) {
    replicas.iter().for_each(|replica| gradients::clear(&replica.parameters()));
}

/// Copies the weights of the first replica to the others.
pub fn share_weights<T: Trainee>(replicas: &[T]) {
    share(replicas, Trainee::parameters);
}

/// The same for the parameters of a phase.
pub fn share_phase<T: Trainee>(replicas: &[T], phase: usize) {
    share(replicas, |replica| of_phase(replica, phase));
}

fn share<T: Trainee>(replicas: &[T], parameters: impl Fn(&T) -> Vec<(String, Tensor)>) {
    let _guard = tch::no_grad_guard();
    let Some((first, others)) = replicas.split_first() else { return };
    let weights = parameters(first);
    for other in others {
        for ((_, from), (_, to)) in weights.iter().zip(parameters(other)) {
            to.shallow_clone().copy_(from);
        }
    }
}

/// Refuses replicas with different trained tensors.
pub fn check<T: Trainee>(replicas: &[T]) -> Result<(), TorchError> {
    let describe = |replica: &T| -> Vec<(String, Vec<i64>, tch::Kind)> {
        let parameters = replica.parameters().into_iter();
        parameters.map(|(name, tensor)| (name, tensor.size(), tensor.kind())).collect()
    };
    let Some((first, others)) = replicas.split_first() else {
        return Err(TorchError::Input("there is no device to train on".into()));
    };
    let expected = describe(first);
    if expected.is_empty() {
        return Err(TorchError::Input("the model has no parameters to train".into()));
    }
    if let Some(pair) = expected.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let message = format!("parameters out of order: `{}`, `{}`", pair[0].0, pair[1].0);
        return Err(TorchError::Input(message));
    }
    if let Some(phase) = (0..T::PHASES.len())
        .find(|phase| first.has_phase(*phase) && of_phase(first, *phase).is_empty())
    {
        let message = format!("the phase `{}` has no parameters to train", T::PHASES[phase]);
        return Err(TorchError::Input(message));
    }
    if others.iter().all(|other| describe(other) == expected) {
        Ok(())
    } else {
        Err(TorchError::Input("the replicas train different tensors".into()))
    }
}
