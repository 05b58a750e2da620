//! `check` finds every mistake of a file at once, and none hides another.

use manifest::{FileKind, LoadOptions, Problem, load};

use crate::support::{CORPUS, load_from};

fn problems_with(rest: &str, set: &[&str]) -> Vec<Problem> {
    match load_from(&stage_families::catalogue(), &format!("{CORPUS}{rest}"), set) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().cloned().collect(),
    }
}

fn messages(rest: &str) -> Vec<String> {
    problems_with(rest, &[]).iter().map(|problem| problem.message().to_owned()).collect()
}

/// A `command` with more lines.
fn command(lines: &str) -> String {
    format!(
        "[stage.words]\nuse = \"command\"\ninput = \"clips\"\nfields = [\"text\"]\n\
         outputs = {{ words = \"words.txt\" }}\nexport = \"out/{{id}}.txt\"\n{lines}\n"
    )
}

#[test]
fn every_wrong_place_of_a_command_is_found_before_it_runs() {
    let found =
        problems_with(&command("command = \"say {texts} {text} > {out.word}; {{x}} ${Y}\""), &[]);
    let messages: Vec<&str> = found.iter().map(Problem::message).collect();
    assert_eq!(
        messages,
        ["`{out.word}` in `command` is unknown", "`{texts}` in `command` is unknown"]
    );
    let advice = "known names: `text`, `out.words`, `base`; ";
    assert!(found[0].advice().unwrap().starts_with(advice), "{found:?}");
    let (line, _) = found[0].position();
    assert_eq!(line, CORPUS.lines().count() + 7, "the place of the command");
    assert_eq!(messages_of("say > {out.words} {text"), ["a brace in `command` is not closed"]);
    assert!(messages_of("say {text} > {out.words}").is_empty());
}

fn messages_of(line: &str) -> Vec<String> {
    messages(&command(&format!("command = \"{line}\"")))
}

#[test]
fn what_a_command_declares_is_found_together() {
    let text = "[stage.words]\nuse = \"command.once\"\ncommand = \"x {items} {script} {out.a}\"\n\
                outputs = { a = \"../a\", b = \"b.txt\", c = \"./b.txt\" }\ntexts = [\"d\"]\n\
                environment = { \"A=B\" = \"1\" }\nexport = \"out/words\"\n";
    assert_eq!(
        messages(text),
        [
            "`{script}` in `command` is unknown",
            "output `a` cannot be the file `../a`",
            "two outputs have the file `./b.txt`",
            "`texts` names `d`, which is not in `outputs`",
            "`A=B` is not a valid name of a variable",
        ]
    );
}

#[test]
fn what_follows_from_a_wrong_value_is_not_told_as_well() {
    let text = command("command = \"say {text} {more} > {out.words}\"")
        .replace("outputs = { words = \"words.txt\" }", "outputs = 5");
    assert_eq!(messages(&text).len(), 2, "the table and `more`: {:?}", messages(&text));
}

#[test]
fn every_mistake_of_an_export_is_told() {
    let text = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\n\
                export = { text = \"/out/../{speakers}/{sound}.wav\" }\n";
    let found = messages(text).join("\n");
    for mistake in [
        "field `text` is a text, but only files can be exported",
        "an export path must be relative",
        "an export path cannot contain `..`",
    ] {
        assert!(found.contains(mistake), "{mistake}: {found}");
    }
    let text = "[stage.numbers]\nuse = \"speaker.stats\"\ninput = \"clips\"\n\
                export = \"/out/{speakers}/{sound}.json\"\n";
    let found = messages(text);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().any(|one| one.contains("so it has no field `speakers`")), "{found:?}");
    assert!(found.iter().any(|one| one.contains("so it has no field `sound`")), "{found:?}");
}

#[test]
fn a_misspelled_kind_hides_nothing_of_its_stage() {
    let text = "[stage.voice]\nuse = \"audio.resampel\"\ninput = \"clip\"\nrate = \"fast\"\n\
                quarantine = 7\nexport = \"/out/{id}.wav\"\n";
    let found = messages(text);
    assert_eq!(found.len(), 5, "{found:?}");
    // If too little fits the probable kind, only general mistakes are reported.
    let text = "[stage.voice]\nuse = \"audio.resampel\"\nloudness = 3\nquarantine = 7\n\
                export = \"/out/{id}.wav\"\n";
    let found = messages(text);
    assert_eq!(found.len(), 3, "{found:?}");
    let text = "[stage.voice]\nuse = \"nothing.like.it\"\nquarantine = 7\nexport = [1]\n";
    assert_eq!(messages(text).len(), 3, "{:?}", messages(text));
}

