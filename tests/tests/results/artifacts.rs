//! Artifacts of a wrong kind are refused before anything runs.

use camino::Utf8Path;
use engine::manifest::{
    FileKind, LoadOptions, LoadedPipeline, Problem, Problems, kind_page, load, reference,
    schema_text,
};
use stage_core::{Catalogue, InputPort, Kind, OutputPort, PortType, Work};

/// The start of most manifests in these tests: a pipeline and a corpus.
const CORPUS: &str = r#"[pipeline]
name = "voice"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

"#;

fn load_text(text: &str) -> Result<LoadedPipeline, Problems> {
    let files = |path: &Utf8Path| match path.extension() {
        Some(_) => FileKind::File,
        None => FileKind::Folder,
    };
    let options = LoadOptions::default();
    load(text, Utf8Path::new("home/voice.toml"), &catalogue(), &options, &files)
}

/// The built-in kinds, and two custom ones.
fn catalogue() -> Catalogue {
    let mut catalogue = stage_speech::catalogue();
    catalogue.add(&MAKE);
    catalogue.add(&HEAR);
    catalogue
}

static MAKE: Kind = Kind {
    name: "my.make",
    work: Work::Gather,
    outputs: &[OutputPort { gives: &["my-horn"], ..OutputPort::ARTIFACT }],
    ..Kind::BASE
};

static HEAR: Kind = Kind {
    name: "my.hear",
    work: Work::Gather,
    inputs: &[InputPort { name: "horn", takes: &["my-horn"], ..InputPort::ARTIFACT }],
    ..Kind::BASE
};

/// Stages with artifacts of several kinds.
const STAGES: &str = r#"
[assets.weights]
path = "models/codec.safetensors"

[stage.codec]
use = "vq.fit"
input = "clips"

[stage.model]
use = "fish.init"

[stage.imported]
use = "model.import"
asset = "assets.weights"

[stage.dac]
use = "model.import"
asset = "assets.weights"
family = "fish-dac"

[stage.numbers]
use = "speaker.stats"
input = "clips"

[stage.horn]
use = "my.make"
"#;

fn problems(rest: &str) -> Vec<Problem> {
    match load_text(&format!("{CORPUS}{STAGES}{rest}")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().cloned().collect(),
    }
}

fn reads(kind: &str, port: &str, reference: &str) -> Vec<Problem> {
    let input = if kind.starts_with("my") { "" } else { "input = \"clips\"" };
    problems(&format!("[stage.reader]\nuse = \"{kind}\"\n{input}\n{port} = \"{reference}\"\n"))
}

#[test]
fn a_model_is_no_codec_and_a_codec_is_no_model() {
    let found = reads("vq.encode", "codec", "model");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].name(), "wrong_artifact");
    assert_eq!(
        found[0].message(),
        "`codec` of stage `reader` takes `mel-rvq` or `fish-dac` or `xtts`, but `model` gives \
         `fish-dual-ar`"
    );
    // A stage with unknown artifact kinds is not suggested.
    assert_eq!(found[0].advice(), Some("`codec`, `imported`, `dac` fit"));
    let (line, _) = found[0].position();
    let text = format!("{CORPUS}{STAGES}");
    assert_eq!(line, text.lines().count() + 4, "the place of the reference");
    for (kind, port, wrong) in [
        ("vits.finetune", "base", "model"),
        ("vits.finetune", "base", "codec"),
        ("asr.transcribe", "model", "dac"),
        ("fish.synthesize", "codec", "numbers"),
        ("text.audit", "model", "horn"),
    ] {
        let found = reads(kind, port, wrong);
        let wrong = found.iter().find(|problem| problem.name() == "wrong_artifact");
        assert!(wrong.is_some(), "{kind} {port}: {found:?}");
    }
}

#[test]
fn what_may_be_of_the_right_kind_passes() {
    for right in ["codec", "dac", "imported"] {
        let found = reads("vq.encode", "codec", right);
        assert!(found.is_empty(), "{right}: {found:?}");
    }
    assert!(reads("vq.encode", "codec", "assets.weights").is_empty(), "only its content says");
}

#[test]
fn a_parameter_says_what_an_import_is() {
    let import = "[stage.text]\nuse = \"model.import\"\nasset = \"assets.weights\"\n\
                  matrix = { family = [\"fish-dac\", \"fish-dual-ar\"] }\n\
                  [stage.reader]\nuse = \"vq.encode\"\ninput = \"clips\"\ncodec = \"text\"\n";
    let found = problems(import);
    assert_eq!(found.len(), 1, "the text model alone: {found:?}");
    assert!(found[0].message().ends_with("but `text` gives `fish-dual-ar`"), "{found:?}");
}

#[test]
fn stages_from_elsewhere_have_kinds_of_their_own() {
    assert!(reads("my.hear", "horn", "horn").is_empty());
    let found = reads("my.hear", "horn", "codec");
    assert_eq!(found[0].advice(), Some("`horn` fits"));
    let found = reads("model.export", "model", "horn");
    assert!(found.iter().any(|problem| problem.name() == "wrong_artifact"), "{found:?}");
}

