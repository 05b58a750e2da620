//! The stages `command` and `command.once` with real programs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_core::{
    Context, Fields, GatherInput, GatherOutput, Item, NewItem, NewValue, ParameterValue, PortInput,
    Setup, StageError, Value,
};
use support::*;

fn clip(bench: &mut Bench) -> Item {
    let audio = bench.blob("audio/wav", "RIFF");
    item(
        "a",
        &[
            ("text", Value::text("it's; rm -rf $HOME {x}")),
            ("audio", audio),
            ("secret", Value::text("no")),
        ],
    )
}

fn declared<'a>(line: &str, more: &[(&'a str, ParameterValue)]) -> Vec<(&'a str, ParameterValue)> {
    let mut written = vec![
        ("command", text(line)),
        ("fields", texts_value(&["audio", "text"])),
        ("outputs", map(&[("result", text("result.txt"))])),
    ];
    written.extend_from_slice(more);
    written
}

#[test]
fn a_command_sees_fields_as_words_and_files() {
    let mut bench = Bench::default();
    let clip = clip(&mut bench);
    let line = "printf '%s %s' {text} \"$(cat {audio})\" > {out.result}; case {audio} in *.wav) ;; *) exit 1;; esac";
    let output = bench.process("command", &declared(line, &[]), &[clip]).unwrap();
    let expected = NewValue::bytes("file/txt", "it's; rm -rf $HOME {x} RIFF");
    assert_eq!(output[0].as_ref().unwrap().values, [("result".to_owned(), expected)]);
}

#[test]
fn an_output_may_become_a_text() {
    let mut bench = Bench::default();
    let clip = clip(&mut bench);
    let texts = ("texts", texts_value(&["result"]));
    let mut run = |line: &str| {
        let written = declared(line, std::slice::from_ref(&texts));
        bench.process("command", &written, std::slice::from_ref(&clip)).unwrap().remove(0)
    };
    let output = run("printf 'namaste \\n\\n' > {out.result}").unwrap();
    assert_eq!(output.values, [("result".to_owned(), NewValue::Text("namaste ".to_owned()))]);
    let reject = run("printf '\\377' > {out.result}").unwrap_err();
    assert_eq!(reject.code, "output-no-text");
    let other = [("texts", texts_value(&["other"]))];
    let error = bench.process("command", &declared("true", &other), &[]).unwrap_err().to_string();
    assert_eq!(error, "`texts` names `other`, which is not in `outputs`");
}

#[test]
fn a_failing_command_rejects_its_item_or_ends_the_run() {
    let mut bench = Bench::default();
    let clip = clip(&mut bench);
    let line = "echo no voice >&2; exit 4";
    let output =
        bench.process("command", &declared(line, &[]), std::slice::from_ref(&clip)).unwrap();
    let reject = output[0].as_ref().unwrap_err();
    assert_eq!(
        (reject.code.as_str(), reject.reason.as_str()),
        ("command-failed", "the command ended with status 4; it said: no voice")
    );
    let error = bench.process("command", &declared(line, &[("on_failure", text("fail"))]), &[clip]);
    assert!(matches!(error, Err(StageError::Unable { .. })), "no item is worked on any more");
}

#[test]
fn a_missing_program_is_no_verdict_on_the_item() {
    let mut bench = Bench::default();
    let clip = clip(&mut bench);
    let error = bench
        .process("command", &declared("no-such-program-at-all", &[]), std::slice::from_ref(&clip))
        .unwrap_err();
    assert!(
        error.to_string().starts_with("the program `no-such-program-at-all` was not found"),
        "{error}"
    );
    assert!(bench.process("command", &declared("no-such-program-at-all", &[]), &[]).is_err());
    let piped = declared("no-such-program-at-all | wc -l > {out.result}", &[]);
    let error = bench.process("command", &piped, &[]).unwrap_err();
    let name = "the program `no-such-program-at-all` was not found";
    assert!(error.to_string().starts_with(name), "{error}");
    let hidden = declared("true && no-such-program-at-all", &[]);
    let error = bench.process("command", &hidden, std::slice::from_ref(&clip)).unwrap_err();
    assert!(matches!(error, StageError::Unable { .. }), "{error}");
    let killed = bench.process("command", &declared("kill -9 $$", &[]), &[clip]).unwrap_err();
    assert!(matches!(killed, StageError::Transient { .. }), "{killed}");
}

