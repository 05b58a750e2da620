//! Two runs of one project: the second one starts no jobs for what the first one has.

use serde_json::Value;

use super::places::{OTHER_MACHINE, Place, notes};

/// The number of jobs that an event says were started.
fn jobs(event: &Value) -> Option<usize> {
    event["message"].as_str()?.strip_prefix("started ")?.split(' ').next()?.parse().ok()
}

#[test]
fn a_run_beside_another_one_uses_outcomes_with_objects_in_the_remote_alone() {
    let command = format!(
        "echo job >> FOLDER/jobs; until [ -e FOLDER/go ]; do sleep 0.1; done; {OTHER_MACHINE}"
    );
    let place = Place::new(&command);
    // Exports would fetch the objects before the first run ends.
    for export in ["export = \"out/{id}.txt\"\n", "export = \"out/{id}.wav\"\n"] {
        place.project.replace("pipeline.toml", export, "");
    }
    let mut first = place.start(&[]);
    // Each of the two stages.
    let started = [(); 2].map(|()| {
        let event = first.read_until(|event| jobs(event).is_some());
        jobs(&event).unwrap()
    });
    let mut second = place.start(&[]);
    second.read_until(|event| {
        event["what"].as_str().is_some_and(|what| what.starts_with("another run"))
    });
    std::fs::write(place.folder().join("go"), "").unwrap();
    let (first, second) = (first.ended(), second.ended());
    for ran in [&first, &second] {
        assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(ran), ran.errors);
    }
    assert_eq!((first.executed()["words"], first.executed()["voice"]), (6, 6));
    assert_eq!((second.reused("words"), second.reused("voice")), (6, 6), "{:?}", notes(&second));
    let started = started.iter().sum::<usize>();
    assert_eq!(place.lines("jobs").len(), started, "{:?}", notes(&second));
    place.assert_as_alone();
}
