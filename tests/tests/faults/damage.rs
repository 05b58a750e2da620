//! Bits flip and files vanish after a finished run: no wrong output, and only destroyed results are
//! made again.

use std::sync::Arc;

use cache::fs::MemoryFs;
use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use engine::event::Status;
use throstle_tests::worlds::{TEXTS, finished};
use throstle_tests::{Lab, MANIFEST, Ran};

/// Makes the last stages read everything again, while the outcome stays the same.
fn reread(memory: &MemoryFs) -> Lab {
    let lab = Lab::in_memory(memory);
    let manifest = MANIFEST
        .replace("input = \"loud\"", "input = \"loud\"\nsalt = \"again\"")
        .replace("input = \"twice\"", "input = \"twice\"\nsalt = \"again\"");
    lab.write("pipeline.toml", &manifest);
    for path in lab.exports().keys() {
        lab.remove(&format!("out/{path}"));
    }
    lab
}

/// The result of a run after this damage: always the right outputs.
fn survives(memory: &MemoryFs, expected: &Lab, place: &str) -> Ran {
    let lab = reread(memory);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{place}: {:?}", ran.events);
    assert_eq!(lab.exports(), expected.exports(), "{place}");
    assert!(lab.run().nothing_executed(), "{place}");
    ran
}

fn cache_files(memory: &MemoryFs) -> Vec<(Utf8PathBuf, Vec<u8>)> {
    let mut files = memory.files();
    files.retain(|(path, bytes)| path.starts_with("/lab/.throstle") && !bytes.is_empty());
    files
}

fn file(memory: &MemoryFs, end: &str) -> (Utf8PathBuf, Vec<u8>) {
    cache_files(memory).into_iter().find(|(path, _)| path.as_str().ends_with(end)).unwrap()
}

/// A finished run with an output in a separate file.
fn with_large() -> MemoryFs {
    let memory = finished();
    let lab = Lab::in_memory(&memory);
    lab.write("data/zoe.txt", &"long ".repeat(130_000));
    assert_eq!(lab.run().status, Status::Done);
    memory
}

fn flipped(bytes: &[u8], position: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[position] ^= 1 << (position % 8);
    bytes
}

/// Flips one bit at many places of a file, each in a separate world.
fn any_bit_may_flip(name: &str, places: usize, most: u64) {
    let world = finished();
    let expected = Lab::in_memory(&world);
    let (path, bytes) = file(&world, name);
    let step = (bytes.len() / places).max(1);
    for position in (0..bytes.len()).step_by(step) {
        let memory = world.duplicate();
        memory.overwrite(&path, &flipped(&bytes, position)).unwrap();
        let ran = survives(&memory, &expected, &format!("bit in byte {position} of {path}"));
        assert!(ran.executed("loud") <= most, "byte {position}: {ran:?}");
    }
}

#[test]
fn any_bit_of_a_pack_may_flip_and_costs_one_item_at_most() {
    any_bit_may_flip("000001.pack", 150, 1);
}

#[test]
fn any_bit_of_the_ledger_may_flip_and_costs_one_item_at_most() {
    any_bit_may_flip("ledger.redb", 150, 1);
}

