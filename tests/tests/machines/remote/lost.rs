//! Labels that somebody has removed, and outcomes that lack objects.

use cache::Digest;
use engine::record::{PortValue, StageRecord, decode, encode};
use remote::Outcome;
use throstle_tests::Project;

use super::machines::{Shared, another, first, found, name_in, run};

fn verify(project: &Project, shared: &Shared, repair: &[&str]) -> String {
    project.printed(&[&["remote", "verify", "--remote", &shared.url()], repair].concat())
}

#[test]
fn missing_labels_are_named_and_written_again_by_a_push_and_by_a_repair() {
    let shared = Shared::new();
    let project = first(&shared);
    let labels = shared.files("known");
    let push = ["push", "--remote", &shared.url()];
    for how in ["push", "repair"] {
        std::fs::remove_file(&labels[0]).unwrap();
        let told = found(&project, &shared);
        let expected = format!("`{}`: it is missing", name_in(&shared, &labels[0]));
        assert!(told.contains(&expected), "{told}");
        match how {
            "push" => assert!(project.printed(&push).contains("1 missing label")),
            _ => _ = verify(&project, &shared, &["--repair"]),
        }
        assert_eq!(shared.files("known"), labels, "{how}");
        assert!(verify(&project, &shared, &[]).contains("nothing is damaged"), "{how}");
        assert!(project.printed(&push).contains("is up to date"), "{how}");
    }
}

#[test]
fn a_machine_that_has_never_seen_the_labels_finds_packs_without_any() {
    let shared = Shared::new();
    let project = first(&shared);
    std::fs::remove_dir_all(shared.path().join("known")).unwrap();
    let other = another(&project);
    other.printed(&["pull", "--remote", &shared.url()]);
    let told = found(&other, &shared);
    assert!(told.contains("no label leads to the records of this pack"), "{told}");
    verify(&other, &shared, &["--repair"]);
    assert!(verify(&other, &shared, &[]).contains("nothing is damaged"));
    let third = another(&project);
    third.replace("data/metadata.csv", "Sana a", "Sana ja toinen a");
    assert_eq!(run(&third, &shared).reused("words"), 4);
}

/// Changes an outcome in the remote.
fn change(shared: &Shared, is_changed: impl Fn(&mut Outcome) -> bool) -> String {
    for path in shared.files("results") {
        let key: Digest = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let mut outcome = Outcome::decode(&std::fs::read(&path).unwrap(), &key).unwrap();
        if is_changed(&mut outcome) {
            std::fs::write(&path, outcome.encode()).unwrap();
            return name_in(shared, &path);
        }
    }
    panic!("no outcome is like that");
}

#[test]
fn an_outcome_that_does_not_name_the_pack_of_its_objects_is_named_and_repaired() {
    for by_first in [true, false] {
        let shared = Shared::new();
        let project = first(&shared);
        project.replace("data/metadata.csv", "Sana a", "Sana ja toinen a");
        run(&project, &shared);
        let is_changed =
            |outcome: &mut Outcome| outcome.packs.len() == 2 && outcome.packs.pop().is_some();
        let name = change(&shared, is_changed);
        let told = found(&project, &shared);
        assert!(told.contains(&format!("`{name}`: ")) && told.contains("of this result"), "{told}");
        let afresh = another(&project);
        let repairer = if by_first { &project } else { &afresh };
        verify(repairer, &shared, &["--repair"]);
        assert!(verify(repairer, &shared, &[]).contains("nothing is damaged"));
        assert!(shared.path().join(&name).exists());
        let other = another(&project);
        assert_eq!(run(&other, &shared).executed(), [].into());
        assert_eq!(other.files("out"), project.files("out"));
    }
}

#[test]
fn an_outcome_with_objects_that_nobody_has_is_named_and_removed() {
    let shared = Shared::new();
    let project = first(&shared);
    let is_changed = |outcome: &mut Outcome| {
        let mut record = decode::<StageRecord>(&outcome.value).unwrap();
        for value in record.outputs.values_mut() {
            if let PortValue::Dataset { root, .. } = value {
                *root = Digest::of(b"nothing");
            }
        }
        outcome.value = encode(&record);
        record.outputs.values().any(|value| matches!(value, PortValue::Dataset { .. }))
    };
    let name = change(&shared, is_changed);
    let told = found(&project, &shared);
    assert!(told.contains(&format!("`{name}`: 1 object of this result is missing")), "{told}");
    verify(&another(&project), &shared, &["--repair"]);
    assert!(!shared.path().join(&name).exists());
    // The machine with the result writes it again.
    project.printed(&["push", "--remote", &shared.url()]);
    assert!(shared.path().join(&name).exists());
    assert!(verify(&project, &shared, &[]).contains("nothing is damaged"));
}

#[test]
fn a_push_with_nothing_new_is_not_told() {
    let shared = Shared::new();
    let project = first(&shared);
    project.remove("out/a.txt");
    let ran = run(&project, &shared);
    assert!(project.file("out/a.txt").exists());
    assert_eq!(ran.all("waiting").len(), 0, "{:?}", ran.events);
}
