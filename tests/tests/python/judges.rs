//! The judges of `pipelines/judges` on sentences that espeak-ng speaks.
//!
//! The judges are those of `tools/judges.sh`; without them, or without espeak-ng, the test says that it is skipped.

use std::process::Command;

use serde_json::Value;
use throstle_tests::guide::{document, root};
use throstle_tests::players::judges;
use throstle_tests::{Project, RanProgram};

use crate::values;

const TEXTS: [(&str, &str); 3] = [
    ("a", "Thank you for calling, please hold the line."),
    ("b", "The meeting begins at 17 minutes past nine."),
    // Not what is spoken.
    ("c", "There is nothing in the letter box today."),
];
const SCRIPTS: [&str; 3] = ["transcribe.py", "embed.py", "dnsmos.py"];

/// The recipe with recordings of a program; the last one says other words than its text.
fn project() -> Option<Project> {
    let project = Project::new(&document("pipelines/judges/pipeline.toml"));
    project.write("data/metadata.csv", "");
    for (id, text) in TEXTS {
        let said = if id == "c" { TEXTS[0].1 } else { text };
        let file = project.file(&format!("data/{id}.wav"));
        let spoken = Command::new("espeak-ng").arg("-w").arg(&file).arg(said).status();
        spoken.is_ok_and(|status| status.success()).then_some(())?;
    }
    let lines = TEXTS.map(|(id, text)| format!("{id}.wav|{text}\n"));
    project.write("data/metadata.csv", lines.concat());
    for script in SCRIPTS {
        project.write(script, document(&format!("pipelines/judges/{script}")));
    }
    Some(project)
}

fn numbers(project: &Project, field: &str) -> Vec<f64> {
    values(project, "clean", field).into_iter().filter_map(|(_, value)| value.as_f64()).collect()
}

#[test]
fn the_judges_hear_words_a_voice_and_its_quality() {
    let (Some(judges), Some(project)) = (judges(), project()) else {
        eprintln!("skipped: there are no judges (tools/judges.sh), or no espeak-ng");
        return;
    };
    std::fs::create_dir(project.file("models")).unwrap();
    let whisper = project.file("models/whisper-base");
    std::os::unix::fs::symlink(judges.join("whisper-base"), whisper).unwrap();
    let set = format!("--set=params.python={}", judges.join("bin/python").display());
    let run = || {
        let ran = RanProgram::of(project.output(&["run", ".", "--json", &set]));
        assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
        ran
    };
    // The third recording is the first one once more.
    assert_eq!(run().executed()["heard"], 2);
    let cer = numbers(&project, "cer");
    assert!(cer[0] < 0.2 && cer[1] < 0.2 && cer[2] > 0.5, "{cer:?}");
    let similar = numbers(&project, "speaker_cosine");
    assert!(similar.iter().all(|one| *one > 0.8), "one voice: {similar:?}");
    let opinions = numbers(&project, "mos");
    assert!(opinions.iter().all(|one| (1.0..5.0).contains(one)), "{opinions:?}");
    let verdict: Value = serde_json::from_str(&project.text("out/verdict.json")).unwrap();
    let interval = &verdict["measures"]["cer"]["interval"];
    let bounds = ["low", "high"].map(|bound| interval[bound].as_f64().unwrap());
    assert!(bounds[0] < bounds[1], "{verdict}");
    // A repetition asks nobody.
    assert!(run().executed().is_empty());
}

/// The recipe of a voice has the same judges, through a link that an archive may lose.
#[test]
fn the_recipe_of_a_voice_has_the_same_judges() {
    for name in SCRIPTS.iter().chain(&["requirements.txt", "weights.py"]) {
        let of = |folder: &str| std::fs::read(root().join(folder).join(name)).unwrap();
        assert!(of("pipelines/judges") == of("pipelines/piper-voice/judges"), "{name}");
    }
}
