//! Trainings that would fail end before they begin, with a reason.

use std::collections::BTreeMap;

use throstle_tests::{Project, RanProgram, copy_folder};

use super::project::{HEAD, MANIFEST, with};

const EXPORTED: &str = r#"
[stage.exported]
use = "model.export"
model = "base"
format = "safetensors"
export = "out/base"
"#;

/// An import of changed files, and adapters on its result.
fn adapters_on(name: &str) -> String {
    format!(
        r#"
[assets.{name}]
path = "models/{name}"

[stage.{name}]
use = "model.import"
asset = "assets.{name}"

[stage.{name}_adapted]
use = "fish.lora"
input = "tokens"
base = "{name}"
steps = 1
warm_up = 0
"#
    )
}

const OTHER_CODEC: &str = r#"
[stage.other_codec]
use = "vq.fit"
input = "codec_clips"
codebooks = 3
entries = 16

[stage.other_tokens]
use = "vq.encode"
input = "clips"
codec = "other_codec"

[stage.tokens_trained]
use = "fish.finetune"
input = "other_tokens"
base = "base"
steps = 1
warm_up = 0

[stage.sentences]
use = "corpus.sentences"
sentences = ["Hei."]

[stage.codec_spoken]
use = "fish.synthesize"
input = "sentences"
model = "base"
codec = "other_codec"
"#;

/// A project with the exported model in these folders.
fn project(copies: &[&str]) -> Project {
    let project = with(EXPORTED);
    assert_eq!(project.run().executed(), [("exported", 1)].into());
    for copy in copies {
        copy_folder(&project.file("out/base"), &project.file(&format!("models/{copy}")), &[]);
    }
    let stages: String = copies.iter().map(|copy| adapters_on(copy)).collect();
    project.write(MANIFEST, format!("{HEAD}{stages}{OTHER_CODEC}"));
    project
}

/// The error of each stage, with its advice.
fn failures(ran: &RanProgram) -> BTreeMap<&str, (&str, &str)> {
    let failures = ran.all("stage-failed").into_iter().map(|event| {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        (text("stage"), (text("message"), text("help")))
    });
    failures.collect()
}

#[test]
fn each_training_in_vain_is_refused_for_its_own_reason() {
    let project = project(&["lost", "unscaled", "renumbered"]);
    project.replace("models/unscaled/config.json", "\"scale_codebook_embeddings\": true,", "");
    project.edit("models/renumbered/special_tokens.json", |text| {
        let swapped = text.replace("semantic:3|", "?").replace("semantic:4|", "semantic:3|");
        swapped.replace('?', "semantic:4|")
    });
    let arguments = ["run", ".", "--json", "--keep-going"];
    let ran = RanProgram::of(project.output(&arguments));
    let failures = failures(&ran);
    let expected = [
        (
            "lost_adapted",
            "the base seems untrained: its loss is ",
            "import the published files again",
        ),
        (
            "unscaled_adapted",
            "`config.json` does not say if the embeddings of codebooks are scaled",
            "add `\"scale_codebook_embeddings\": true`",
        ),
        (
            "renumbered_adapted",
            "the tokenizer does not belong to the model: `<|semantic:3|>` is token ",
            "use `tokenizer.tiktoken` and `special_tokens.json` from the folder",
        ),
        (
            "tokens_trained",
            "the clip with the text `sa",
            "encode the clips with the codec that the model was made for",
        ),
        (
            "codec_spoken",
            "the codec has 3 codebooks of up to 16 entries, but the model has 2 of 16",
            "codec",
        ),
    ];
    for (stage, message, help) in expected {
        let (told, advised) = failures.get(stage).unwrap_or_else(|| panic!("{stage}: {ran:?}"));
        assert!(told.starts_with(message), "{stage}: {told}");
        assert!(advised.contains(help), "{stage}: {advised}");
    }
    assert_eq!((ran.code, failures.len()), (Some(1), expected.len()), "{failures:?}");
    // Refused trainings have left no state to resume from.
    assert_eq!(ran.all("checkpoint-kept").len(), 0);
}