#[test]
fn a_program_that_exceeds_the_timeout_is_told_alike_silent_or_not() {
    let mut bench = Bench { timeout_seconds: Some(0.2), ..Bench::default() };
    let clip = clip(&mut bench);
    for (line, said) in [("sleep 60", ""), ("echo busy >&2; yes", "; it said: busy")] {
        let clip = std::slice::from_ref(&clip);
        let error = bench.process("command", &declared(line, &[]), clip).unwrap_err();
        assert_eq!(error.to_string(), format!("not done after 0.2 s{said}"));
        assert_eq!(error.help(), Some("raise `timeout` if it needs more"));
    }
}

#[test]
fn places_are_checked_before_the_first_item() {
    let mut bench = Bench::default();
    let error = bench.process("command", &declared("cat {secret}", &[]), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`{secret}` is not a field; known names: `audio`, `base`, `out.result`, `text`; write `{{` for a plain brace"
    );
    let outside = [("outputs", map(&[("result", text("../result"))]))];
    let error = bench.process("command", &declared("true", &outside), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the output `result` cannot be used: its path `../result` leads outside its folder"
    );
}

#[test]
fn a_field_with_the_name_of_a_path_is_a_field() {
    let mut bench = Bench::default();
    let fields = [("fields", texts_value(&["base"]))];
    let line = "sh -c 'echo {base}' > {out.result}";
    let error = bench.process("command", &declared(line, &fields), &[]).unwrap_err().to_string();
    assert!(error.starts_with("`{base}` in `command` is inside quotes"), "{error}");
    let hostile = item("a", &[("base", Value::text("$(touch PWNED)"))]);
    let line = "printf '%s' {base} > {out.result}";
    let output = bench.process("command", &declared(line, &fields), &[hostile]).unwrap();
    assert_eq!(shown(&output[0].as_ref().unwrap().values[0].1), "$(touch PWNED)");
}

#[test]
fn a_value_that_is_too_long_for_a_program_rejects_its_item() {
    let mut bench = Bench::default();
    let long = item("a", &[("text", Value::text("x".repeat(200_000)))]);
    let fields = [("fields", texts_value(&["text"]))];
    for line in ["cat {text}", "printf %s {text} > {out.result}"] {
        let output =
            bench.process("command", &declared(line, &fields), std::slice::from_ref(&long));
        let reject = output.unwrap().remove(0).unwrap_err();
        let reason = "the value of `{text}` has 200000 bytes, more than the 131071 that the system passes to a program";
        assert_eq!((reject.code.as_str(), reject.reason.as_str()), ("unfit-value", reason));
    }
}

#[test]
fn another_version_of_the_program_is_an_error_with_advice() {
    let mut bench = Bench::default();
    let version = |wanted| [("version_command", text("echo tool 1.51")), ("version", text(wanted))];
    assert!(bench.process("command", &declared("true", &version("1.51")), &[]).is_ok());
    let error = bench.process("command", &declared("true", &version("1.52")), &[]).unwrap_err();
    assert_eq!(error.to_string(), "`echo tool 1.51` printed `tool 1.51`, expected `1.52`");
    assert!(error.help().is_some());
}

#[test]
fn a_script_is_placed_and_the_manifests_folder_is_known() {
    let mut bench = Bench::default();
    let clip = clip(&mut bench);
    let Value::Blob(script) = bench.blob("file", "printf \"script in $1\" > \"$2\"") else {
        panic!()
    };
    let kind = stage("command").kind();
    let parameters = parameters(kind, &declared("sh {script} {base} {out.result}", &[]));
    let files = [("script".to_owned(), (*script).clone())].into();
    let setup = Setup { parameters, files, base: "/where/ever".to_owned(), ..Setup::default() };
    let stage_core::Job::Item(job) = bench.open("command", setup).unwrap() else { panic!() };
    let output = job.process(&[clip], &mut bench).unwrap();
    assert_eq!(shown(&output[0].as_ref().unwrap().values[0].1), "script in /where/ever");
}

