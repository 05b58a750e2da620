//! Parallel work on many things by several threads, including the calling one: it would only wait,
//! and a running thread needs no free core.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// Runs the work on `0..count` in shares, each on any free thread, and returns the results in
/// order; None if a thread panicked.
pub fn in_shares<T: Send>(
    count: usize,
    share: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> Vec<T> + Sync,
) -> Option<Vec<T>> {
    let share = share.max(1);
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let first = next.fetch_add(share, Ordering::Relaxed);
            if first >= count {
                return done;
            }
            done.push((first, work(first..(first + share).min(count))));
        }
    };
    let helpers = threads.clamp(1, count.div_ceil(share).max(1)) - 1;
    let mut done = std::thread::scope(|scope| {
        // If the machine has no thread for a helper, the others do its share.
        let start = |_| Builder::new().spawn_scoped(scope, take).ok();
        let helpers: Vec<_> = (0..helpers).map_while(start).collect();
        let own = take();
        // Waits for all of them, whatever the first one did.
        let others: Vec<_> = helpers.into_iter().map(|helper| helper.join()).collect();
        others.into_iter().try_fold(own, |mut done, other| {
            done.extend(other.ok()?);
            Some(done)
        })
    })?;
    done.sort_unstable_by_key(|(first, _)| *first);
    Some(done.into_iter().flat_map(|(_, made)| made).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn everything_is_done_once_and_in_order() {
        for (count, share, threads) in [(0, 4, 3), (1, 4, 3), (10, 4, 2), (1_000, 7, 5), (9, 0, 0)]
        {
            let squares =
                in_shares(count, share, threads, |range| range.map(|at| at * at).collect());
            let expected: Vec<usize> = (0..count).map(|at| at * at).collect();
            assert_eq!(squares, Some(expected), "{count} in shares of {share} by {threads}");
        }
    }

    #[test]
    fn a_panic_of_a_helper_is_told() {
        let own = std::thread::current().id();
        let helped = AtomicBool::new(false);
        let done = in_shares(2, 1, 2, |range| {
            if std::thread::current().id() != own {
                helped.store(true, Ordering::Relaxed);
                panic!("of a helper");
            }
            while !helped.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            vec![range.start]
        });
        assert_eq!(done, None);
    }
}