#[test]
fn any_bit_of_the_stat_index_may_flip_and_costs_nothing() {
    any_bit_may_flip("stat.idx", 60, 0);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_very_many_bits_flip() {
    any_bit_may_flip("000001.pack", usize::MAX, 1);
    any_bit_may_flip("ledger.redb", 20_000, 1);
    any_bit_may_flip("stat.idx", usize::MAX, 0);
}

#[test]
fn a_destroyed_large_output_is_made_again_and_named() {
    let world = with_large();
    let expected = Lab::in_memory(&world);
    let large: Vec<(Utf8PathBuf, Vec<u8>)> = cache_files(&world)
        .into_iter()
        .filter(|(path, _)| path.starts_with("/lab/.throstle/objects"))
        .collect();
    assert!(!large.is_empty());
    for (path, bytes) in large {
        let zeros = vec![0; bytes.len()];
        for (how, ruin) in [("bit", flipped(&bytes, 77)), ("empty", vec![]), ("zeros", zeros)] {
            let memory = world.duplicate();
            memory.overwrite(&path, &ruin).unwrap();
            let lab = Lab::in_memory(&memory);
            for path in lab.exports().keys() {
                lab.remove(&format!("out/{path}"));
            }
            let ran = lab.run();
            let place = format!("{how} in {path}");
            assert_eq!(ran.status, Status::Done, "{place}: {:?}", ran.events);
            assert_eq!(lab.exports(), expected.exports(), "{place}");
            assert_eq!(ran.executed("loud"), 0, "{place}");
            let again = ran.executed("twice") + ran.executed("joined");
            assert_eq!(again, 1, "{place}: {:?}", ran.events);
            assert_eq!(ran.damaged().len(), 1, "{place}: {:?}", ran.events);
        }
    }
}

#[test]
fn a_pack_cut_anywhere_loses_what_was_cut_and_no_more() {
    let world = finished();
    let expected = Lab::in_memory(&world);
    let (path, bytes) = file(&world, "000001.pack");
    for length in (0..bytes.len()).step_by(bytes.len() / 40) {
        let memory = world.duplicate();
        memory.overwrite(&path, &bytes[..length]).unwrap();
        survives(&memory, &expected, &format!("pack cut to {length}"));
        let report = Lab::in_memory(&memory).verify();
        assert!(report.is_clean(), "pack cut to {length}: {report:?}");
    }
}

#[test]
fn a_pack_of_zeros_is_made_again() {
    let world = finished();
    let expected = Lab::in_memory(&world);
    let (path, bytes) = file(&world, "000001.pack");
    let memory = world.duplicate();
    memory.overwrite(&path, &vec![0; bytes.len()]).unwrap();
    let ran = survives(&memory, &expected, "zeros");
    assert_eq!(ran.executed("loud"), TEXTS.len() as u64);
}

#[test]
fn any_file_of_the_cache_may_be_gone() {
    let world = with_large();
    let expected = Lab::in_memory(&world);
    for (path, _) in cache_files(&world) {
        let memory = world.duplicate();
        let lab = Lab::in_memory(&memory);
        lab.remove(path.strip_prefix("/lab").unwrap().as_str());
        let ran = survives(&memory, &expected, &format!("without {path}"));
        if path.extension() != Some("pack") {
            assert_eq!(ran.executed("loud"), 0, "without {path}");
        }
    }
}

#[test]
fn a_lost_or_garbled_ledger_costs_no_item() {
    let world = finished();
    let expected = Lab::in_memory(&world);
    let (path, bytes) = file(&world, "ledger.redb");
    for ruin in [Vec::new(), vec![0; bytes.len()], bytes[..bytes.len() / 2].to_vec()] {
        let memory = world.duplicate();
        memory.overwrite(&path, &ruin).unwrap();
        let ran = survives(&memory, &expected, &format!("ledger of {} bytes", ruin.len()));
        assert_eq!(ran.executed("loud"), 0);
    }
}

fn read_only(memory: &MemoryFs) -> Cache {
    let folder = Utf8Path::new("/lab/.throstle");
    Cache::open(folder, Arc::new(memory.clone()), Access::ReadOnly).unwrap()
}

#[test]
fn a_cache_that_cannot_be_written_is_planned_on_and_read() {
    let memory = finished();
    let lab = Lab::in_memory(&memory);
    lab.write("data/ben1.txt", "hallo");
    let pipeline = lab.pipeline();
    memory.set_readonly_mount(true);
    let cache = read_only(&memory);
    let plan = lab.engine().plan(&pipeline, &cache, &[], &mut |_| {}).unwrap();
    let loud = plan.stage(pipeline.find("loud").unwrap().id);
    assert_eq!((loud.executed, loud.reused), (1, TEXTS.len() as u64 - 1));
}

#[test]
fn a_run_on_a_cache_that_cannot_be_written_says_so_before_any_work() {
    let memory = finished();
    let lab = Lab::in_memory(&memory);
    lab.write("data/ben1.txt", "hallo");
    let pipeline = lab.pipeline();
    memory.set_readonly_mount(true);
    let cache = read_only(&memory);
    let mut events = Vec::new();
    let options = Default::default();
    let error = lab.engine().run(&pipeline, &cache, &options, &mut |event| events.push(event));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("/lab/.throstle") && message.contains("reading only"), "{message}");
}

#[test]
fn a_run_with_nothing_to_do_is_fine_on_a_cache_that_cannot_be_written() {
    let memory = finished();
    let lab = Lab::in_memory(&memory);
    let pipeline = lab.pipeline();
    memory.set_readonly_mount(true);
    let cache = read_only(&memory);
    let ran = lab.engine().run(&pipeline, &cache, &Default::default(), &mut |_| {});
    assert_eq!(ran.unwrap(), Status::Done);
}
