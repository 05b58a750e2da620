#![allow(clippy::unwrap_used, clippy::expect_used)]
use proptest::prelude::*;

use stage_formats::npy::{self, Width};
use stage_formats::protos as shards;

use super::*;

fn entry(id: &str, speaker: &str, frames: u64) -> PackClip {
    let values = (0..2 * frames as i64).map(|index| index * 300).collect();
    let codes = IntArray { shape: vec![2, frames], values };
    PackClip {
        id: id.to_owned(),
        speaker: speaker.to_owned(),
        text: format!("text of {id}"),
        codes,
    }
}

#[test]
fn a_new_clip_touches_one_shard() {
    let ids: Vec<String> = (0..400).map(|number| format!("clip{number}")).collect();
    let shards = |ids: &[String]| -> Vec<Vec<u8>> {
        let entries: Vec<PackClip> = ids.iter().rev().map(|id| entry(id, "anna", 3)).collect();
        let of = |shard| {
            entries
                .iter()
                .filter(|entry| shard_of(&entry.id, 16) == shard)
                .cloned()
                .collect::<Vec<_>>()
        };
        (0..16).map(|shard| protos::write(&of(shard)).unwrap()).collect()
    };
    let (before, after) = (shards(&ids[..399]), shards(&ids));
    assert_eq!(before.iter().zip(&after).filter(|(before, after)| before != after).count(), 1);
}

#[test]
fn speakers_are_records_and_clips_follow_their_ids() {
    let entries = [entry("b", "olli", 1), entry("c", "anna", 2), entry("a", "anna", 1)];
    let records = shards::read(&protos::write(&entries).unwrap()).unwrap();
    let found: Vec<(&str, Vec<&str>)> = records
        .iter()
        .map(|record| {
            (
                record.name.as_str(),
                record.sentences.iter().map(|sentence| sentence.texts[0].as_str()).collect(),
            )
        })
        .collect();
    assert_eq!(found, [("anna", vec!["text of a", "text of c"]), ("olli", vec!["text of b"])]);
}

#[test]
fn array_shards_come_back_clip_by_clip() {
    let entries = [entry("b", "olli", 4), entry("a", "anna", 3), entry("c", "anna", 0)];
    let shard = arrays::write(&entries, Width::I32).unwrap();
    let found = arrays::read(&shard.tokens, &shard.index).unwrap();
    assert_eq!(found, [entries[1].clone(), entries[0].clone(), entries[2].clone()]);
    assert_eq!(npy::read(&shard.tokens).unwrap().shape, [2, 7]);
}

#[test]
fn clips_that_do_not_fit_are_named() {
    let mut negative = entry("x", "a", 2);
    negative.codes.values[3] = -1;
    assert_eq!(protos::write(&[negative]), Err(PackError::Token { id: "x".to_owned(), value: -1 }));
    let mut three = entry("y", "a", 2);
    three.codes = IntArray { shape: vec![3, 1], values: vec![0; 3] };
    let error = protos::write(&[entry("x", "a", 2), three]).unwrap_err();
    assert_eq!(error.to_string(), "`y` has 3 codebooks, but `x` has 2");
    let mut flat = entry("z", "a", 2);
    flat.codes.shape = vec![4];
    assert!(matches!(protos::write(&[flat]), Err(PackError::Shape { .. })));
}

proptest! {
    #[test]
    fn any_bytes_give_records_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), place in 0usize..80, byte: u8) {
        let _ = shards::read(&bytes);
        let mut damaged = protos::write(&[entry("a", "anna", 9)]).unwrap();
        let place = place % damaged.len();
        damaged[place] = byte;
        let _ = shards::read(&damaged);
        let _ = arrays::read(&bytes, &damaged);
    }

    #[test]
    fn records_come_back(lengths in proptest::collection::vec(0u64..6, 0..8)) {
        let entries: Vec<PackClip> = lengths.iter().enumerate()
            .map(|(index, frames)| entry(&format!("id{index}"), if index % 2 == 0 { "a" } else { "b" }, *frames))
            .collect();
        let bytes = protos::write(&entries).unwrap();
        let records = shards::read(&bytes).unwrap();
        prop_assert_eq!(records.iter().map(|record| record.sentences.len()).sum::<usize>(), entries.len());
        for record in &records {
            let mine: Vec<_> = entries.iter().filter(|entry| entry.speaker == record.name).collect();
            for (sentence, entry) in record.sentences.iter().zip(mine) {
                let values: Vec<i64> = sentence.semantics.iter().flat_map(|row| &row.values).map(|value| i64::from(*value)).collect();
                prop_assert_eq!(&values, &entry.codes.values);
            }
        }
    }
}