#[test]
fn where_nothing_fits_the_kinds_that_would_are_named() {
    let text = format!(
        "{CORPUS}[stage.numbers]\nuse = \"speaker.stats\"\ninput = \"clips\"\n\
         [stage.reader]\nuse = \"vits.spectrogram\"\ninput = \"clips\"\nmodel = \"numbers\"\n"
    );
    let Err(problems) = load_text(&text) else { panic!("{text}") };
    let found: Vec<&Problem> = problems.iter().collect();
    assert_eq!(found.len(), 1, "a change of fields alone is not reported: {found:?}");
    assert_eq!(
        found[0].advice(),
        Some(
            "no stage of this manifest makes it; these kinds do: `model.import`, `vits.complete`, \
             `vits.finetune`, `vits.init`"
        )
    );
    let found = reads("fish.synthesize", "codec = \"codec\"\nreference", "numbers");
    let advice = found[0].advice().unwrap();
    assert!(advice.starts_with("`reference`: ") && advice.contains("`dataset.item`"), "{advice}");
}

#[test]
fn the_documents_show_the_kinds() {
    let catalogue = catalogue();
    let encode = kind_page(catalogue.get("vq.encode").unwrap());
    assert!(encode.contains("codec  (artifact: mel-rvq or fish-dac or xtts)"), "{encode}");
    let make = kind_page(catalogue.get("my.make").unwrap());
    assert!(make.contains("output  (artifact: my-horn)"), "{make}");
    assert!(reference(&catalogue).contains("artifact: `mel-rvq` or `fish-dac` or `xtts`."));
    assert!(schema_text(&catalogue).contains("(artifact: `my-horn`)"));
}

#[test]
fn every_kind_of_artifact_in_the_catalogue_is_described_and_can_be_had() {
    let catalogue = stage_speech::catalogue();
    let words: Vec<&str> = stage_families::artifacts().map(|(word, _)| word).collect();
    let given: Vec<&str> = catalogue
        .iter()
        .flat_map(|kind| kind.outputs)
        .flat_map(|port| port.gives)
        .copied()
        .collect();
    for kind in catalogue.iter() {
        for port in kind.outputs {
            let is_known = port.gives.iter().all(|word| words.contains(word));
            assert!(is_known && (port.gives.is_empty() || port.port_type == PortType::Artifact));
            let chosen = port.given_by.is_none_or(|name| kind.parameter(name).is_some());
            assert!(chosen, "{}", kind.name);
        }
        for port in kind.inputs {
            // The stage that takes an item out cannot know its kind.
            let can_be_had = |word: &&&str| given.contains(word) || ***word == *"item";
            assert_eq!(port.takes.iter().filter(can_be_had).count(), port.takes.len());
        }
    }
}

#[test]
fn a_port_beside_the_parameter_in_its_place_is_a_mistake() {
    let messages = |lines: &str| {
        let stages = "[stage.model]\nuse = \"xtts.init\"\n\n[stage.voice]\nuse = \"xtts.voice\"\n";
        match load_text(&format!("{CORPUS}{stages}model = \"model\"\n{lines}")) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(|one| one.message().to_owned()).collect(),
        }
    };
    let both = messages("input = \"clips\"\nspeaker = \"Aino\"\n");
    assert_eq!(both, ["`speaker` and `input` are both given"]);
    assert_eq!(messages("input = \"clips\"\n"), [""; 0]);
    assert_eq!(messages("speaker = \"Aino\"\n"), [""; 0]);
}

/// The messages about stages behind a model, its trainings and sentences.
fn messages_of_speech(stages: &str) -> Vec<String> {
    let head = r#"
[stage.base]
use = "xtts.init"

[stage.coded]
use = "vq.encode"
input = "clips"
codec = "base"

[stage.trained]
use = "xtts.finetune"
input = "coded"
base = "base"
steps = 100

[stage.adapted]
use = "xtts.lora"
input = "coded"
base = "base"
steps = 100

[stage.sentences]
use = "corpus.sentences"
sentences = ["Hei."]

[stage.known]
use = "xtts.voice"
model = "base"
speaker = "Anna"
"#;
    match load_text(&format!("{CORPUS}{head}{stages}")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|one| one.message().to_owned()).collect(),
    }
}

#[test]
fn a_voice_without_references_or_a_speaker_is_a_mistake() {
    let messages = messages_of_speech("[stage.voice]\nuse = \"xtts.voice\"\nmodel = \"base\"\n");
    let message =
        "stage `voice` has no `input` or `reference` or `speaker`, and `xtts.voice` needs one";
    assert!(messages.iter().any(|one| one == message), "{messages:?}");
}

#[test]
fn sentences_that_bring_no_whole_model_need_one() {
    let speaking = |input: &str, rest: &str| {
        let messages = messages_of_speech(&format!(
            "[stage.tuned]\nuse = \"model.audition\"\ninput = \"sentences\"\n\
             checkpoints = \"trained.checkpoints\"\n\
             [stage.few]\nuse = \"dataset.filter\"\ninput = \"adapted.checkpoints\"\n\
             where = [{{ field = \"step\", min = 5 }}]\n\
             [stage.low]\nuse = \"model.audition\"\ninput = \"sentences\"\ncheckpoints = \"few\"\n\
             [stage.spoken]\nuse = \"xtts.synthesize\"\ninput = \"{input}\"\nvoice = \"known\"\n\
             language = \"fi\"\n{rest}"
        ));
        messages.into_iter().find(|one| one.contains("`spoken`")).unwrap_or_default()
    };
    let bare = "stage `spoken` has no `model`, and the items of `sentences` have none";
    assert_eq!(speaking("sentences", ""), bare);
    let low = "stage `spoken` has no `model`, and the items of `low` have only `xtts-lora`";
    assert_eq!(speaking("low", ""), low);
    assert_eq!(speaking("tuned", ""), "");
    for input in ["low", "sentences", "tuned"] {
        assert_eq!(speaking(input, "model = \"base\"\n"), "");
    }
}
