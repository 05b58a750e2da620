//! The variant with the voice of a reference.

use std::path::Path;

use throstle_tests::Project;

use crate::project::CLIPS;

/// The demo, with the manifest of the variant instead of its own and a short training.
pub fn variant() -> Project {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/demo");
    let demo = Project::copy_of(&source, &["out", ".throstle"]);
    let manifest = demo.text("xtts.toml");
    let shortened = manifest
        .replace("steps = 6\ntrain_first = 2", "steps = 2\ntrain_first = 1\npreflight = false");
    assert_ne!(shortened, manifest);
    demo.write("pipeline.toml", shortened);
    demo.remove("xtts.toml");
    demo
}

#[test]
fn a_new_language_is_learnt_spoken_and_exported_and_a_sentence_costs_a_sentence() {
    let demo = variant();
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let executed = ran.executed();
    assert_eq!((executed["tokens"], executed["trained"]), (CLIPS, 1));
    assert_eq!((executed["longer"], executed["spoken_sentences"]), (1, 2));
    assert_eq!(demo.names("out/xtts/spoken"), ["001.wav", "002.wav"]);
    let files = ["config.json", "dvae.pth", "mel_stats.pth", "model.pth", "vocab.json"];
    assert_eq!(demo.names("out/xtts/model"), files);
    demo.run().assert_nothing_done();
    demo.replace("pipeline.toml", "Koira nukkui", "Kissa nukkui");
    // A clip has the same text, so its normalisation is known.
    let expected = [("sentences", 1), ("sentences_audited", 1), ("spoken_sentences", 1)];
    assert_eq!(demo.run().executed(), expected.into());
}
