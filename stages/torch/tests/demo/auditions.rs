//! Every sentence with every kept checkpoint.

use std::collections::BTreeMap;

use throstle_tests::{Project, RanProgram};

use crate::project::{ADAPTED, done};

const MANIFEST: &str = "pipeline.toml";
const STEPS: &str = "steps = 4\nkeep = 2";

const STAGES: &str = r#"
[stage.auditions]
use = "model.audition"
input = "sentences"
checkpoints = "adapted.checkpoints"

[stage.auditioned]
use = "fish.synthesize"
input = "auditions"
model = "trained"
codec = "codec"
max_frames = 8
export = "out/auditions/{checkpoint}/{sentence}.wav"

[stage.listening]
use = "report.tensorboard"
input = "auditioned"
export = "out/log/events.out.tfevents.1.auditions"
"#;

/// The demo with adapters that are validated after every second of their four steps.
fn auditioning() -> Project {
    let demo = done();
    demo.replace(MANIFEST, ADAPTED, STEPS);
    demo.replace(MANIFEST, "validate_every = \"25%\"", "validate_every = 2");
    demo.edit(MANIFEST, |text| format!("{text}{STAGES}"));
    demo
}

fn run(demo: &Project) -> RanProgram {
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    ran
}

/// The wavs by checkpoint and sentence.
fn spoken(demo: &Project) -> BTreeMap<String, Vec<u8>> {
    let folders = demo.names("out/auditions").into_iter();
    let files = folders.flat_map(|step| {
        let files = demo.files(&format!("out/auditions/{step}"));
        files.into_iter().map(move |(name, bytes)| (format!("{step}/{name}"), bytes))
    });
    files.collect()
}

#[test]
fn each_pair_of_a_sentence_and_a_checkpoint_is_spoken_once() {
    let demo = auditioning();
    let ran = run(&demo);
    assert_eq!((ran.executed()["auditions"], ran.executed()["auditioned"]), (1, 6));
    let first = spoken(&demo);
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    let expected = ["001", "002", "003"].map(|name| format!("step-2/{name}.wav"));
    assert_eq!((names.len(), &names[..3]), (6, &expected.each_ref().map(String::as_str)[..]));
    assert!(names[3..].iter().all(|name| name.starts_with("step-4/")), "{names:?}");
    assert!(demo.file("out/log/events.out.tfevents.1.auditions").is_file());
    demo.run().assert_nothing_done();

    demo.edit("data/spoken.txt", |text| format!("{}\nUusi lause.\n", text.trim_end()));
    assert_eq!(run(&demo).executed()["auditioned"], 2);

    // Two steps more: the sentences of the state after the fourth are known.
    demo.replace(MANIFEST, "steps = 4", "steps = 6");
    let ran = run(&demo);
    let steps = demo.names("out/auditions");
    assert!(steps.contains(&"step-6".to_owned()), "{steps:?}");
    let known = steps.iter().filter(|step| *step != "step-6").count() as u64;
    assert!(known > 0, "{steps:?}");
    assert_eq!((ran.executed()["adapted"], ran.executed()["auditioned"]), (1, 4));
    assert_eq!(ran.reused("auditioned"), 4 * known);
    let kept = spoken(&demo).into_iter().filter(|(name, _)| first.contains_key(name));
    for (name, bytes) in kept {
        assert_eq!(first[&name], bytes, "{name}");
    }
}

#[test]
fn a_checkpoint_that_was_listened_to_is_merged_like_the_best_one() {
    let demo = auditioning();
    let chosen = r#"
[stage.chosen]
use = "dataset.item"
input = "adapted.checkpoints"
id = "step-2"

[stage.chosen_model]
use = "fish.merge"
base = "trained"
adapters = "chosen"

[stage.chosen_sentences]
use = "fish.synthesize"
input = "sentences"
model = "chosen_model"
codec = "codec"
max_frames = 8
export = "out/chosen/{id}.wav"
"#;
    demo.edit(MANIFEST, |text| format!("{text}{chosen}"));
    run(&demo);
    assert_eq!(demo.files("out/chosen"), demo.files("out/auditions/step-2"));
}
