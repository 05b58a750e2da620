//! `python.all`: a function for a whole data set.

use serde_json::json;
use throstle_tests::Project;

use crate::values;

const SCRIPT: &str = r#"
from throstle import Item, stage

@stage
def rank(items, state):
    order = sorted(items, key=lambda item: item["text"], reverse=True)
    kept = [item.with_fields(rank=at, card=f"{item.id}\n".encode()) for at, item in enumerate(order[:2])]
    kept.append(Item("new", rank=9, card=b"new"))
    return {"count": len(items), "names": " ".join(item.id for item in items), "list": b"x"}, kept
"#;

fn project() -> Project {
    let stage = r#"
[stage.ranked]
use = "python.all"
input = "clips"
script = "rank.py"
fields = ["text"]
outputs = { count = "number", names = "text", list = "file/txt" }
item_outputs = { rank = "number", card = "file/txt" }
export = "out/list.txt"

[stage.below]
use = "python"
input = "ranked.items"
script = "below.py"
function = "below"
fields = ["rank", "card"]
outputs = { shown = "text" }
"#;
    let project = Project::of_clips(&["a", "b", "c"], stage);
    project.write("rank.py", SCRIPT);
    project.write(
        "below.py",
        "def below(item):\n    return {'shown': open(item['card']).read() + str(item['rank'])}\n",
    );
    project
}

#[test]
fn a_function_for_all_items_gives_an_artifact_and_items() {
    let project = project();
    let ran = project.run();
    assert_eq!(ran.executed(), [("clips", 1), ("ranked", 1), ("below", 3)].into());
    assert_eq!(project.text("out/list.txt"), "x");
    let shown = values(&project, "below", "shown");
    let expected = [("b", "b\n1.0"), ("c", "c\n0.0"), ("new", "new9.0")];
    assert_eq!(shown, expected.map(|(id, text)| (id.to_owned(), json!(text))));
    let artifact = project.printed(&["items", "ranked"]);
    assert!(artifact.contains("a b c"), "{artifact}");
    project.run().assert_nothing_done();
    project.replace("data/metadata.csv", "Sana c.", "Aamu.");
    assert_eq!(project.run().executed()["below"], 2, "`b` has another rank, and `a` is new");
}

#[test]
fn a_function_without_input_makes_an_artifact() {
    let stage = "[stage.table]\nuse = \"python.all\"\nscript = \"make.py\"\nfunction = \"make\"\n\
        outputs = { list = \"file/json\" }\nexport = \"out/list.json\"\n";
    let project = Project::of_clips(&["a"], stage);
    project.write("make.py", "def make(items):\n    return {'list': b'[%d]' % len(items)}\n");
    project.run().executed();
    assert_eq!(project.text("out/list.json"), "[0]");
}

#[test]
fn what_a_function_for_all_items_gets_wrong_fails_the_stage_once() {
    for (old, new, told) in [
        (
            "\"count\": len(items)",
            "\"count\": 1 / 0",
            "ZeroDivisionError: division by zero (line 9 of",
        ),
        ("\"count\": len(items)", "\"count\": \"many\"", "could not convert string to float"),
        ("\"count\": len(items),", "", "the program did not return the output `count`"),
        ("Item(\"new\", ", "Item(\"c\", ", "have the id `c`"),
        (
            "Item(\"new\", ",
            "Item(\"new\", text=\"x\", ",
            "has a new `text`, which is not in `item_outputs`",
        ),
        (
            "    order = sorted",
            "    import throstle\n    raise throstle.Reject('too few')\n    order = sorted",
            "the function rejected the data set: too few",
        ),
        ("b\"x\"", "\"../../x\"", "the output `list` is not in the folder of its item"),
    ] {
        let project = project();
        project.replace("rank.py", old, new);
        let ran = project.run();
        assert_eq!(ran.code, Some(1), "{new}");
        let failed = ran.all("stage-failed");
        let message = failed[0]["message"].as_str().unwrap();
        assert!(failed.len() == 1 && message.contains(told), "{message}");
    }
}

#[test]
fn a_trial_that_needs_too_much_memory_or_dies_stops_no_other_and_ranks_last_after_two_runs() {
    let stage = r#"
[stage.ranked]
use = "python.all"
input = "clips"
script = "rank.py"
function = "small"
fields = ["text"]
outputs = { count = "number" }
item_outputs = { level = "number" }

[sweep.kinds]
stage = "ranked"
over = { function = ["small", "large", "dying", "medium"] }
draw = "grid"
of = "ranked.items"
score = "mean(level)"
better = "higher"
"#;
    let project = Project::of_clips(&["a"], stage);
    project.write(
        "rank.py",
        "import os\n\
         def small(items):\n    return {'count': 1}, [item.with_fields(level=1) for item in items]\n\
         def medium(items):\n    return {'count': 1}, [item.with_fields(level=2) for item in items]\n\
         def dying(items):\n    os._exit(9)\n\
         def large(items):\n    raise MemoryError('16 TB')\n",
    );
    let ran = project.run();
    assert_eq!(ran.code, Some(1));
    let failed = ran.all("stage-failed");
    let mut messages = failed.iter().map(|event| event["message"].as_str().unwrap());
    let is_it = |message: &str| message.starts_with("out of memory: MemoryError: 16 TB (line 9");
    assert!(messages.any(is_it), "{failed:?}");
    let mut codes = Vec::new();
    while codes.last() != Some(&Some(0)) && codes.len() < 5 {
        codes.push(project.run().code);
    }
    assert!(codes.len() <= 3 && codes.ends_with(&[Some(0)]), "{codes:?}");
    let compared = project.printed(&["compare", "kinds"]);
    assert!(compared.contains("failed in 2 runs; last error: out of memory"), "{compared}");
    assert_eq!(compared.matches("failed in 2 runs").count(), 2, "{compared}");
    project.run().assert_nothing_done();
}
