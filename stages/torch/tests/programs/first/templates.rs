//! Each template from `init` to an audible sentence.

use std::process::Command;

use throstle_tests::browser::Browser;
use throstle_tests::{Project, RanProgram, copy_folder};

use super::long::make;
use super::{models, recordings};

/// Settings for GPU recipes on a machine without one.
const ON_THE_CPU: [&str; 2] = ["params.device=cpu", "params.precision=f32"];

/// A template in the folder `voice` of a project, and the settings beside its manifest.
struct Journey {
    project: Project,
    manifest: &'static str,
    set: Vec<&'static str>,
}

impl Journey {
    fn of(template: &str, set: &[&'static str]) -> Journey {
        let project = Project::default();
        project.printed(&["init", "voice", "--template", template]);
        Journey { project, manifest: "voice", set: set.to_vec() }
    }

    fn on_the_cpu(template: &str, set: &[&'static str]) -> Journey {
        Journey::of(template, &[&ON_THE_CPU, set].concat())
    }

    fn arguments<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        let set = self.set.iter().flat_map(|set| ["--set", set]);
        [command[0], self.manifest]
            .into_iter()
            .chain(command[1..].iter().copied())
            .chain(set)
            .collect()
    }

    /// Runs with the programs of the folder `programs`, if the project has any, before all others.
    fn run(&self) -> RanProgram {
        let folders = std::env::var("PATH").unwrap();
        let path = format!("{}:{folders}", self.project.file("programs").display());
        let mut command = self.project.throstle(&self.arguments(&["run", "--json"]));
        RanProgram::of(command.env("PATH", path).output().unwrap())
    }

    /// The commands of a user, in order.
    fn arrive(&self) {
        self.project.printed(&self.arguments(&["check"]));
        let plan = self.project.printed(&self.arguments(&["plan"]));
        assert!(plan.contains("stages have work"), "{plan}");
        let ran = self.run();
        assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
        self.run().assert_nothing_done();
    }

    /// The same, with audible sentences in this folder in `out`.
    fn travel(&self, samples: &str) -> Vec<String> {
        self.arrive();
        let samples = format!("voice/out/{samples}");
        let names = self.project.names(&samples);
        for name in &names {
            assert_sounds(&self.project.read(&format!("{samples}/{name}")), name);
        }
        names
    }

    /// These models are in one table, with paired differences and their intervals, and the page
    /// shows a row for each.
    fn assert_compares(&self, names: &[&str]) {
        let gain: serde_json::Value =
            serde_json::from_slice(&self.project.read("voice/out/gain.json")).unwrap();
        let models = gain["models"].as_array().unwrap();
        let found: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
        assert_eq!(found, names);
        for model in models {
            let figure = &model["measures"]["mean(longest_silence)"]["difference"];
            let (low, high) = (figure["low"].as_f64().unwrap(), figure["high"].as_f64().unwrap());
            let value = figure["value"].as_f64().unwrap();
            assert!(low <= value && value <= high, "{figure}");
            assert!(model["id"] != "base" || (low, high) == (0.0, 0.0), "{figure}");
        }
        self.project.printed(&self.arguments(&["report"]));
        let mut browser = Browser::open(&self.project.file("voice/report.html"));
        // A table of the choice may stand before that of the gain.
        let rows = "[...[...document.querySelectorAll('#gain table')].at(-1).tBodies[0].rows]\
            .map(row => row.querySelector('th, td').innerText.trim())";
        assert_eq!(browser.evaluate(rows), serde_json::json!(names));
    }

    /// Switches the last part of the template on, as its comment says, and runs. Trains nothing.
    fn choose(mut self, parameter: &str, set: &[&'static str]) -> Journey {
        let (value, chosen) = (self.value(parameter), format!("{parameter} = \"chosen.model\""));
        self.project.edit("voice/pipeline.toml", |text| {
            let (before, part) = text.split_once("# The stages:\n#\n").unwrap();
            assert!(before.ends_with(&format!(
                "#     {chosen}\n#     compared = \"halves.validation\"\n#\n"
            )));
            let before = before.replacen(&value, &chosen, 1).replacen(
                "compared = \"comparison_spoken\"",
                "compared = \"halves.validation\"",
                1,
            );
            let line = |line: &str| match line.strip_prefix('#') {
                Some(rest) => rest.trim_start().to_owned() + "\n",
                None => line.to_owned() + "\n",
            };
            let (stages, rest) = part.split_once("\n\n").unwrap();
            before + &stages.lines().map(line).collect::<String>() + "\n" + rest
        });
        make(&self.project, "sounds", &["--recordings", "1", "--minutes", "1"]);
        let recogniser = self.project.file("sounds/models/recogniser");
        copy_folder(&recogniser, &self.project.file("voice/models/recogniser"), &[]);
        self.project.printed(&self.arguments(&["check"]));
        // Models that were hardly trained say nothing that a recogniser understands.
        self.set.extend(["chosen.require=[]", "chosen.least=1", "comparison.first=4"]);
        self.set.extend(set);
        let ran = self.run();
        assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
        assert!(ran.all("metrics").is_empty(), "nothing is trained: {:?}", ran.executed());
        let choice: serde_json::Value =
            serde_json::from_slice(&self.project.read("voice/out/choice.json")).unwrap();
        assert!(choice["chosen"].as_str().unwrap().starts_with("step-"), "{choice}");
        self
    }

    /// The line of a parameter in the template.
    fn value(&self, parameter: &str) -> String {
        let text = self.project.text("voice/pipeline.toml");
        let line = text.lines().find(|line| line.starts_with(&format!("{parameter} = ")));
        let end = line.unwrap().rfind('"').unwrap();
        line.unwrap()[..=end].to_owned()
    }

    /// The page has no errors, plays something, and shows all of these.
    fn assert_report_shows(&self, parts: &[&str]) {
        self.project.printed(&self.arguments(&["report"]));
        let mut browser = Browser::open(&self.project.file("voice/report.html"));
        let players = browser.evaluate("document.querySelectorAll('.player').length");
        assert!(players.as_u64().unwrap() > 0, "no player");
        assert_eq!(browser.complaints(), [""; 0]);
        let page = self.project.text("voice/report.html");
        parts.iter().for_each(|part| assert!(page.contains(part), "nothing of `{part}`"));
    }
}

/// An audible WAV file of at least a tenth of a second.
pub fn assert_sounds(wav: &[u8], name: &str) {
    let wave = stage_torch::wave::read(wav).unwrap();
    let loudest = wave.samples.iter().fold(0f32, |loudest, sample| loudest.max(sample.abs()));
    let seconds = wave.samples.len() as f64 / f64::from(wave.rate);
    assert!(seconds > 0.1 && loudest > 1e-3, "{name}: {seconds} s, loudest {loudest}");
}

#[test]
fn the_demo_speaks() {
    let journey = Journey::of(
        "demo",
        &[
            "trained.steps=2",
            "adapted.steps=2",
            "trained.preflight=false",
            "spoken_sentences.limit=0.6",
        ],
    );
    assert_eq!(journey.travel("spoken"), ["001.wav", "002.wav", "003.wav"]);
    journey.assert_report_shows(&["Parts of the loss"]);
}

#[test]
fn the_demo_of_the_other_kind_speaks() {
    let set = ["trained.steps=2", "trained.validate_every=2"];
    let journey = Journey { manifest: "voice/vits.toml", ..Journey::of("demo", &set) };
    assert_eq!(journey.travel("vits/spoken"), ["001.wav", "002.wav"]);
    journey.assert_report_shows(&["Held-out loss", "generator", "discriminator", "mel"]);
}

#[test]
fn fish_speech_speaks_finnish() {
    // The preflight would correctly find that the base is untrained.
    let set = [
        "finnish.epochs=1",
        "finnish.patience=0",
        "finnish.preflight=false",
        "adapters.epochs=1",
        "adapters.patience=0",
        "adapters.preflight=false",
        "sentences.sentences=[\"Hei vaan.\"]",
        "comparison.first=2",
    ];
    let journey = Journey::on_the_cpu("finnish-fish", &set);
    models::write_fish(&journey.project.file("voice/models/openaudio-s1-mini"));
    recordings::write_folders(&journey.project, "voice");
    assert_eq!(journey.travel("heard"), ["001.wav"]);
    assert!(!journey.project.names("voice/out/auditions").is_empty());
    assert!(journey.project.names("voice/out/voice").contains(&"model.pth".to_owned()));
    // As the extraction of the original leaves them: beside the clips, in 64-bit integers.
    let tokens = journey.project.read("voice/out/tokens/eero/eero_01.npy");
    assert!(String::from_utf8_lossy(&tokens[..64]).contains("'descr': '<i8'"));
    journey.assert_compares(&["base", "finnish", "merged"]);
    journey.assert_report_shows(&["CC-BY-NC-SA-4.0", "models compared with base on 4 sentences"]);
    journey
        .choose("adapters", &["said_by_each.max_frames=9"])
        .assert_compares(&["base", "finnish", "merged"]);
}

#[test]
fn mms_speaks_gujarati() {
    let journey = Journey::on_the_cpu(
        "gujarati-mms",
        &[
            "adapted.epochs=2",
            "adapted.patience=0",
            "trained.epochs=2",
            "trained.patience=0",
            "comparison.first=2",
        ],
    );
    models::write_vits(&journey.project.file("voice/models/mms-tts-guj"));
    recordings::write_table_of_one(&journey.project, "voice", "આજે હવામાન ખૂબ સરસ છે.");
    assert_eq!(journey.travel("heard"), ["001.wav", "002.wav", "003.wav"]);
    assert!(!journey.project.names("voice/out/auditions").is_empty());
    assert!(journey.project.names("voice/out/voice").contains(&"vocab.json".to_owned()));
    journey.assert_compares(&["base", "adapted", "trained"]);
    journey.assert_report_shows(&[
        "CC-BY-NC-4.0",
        "Held-out loss",
        "models compared with base on 3 sentences",
    ]);
    journey.choose("voice", &[]).assert_compares(&["base", "adapted", "chosen"]);
}

#[test]
fn xtts_speaks_amharic() {
    let journey = Journey::on_the_cpu(
        "amharic-xtts",
        &[
            "rows.epochs=1",
            "rows.preflight=false",
            "trained.epochs=1",
            "trained.patience=0",
            "trained.preflight=false",
            "sentences.sentences=[\"ዛሬ አየሩ ጥሩ ነው።\"]",
            "comparison.first=2",
            "auditioned.max_codes=9",
            "heard.max_codes=9",
            "spoken_before.max_codes=9",
            "spoken_between.max_codes=9",
            "spoken_after.max_codes=9",
        ],
    );
    models::write_xtts(&journey.project.file("voice/models/xtts-v2"));
    recordings::write_table(&journey.project, "voice", "ሰላም ለሁሉም። ዛሬ አየሩ በጣም ጥሩ ነው። እንደምን አደርክ?");
    journey.project.write("voice/sentences.txt", "ዛሬ አየሩ ጥሩ ነው።\nሰላም ለሁሉም።\n");
    // An untrained model may end after a moment, so what it says is not listened to.
    journey.arrive();
    assert_eq!(journey.project.names("voice/out/heard"), ["001.wav"]);
    journey.assert_compares(&["base", "rows", "trained"]);
    journey.assert_report_shows(&["CPML", "models compared with base on 4 sentences"]);
    let more = ["ሰላም ለሁሉም።", "ዛሬ ሰላም ነው።", "አየሩ ጥሩ ነው።", "እንደምን አደርክ?"];
    journey.project.write("voice/sentences.txt", more.join("\n"));
    let short = ["said_before.max_codes=9", "said_after.max_codes=9"];
    journey.choose("voice", &short).assert_compares(&["base", "chosen", "rows"]);
}

/// Stands for `uroman`: two Latin letters for each Ethiopic sign.
const UROMAN: &str = r#"#!/usr/bin/env python3
import sys

assert sys.argv[1:] == ["-l", "amh"], sys.argv

def latin(sign):
    if sign == "\u1362":
        return "."
    if "\u1200" <= sign < "\u1380":
        return "hlmsrqbtn"[ord(sign) // 8 % 9] + "aeiou"[ord(sign) % 5]
    return sign

for line in sys.stdin.buffer.read().decode().splitlines():
    sys.stdout.buffer.write(("".join(map(latin, line)) + "\n").encode())
"#;

#[test]
fn xtts_speaks_amharic_from_latin_letters() {
    use std::os::unix::fs::PermissionsExt;

    let set = [
        "trained.epochs=1",
        "trained.patience=0",
        "trained.preflight=false",
        "sentences.sentences=[\"ዛሬ አየሩ ጥሩ ነው።\"]",
        "heard.max_codes=9",
    ];
    let journey =
        Journey { manifest: "voice/romanised.toml", ..Journey::on_the_cpu("amharic-xtts", &set) };
    let project = &journey.project;
    project.write("programs/uroman", UROMAN);
    let program = project.file("programs/uroman");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    models::write_xtts(&project.file("voice/models/xtts-v2"));
    recordings::write_table(project, "voice", "ሰላም ለሁሉም። ዛሬ አየሩ በጣም ጥሩ ነው። እንደምን አደርክ?");
    journey.arrive();
    assert_eq!(project.names("voice/out/romanised/heard"), ["001.wav"]);
    let texts = |stage| -> Vec<String> {
        let set = journey.set.iter().flat_map(|set| ["--set", set]);
        let items = ["items", stage, "--fields", "text", "--format", "csv", "-m", journey.manifest];
        let lines = project.printed(&items.into_iter().chain(set).collect::<Vec<_>>());
        lines.lines().skip(1).map(str::to_owned).collect()
    };
    for stage in ["romanised", "sentences_romanised"] {
        let texts = texts(stage);
        assert!(!texts.is_empty() && texts.iter().all(|text| text.is_ascii()), "{texts:?}");
    }
    assert!(texts("spoken").iter().all(|text| !text.is_ascii()));
    // The vocabulary grew by the tag alone.
    let vocabulary = |folder: &str| -> serde_json::Value {
        let path = format!("voice/{folder}/vocab.json");
        serde_json::from_slice(&project.read(&path)).unwrap()
    };
    let size = |folder: &str| vocabulary(folder)["model"]["vocab"].as_object().unwrap().len();
    assert_eq!(size("out/romanised/model"), size("models/xtts-v2") + 1);
}

#[test]
fn a_clip_that_comes_later_leaves_the_codec_and_all_other_tokens_as_they_are() {
    let project = Project::default();
    project.printed(&["init", "voice", "--template", "tokens"]);
    recordings::write_table(&project, "voice", "Kello löi 8.");
    let clips = project.text("voice/data/metadata.csv").replace("wavs/", "");
    let (all, last) = clips.trim_end().rsplit_once('\n').unwrap();
    project.write("voice/data/metadata.csv", format!("{all}\n"));
    // As the comment of the template says.
    let template = project.text("voice/pipeline.toml");
    let commands = template.lines().filter_map(|line| line.strip_prefix("#     "));
    let commands = commands.collect::<Vec<_>>().join("\n");
    let copied = Command::new("sh")
        .args(["-c", &commands])
        .current_dir(project.file("voice"))
        .status()
        .unwrap();
    assert!(copied.success(), "{commands}");
    let run = || RanProgram::of(project.output(&["run", "voice", "--json"]));
    assert_eq!(run().executed()["codec"], 1);
    project.write("voice/data/metadata.csv", format!("{all}\n{last}\n"));
    let ran = run();
    let executed = ran.executed();
    assert_eq!((executed.get("codec"), executed["tokens"]), (None, 1), "{executed:?}");
    // Clips of the sample: one gets another name, and one is removed.
    let mut rows: Vec<String> = all.lines().map(str::to_owned).collect();
    let clip = |row: &str| row.split('|').next().unwrap().to_owned();
    let (first, second) = (clip(&rows[1]), clip(&rows[2]));
    let wav = |name: &str| project.file(&format!("voice/data/wavs/{name}"));
    std::fs::rename(wav(&first), wav("renamed.wav")).unwrap();
    std::fs::remove_file(wav(&second)).unwrap();
    rows[1] = rows[1].replace(&first, "renamed.wav");
    rows.remove(2);
    project.write("voice/data/metadata.csv", format!("{}\n{last}\n", rows.join("\n")));
    let ran = run();
    let executed = ran.executed();
    assert_eq!((executed.get("codec"), executed.get("tokens")), (None, None), "{executed:?}");
}
