//! The power is cut at every sync of a run. The next run does the work that was not durable and
//! nothing else, and gives the result of an undisturbed run.

use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache, VerifyOptions, VerifyReport};
use engine::event::Status;
use throstle_tests::worlds::{
    eager, edited, edited_with, finished, finishes_like, fresh, fresh_with,
};
use throstle_tests::{Lab, SPLIT_MANIFEST};

/// Cuts the power after each sync of a run and returns the contents of the disk at that moment.
fn at_every_cut(world: &MemoryFs, mut check: impl FnMut(&MemoryFs, u64)) -> u64 {
    for cut in 0.. {
        let memory = world.duplicate();
        let lab = Lab::in_memory(&memory);
        let pipeline = lab.pipeline();
        memory.stop_after(cut);
        let result = lab.attempt(&pipeline, &eager());
        if memory.syncs() < cut {
            assert_eq!(result.unwrap().status, Status::Done);
            return cut;
        }
        check(&memory, cut);
    }
    0
}

fn undisturbed(world: &MemoryFs) -> Lab {
    let lab = Lab::in_memory(&world.duplicate());
    assert_eq!(lab.run().status, Status::Done);
    lab
}

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Starts a machine with a boot id.
fn start(memory: &MemoryFs, boot: &str) {
    memory.create_dir_all("/proc/sys/kernel/random".into()).unwrap();
    memory.write_durably(BOOT.into(), boot.as_bytes()).unwrap();
}

/// A machine with a boot id syncs the index of its cache later.
fn telling(world: MemoryFs) -> MemoryFs {
    start(&world, "first");
    world
}

/// The restarted machine with the remaining contents of its disk.
fn started_anew(disk: MemoryFs) -> MemoryFs {
    if disk.exists(BOOT.into()).unwrap() {
        start(&disk, "second");
    }
    disk
}

/// A complete run of the small pipeline has at least this many syncs.
const LEAST_OF_A_RUN: u64 = 5;

/// Repeats runs with a cut at every sync, until there were more than `least` cuts. The number of
/// results that one sync makes durable depends on the threads.
fn survives_every_cut(world: &MemoryFs, least: u64) {
    let expected = undisturbed(world);
    let mut cuts = 0;
    while cuts <= least {
        let of_run = at_every_cut(world, |memory, cut| {
            let place = format!("cut after sync {cut}");
            finishes_like(&started_anew(memory.crash()), &expected, &place);
        });
        assert!(of_run >= LEAST_OF_A_RUN, "only {of_run} syncs were seen");
        cuts += of_run;
    }
}

fn survives_every_order(world: &MemoryFs, seeds: u64) {
    let expected = undisturbed(world);
    at_every_cut(world, |memory, cut| {
        for seed in 0..seeds {
            let place = format!("cut after sync {cut}, order {seed}");
            let disk = memory.crash_reordered(seed * 1000 + cut);
            finishes_like(&started_anew(disk), &expected, &place);
        }
    });
}

#[test]
fn a_first_run_may_be_cut_at_every_sync() {
    survives_every_cut(&fresh(), 70);
}

#[test]
fn a_run_after_an_edit_may_be_cut_at_every_sync() {
    survives_every_cut(&edited(), 70);
}

#[test]
fn a_run_that_makes_several_items_of_one_may_be_cut_at_every_sync() {
    survives_every_cut(&fresh_with(SPLIT_MANIFEST), 70);
    survives_every_cut(&edited_with(SPLIT_MANIFEST), 70);
}

#[test]
fn a_run_whose_index_is_synced_later_may_be_cut_at_every_sync() {
    survives_every_cut(&telling(fresh()), 30);
    survives_every_cut(&telling(edited()), 15);
}

#[test]
fn an_index_that_is_synced_later_may_reach_the_disk_in_any_order() {
    survives_every_order(&telling(fresh()), 3);
    survives_every_order(&telling(edited()), 3);
}

#[test]
fn unsynced_writes_of_a_first_run_may_reach_the_disk_in_any_order() {
    survives_every_order(&fresh(), 3);
}

