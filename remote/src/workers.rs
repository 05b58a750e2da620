//! Several requests at a time.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// Does the work for each of these, at most this many at a time; the results are in order. Without
/// threads, one after the other.
pub fn each<T: Sync, R: Send>(all: &[T], at_once: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(all.len()));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else { return };
            let result = work(one);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..at_once.min(all.len()) {
            // If a thread cannot start, the others do its work.
            let _ = Builder::new().name("remote".into()).spawn_scoped(scope, run);
        }
        run();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_the_results_are_in_order() {
        let all: Vec<usize> = (0..100).collect();
        for at_once in [1, 16] {
            let doubled = each(&all, at_once, |number| number * 2);
            assert!(doubled.iter().enumerate().all(|(at, found)| *found == at * 2));
        }
        assert!(each(&[] as &[usize], 16, |number| *number).is_empty());
    }
}