#[test]
fn once_a_command_sees_all_items_as_lines() {
    let mut bench = Bench::default();
    let clips = vec![clip(&mut bench)];
    let digest = clips[0].fields.blob("audio").unwrap().digest.to_string();
    let line = "grep -c . {items} > {out.result}; cat {items} >> {out.result}";
    let output =
        bench.gather("command.once", &declared(line, &[]), vec![dataset("clips", clips)]).unwrap();
    let result = shown(artifact(&output, "output")["result"]);
    let (count, line) = result.split_once('\n').unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((count, line["id"].as_str(), line.get("secret")), ("1", Some("a"), None));
    let name = format!("in/{}-audio.wav", &digest[..32]);
    assert!(line["audio"].as_str().unwrap().ends_with(&name), "{line}");
}

#[test]
fn each_of_many_items_names_its_own_file() {
    let mut bench = Bench::default();
    let contents: Vec<String> = (0..300).map(|number| format!("clip {number}\n")).collect();
    let clips = contents.iter().enumerate().map(|(number, content)| {
        let audio = bench.blob("audio/wav", content.clone());
        item(&format!("{number}"), &[("audio", audio)])
    });
    let clips = dataset("clips", clips.collect());
    let paths = r#"sed 's/.*"audio":"\([^"]*\)".*/\1/' {items}"#;
    let line = format!("{paths} | xargs cat > {{out.result}}");
    let output = bench.gather("command.once", &declared(&line, &[]), vec![clips]).unwrap();
    assert_eq!(shown(artifact(&output, "output")["result"]), contents.concat());
}

/// The names of the folders for programs that are there.
fn folders(bench: &Bench) -> Vec<String> {
    let folder = bench.scratch.as_ref().unwrap().path();
    let entries = folder.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_program_finds_nothing_of_the_one_before_it_and_has_its_folder_under_another_name() {
    let mut bench = Bench::default();
    let clips = [clip(&mut bench), clip(&mut bench), clip(&mut bench)];
    let line = "(find . | sort; pwd) > {out.result}; : > left; : > out/.left; ln -s / in/left; \
                echo more >> {audio}";
    let outputs = bench.process("command", &declared(line, &[]), &clips).unwrap();
    let mut names = Vec::new();
    for output in &outputs {
        let result = shown(&output.as_ref().unwrap().values[0].1);
        let (found, name) = result.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(found, ".\n./in\n./in/audio.wav\n./out\n./out/result.txt");
        names.push(name.to_owned());
    }
    assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    let left = folders(&bench);
    assert!(left.len() == 1 && names[2].ends_with(&left[0]), "{left:?}, not the last of {names:?}");
}

#[test]
fn a_folder_is_removed_after_a_failure_and_while_a_process_may_use_it() {
    let mut bench = Bench::default();
    let clips = [clip(&mut bench)];
    let failed = bench.process("command", &declared("exit 4", &[]), &clips).unwrap();
    assert!(failed[0].is_err() && folders(&bench).is_empty());
    // It has left the group before the program ends, and holds a stream.
    let line = "setsid sh -c 'echo made > \"$0\"; exec sleep 3' {out.result} & \
                while [ ! -s {out.result} ]; do :; done";
    let made = bench.process("command", &declared(line, &[]), &clips).unwrap();
    assert!(made[0].is_ok() && folders(&bench).is_empty());
}

#[test]
fn a_stop_ends_the_command() {
    let mut bench = Bench { is_stopping: true, ..Bench::default() };
    let clip = clip(&mut bench);
    assert_eq!(
        bench.process("command", &declared("sleep 600", &[]), &[clip]).unwrap_err(),
        StageError::Stopped
    );
}

/// The parameters of a `command.once` that makes items.
fn making<'a>(line: &str, items: &str, kinds: &[(&str, &str)]) -> Vec<(&'a str, ParameterValue)> {
    let kinds: Vec<(&str, ParameterValue)> =
        kinds.iter().map(|(name, kind)| (*name, text(kind))).collect();
    vec![
        ("command", text(line)),
        ("fields", texts_value(&["text"])),
        ("outputs", map(&[])),
        ("items", text(items)),
        ("item_outputs", map(&kinds)),
    ]
}

fn spoken() -> PortInput {
    let items = ["a", "b", "c"].map(|id| item(id, &[("text", Value::text(id.to_uppercase()))]));
    dataset("clips", items.to_vec())
}

