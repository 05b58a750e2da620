//! Work that several threads share.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Work with fewer multiplications than this is done by the calling thread.
const LEAST: usize = 1 << 16;

/// Pieces of work for each thread, so that a thread that is held up leaves work to the others.
pub const PIECES: usize = 4;

/// Calls `work` with each number below `count`, on the threads that libtorch computes with.
pub fn share(threads: usize, multiplications: usize, count: usize, work: impl Fn(usize) + Sync) {
    if threads <= 1 || count <= 1 || multiplications < LEAST {
        return (0..count).for_each(work);
    }
    let next = AtomicUsize::new(0);
    crate::runtime::shim::on_threads(threads.min(count), || {
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                at if at < count => work(at),
                _ => break,
            }
        }
    });
}

/// Numbers that several threads write, each to places of its own.
#[derive(Clone, Copy)]
pub struct SharedSlice<'a> {
    start: *mut f32,
    length: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: the only access is `part`, where the caller answers for the places.
unsafe impl Sync for SharedSlice<'_> {}

impl<'a> SharedSlice<'a> {
    pub fn new(values: &'a mut [f32]) -> SharedSlice<'a> {
        SharedSlice { start: values.as_mut_ptr(), length: values.len(), lifetime: PhantomData }
    }

    /// # Safety
    /// Nobody else uses these places as long as the part lives.
    pub unsafe fn part(self, start: usize, length: usize) -> &'a mut [f32] {
        assert!(start <= self.length && length <= self.length - start);
        // SAFETY: the places are within the numbers, which are borrowed for as long.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_done_once_whatever_the_number_of_threads() {
        for (threads, multiplications) in [(0, LEAST), (1, LEAST), (2, 1), (2, LEAST), (5, LEAST)] {
            for count in [0, 1, 2, 31] {
                let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                share(threads, multiplications, count, |at| {
                    done[at].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn a_panic_of_a_thread_is_one_of_the_caller() {
        let panics = || share(3, LEAST, 9, |at| assert_ne!(at, 5, "the fifth"));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
