//! The use of a finished model when clips are added: `on_change`, and other devices.

use super::project::{MANIFEST, add_clip, outputs, with};

const TRAINED: &str = r#"
[stage.trained]
use = "fish.finetune"
input = "tokens"
base = "base"
steps = 8
warm_up = 0
learning_rate = 1e-2
batch = 2
accumulation = 4
max_length = 80
validation_fraction = 0.2
take = "last"
preflight = false
on_change = "continue"
export = { model = "out" }
"#;

/// One step with learning rate zero: the result is the start of training.
const STILL: (&str, &str) =
    ("steps = 8\nwarm_up = 0\nlearning_rate = 1e-2", "steps = 1\nwarm_up = 0\nlearning_rate = 0.0");

#[test]
fn continue_trains_on_from_the_weights_of_before_and_retrain_begins_anew() {
    let project = with(TRAINED);
    assert_eq!(project.run().executed(), [("trained", 1)].into());
    let parent = outputs(&project);
    add_clip(&project, 20);
    project.replace(MANIFEST, STILL.0, STILL.1);
    let ran = project.run();
    let executed = ran.executed();
    assert_eq!((executed["tokens"], executed["trained"], executed.get("codec")), (1, 1, None));
    let why = project.why(&["trained"]);
    assert!(why.contains("continues from its earlier outcome "), "{why}");
    assert!(why.contains("item `clip_20` is new on `input`"), "{why}");
    assert!(outputs(&project) == parent, "the weights are those of the parent");
    project.run().assert_nothing_done();

    project.replace(MANIFEST, "\"continue\"", "\"retrain\"");
    let ran = project.run();
    assert_eq!(ran.executed(), [("trained", 1)].into());
    let why = project.why(&["trained"]);
    assert!(why.contains("starts from scratch"), "{why}");
    let anew = outputs(&project);
    assert!(anew != parent);
    // Nothing of the project's past is in it.
    let fresh = with(&TRAINED.replace(STILL.0, STILL.1));
    add_clip(&fresh, 20);
    fresh.run();
    assert!(outputs(&fresh) == anew);
}

#[test]
fn the_number_of_devices_changes_no_key() {
    let project = with(TRAINED);
    project.replace(MANIFEST, "[stage.trained]", "[stage.trained]\ndevices = [\"cpu\", \"cpu\"]");
    let ran = project.run();
    assert_eq!(ran.executed(), [("trained", 1)].into());
    let two = outputs(&project);
    project.replace(MANIFEST, "devices = [\"cpu\", \"cpu\"]\n", "");
    project.run().assert_nothing_done();
    assert!(outputs(&project) == two);
}

#[test]
fn adapters_of_another_base_are_continued_by_none() {
    let adapters = TRAINED.replace("fish.finetune", "fish.lora").replace("model =", "adapters =");
    let (base, other) = ("use = \"fish.init\"", "use = \"fish.init\"\nseed = 9");
    let project = with(&adapters);
    project.run();
    project.replace(MANIFEST, base, other);
    let ran = project.run();
    assert_eq!(ran.executed(), [("base", 1), ("trained", 1)].into());
    assert!(!project.why(&["trained"]).contains("continues"), "{}", project.why(&["trained"]));
    let anew = outputs(&project);
    let fresh = with(&adapters);
    fresh.replace(MANIFEST, base, other);
    fresh.run();
    assert!(outputs(&fresh) == anew);
}