fn told(bench: &mut Bench, value: &NewValue) -> String {
    match value {
        NewValue::Kept(Value::Blob(blob)) => {
            String::from_utf8(Context::read(bench, blob).unwrap().to_vec()).unwrap()
        }
        NewValue::Kept(Value::Text(text)) => text.to_string(),
        NewValue::Number(number) => number.to_string(),
        other => shown(other),
    }
}

/// The items on `items`, with their fields.
fn made(bench: &mut Bench, output: &GatherOutput) -> Vec<String> {
    let mut one = |item: &NewItem| {
        let values = item.values.iter();
        let fields: Vec<String> =
            values.map(|(name, value)| format!("{name}={}", told(bench, value))).collect();
        format!("{}: {}", item.id, fields.join(", "))
    };
    items(output, "items").iter().map(&mut one).collect()
}

#[test]
fn the_files_of_a_folder_become_an_artifact() {
    let mut bench = Bench::default();
    let line = "mkdir {out.model}/sub; printf one > {out.model}/config.json; \
                printf two > {out.model}/sub/w.bin; : > {out.model}/.hidden; echo log > {out.log}";
    let outputs = map(&[("model", text("model/")), ("log", text("log.txt"))]);
    let written = [("command", text(line)), ("outputs", outputs)];
    let output = bench.gather("command.once", &written, vec![]).unwrap();
    let fields = artifact(&output, "output");
    let found: Vec<_> =
        fields.iter().map(|(name, value)| (*name, told(&mut bench, value))).collect();
    let expected = [("config.json", "one"), ("log", "log\n"), ("sub/w.bin", "two")];
    assert_eq!(found, expected.map(|(name, told)| (name, told.to_owned())));
    assert_eq!(made(&mut bench, &output), [""; 0]);
}

#[test]
fn a_folder_may_hold_neither_links_nor_nothing() {
    let mut bench = Bench::default();
    let outputs = map(&[("model", text("model/")), ("log", text("log.txt"))]);
    for (line, told) in [
        ("ln -s /etc/passwd {out.model}/a", "`out/model/a` is a link or a folder, not a file"),
        ("mkfifo {out.model}/a", "`out/model/a` is a named pipe, not a file"),
        ("true", "did not write `out/model/`"),
        ("rm -r {out.model}", "did not write `out/model/`"),
        ("rm -r {out.model}; ln -s /etc {out.model}", "`out/model` is a link or a folder"),
        ("rm -r {out.model}; : > {out.model}", "`out/model` is a file, not a folder"),
        ("rm -r {out.model}; mkfifo {out.model}", "`out/model` is a named pipe, not a folder"),
        ("printf x > {out.model}/log", "has a file with the name of the output `log`"),
        ("printf x > {out.model}/\"$(printf '\\377')\"", "a name that is not UTF-8"),
    ] {
        let written =
            [("command", text(&format!("{line}; : > {{out.log}}"))), ("outputs", outputs.clone())];
        let error = bench.gather("command.once", &written, vec![]).unwrap_err().to_string();
        assert!(error.contains(told), "{line}: {error}");
    }
}

#[test]
fn an_artifact_reaches_the_command_as_a_folder() {
    let mut bench = Bench::default();
    let Value::Blob(blob) = bench.blob("file", "weights") else { panic!() };
    let fields: Fields = [("sub/w.bin", Value::Blob(blob))].into_iter().collect();
    let line = "cat {artifact}/sub/w.bin > {out.copy}";
    let written = [("command", text(line)), ("outputs", map(&[("copy", text("copy.bin"))]))];
    let parameters = parameters(stage("command.once").kind(), &written);
    let artifacts = [("artifact".to_owned(), vec![fields])].into();
    let setup = Setup { parameters, artifacts, ..Setup::default() };
    let stage_core::Job::Gather(mut job) = bench.open("command.once", setup).unwrap() else {
        panic!()
    };
    let output = job.run(GatherInput::default(), &mut bench).unwrap();
    assert_eq!(shown(artifact(&output, "output")["copy"]), "weights");
}

