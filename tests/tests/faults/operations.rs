//! Single failing file operations: the error names the place, nothing breaks, the next run
//! finishes.

use std::error::Error;

use cache::CacheError;
use cache::fs::fault::{EACCES, EINTR, EIO, EMFILE, ENOSPC};
use cache::fs::{Call, Fault, MemoryFs};
use engine::engine::EngineError;
use engine::event::Status;
use throstle_tests::worlds::{eager, edited, faulty, fresh};
use throstle_tests::{Lab, Ran};

/// Every operation up to here, and then samples.
const EVERY: u64 = 100;
const STRIDE: usize = 7;

fn undisturbed(world: &MemoryFs) -> Lab {
    let lab = Lab::in_memory(&world.duplicate());
    assert_eq!(lab.run().status, Status::Done);
    lab
}

/// The whole chain of an error as text.
fn chain(error: &EngineError) -> String {
    let mut text = error.to_string();
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn is_named(message: &str) -> bool {
    message.contains("`/lab") || message.contains("`data") || message.contains("`out")
}

/// Only a denial is about the file itself: any other fault is one of the machine.
fn is_denial(fault: &Fault) -> bool {
    matches!(fault, Fault::Nth { error: EACCES, .. } | Fault::NthOf { error: EACCES, .. })
}

/// A run that met a fault either finished or reports the failed operation.
fn says_what_failed(result: &Result<Ran, EngineError>, expected: &Lab, lab: &Lab, fault: &Fault) {
    let place = format!("{fault:?}");
    match result {
        Err(error) => assert!(is_named(&chain(error)), "{place}: {}", chain(error)),
        // Unreadable files are quarantined, each with its name.
        Ok(ran) if ran.status == Status::Done && !ran.set_aside().is_empty() => {
            assert!(is_denial(fault), "{place}: {:?}", ran.set_aside());
            assert!(ran.set_aside().iter().all(|why| is_named(why)), "{place}: {ran:?}");
        }
        Ok(ran) if ran.status == Status::Done => {
            assert_eq!(lab.exports(), expected.exports(), "{place}");
        }
        Ok(ran) if ran.status == Status::Paused => {
            assert!(ran.stopping().first().is_some_and(|why| is_named(why)), "{place}: {ran:?}");
        }
        Ok(ran) => {
            let failures = ran.failures();
            assert!(!failures.is_empty(), "{place}: {ran:?}");
            let named = failures.iter().any(|message| is_named(message));
            assert!(named, "{place}: {failures:?}");
        }
    }
}

/// After the fault is gone.
fn finishes(memory: &MemoryFs, expected: &Lab, place: &str) {
    let lab = Lab::in_memory(&memory.kill());
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{place}: {:?}", ran.events);
    assert_eq!(lab.exports(), expected.exports(), "{place}");
    assert!(lab.run().nothing_executed(), "{place}");
}

fn every_operation_may_fail(world: &MemoryFs, error: i32, stride: usize) {
    let numbers = (0..EVERY).chain((EVERY..).step_by(stride));
    let faults = numbers.map(|operation| Fault::Nth { operation, error });
    let tried = each_may_happen(world, faults);
    assert!(tried > EVERY, "only {tried} operations failed");
}

/// Up to the first fault that never occurs. Returns the number that did.
fn each_may_happen(world: &MemoryFs, faults: impl Iterator<Item = Fault>) -> u64 {
    let expected = undisturbed(world);
    let mut struck = 0;
    for fault in faults {
        let memory = world.duplicate();
        let (lab, layer) = faulty(&memory);
        let pipeline = lab.pipeline();
        layer.set(vec![fault.clone()]);
        let result = lab.attempt(&pipeline, &eager());
        if layer.struck() == 0 {
            break;
        }
        struck += 1;
        says_what_failed(&result, &expected, &lab, &fault);
        finishes(&memory, &expected, &format!("{fault:?}"));
    }
    struck
}

#[test]
fn any_operation_of_a_first_run_may_fail_with_an_io_error() {
    every_operation_may_fail(&fresh(), EIO, STRIDE);
}

#[test]
fn any_operation_after_an_edit_may_fail_with_an_io_error() {
    every_operation_may_fail(&edited(), EIO, STRIDE);
}

/// If a check of a path fails, removals that depend on it are not forgotten.
#[test]
fn any_look_at_a_path_after_an_edit_may_fail() {
    let looks = (0..).map(|operation| Fault::NthOf { call: Call::Metadata, operation, error: EIO });
    let tried = each_may_happen(&edited(), looks);
    assert!(tried > 50, "only {tried} looks failed");
}

#[test]
fn any_operation_may_be_denied() {
    every_operation_may_fail(&edited(), EACCES, 3 * STRIDE);
}

#[test]
fn any_operation_may_find_no_free_handle() {
    every_operation_may_fail(&fresh(), EMFILE, 3 * STRIDE);
}

#[test]
fn any_operation_may_find_the_disk_full() {
    every_operation_may_fail(&fresh(), ENOSPC, 3 * STRIDE);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_every_single_operation_fails_in_every_way() {
    for world in [fresh(), edited()] {
        for error in [EIO, EACCES, EMFILE, ENOSPC] {
            every_operation_may_fail(&world, error, 1);
        }
    }
}

#[test]
fn interrupted_operations_are_repeated() {
    let world = edited();
    let expected = undisturbed(&world);
    for operation in (0..).step_by(29) {
        let memory = world.duplicate();
        let (lab, faults) = faulty(&memory);
        let pipeline = lab.pipeline();
        faults.set(vec![Fault::Nth { operation, error: EINTR }]);
        let ran = lab.attempt(&pipeline, &eager()).unwrap();
        assert_eq!(ran.status, Status::Done, "operation {operation}");
        assert_eq!(lab.exports(), expected.exports(), "operation {operation}");
        if faults.struck() == 0 {
            assert!(operation > 100, "only {operation} operations were seen");
            return;
        }
    }
}

#[test]
fn short_writes_are_continued() {
    let world = edited();
    let expected = undisturbed(&world);
    let (lab, faults) = faulty(&world);
    let pipeline = lab.pipeline();
    faults.set(vec![Fault::ShortWrites { limit: 13 }]);
    let ran = lab.attempt(&pipeline, &eager()).unwrap();
    assert_eq!((ran.status, lab.exports()), (Status::Done, expected.exports()));
}

/// Runs with this space; then with enough.
fn pauses_for_space(world: &MemoryFs, expected: &Lab, bytes: u64) -> bool {
    let memory = world.duplicate();
    let (lab, faults) = faulty(&memory);
    let pipeline = lab.pipeline();
    faults.set(vec![Fault::Space { bytes, error: ENOSPC }]);
    let result = lab.attempt(&pipeline, &eager());
    let place = format!("{bytes} bytes of space");
    let message = match &result {
        Ok(ran) if faults.struck() == 0 => {
            assert_eq!(ran.status, Status::Done, "{place}");
            return false;
        }
        // Only a line in the log of runs is missing.
        Ok(ran) if ran.status == Status::Done => {
            assert_eq!(lab.exports(), expected.exports(), "{place}");
            assert!(Lab::in_memory(&memory.kill()).run().nothing_executed(), "{place}");
            return true;
        }
        Ok(ran) => {
            assert_eq!(ran.status, Status::Paused, "{place}: {:?}", ran.events);
            ran.stopping().remove(0)
        }
        // There is not even a cache yet.
        Err(EngineError::Cache(error @ (CacheError::NoSpace { .. } | CacheError::Fs(_)))) => {
            if let CacheError::Fs(error) = error {
                assert!(error.is_no_space(), "{place}: {error}");
            }
            error.to_string()
        }
        Err(error) => panic!("{place}: {error}"),
    };
    assert!(is_named(&message), "{place}: {message}");
    let done = Lab::in_memory(&memory.kill()).item_records();
    let again = Lab::in_memory(&memory.kill());
    let ran = again.run();
    assert_eq!((ran.status, again.exports()), (Status::Done, expected.exports()), "{place}");
    assert_eq!(ran.items_executed(), again.item_records() - done, "{place}");
    true
}

#[test]
fn a_full_disk_pauses_the_run_and_only_the_rest_is_done_once_there_is_space() {
    let world = fresh();
    let expected = undisturbed(&world);
    let mut paused = 0;
    for bytes in (0..).step_by(401) {
        if !pauses_for_space(&world, &expected, bytes) {
            break;
        }
        paused += 1;
    }
    assert!(paused > 10, "{paused} pauses");
}

#[test]
fn a_full_disk_pauses_a_run_with_large_outputs() {
    let world = fresh();
    Lab::in_memory(&world).write("data/zoe.txt", &"long ".repeat(130_000));
    let expected = undisturbed(&world);
    for bytes in [400_000, 700_000, 1_500_000, 2_500_000, 4_000_000] {
        pauses_for_space(&world, &expected, bytes);
    }
}
