//! Hostile manifests and data: refused with a reason, and nothing is written outside the project's
//! own folders.

use std::sync::Arc;

use cache::Digest;
use engine::event::{Event, Status};
use stage_core::{
    Blob, Context, Fields, Item, Job, Kind, OutputPort, Setup, SourceJob, SourceOutput, Stage,
    StageError, Value, Work, World,
};
use throstle_tests::worlds::fresh;
use throstle_tests::{Lab, MANIFEST};

/// The refusal of a manifest with this replacement, if it is not accepted.
fn refusal(from: &str, to: &str) -> Option<String> {
    assert!(MANIFEST.contains(from), "{from}");
    let lab = Lab::in_memory(&fresh());
    lab.write("pipeline.toml", &MANIFEST.replacen(from, to, 1));
    lab.try_pipeline().err()
}

#[test]
fn export_paths_that_lead_out_are_refused_when_the_manifest_is_read() {
    for path in ["../evil.txt", "/etc/evil.txt", "out/../../evil", "out/{id}/../../../evil", ""] {
        let to = format!("export = \"{path}\"");
        assert!(refusal("export = \"out/all.txt\"", &to).is_some(), "{path}");
    }
    assert!(refusal("export = \"out/all.txt\"", "export = \".throstle/ledger.redb\"").is_some());
    assert!(refusal("export = \"out/all.txt\"", "export = \"data/anna1.txt\"").is_some());
    assert!(refusal("export = \"out/all.txt\"", "export = \"pipeline.toml\"").is_some());
}

#[test]
fn rings_and_doubles_and_depths_are_refused() {
    assert!(refusal("input = \"lines\"", "input = \"twice\"").unwrap().contains("twice"));
    assert!(refusal("mark = \"!\"", "mark = \"!\"\nmark = \"?\"").is_some());
    assert!(refusal("[stage.twice]", "[stage.loud]").is_some());
    let deep = format!("mark = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refusal("mark = \"!\"", &deep).is_some());
    let wide = format!("mark = \"!\"\n{}", "x = 1\n".repeat(10_000));
    assert!(refusal("mark = \"!\"", &wide).is_some());
}

#[test]
fn a_manifest_that_is_no_text_or_full_of_controls_is_refused() {
    for text in ["\0", "\u{feff}\u{feff}", "\u{1b}[31m", "[stage.\"\u{202e}\"]\nuse = \"x\""] {
        let lab = Lab::in_memory(&fresh());
        lab.write("pipeline.toml", text);
        assert!(lab.try_pipeline().is_err(), "{text:?}");
    }
}

/// A source with these ids.
struct Ids(Vec<String>);

static IDS: Kind = Kind {
    name: "test.ids",
    summary: "Gives ids.",
    work: Work::Source,
    outputs: &[OutputPort {
        writes: &[("body", stage_core::FieldType::Blob), ("speaker", stage_core::FieldType::Text)],
        passes: None,
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};

impl Stage for Ids {
    fn kind(&self) -> &'static Kind {
        &IDS
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Source(Box::new(Ids(self.0.clone()))))
    }
}

impl SourceJob for Ids {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let mut output = SourceOutput::default();
        for id in &self.0 {
            let Blob { digest, size, kind } = world.keep("text/plain", "evil".into())?;
            assert_eq!(digest, Digest::of(b"evil"));
            let blob = Value::Blob(Arc::new(Blob { digest, size, kind }));
            let speaker = Value::text(id.clone());
            let fields: Fields = [("body", blob), ("speaker", speaker)].into_iter().collect();
            output.items.push(Item::new(id.clone(), fields));
        }
        Ok(output)
    }
}

#[test]
fn ids_and_texts_that_lead_out_are_not_exported() {
    let long = "x".repeat(300);
    let ids = ["../evil", "../../evil", "/evil", "a/../../../evil", "a\0b", "a\nb", "\u{1b}[2J"];
    for id in ids.into_iter().chain(["", ".", "..", long.as_str()]) {
        for export in ["out/{id}", "out/{speaker}/file", "{id}"] {
            let mut lab = Lab::new();
            lab.stages.push(Arc::new(Ids(vec![id.to_owned(), "good".to_owned()])));
            let manifest = MANIFEST
                .replace("use = \"test.lines\"\nfolder = \"data\"", "use = \"test.ids\"")
                .replace("out/{id}.txt", export);
            lab.write("pipeline.toml", &manifest);
            let Ok(_) = lab.try_pipeline() else { continue };
            let mut before = lab.files("");
            let ran = lab.attempt(&lab.pipeline(), &Default::default());
            let place = format!("{id:?} in {export}");
            // Some are no valid ids, and then the source itself fails.
            if let Ok(ran) = ran {
                let told = |event: &Event| matches!(event, Event::StageFailed { .. });
                let harmless = ran.status == Status::Done;
                assert!(harmless || ran.events.iter().any(told), "{place}: {ran:?}");
            }
            let mut after = lab.files("");
            before.retain(|path, _| !path.starts_with(".throstle/"));
            after.retain(|path, _| !path.starts_with(".throstle/"));
            let new = after.keys().filter(|path| !before.contains_key(*path));
            for path in new {
                let fine = path.starts_with("out/") || path == "good" || path == id;
                assert!(fine, "{place}: wrote {path}");
                assert!(!path.chars().any(char::is_control), "{place}: wrote {path:?}");
            }
            assert!(!lab.base().join("../evil").exists(), "{place}");
        }
    }
}