#[test]
fn a_command_changes_leaves_out_and_adds_items() {
    let kinds = [("level", "number"), ("note", "file/txt")];
    let lines = "cd \"$(dirname {out.items})\"; printf A > a.txt; printf N > n.txt; \
        printf '{{\"id\": \"a\", \"level\": 1.5, \"note\": \"a.txt\"}}\\n\
        {{\"id\": \"n\", \"level\": 2, \"note\": \"%s/n.txt\"}}\\n' \"$PWD\" > {out.items}";
    let table = "cd \"$(dirname {out.items})\"; printf A > a.txt; printf N > n.txt; \
        printf 'level,id,note\\n1.5,a,a.txt\\n2,n,n.txt\\n' > {out.items}";
    for (line, items) in [(lines, "made/clips.jsonl"), (table, "made/clips.csv")] {
        let mut bench = Bench::default();
        let written = making(line, items, &kinds);
        let output = bench.gather("command.once", &written, vec![spoken()]).unwrap();
        let expected = ["a: text=A, level=1.5, note=A", "n: level=2, note=N"];
        assert_eq!(made(&mut bench, &output), expected, "{items}");
        assert!(bench.set_aside().is_empty() && artifact(&output, "output").is_empty());
    }
}

#[test]
fn a_folder_of_files_becomes_items() {
    let mut bench = Bench::default();
    let line = "cd {out.items}; mkdir s; printf 'Hei.\\n' > s/n.txt; printf RIFF > s/n.wav; \
                printf RIFF > a.wav; printf 'Moi' > a.txt; : > log";
    let written = making(line, "clips/", &[("audio", "audio/wav"), ("text", "text")]);
    let output = bench.gather("command.once", &written, vec![spoken()]).unwrap();
    assert_eq!(
        made(&mut bench, &output),
        ["a: audio=RIFF, text=Moi", "s/n: audio=RIFF, text=Hei."]
    );
    let none = making("true", "clips/", &[("text", "text")]);
    let output = bench.gather("command.once", &none, vec![spoken()]).unwrap();
    assert_eq!(made(&mut bench, &output), [""; 0]);
}

#[test]
fn items_that_cannot_be_used_are_set_aside_and_new_ones_fail_the_stage() {
    let mut bench = Bench::default();
    let line =
        "printf 'id\\tlevel\\treject\\na\\tloud\\t\\nb\\t\\ttoo noisy\\nc\\t3\\t\\n' > {out.items}";
    let written = making(line, "clips.tsv", &[("level", "number")]);
    let output = bench.gather("command.once", &written, vec![spoken()]).unwrap();
    assert_eq!(made(&mut bench, &output), ["c: text=C, level=3"]);
    assert_eq!(bench.set_aside(), ["input 0 output-no-number", "input 1 rejected"]);
    for (table, told) in [
        ("id,level\\nn,loud\\n", "item `n`: the output `level` is not a number"),
        ("id,level,reject\\nn,1,no\\n", "item `n`: no"),
        ("id,level\\na,1\\na,2\\n", "the command gave two items the id `a`"),
        ("level\\n1\\n", "there is no column `id`; the columns are: level"),
        ("id,level\\n,1\\n", "row 1: the item has no text `id`"),
        ("id,level,more\\n", "the column `more` is not in `item_outputs`"),
        ("id,level\\na\\n", "`clips.csv` cannot be read: "),
    ] {
        let line = format!("printf '{table}' > {{out.items}}");
        let written = making(&line, "clips.csv", &[("level", "number")]);
        let error = bench.gather("command.once", &written, vec![spoken()]).unwrap_err();
        assert!(error.to_string().contains(told), "{table}: {error}");
    }
    let nothing = making("true", "clips.csv", &[("level", "number")]);
    let error = bench.gather("command.once", &nothing, vec![spoken()]).unwrap_err().to_string();
    assert!(error.contains("did not write `out/clips.csv`"), "{error}");
}

#[test]
fn the_files_of_items_stay_in_the_folder_of_the_outputs() {
    for path in ["../in/secret", "/etc/passwd", "link.txt"] {
        let mut bench = Bench::default();
        let line = format!(
            "ln -s /etc/passwd \"$(dirname {{out.items}})/link.txt\"; \
             printf 'id,note\\na,{path}\\n' > {{out.items}}"
        );
        let written = making(&line, "clips.csv", &[("note", "file/txt")]);
        let output = bench.gather("command.once", &written, vec![spoken()]).unwrap();
        assert_eq!((made(&mut bench, &output).len(), bench.set_aside().len()), (0, 1), "{path}");
    }
}
