//! What surrounds a manifest: the folder of the cache, values that are set on the command line, and the
//! families of models. Messages that need none of these are cases in `diagnostics`.

use manifest::{FileKind, LoadOptions, load};

use crate::support::{CORPUS, load_from};

#[test]
fn an_export_into_the_cache_hides_nothing_and_is_hidden_by_nothing() {
    let text = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = \"fast\"\n\
                export = { audio = \"kept/{audio}.wav\" }\n\
                [stage.other]\nuse = \"nothing.like.it\"\nexport = \"kept/{id}\"\n";
    let text = format!("{CORPUS}{text}");
    let is_in_cache = |path: &camino::Utf8Path| path.starts_with("/project/kept");
    let options = LoadOptions { is_in_cache: &is_in_cache, ..LoadOptions::default() };
    let file = "/project/pipeline.toml".into();
    let found = load(&text, file, &stage_speech::catalogue(), &options, &|_| FileKind::File);
    let found: Vec<String> =
        found.unwrap_err().iter().map(|problem| problem.message().to_owned()).collect();
    let told = |part: &str| found.iter().filter(|message| message.contains(part)).count();
    assert_eq!(told("cannot be in the cache folder"), 2, "{found:?}");
    assert_eq!(told("`rate`"), 1, "{found:?}");
    assert_eq!(told("field `audio` is a file"), 1, "{found:?}");
}

#[test]
fn what_is_set_is_a_text_where_a_text_is_wanted() {
    let text = "[stage.words]\nuse = \"command\"\ninput = \"clips\"\nfields = [\"text\"]\n\
                outputs = { words = \"words.txt\" }\nexport = \"out/{id}.txt\"\n\
                command = \"say {text} > {out.words}\"\n\
                environment = { FLOOR = \"1\", DAY = \"x\" }\n";
    let set = [
        "words.environment.FLOOR=3",
        "words.environment.DAY=2024-01-31",
        "words.salt=1.10",
        "words.version=true",
        "words.command=5",
    ];
    let text = format!("{CORPUS}{text}");
    let loaded = load_from(&stage_speech::catalogue(), &text, &set).unwrap();
    let words = loaded.pipeline.find("words").unwrap();
    let environment = words.parameters.get("environment").to_string();
    assert_eq!(environment, "{ DAY = \"2024-01-31\", FLOOR = \"3\" }");
    assert_eq!(words.policy.salt.as_deref(), Some("1.10"));
    assert_eq!(words.parameters.text("version").unwrap(), "true");
    assert_eq!(words.parameters.text("command").unwrap(), "5");
}

#[test]
fn a_cycle_hides_no_artifact_of_a_wrong_kind_within_it() {
    let text = "[stage.tokens]\nuse = \"vq.encode\"\ninput = \"clips\"\ncodec = \"numbers\"\n\
                [stage.numbers]\nuse = \"speaker.stats\"\ninput = \"tokens\"\n\
                export = \"out/numbers.json\"\n";
    let text = format!("{CORPUS}{text}");
    let problems = load_from(&stage_speech::catalogue(), &text, &[]).unwrap_err();
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let [cycle, wrong] = &found[..] else { panic!("{found:?}") };
    assert!(cycle.contains("form a cycle"), "{found:?}");
    assert!(wrong.starts_with("`codec` of stage `tokens` takes "), "{found:?}");
}