#[test]
fn a_cycle_hides_nothing_of_its_stages_and_of_their_readers() {
    let text = "[stage.a]\nuse = \"audio.resample\"\ninput = \"b\"\nexport = \"out/fixed.wav\"\n\
                [stage.b]\nuse = \"audio.resample\"\ninput = \"a\"\n\
                [stage.c]\nuse = \"audio.resample\"\ninput = \"b\"\nexport = \"out/same.wav\"\n";
    let found = messages(text);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("form a cycle"), "{found:?}");
}

#[test]
fn a_cycle_hides_no_artifact_of_a_wrong_kind_within_it() {
    let text = "[stage.tokens]\nuse = \"vq.encode\"\ninput = \"clips\"\ncodec = \"numbers\"\n\
                [stage.numbers]\nuse = \"speaker.stats\"\ninput = \"tokens\"\n\
                export = \"out/numbers.json\"\n";
    let found = messages(text);
    let [cycle, wrong] = &found[..] else { panic!("{found:?}") };
    assert!(cycle.contains("form a cycle"), "{found:?}");
    assert!(wrong.starts_with("`codec` of stage `tokens` takes "), "{found:?}");
}

#[test]
fn an_export_into_the_cache_hides_nothing_and_is_hidden_by_nothing() {
    let text = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = \"fast\"\n\
                export = { audio = \"kept/{audio}.wav\" }\n\
                [stage.other]\nuse = \"nothing.like.it\"\nexport = \"kept/{id}\"\n";
    let text = format!("{CORPUS}{text}");
    let is_in_cache = |path: &camino::Utf8Path| path.starts_with("/project/kept");
    let options = LoadOptions { is_in_cache: &is_in_cache, ..LoadOptions::default() };
    let file = "/project/pipeline.toml".into();
    let found = load(&text, file, &stage_families::catalogue(), &options, &|_| FileKind::File);
    let found: Vec<String> =
        found.unwrap_err().iter().map(|problem| problem.message().to_owned()).collect();
    let told = |part: &str| found.iter().filter(|message| message.contains(part)).count();
    assert_eq!(told("cannot be in the cache folder"), 2, "{found:?}");
    assert_eq!(told("`rate`"), 1, "{found:?}");
    assert_eq!(told("field `audio` is a file"), 1, "{found:?}");
}

#[test]
fn a_path_that_goes_up_hides_no_unknown_place() {
    for path in ["../{audio}/{id}.wav", "out/../{audio}/{id}.wav", "out/{audio}/../{id}"] {
        let text = format!(
            "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nexport = \"{path}\"\n"
        );
        let found = messages(&text).join("\n");
        assert!(found.contains("cannot contain `..`"), "{path}: {found}");
        assert!(found.contains("field `audio` is a file"), "{path}: {found}");
    }
}

#[test]
fn what_is_set_is_a_text_where_a_text_is_wanted() {
    let text = command(
        "command = \"say {text} > {out.words}\"\nenvironment = { FLOOR = \"1\", DAY = \"x\" }",
    );
    let set = [
        "words.environment.FLOOR=3",
        "words.environment.DAY=2024-01-31",
        "words.salt=1.10",
        "words.version=true",
        "words.command=5",
    ];
    let text = format!("{CORPUS}{text}");
    let loaded = load_from(&stage_families::catalogue(), &text, &set).unwrap();
    let words = loaded.pipeline.find("words").unwrap();
    let environment = words.parameters.get("environment").to_string();
    assert_eq!(environment, "{ DAY = \"2024-01-31\", FLOOR = \"3\" }");
    assert_eq!(words.policy.salt.as_deref(), Some("1.10"));
    assert_eq!(words.parameters.text("version").unwrap(), "true");
    assert_eq!(words.parameters.text("command").unwrap(), "5");
}

#[test]
fn a_wrong_value_in_a_table_is_told_by_its_key() {
    let text =
        command("command = \"say {text} > {out.words}\"\nenvironment = { FLOOR = 3, DAY = true }");
    assert_eq!(
        messages(&text),
        ["`environment.FLOOR` should be a text", "`environment.DAY` should be a text"]
    );
}

#[test]
fn an_artifact_of_texts_cannot_be_exported() {
    let stage = |texts: &str| {
        format!(
            "[stage.words]\nuse = \"command.once\"\ncommand = \"x {{items}} {{out.a}} {{out.b}}\"\n\
             outputs = {{ a = \"a.txt\", b = \"b.txt\" }}\ntexts = {texts}\nexport = \"out/words\"\n"
        )
    };
    assert_eq!(
        messages(&stage("[\"a\", \"b\"]")),
        ["the outputs of stage `words` are texts or numbers, not files"]
    );
    assert!(messages(&stage("[\"a\"]")).is_empty());
}
