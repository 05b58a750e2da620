//! Work on many clips by several threads, each with libtorch on a single thread.
//!
//! A matrix product may round differently when another number of threads shares it, so the clips
//! are distributed over threads and never the work within a clip.

use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use crate::error::TorchError;
use crate::runtime::shim;

/// Makes libtorch compute on the calling thread only.
pub fn one_thread() {
    if tch::get_num_threads() != 1 {
        tch::set_num_threads(1);
    }
}

/// Calls `work` once per thread, with its share of the indices (of `count`); the results are in the
/// order of the indices.
pub fn spread<O: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(&[usize]) -> Result<Vec<O>, TorchError> + Sync,
) -> Result<Vec<O>, TorchError> {
    let threads = threads.clamp(1, count.max(1));
    let shares: Vec<Vec<usize>> =
        (0..threads).map(|first| (first..count).step_by(threads).collect()).collect();
    let work = |share: &[usize]| {
        one_thread();
        work(share)
    };
    let results: Vec<Result<Vec<O>, TorchError>> = if threads == 1 {
        shares.iter().map(|share| work(share)).collect()
    } else {
        std::thread::scope(|scope| {
            let work = &work;
            let start = |share| Builder::new().spawn_scoped(scope, move || work(share));
            let running: Vec<_> = shares.iter().map(|share| start(share.as_slice())).collect();
            let joined = running.into_iter().map(|thread| {
                let thread = thread.map_err(TorchError::no_thread)?;
                thread.join().unwrap_or_else(|panic| Err(TorchError::from_panic(panic)))
            });
            joined.collect()
        })
    };
    let mut columns = Vec::with_capacity(threads);
    for result in results {
        columns.push(result?.into_iter());
    }
    Ok((0..count).filter_map(|place| columns[place % threads].next()).collect())
}

/// The count of numbers in one piece of work of [`spread_here`].
const PIECE: usize = 1 << 14;

/// Fills numbers that depend only on their positions: `fill` gets the position of the first number
/// of a part. The threads of libtorch share the parts.
pub fn spread_here(values: &mut [f32], fill: impl Fn(usize, &mut [f32]) + Sync) {
    let threads = tch::get_num_threads().max(1) as usize;
    let parts = values.len().div_ceil(PIECE);
    if threads == 1 || parts <= 1 {
        return fill(0, values);
    }
    let left = Mutex::new(values.chunks_mut(PIECE).enumerate());
    shim::on_threads(threads.min(parts), || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some((at, part)) => fill(at * PIECE, part),
                None => break,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        for threads in [0, 1, 2, 3, 7, 20] {
            for count in [0, 1, 2, 7] {
                let work = |share: &[usize]| Ok(share.iter().map(|at| at * 10).collect());
                let results = spread(threads, count, work).unwrap();
                assert_eq!(results, (0..count).map(|at| at * 10).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_number_is_filled_by_its_place_whatever_the_number_of_threads() {
        for threads in [1, 3] {
            tch::set_num_threads(threads);
            let mut values = vec![0f32; 3 * PIECE + 5];
            spread_here(&mut values, |first, part| {
                (first..).zip(part).for_each(|(at, value)| *value = at as f32);
            });
            assert!(values.iter().enumerate().all(|(at, value)| *value == at as f32));
        }
    }

    #[test]
    fn a_panic_and_an_error_of_one_thread_are_errors_of_the_whole() {
        let panics = |share: &[usize]| {
            if share.contains(&1) { panic!("CUDA out of memory") } else { Ok(share.to_vec()) }
        };
        assert!(matches!(spread(3, 5, panics), Err(TorchError::OutOfMemory(_))));
        let fails = |share: &[usize]| {
            if share.contains(&1) {
                Err(TorchError::Input("no".into()))
            } else {
                Ok(share.to_vec())
            }
        };
        assert_eq!(spread(3, 5, fails).unwrap_err().to_string(), "no");
    }
}
