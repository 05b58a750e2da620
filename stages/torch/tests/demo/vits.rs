//! The variant with a model without tokens.

use std::path::Path;

use throstle_tests::Project;

use crate::project::CLIPS;

/// The demo, with the manifest of the variant instead of its own and a short training.
pub fn variant() -> Project {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/demo");
    let demo = Project::copy_of(&source, &["out", ".throstle"]);
    let manifest = demo.text("vits.toml");
    let shortened = manifest.replace("steps = 6", "steps = 2\npreflight = false");
    assert_ne!(shortened, manifest);
    demo.write("pipeline.toml", shortened);
    demo.remove("vits.toml");
    demo
}

#[test]
fn clips_become_a_voice_that_transformers_loads_and_a_sentence_costs_a_sentence() {
    let demo = variant();
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    let executed = ran.executed();
    assert_eq!((executed["spectrograms"], executed["trained"]), (CLIPS, 1));
    assert_eq!((executed["characters"], executed["spoken_sentences"]), (1, 2));
    assert_eq!(demo.names("out/vits/spoken"), ["001.wav", "002.wav"]);
    assert_eq!(
        demo.names("out/vits/model"),
        ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.json"]
    );
    demo.run().assert_nothing_done();
    longer_trainings_are_planned_by_the_measured_one(&demo);
    demo.replace("pipeline.toml", "Koira nukkui", "Kissa nukkui");
    // A clip has the same text, so its normalisation is known.
    let expected = [("sentences", 1), ("sentences_audited", 1), ("spoken_sentences", 1)];
    assert_eq!(demo.run().executed(), expected.into());
}

#[test]
fn a_sentence_that_the_voice_cannot_speak_stops_the_run_before_the_training_with_a_report() {
    let demo = variant();
    let letters = "Ж ф ы ч щ ю я э й ц ш ъ ь ё ђ";
    demo.replace("pipeline.toml", "Koira nukkui", letters);
    let ran = demo.run();
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    let failed = ran.all("stage-failed");
    assert_eq!((failed.len(), &failed[0]["stage"]), (1, &"sentences_audited".into()), "{failed:?}");
    let message = failed[0]["message"].as_str().unwrap();
    for letter in letters.chars().filter(|letter| letter.is_alphabetic()) {
        let small: String = letter.to_lowercase().collect();
        assert!(message.contains(&format!("`{small}`")), "{letter}: {message}");
    }
    let begun = ran.all("stage-started");
    assert!(begun.iter().all(|event| event["stage"] != "trained"), "{begun:?}");
    // The report is there although the stage failed, as a file and in the list.
    let report: serde_json::Value =
        serde_json::from_slice(&demo.read("out/vits/sentences.json")).unwrap();
    assert_eq!(report["unknown"].as_array().unwrap().len(), 16, "{report}");
    let listed = demo.printed(&["items", "sentences_audited", "--format", "jsonl"]);
    assert!(listed.contains("\"unknown\"") && listed.contains("16"), "{listed}");
    demo.replace("pipeline.toml", letters, "Kissa nukkui");
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    assert_eq!(ran.executed()["trained"], 1);
    let report: serde_json::Value =
        serde_json::from_slice(&demo.read("out/vits/sentences.json")).unwrap();
    assert_eq!(report["unknown"].as_array().unwrap().len(), 1, "the full stop: {report}");
}

#[test]
fn a_check_names_the_text_stages_that_sentences_do_not_come_through() {
    let demo = variant();
    let check = || String::from_utf8(demo.output(&["check", "."]).stderr).unwrap();
    assert!(!check().contains("written in another way"), "{}", check());
    demo.replace(
        "pipeline.toml",
        "use = \"vits.synthesize\"\ninput = \"sentences_spoken\"",
        "use = \"vits.synthesize\"\ninput = \"sentences\"",
    );
    let told = check();
    for part in [
        "`spoken_sentences`",
        "`trained`",
        "`spoken` (`text.normalize`)",
        "between `sentences` and",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

fn longer_trainings_are_planned_by_the_measured_one(demo: &Project) {
    let seconds = |steps: u32| {
        let set = format!("stage.trained.steps={steps}");
        let plan = demo.printed(&["plan", ".", "--json", "--set", &set]);
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let estimate = &plan["estimate"]["stages"]["trained"];
        assert_eq!(estimate["basis"], "similar", "{estimate}");
        assert_eq!(plan["stages"]["trained"]["seconds"], estimate["seconds"]["likely"]);
        estimate["seconds"]["likely"].as_f64().unwrap()
    };
    // Without the time beside the steps, twice as many take twice as long.
    let (once, twice, four) = (seconds(1_000), seconds(2_000), seconds(4_000));
    assert!(((four - twice) / (twice - once) - 2.0).abs() < 0.1, "{once} {twice} {four}");
}