#[test]
fn unsynced_writes_after_an_edit_may_reach_the_disk_in_any_order() {
    survives_every_order(&edited(), 3);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_unsynced_writes_in_many_orders() {
    survives_every_order(&fresh(), 40);
    survives_every_order(&edited(), 40);
    survives_every_order(&telling(fresh()), 40);
    survives_every_order(&telling(edited()), 40);
}

#[test]
fn what_a_finished_run_has_done_survives_a_cut_at_once() {
    let world = finished();
    let expected = undisturbed(&world);
    for (place, memory) in [("crash", world.crash()), ("reordered", world.crash_reordered(7))] {
        let lab = Lab::in_memory(&memory);
        assert!(lab.run().nothing_executed(), "{place}");
        assert_eq!(lab.exports(), expected.exports(), "{place}");
    }
}

#[test]
fn large_outputs_may_be_cut_at_every_sync() {
    let world = fresh();
    Lab::in_memory(&world).write("data/zoe.txt", &"long ".repeat(130_000));
    survives_every_cut(&world, 70);
}

const LEDGER: &str = "/lab/.throstle/ledger.redb";
const STAT_INDEX: &str = "/lab/.throstle/stat.idx";

#[test]
fn the_indices_of_a_finished_run_survive_a_cut() {
    for world in [telling(fresh()), telling(edited())] {
        assert_eq!(Lab::in_memory(&world).run().status, Status::Done);
        let after = started_anew(world.crash());
        // Files that have just been written are hashed once more.
        after.set_clock(after.now() + 60_000_000_000);
        for index in [LEDGER, STAT_INDEX] {
            let bytes = |disk: &MemoryFs| disk.read(index.into()).unwrap();
            assert!(bytes(&after) == bytes(&world), "{index}");
        }
        assert!(Lab::in_memory(&after).run().nothing_executed());
        // Exports that the cut has taken were written again, and are hashed once more as well.
        for syncs_nothing in [false, true] {
            after.set_clock(after.now() + 60_000_000_000);
            let before = after.syncs();
            assert!(Lab::in_memory(&after).run().nothing_executed());
            assert!(!syncs_nothing || after.syncs() == before, "a run without changes syncs");
        }
    }
}

#[test]
fn lost_indices_are_no_damage_and_make_no_work() {
    for lost in [&[LEDGER][..], &[STAT_INDEX], &[LEDGER, STAT_INDEX]] {
        let world = telling(fresh());
        assert_eq!(Lab::in_memory(&world).run().status, Status::Done);
        for index in lost {
            world.overwrite((*index).into(), b"").unwrap();
        }
        let lab = Lab::in_memory(&world);
        for spec in &lab.pipeline().stages {
            assert_eq!(lab.reasons(&spec.name), [""; 0], "{lost:?}: {}", spec.name);
        }
        let ran = lab.run();
        assert!(ran.nothing_executed(), "{lost:?}: {ran:?}");
        assert_eq!(ran.damaged(), [""; 0]);
    }
}

#[test]
fn recordings_that_were_only_touched_are_no_lost_objects() {
    let world = telling(fresh());
    assert_eq!(Lab::in_memory(&world).run().status, Status::Done);
    // The mark of losses makes a run look for every object.
    world.overwrite(LEDGER.into(), b"").unwrap();
    for (path, bytes) in world.files() {
        if path.starts_with("/lab/data") {
            world.write_durably(&path, &bytes).unwrap();
        }
    }
    assert!(Lab::in_memory(&world).run().nothing_executed());
}

#[test]
fn a_check_is_the_first_command_after_a_cut_and_sees_everything() {
    let mut most = 0;
    for seed in 0..12 {
        let world = telling(fresh());
        let lab = Lab::in_memory(&world);
        world.stop_after(20 + seed * 3);
        let _ = lab.attempt(&lab.pipeline(), &eager());
        let is_reordered = seed % 2 == 1;
        let cut = || if is_reordered { world.crash_reordered(seed) } else { world.crash() };
        let disk = started_anew(cut());
        let open = |disk: &MemoryFs, access| {
            Cache::open("/lab/.throstle".into(), Arc::new(disk.clone()), access).unwrap()
        };
        let options = VerifyOptions { read_data: true, ..VerifyOptions::default() };
        let check = |cache: Cache| cache.verify(options, &|_, _| {}).unwrap();
        let looked = check(open(&disk.duplicate(), Access::ReadOnly));
        let healed = check(open(&disk, Access::ReadWrite));
        assert!(looked.is_clean() && healed.is_clean(), "{seed}: {looked:?} {healed:?}");
        // Behind a torn entry, a writer cuts the pack off, and a reader reads on.
        if !is_reordered {
            let found = |report: &VerifyReport| (report.objects, report.records);
            assert_eq!(found(&looked), found(&healed), "{seed}");
        }
        most = most.max(healed.objects);
    }
    assert!(most > 0, "no run had committed anything");
}

/// Runs, then replaces an export by the zeros that a power cut leaves, with an unchanged stat; then
/// restarts the machine, or not.
fn exported_after_zeros(next_boot: &str) -> Lab {
    let memory = fresh();
    let lab = Lab::in_memory(&memory);
    start(&memory, "first");
    lab.run();
    // The stat index trusts files that are clearly older.
    memory.set_clock(memory.now() + 10_000_000_000);
    lab.remove("out/all.txt");
    lab.run();
    let length = lab.read("out/ben1.txt").unwrap().len();
    memory.overwrite("/lab/out/ben1.txt".into(), &vec![0; length]).unwrap();
    start(&memory, next_boot);
    assert!(lab.run().nothing_executed());
    lab
}

#[test]
fn exports_are_read_once_more_after_the_machine_was_started_anew() {
    let lab = exported_after_zeros("second");
    assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOIN! MOIN!");
}

#[test]
fn exports_are_not_read_while_their_stat_vouches_for_them() {
    let lab = exported_after_zeros("first");
    assert!(lab.read("out/ben1.txt").unwrap().starts_with('\0'));
}

#[test]
fn a_file_without_its_end_is_a_persons_if_it_is_newer_than_its_export() {
    for (is_edited, expected) in [(true, "MOIN! MO"), (false, "MOIN! MOIN!")] {
        let memory = fresh();
        let lab = Lab::in_memory(&memory);
        start(&memory, "first");
        assert_eq!(lab.run().status, Status::Done);
        if is_edited {
            memory.set_clock(memory.now() + 60_000_000_000);
            lab.write("out/ben1.txt", "MOIN! MO");
        } else {
            memory.overwrite("/lab/out/ben1.txt".into(), b"MOIN! MO").unwrap();
        }
        for boot in ["second", "third"] {
            start(&memory, boot);
            assert!(lab.run().nothing_executed());
            assert_eq!(lab.read("out/ben1.txt").as_deref(), Some(expected), "{boot}");
        }
    }
}

#[test]
fn a_kept_file_stays_without_the_stat_index() {
    let memory = fresh();
    let lab = Lab::in_memory(&memory);
    start(&memory, "first");
    assert_eq!(lab.run().status, Status::Done);
    memory.set_clock(memory.now() + 60_000_000_000);
    lab.write("out/ben1.txt", "mine");
    memory.set_clock(memory.now() + 60_000_000_000);
    lab.run();
    memory.overwrite(STAT_INDEX.into(), b"").unwrap();
    start(&memory, "second");
    assert!(lab.run().nothing_executed());
    assert_eq!(lab.read("out/ben1.txt").as_deref(), Some("mine"));
}

#[test]
fn a_shortened_file_is_a_persons_if_it_was_changed_after_the_start_of_the_machine() {
    for (booted, expected) in [(0, "MOIN! MO"), (i64::from(u32::MAX), "MOIN! MOIN!")] {
        let world = fresh();
        start(&world, "first");
        let lab = Lab::in_memory(&world);
        assert_eq!(lab.run().status, Status::Done);
        // The next run is cut off.
        lab.write("data/dora1.txt", "hej");
        world.stop_after(3);
        let _ = lab.attempt(&lab.pipeline(), &eager());
        let disk = world.kill();
        start(&disk, "second");
        disk.create_dir_all("/proc".into()).unwrap();
        disk.write_durably("/proc/stat".into(), format!("cpu 1\nbtime {booted}\n").as_bytes())
            .unwrap();
        disk.set_clock(disk.now() + 60_000_000_000);
        let lab = Lab::in_memory(&disk);
        lab.write("out/ben1.txt", "MOIN! MO");
        lab.run();
        assert_eq!(lab.read("out/ben1.txt").as_deref(), Some(expected), "{booted}");
    }
}
