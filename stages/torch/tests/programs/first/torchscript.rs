//! The manifests of the guide for TorchScript modules, with the module of
//! `fixtures/make_torchscript.py`.

use throstle_tests::Project;
use throstle_tests::guide::{blocks, document};

use super::recordings;

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/torchscript/module.pt");

fn project() -> Project {
    let project = Project::new(&blocks(&document("docs/guides/torchscript.md"), "toml").join("\n"));
    recordings::write_table(&project, ".", "Kello löi 8.");
    project.replace("pipeline.toml", "audio = \"data/wavs\"", "audio = \"data\"");
    for name in ["mos.pt", "embedder.pt"] {
        project.write(&format!("models/{name}"), std::fs::read(MODULE).unwrap());
    }
    let rates = "use = \"quality.rate\"\n";
    project.replace("pipeline.toml", rates, &format!("{rates}method = \"score\"\n"));
    project
}

#[test]
fn the_manifests_of_the_guide_run_and_a_changed_recording_alone_is_heard_again() {
    let project = project();
    let first = project.run();
    let all =
        [("clips", 1), ("voice", 6), ("rated", 6), ("good", 1), ("embedded", 6), ("measured", 6)];
    assert_eq!(first.executed(), all.into());
    project.run().assert_nothing_done();
    let clip = "data/wavs/aino_01.wav";
    let mut wav = project.read(clip);
    let last = wav.len() - 1;
    wav[last] ^= 64;
    project.write(clip, wav);
    let again = project.run();
    let mut again = again.executed();
    again.retain(|name, _| !["clips", "good"].contains(name));
    let one = [("embedded", 1), ("measured", 1), ("rated", 1), ("voice", 1)];
    assert_eq!(again, one.into());
    let items = project.printed(&["items", "rated", "--format", "csv"]);
    assert!(items.contains("mos") && items.lines().count() == 7, "{items}");
}

#[test]
fn a_call_that_hangs_or_prints_harms_no_other_item() {
    let project = project();
    // Only recordings over nine tenths of full scale are never done.
    let measured = |method: &str, more: &str| {
        let clips = "use = \"corpus.table\"\ntable = \"data/metadata.csv\"\naudio = \"data\"";
        format!(
            "[pipeline]\nname = \"picky\"\n[stage.clips]\n{clips}\n[stage.voice]\n\
             use = \"audio.resample\"\ninput = \"clips\"\nrate = 16000\n[assets.module]\npath = \"models/mos.pt\"\n\
             [stage.heard]\nuse = \"torchscript.apply\"\ninput = \"voice\"\n\
             module = \"assets.module\"\nrate = 16000\nmethod = \"{method}\"\n\
             outputs = {{ peak = \"number\" }}\nquarantine = 0.5\n{more}\n"
        )
    };
    let mut loud = project.read("data/wavs/aino_01.wav");
    let middle = (loud.len() / 4) * 2;
    for sample in loud[middle..middle + 80].chunks_mut(2) {
        sample.copy_from_slice(&i16::MAX.to_le_bytes());
    }
    project.write("data/wavs/aino_01.wav", loud);
    project.write("pipeline.toml", measured("picky", ""));
    let picky = project.run();
    assert_eq!(picky.quarantined("heard"), 1, "{picky:?}");
    let aside = picky.all("item-quarantined");
    assert_eq!(aside[0]["code"], "not-finite", "{aside:?}");
    project.write("pipeline.toml", measured("endless", "timeout = \"15s\""));
    let endless = project.run();
    let aside = endless.all("item-quarantined");
    assert!(aside.iter().all(|item| item["code"] == "timed-out"), "{aside:?}");
    assert!(aside.iter().any(|item| item["item"] == "wavs/aino_01"), "{aside:?}");
    assert!(endless.executed_in_any_case()["heard"] >= 4, "{endless:?}");
}

#[test]
fn a_module_that_fails_on_everything_fails_the_stage_once() {
    let project = project();
    project.replace("pipeline.toml", "method = \"score\"", "method = \"of_three\"");
    let rows = (0..21).map(|at| format!("wavs/c{at}.wav|Yksi.|aino\n")).collect::<String>();
    for at in 0..21i16 {
        // Each is another recording at the rate of the module too.
        let mut wav = project.read("data/wavs/aino_01.wav");
        for sample in wav[2_000..2_080].chunks_mut(2) {
            sample.copy_from_slice(&(1_000 * at).to_le_bytes());
        }
        project.write(&format!("data/wavs/c{at}.wav"), wav);
    }
    project.write("data/metadata.csv", format!("file|text|speaker\n{rows}"));
    let output = project.output(&["run", ".", "rated"]);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let message = "the first 20 items failed in the same way: the module failed; it said: \
                   RuntimeError: AssertionError: a batch of channels of samples is needed";
    assert_eq!(said.matches(message).count(), 1, "{said}");
}
