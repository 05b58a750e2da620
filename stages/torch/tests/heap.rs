//! Freed memory of a worker. One test in a program of its own: it measures the memory of the process.
#![allow(clippy::unwrap_used)]

use stage_torch::heap::{Heap, resident_bytes};

const MEGABYTE: u64 = 1 << 20;
const BLOCKS: u64 = 800;

#[test]
fn memory_that_work_has_freed_goes_back_to_the_system_and_a_little_is_kept() {
    let heap = Heap::default();
    heap.trim();
    let before = resident_bytes().unwrap();
    // Small enough that the allocator keeps them; the last one keeps all others in the heap.
    let blocks: Vec<Vec<u8>> = (0..BLOCKS * 16).map(|_| vec![1; 64 << 10]).collect();
    let last = vec![1_u8; 64 << 10];
    drop(blocks);
    let kept = resident_bytes().unwrap() - before;
    assert!(kept > BLOCKS / 2 * MEGABYTE, "the allocator returned memory itself: {kept}");
    heap.trim();
    let kept = resident_bytes().unwrap().saturating_sub(before);
    assert!(kept < BLOCKS / 8 * MEGABYTE, "{kept} bytes are kept");
    drop(last);
    // A little is not worth the search.
    let little: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; 64 << 10]).collect();
    let last = vec![1_u8; 64 << 10];
    drop(little);
    let before = resident_bytes().unwrap();
    heap.trim();
    assert_eq!(resident_bytes().unwrap() / MEGABYTE, before / MEGABYTE);
    drop(last);
}
