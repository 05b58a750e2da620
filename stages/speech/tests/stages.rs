//! The stages as the engine calls them: parameters and fields in, fields and rejects out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use cache::Digest;
use stage_core::{
    Item, NewValue, ParameterValue, Place, PortInput, Reject, SourceOutput, StageError, Value,
};
use stage_speech::audio::{Clip, Samples, wav};
use support::*;

fn ids(output: &SourceOutput) -> Vec<&str> {
    output.items.iter().map(|item| &*item.id).collect()
}

fn reasons(output: &SourceOutput) -> Vec<(&str, &str, &str)> {
    let rejects = output.rejects.iter();
    rejects
        .map(|(name, Reject { code, reason })| (name.as_str(), code.as_str(), reason.as_str()))
        .collect()
}

fn clip(id: &str, speaker: &str, seconds: f64) -> Item {
    let fields = [
        ("speaker", Value::text(speaker)),
        ("text", Value::text(format!("teksti {id}"))),
        ("seconds", Value::Number(seconds)),
    ];
    item(id, &fields)
}

#[test]
fn every_kind_of_the_catalogue_that_runs_here_is_implemented() {
    let implemented: Vec<&str> =
        stage_speech::stages().iter().map(|stage| stage.kind().name).collect();
    for kind in stage_speech::catalogue().iter() {
        if kind.place == Place::Here {
            assert!(implemented.contains(&kind.name), "`{}` is not implemented", kind.name);
        }
    }
}

#[test]
fn a_kind_that_works_with_a_family_names_one_that_there_is_and_whose_size_is_known() {
    for kind in stage_speech::catalogue().iter() {
        let Some(name) = kind.cost.family() else { continue };
        let assumed = stage_families::find(name)
            .and_then(stage_families::Family::assumed)
            .map(|assumed| assumed.model);
        assert!(assumed.is_some_and(|model| model.parameters() > 0), "{}", kind.name);
    }
}

#[test]
fn a_table_gives_items_and_names_each_row_that_it_does_not() {
    let mut bench = Bench::default();
    bench.file("data/metadata.csv", "a|Yksi kaksi|anna\nb.flac|Kolme neljä|olli\nc|Viisi kuusi|anna\n../d|Seitsemän|anna\ne.wav|Kahdeksan|olli\n");
    for name in ["data/wavs/a.mp3", "data/wavs/a.wav", "data/wavs/b.flac"] {
        bench.file(name, name.to_owned());
    }
    let output = bench
        .scan("corpus.table", &[("table", text("data/metadata.csv")), ("audio", text("data/wavs"))])
        .unwrap();
    assert_eq!(ids(&output), ["a", "b"]);
    let first = &output.items[0].fields;
    assert_eq!((first.text("text"), first.text("speaker")), (Some("Yksi kaksi"), Some("anna")));
    assert_eq!(&*first.blob("audio").unwrap().kind, "audio");
    assert_eq!(
        reasons(&output),
        [
            (
                "metadata.csv:4",
                "unsafe-path",
                "row 4 (byte 62): the audio path `../d` leads outside its folder"
            ),
            (
                "metadata.csv:3",
                "no-audio",
                "row 3 `c`: `c` has no audio file with that name in `data/wavs`"
            ),
            ("metadata.csv:5", "missing-file", "there is no file `data/wavs/e.wav`"),
        ]
    );
}

fn notes(output: &SourceOutput) -> Vec<(&str, u64)> {
    output.notes.iter().map(|(note, count)| (note.as_str(), *count)).collect()
}

#[test]
fn recordings_without_a_row_are_told_by_name_and_count() {
    let mut bench = Bench::default();
    bench.file("data/metadata.csv", "wavs/a|Yksi\nwavs/b.wav|\nwavs/C.wav|Kaksi\n");
    let files = ["a.wav", "a.flac", "b.wav", "c.wav", "d.wav", "e.mp3", "notes.txt", "f/g.wav"];
    for name in files {
        bench.file(&format!("data/wavs/{name}"), name.to_owned());
    }
    bench.file("data/other/h.wav", "h");
    bench.file("i.wav", "i");
    let table = ("table", text("data/metadata.csv"));
    let output = bench.scan("corpus.table", std::slice::from_ref(&table)).unwrap();
    assert_eq!(ids(&output), ["wavs/a", "wavs/C"]);
    let told = "recordings without a row: `data/wavs/d.wav`, `data/wavs/e.mp3`";
    assert_eq!(notes(&output).last(), Some(&(told, 2)));
    // All of a folder that the manifest names, and nothing in the folder of the manifest.
    let output = bench.scan("corpus.table", &[table.clone(), ("audio", text("data"))]).unwrap();
    let told = "recordings without a row: `data/other/h.wav`, `data/wavs/d.wav`, `data/wavs/e.mp3`, \
                `data/wavs/f/g.wav`";
    assert_eq!(notes(&output).last(), Some(&(told, 4)));
    (0..7).for_each(|number| bench.file(&format!("data/more/{number}.wav"), "more"));
    let output = bench.scan("corpus.table", &[table, ("audio", text("data"))]).unwrap();
    let (told, count) = *notes(&output).last().unwrap();
    assert!(told.starts_with("recordings without a row, such as `data/more/0.wav`"), "{told}");
    assert_eq!((told.matches(".wav`").count() + told.matches(".mp3`").count(), count), (10, 11));
    bench.file("m.csv", "i.wav|Yksi\n");
    bench.file("j.wav", "j");
    let output = bench.scan("corpus.table", &[("table", text("m.csv"))]).unwrap();
    assert_eq!(notes(&output), []);
}

#[test]
fn clips_without_a_text_are_told_at_their_source() {
    let mut bench = Bench::default();
    bench.file("m.csv", "file,caption\na.wav,Hei\n");
    bench.file("a.wav", "a");
    let written = [("table", text("m.csv")), ("header", text("yes"))];
    let output = bench.scan("corpus.table", &written).unwrap();
    let told = "clips without a text, since no column is one (`columns` names it; there are: file, \
                caption)";
    assert_eq!(notes(&output), [(told, 1)]);
}

#[test]
fn a_folder_in_another_layout_is_told_with_what_to_write() {
    let mut bench = Bench::default();
    bench.file("in/103/1240/x.wav", "x");
    bench.file("in/103/1240/x.normalized.txt", "Hei");
    bench.file("in/103/1240/x.original.txt", "hei");
    let error = bench.scan("corpus.folder", &[("folder", text("in"))]).unwrap_err();
    let StageError::Failed { help: Some(help), .. } = error else { panic!("{error}") };
    assert!(help.starts_with("write `transcript = \".normalized.txt\"`"), "{help}");
    let written = [
        ("folder", text("in")),
        ("transcript", text(".normalized.txt")),
        ("speaker", text("first")),
    ];
    let output = bench.scan("corpus.folder", &written).unwrap();
    assert_eq!((ids(&output), reasons(&output)), (vec!["103/1240/x"], vec![]));
}

#[test]
fn the_order_of_rows_changes_no_item() {
    let scan = |table: &'static str| {
        let mut bench = Bench::default();
        bench.file("m.csv", table);
        for name in ["a.wav", "b.wav"] {
            bench.file(name, name.to_owned());
        }
        let mut items = bench.scan("corpus.table", &[("table", text("m.csv"))]).unwrap().items;
        items.sort_by(|one, other| one.id.cmp(&other.id));
        items
    };
    assert_eq!(scan("a.wav|Yksi\nb.wav|Kaksi\n"), scan("b.wav|Kaksi\r\n\r\na.wav|Yksi"));
}

#[test]
fn a_table_that_is_none_is_an_error_that_names_the_file() {
    let mut bench = Bench::default();
    bench.file("m.csv", "");
    let error = bench.scan("corpus.table", &[("table", text("m.csv"))]).unwrap_err();
    assert_eq!(error.to_string(), "`m.csv` cannot be read as a corpus: the table is empty");
}

#[test]
fn speaker_folders_give_items_with_their_transcripts() {
    let mut bench = Bench::default();
    bench.file("in/anna/1.wav", "x");
    bench.file("in/anna/1.lab", "\u{FEFF}Hyvää\n päivää\r\n");
    bench.file("in/anna/2.wav", "y");
    bench.file("in/olli/3.wav", "z");
    bench.file("in/olli/3.lab", &b"\xE4"[..]);
    let output = bench.scan("corpus.folder", &[("folder", text("in"))]).unwrap();
    assert_eq!(ids(&output), ["anna/1"]);
    assert_eq!(output.items[0].fields.text("text"), Some("Hyvää päivää"));
    let codes: Vec<_> = reasons(&output).iter().map(|(name, code, _)| (*name, *code)).collect();
    assert_eq!(codes, [("anna/2", "no-transcript"), ("olli/3", "not-utf8")]);
}

#[test]
fn json_lines_keep_numbers_as_fields() {
    let mut bench = Bench::default();
    bench.file("a.wav", "x");
    bench.file(
        "m.jsonl",
        "{\"audio_filepath\": \"a.wav\", \"text\": \"Hei\", \"duration\": 1.5}\n{\"au",
    );
    let output = bench.scan("corpus.jsonl", &[("file", text("m.jsonl"))]).unwrap();
    assert_eq!(output.items[0].fields.number("duration"), Some(1.5));
    assert_eq!(reasons(&output)[0].1, "cut-short");
}

/// Two seconds at 16 kHz; each sample is its number, behind the number of its channel.
fn recording(channels: u16) -> Vec<u8> {
    let frames = (0..32_000).flat_map(|frame| (0..channels).map(move |at| level(frame, at)));
    let samples = Samples::Pcm(frames.collect());
    wav::write(Clip { rate: 16_000, channels, samples }).unwrap().0
}

fn level(frame: i32, channel: u16) -> i16 {
    (frame % 10_000 + i32::from(channel) * 10_000) as i16
}

fn part(from: i32, to: i32, channel: u16) -> Vec<u8> {
    let samples = (from..to).map(|frame| level(frame, channel)).collect();
    wav::write(Clip::mono(16_000, samples)).unwrap().0
}

#[test]
fn cuts_of_lhotse_are_clips_with_exactly_their_samples() {
    let mut bench = Bench::default();
    bench.file("mono.wav", recording(1));
    bench.file("stereo.wav", recording(2));
    bench.file("cuts.jsonl.gz", &include_bytes!("corpus_fixtures/cuts.jsonl.gz")[..]);
    let output = bench.scan("corpus.jsonl", &[("file", text("cuts.jsonl.gz"))]).unwrap();
    assert_eq!(ids(&output), ["mono-0-0", "mono-0-1", "stereo-1-0", "stereo-1-1"]);
    let expected = [
        ("Yksi", "speaker0", part(4_000, 12_000, 0)),
        ("Kaksi", "speaker0", part(16_000, 28_000, 0)),
        ("Kolme", "speaker0", part(8_000, 24_000, 0)),
        ("Nelj\u{e4}", "speaker1", part(8_000, 24_000, 1)),
    ];
    for (item, (said, speaker, sound)) in output.items.iter().zip(expected) {
        let fields = &item.fields;
        assert_eq!((fields.text("text"), fields.text("speaker")), (Some(said), Some(speaker)));
        assert_eq!(fields.blob("audio").unwrap().digest, Digest::of(&sound), "{said}");
        assert_eq!(fields.number("seconds"), Some((sound.len() as f64 - 44.0) / 32_000.0));
    }
    bench.file("other.jsonl", &include_bytes!("corpus_fixtures/other_cuts.jsonl")[..]);
    let output = bench.scan("corpus.jsonl", &[("file", text("other.jsonl"))]).unwrap();
    assert_eq!(output.items[0].fields.text("text"), Some("Yksi"));
    let codes: Vec<_> = reasons(&output).iter().map(|(name, code, _)| (*name, *code)).collect();
    assert_eq!(codes, [("other.jsonl:2", "unsupported-cut"), ("other.jsonl:3", "unsupported-cut")]);
}

#[test]
fn texts_are_normalised_with_notes_and_nothing_is_left_empty() {
    let mut bench = Bench::default();
    let texts = [
        item("a", &[("text", Value::text("\u{201C}Viisi\u{201D} on 5, ei 3.4"))]),
        item("b", &[("text", Value::text("\u{200B}"))]),
    ];
    let output = bench
        .process("text.normalize", &[("numbers", text("fi")), ("case", text("lower"))], &texts)
        .unwrap();
    let first = output[0].as_ref().unwrap();
    assert_eq!(
        first.values,
        [("text".to_owned(), NewValue::Text("\"viisi\" on viisi, ei 3.4".to_owned()))]
    );
    let notes: Vec<(&str, u64)> =
        first.notes.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(
        notes,
        [
            ("U+201C replaced", 1),
            ("U+201D replaced", 1),
            ("case changed", 1),
            ("numbers spelled out", 1),
            ("digits left", 2)
        ]
    );
    assert_eq!(output[1].as_ref().unwrap_err().code, "empty-text");
}

#[test]
fn an_audit_stops_on_unknown_characters_or_reports_them() {
    let mut bench = Bench::default();
    let texts = || vec![dataset("clips", vec![item("a", &[("text", Value::text("ab-c"))])])];
    let known = ("characters", text("abc"));
    let mut audit = |written: &[(&str, ParameterValue)]| {
        bench.judge("text.audit", written, vec![("input", texts())])
    };
    let error = audit(std::slice::from_ref(&known)).unwrap_err().to_string();
    let told = "1 character in 1 place is unknown to the tokenizer: `-` U+002D";
    assert!(error.starts_with(told), "{error}");
    let output = audit(&[known, ("on_unknown", text("report"))]).unwrap();
    assert_eq!(artifact(&output, "output")["unknown"], &NewValue::Number(1.0));
    assert!(audit(&[]).is_err());
}

#[test]
fn an_audit_stops_on_marks_in_the_place_of_letters_even_if_the_tokenizer_knows_them() {
    let mut bench = Bench::default();
    let texts = || {
        let text = |id: &str, own: &str| item(id, &[("text", Value::text(own))]);
        vec![dataset("clips", vec![text("a", "un ?tudiant"), text("b", "des caf?s, oui?")])]
    };
    let known = ("characters", text("abcdefinosut ?,"));
    let mut audit = |written: &[(&str, ParameterValue)]| {
        bench.judge("text.audit", written, vec![("input", texts())])
    };
    let error = audit(std::slice::from_ref(&known)).unwrap_err();
    let told = "2 letters are lost, with `?` in the place: `?tudiant` in `a`, `caf?s` in `b`";
    assert_eq!(error.to_string(), told);
    assert!(error.help().is_some_and(|help| help.contains("`on_lost = \"report\"`")));
    // The report names them all the same.
    let output = audit(&[known, ("on_lost", text("report"))]).unwrap();
    assert!(output.notes.contains(&("U+003F in place of a letter".to_owned(), 2)));
    // Both findings are told together.
    let error = audit(&[("characters", text("abcdefinosut ?"))]).unwrap_err().to_string();
    assert!(error.contains("letters are lost") && error.contains("`,` U+002C"), "{error}");
}

#[test]
fn an_audit_reads_as_the_model_reads() {
    let mut bench = Bench::default();
    let mut audit = |texts: &[&str], reading: &str, written: &[(&str, ParameterValue)]| {
        let clip =
            |(at, text): (usize, &&str)| item(&at.to_string(), &[("text", Value::text(*text))]);
        let clips = dataset("clips", texts.iter().enumerate().map(clip).collect());
        let files = [
            ("vocab.json", bench.blob("model/tokenizer", r#"{"k": 0, "ä": 1, " ": 2}"#)),
            ("tokenizer_config.json", bench.blob("model/tokenizer", reading.to_owned())),
        ];
        let model =
            PortInput::Artifact { stage: "base".to_owned(), fields: files.into_iter().collect() };
        bench.judge("text.audit", written, vec![("input", vec![clips]), ("model", vec![model])])
    };
    let letters = r#"{"phonemize": false}"#;
    // The ä is two characters here, which the model reads as one.
    audit(&["KÄ ka\u{308}"], letters, &[]).unwrap();
    let error = audit(&["kä", "k7"], letters, &[]).unwrap_err().to_string();
    assert!(error.contains("unknown to the tokenizer: `7` U+0037"), "{error}");
    let romanised = r#"{"phonemize": false, "is_uroman": true}"#;
    let error = audit(&["kä", "k k"], romanised, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 of 2 texts are not romanised, but the model reads only romanised texts"
    );
    assert!(error.help().unwrap().contains("uroman"));
    let both = audit(&["k"], letters, &[("characters", text("k"))]).unwrap_err().to_string();
    assert!(both.contains("expected either `model`"), "{both}");
}

#[test]
fn an_audit_reads_as_an_xtts_model_reads() {
    let vocabulary = r#"{"model": {"type": "BPE", "unk_token": "[UNK]", "merges": [], "vocab": {
        "[STOP]": 0, "[UNK]": 1, "[SPACE]": 2, "[START]": 3, "[en]": 4, "k": 5, "a": 6, "s": 7,
        "e": 8, "v": 9, "n": 10}}, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": []}"#;
    let added = ["[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]"].iter().enumerate();
    let added = added.map(|(id, content)| {
        format!(
            r#"{{"id": {id}, "content": "{content}", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}}"#
        )
    });
    let added = added.collect::<Vec<String>>().join(", ");
    let vocabulary =
        vocabulary.replace(r#""added_tokens": []"#, &format!(r#""added_tokens": [{added}]"#));
    let mut bench = Bench::default();
    let mut audit = |text_and_language: (&str, Option<&str>),
                     written: &[(&str, ParameterValue)]| {
        let (own, language) = text_and_language;
        let mut fields = vec![("text", Value::text(own))];
        fields.extend(language.map(|language| ("language", Value::text(language))));
        let clips = dataset("clips", vec![item("c1", &fields)]);
        let model = [
            ("family", Value::text("xtts")),
            ("vocab.json", bench.blob("model/tokenizer", vocabulary.clone())),
        ];
        let fields = model.into_iter().collect();
        let model = PortInput::Artifact { stage: "base".to_owned(), fields };
        let ports = vec![("input", vec![clips]), ("model", vec![model])];
        bench.judge("text.audit", written, ports)
    };
    // A number is read as its word, and capitals are small.
    audit(("7 KASA", Some("en-GB")), &[]).unwrap();
    let english = ("language", text("en"));
    let error = audit(("ka 8 ሰሰ", None), std::slice::from_ref(&english)).unwrap_err().to_string();
    assert!(error.starts_with("5 characters in 6 places are unknown to the tokenizer"), "{error}");
    assert!(error.contains("`ሰ` U+1230 (2 times, as in `c1`)"), "{error}");
    let error = audit(("ka", Some("am")), &[english]).unwrap_err();
    assert_eq!(error.to_string(), "`c1`: the vocabulary has no tag `[am]`");
    assert!(error.help().unwrap().contains("xtts.extend"));
    let error = audit(("ka", None), &[]).unwrap_err();
    assert_eq!(error.to_string(), "`c1` does not name its language");
}

#[test]
fn a_split_gives_every_item_to_one_side() {
    let mut bench = Bench::default();
    let clips: Vec<Item> =
        (0..200).map(|number| clip(&format!("c{number:03}"), "anna", 1.0)).collect();
    let output = bench
        .gather(
            "dataset.split",
            &[("fraction", ParameterValue::Number(0.2))],
            vec![dataset("clips", clips)],
        )
        .unwrap();
    let (training, validation) = (items(&output, "training"), items(&output, "validation"));
    assert_eq!(training.len() + validation.len(), 200);
    assert!((20..60).contains(&validation.len()), "{}", validation.len());
    let side = |id: &str| match &items(&output, "all")
        .iter()
        .find(|item| item.id == id)
        .unwrap()
        .values
        .last()
        .unwrap()
        .1
    {
        NewValue::Text(side) => side.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(side(&training[0].id), "training");
    assert_eq!(side(&validation[0].id), "validation");
}

#[test]
fn a_split_says_when_a_held_out_text_is_trained_on() {
    let mut bench = Bench::default();
    let same = |number: usize| item(&format!("c{number}"), &[("text", Value::text("sama"))]);
    let clips = vec![dataset("clips", (0..50).map(same).collect())];
    let half = [("fraction", ParameterValue::Number(0.5))];
    let output = bench.gather("dataset.split", &half, clips).unwrap();
    assert_eq!(output.notes.last(), Some(&("texts on both sides".to_owned(), 1)));
}

#[test]
fn a_held_out_clip_with_the_sound_of_a_training_clip_is_left_out_by_name() {
    let mut bench = Bench::default();
    let sounds: Vec<Value> =
        (0..20u8).map(|number| bench.blob("audio/wav", vec![number])).collect();
    // Each sound under two names.
    let clips = |sounds: &[Value]| {
        let pair = |(number, sound): (usize, &Value)| {
            ["a", "b"].map(|name| item(&format!("{number}{name}"), &[("audio", sound.clone())]))
        };
        vec![dataset("clips", sounds.iter().enumerate().flat_map(pair).collect())]
    };
    let half = ("fraction", ParameterValue::Number(0.5));
    let output =
        bench.gather("dataset.split", std::slice::from_ref(&half), clips(&sounds)).unwrap();
    let ids = |port: &str| -> Vec<String> {
        items(&output, port).iter().map(|item| item.id.clone()).collect()
    };
    let (training, validation) = (ids("training"), ids("validation"));
    let twin = |id: &str| match id.strip_suffix('a') {
        Some(number) => format!("{number}b"),
        None => format!("{}a", &id[..id.len() - 1]),
    };
    assert!(validation.iter().all(|id| !training.contains(&twin(id))), "{validation:?}");
    assert!(!validation.is_empty(), "pairs on one side stay");
    let aside = bench.set_aside();
    assert!(!aside.is_empty() && aside.iter().all(|one| one.ends_with(" repeated")), "{aside:?}");
    assert_eq!(training.len() + validation.len() + aside.len(), 40);
    assert_eq!(ids("all").len() + aside.len(), 40);
    let count = aside.len() as u64;
    let (_, _, reject) = &bench.aside[0];
    assert!(reject.reason.starts_with("its sound is that of `") && !reject.is_fault());
    let keep = [half, ("repeats", text("keep"))];
    bench.aside.clear();
    let output = bench.gather("dataset.split", &keep, clips(&sounds)).unwrap();
    let (note, kept) = output.notes.last().unwrap();
    assert!(note.starts_with("held out with the sound of a training clip (`"), "{note}");
    assert_eq!((*kept, bench.set_aside()), (count, vec![]));
    assert_eq!(items(&output, "all").len(), 40);
}

#[test]
fn a_split_that_holds_nothing_out_says_so() {
    let mut bench = Bench::default();
    let clips = || vec![dataset("clips", vec![clip("a", "anna", 1.0), clip("b", "anna", 1.0)])];
    let mut notes = |fraction| {
        let fraction = [("fraction", ParameterValue::Number(fraction))];
        bench.gather("dataset.split", &fraction, clips()).unwrap().notes
    };
    let told = ("items, none held out (raise `fraction`)".to_owned(), 2);
    assert_eq!(notes(1e-9).last(), Some(&told));
    // As it was asked for.
    assert!(!notes(0.0).contains(&told));
}

#[test]
fn a_split_whose_held_out_clips_are_all_repeats_blames_the_repeats() {
    let mut bench = Bench::default();
    let sound = bench.blob("audio/wav", b"the same".to_vec());
    let clips = (0..20).map(|number| item(&format!("c{number}"), &[("audio", sound.clone())]));
    let clips = vec![dataset("clips", clips.collect())];
    let half = [("fraction", ParameterValue::Number(0.5))];
    let output = bench.gather("dataset.split", &half, clips).unwrap();
    assert_eq!(items(&output, "validation").len(), 0);
    let dropped = bench.set_aside().len();
    let told = format!(
        "items, none held out (`repeats` dropped all {dropped}, which have the sound of training clips)"
    );
    assert!(output.notes.iter().any(|(note, _)| *note == told), "{:?}", output.notes);
}

#[test]
fn a_filter_counts_what_it_leaves_out_and_refuses_fields_that_nothing_has() {
    let mut bench = Bench::default();
    let clips = || {
        vec![dataset(
            "clips",
            vec![clip("a", "anna", 0.1), clip("b", "anna", 3.0), clip("c", "olli", 3.0)],
        )]
    };
    let conditions = ParameterValue::List(vec![
        map(&[
            ("field", text("seconds")),
            ("min", ParameterValue::Number(0.5)),
            ("max", ParameterValue::Absent),
        ]),
        map(&[("field", text("speaker")), ("any_of", texts_value(&["anna"]))]),
    ]);
    let output = bench.gather("dataset.filter", &[("where", conditions)], clips()).unwrap();
    let kept: Vec<&str> = items(&output, "output").iter().map(|item| item.id.as_str()).collect();
    assert_eq!(kept, ["b"]);
    assert_eq!(
        output.notes,
        [("left out by `seconds`".to_owned(), 1), ("left out by `speaker`".to_owned(), 1)]
    );
    let typo = ParameterValue::List(vec![map(&[
        ("field", text("second")),
        ("not_empty", ParameterValue::Flag(true)),
    ])]);
    let error = bench.gather("dataset.filter", &[("where", typo)], clips()).unwrap_err();
    assert_eq!(error.to_string(), "no item has the field `second`, which the condition tests");
}

#[test]
fn a_filter_sets_aside_what_it_cannot_test_and_not_what_is_empty() {
    let mut bench = Bench::default();
    let clips = || {
        let bare = item("c", &[("speaker", Value::text("anna"))]);
        vec![dataset("clips", vec![clip("a", "anna", 3.0), clip("b", "anna", 0.1), bare])]
    };
    let long = map(&[("field", text("seconds")), ("min", ParameterValue::Number(0.5))]);
    let full = map(&[("field", text("text")), ("not_empty", ParameterValue::Flag(true))]);
    let mut filtered = |conditions: Vec<ParameterValue>| {
        let conditions = ParameterValue::List(conditions);
        let output = bench.gather("dataset.filter", &[("where", conditions)], clips()).unwrap();
        (items(&output, "output").len(), output.notes, bench.set_aside())
    };
    let one = |name: &str| vec![(name.to_owned(), 1)];
    assert_eq!(filtered(vec![full]), (2, one("left out by `text`"), vec![]));
    let aside = vec!["input 2 no-field".to_owned()];
    assert_eq!(filtered(vec![long]), (1, one("left out by `seconds`"), aside));
}

#[test]
fn items_without_what_a_stage_is_about_are_set_aside() {
    let mut bench = Bench::default();
    let bare = || item("b", &[("seconds", Value::Number(1.0))]);
    let clips = || vec![dataset("clips", vec![clip("a", "anna", 1.0), bare()])];
    let output = bench.gather("speaker.select", &[], clips()).unwrap();
    assert_eq!(items(&output, "output").len(), 1);
    let all = ("characters", text("teksti a"));
    bench.judge("text.audit", &[all], vec![("input", clips())]).unwrap();
    assert_eq!(bench.set_aside(), ["input 1 no-speaker", "input 1 no-text"]);
}

#[test]
fn sets_merge_by_id() {
    let mut bench = Bench::default();
    let sets = || {
        vec![
            dataset("one", vec![clip("a", "anna", 1.0)]),
            dataset("two", vec![clip("a", "anna", 2.0)]),
        ]
    };
    assert!(bench.gather("dataset.merge", &[], sets()).is_err());
    let output = bench.gather("dataset.merge", &[("prefix", text("stage"))], sets()).unwrap();
    let merged: Vec<&str> = items(&output, "output").iter().map(|item| item.id.as_str()).collect();
    assert_eq!(merged, ["one/a", "two/a"]);
}

fn tokens(bench: &mut Bench, id: &str) -> Item {
    let array =
        stage_formats::npy::IntArray { shape: vec![2, 2], values: vec![1, 2, 3, id.len() as i64] };
    let bytes = stage_formats::npy::write(&array, stage_formats::npy::Width::I64).unwrap();
    let blob = bench.blob("tokens/npy", bytes);
    item(id, &[("text", Value::text("hei")), ("speaker", Value::text("anna")), ("tokens", blob)])
}

#[test]
fn one_more_clip_rewrites_one_shard() {
    let mut bench = Bench::default();
    let mut clips: Vec<Item> =
        (0..100).map(|number| tokens(&mut bench, &format!("c{number}"))).collect();
    let written = |bench: &mut Bench, format: &str, clips: &[Item]| {
        let output = bench
            .gather(
                "dataset.pack",
                &[("format", text(format))],
                vec![dataset("tokens", clips.to_vec())],
            )
            .unwrap();
        (output.notes[0].1, artifact(&output, "output").len())
    };
    for (format, files) in [("protos", 16), ("npy", 32)] {
        assert_eq!(written(&mut bench, format, &clips), (16, files));
        assert_eq!(written(&mut bench, format, &clips), (0, files));
    }
    clips.push(tokens(&mut bench, "new"));
    assert_eq!(written(&mut bench, "protos", &clips), (1, 16));
    bench.is_stopping = true;
    assert_eq!(
        bench.gather("dataset.pack", &[], vec![dataset("tokens", clips)]).unwrap_err(),
        StageError::Stopped
    );
}

#[test]
fn tokens_that_are_pickled_objects_stop_the_packing_by_name() {
    let mut bench = Bench::default();
    let blob = bench.blob("tokens/npy", &b"\x93NUMPY\x01\x00\x3a\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }  \ncos\nsystem\n"[..]);
    let clips = vec![item("bad", &[("text", Value::text("x")), ("tokens", blob)])];
    let error = bench.gather("dataset.pack", &[], vec![dataset("tokens", clips)]).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "the tokens of `bad` cannot be read: the `.npy` file holds Python objects"
        ),
        "{error}"
    );
}

#[test]
fn the_speaker_with_the_most_clips_is_kept() {
    let mut bench = Bench::default();
    let clips = vec![clip("a", "anna", 1.0), clip("b", "olli", 9.0), clip("c", "anna", 1.0)];
    let output =
        bench.gather("speaker.select", &[], vec![dataset("clips", clips.clone())]).unwrap();
    assert_eq!(items(&output, "output").len(), 2);
    assert_eq!(shown(artifact(&output, "speakers")["names"]), "anna");
    let output = bench
        .gather("speaker.select", &[("by", text("minutes"))], vec![dataset("clips", clips.clone())])
        .unwrap();
    assert_eq!(shown(artifact(&output, "speakers")["names"]), "olli");
    let output = bench.gather("speaker.stats", &[], vec![dataset("clips", clips)]).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&shown(artifact(&output, "output")["report"])).unwrap();
    assert_eq!(
        (report[0]["speaker"].as_str(), report[1]["minutes"].as_f64()),
        (Some("anna"), Some(0.15))
    );
}

#[test]
fn a_summary_takes_json_artifacts_in_whole() {
    let mut bench = Bench::default();
    let report = bench.blob("application/json", "[1, 2]");
    let fields = [("report", report)].into_iter().collect();
    let stats = stage_core::PortInput::Artifact { stage: "stats".to_owned(), fields };
    let output = bench
        .gather("report.summary", &[], vec![dataset("clips", vec![clip("a", "anna", 1.0)]), stats])
        .unwrap();
    let summary: serde_json::Value =
        serde_json::from_str(&shown(artifact(&output, "output")["summary"])).unwrap();
    assert_eq!(summary["artifacts"]["stats"]["report"], serde_json::json!([1, 2]));
    assert_eq!(summary["datasets"]["clips"]["fields"]["seconds"]["total"], serde_json::json!(1.0));
}

#[test]
fn sentences_of_the_list_come_before_those_of_the_file() {
    let mut bench = Bench::default();
    let lines = "# a comment\n\n  Kolmas lause. \r\nEnsimmäinen lause.\na\0b\n";
    bench.file("sentences.txt", lines);
    let written = [
        ("sentences", texts_value(&["Ensimmäinen lause.", " Toinen lause."])),
        ("file", text("sentences.txt")),
    ];
    let output = bench.scan("corpus.sentences", &written).unwrap();
    assert_eq!(ids(&output), ["001", "002", "003"]);
    let texts: Vec<_> = output.items.iter().map(|item| item.fields.text("text")).collect();
    assert_eq!(texts, [Some("Ensimmäinen lause."), Some("Toinen lause."), Some("Kolmas lause.")]);
    let [(place, code, reason), (other, _, _)] = reasons(&output)[..] else {
        panic!("{:?}", output.rejects)
    };
    assert_eq!((place, code, reason), ("sentences.txt:4", "duplicate", "the same as sentence 1"));
    assert_eq!(other, "sentences.txt:5");
}

#[test]
fn a_sentence_with_an_id_of_its_content_keeps_it_when_another_comes_before_it() {
    let mut bench = Bench::default();
    let mut scan = |sentences: &[&str]| {
        let written = [("sentences", texts_value(sentences)), ("ids", text("content"))];
        bench.scan("corpus.sentences", &written).unwrap().items
    };
    let alone = scan(&["Toinen."]);
    assert!(scan(&["Ensimmäinen.", "Toinen."]).contains(&alone[0]));
}

#[test]
fn no_sentences_at_all_is_an_error() {
    let error = Bench::default().scan("corpus.sentences", &[]).unwrap_err();
    assert_eq!(error.to_string(), "there are no sentences");
}

#[test]
fn one_item_becomes_an_artifact_with_its_fields() {
    let mut bench = Bench::default();
    let clips = || dataset("clips", vec![clip("a", "anna", 1.0), clip("b", "olli", 2.0)]);
    let output = bench.gather("dataset.item", &[("id", text("b"))], vec![clips()]).unwrap();
    let fields = artifact(&output, "output");
    assert_eq!(fields["speaker"], &NewValue::Kept(Value::text("olli")));
    let error = bench.gather("dataset.item", &[("id", text("c"))], vec![clips()]).unwrap_err();
    assert_eq!(error.to_string(), "there is no item `c` among the 2 of `input`");
}

#[test]
fn a_corpus_has_a_file_and_a_transcript_for_each_clip_and_tables_of_all() {
    let mut bench = Bench::default();
    let clip = |bench: &mut Bench, id: &str, text: &str, speaker: Option<&str>| {
        let audio = bench.blob("audio/wav", id.as_bytes().to_vec());
        let mut fields = vec![("audio", audio), ("text", Value::text(text))];
        fields.extend(speaker.map(|speaker| ("speaker", Value::text(speaker))));
        item(id, &fields)
    };
    let training = vec![
        clip(&mut bench, "book/b", "Toinen.", Some("aino")),
        clip(&mut bench, "book/a", "Ensimm\u{e4}inen.", None),
        clip(&mut bench, "book_a", "Sama nimi.", None),
        clip(&mut bench, "c", "a|b", None),
    ];
    let validation = vec![clip(&mut bench, "d", "Kolmas.", Some("../x"))];
    let ports = vec![
        ("input", vec![dataset("train", training)]),
        ("validation", vec![dataset("valid", validation)]),
    ];
    let output = bench.gather_ports("dataset.corpus", &[], ports).unwrap();
    let files = artifact(&output, "output");
    let names: Vec<&str> = files.keys().copied().collect();
    let expected = [
        "_.._x/d.lab",
        "_.._x/d.wav",
        "aino/book_b.lab",
        "aino/book_b.wav",
        "metadata.csv",
        "speaker/book_a.lab",
        "speaker/book_a.wav",
        "train.csv",
        "valid.csv",
    ];
    assert_eq!(names, expected);
    assert_eq!(shown(files["aino/book_b.lab"]), "Toinen.\n");
    assert_eq!(shown(files["valid.csv"]), "file|text|speaker\n_.._x/d.wav|Kolmas.|../x\n");
    let rows = "aino/book_b.wav|Toinen.|aino\nspeaker/book_a.wav|Ensimm\u{e4}inen.|speaker\n";
    assert_eq!(shown(files["train.csv"]), format!("file|text|speaker\n{rows}"));
    assert_eq!(shown(files["metadata.csv"]).lines().count(), 4);
    assert_eq!(bench.set_aside(), ["input 2 not-written", "input 3 not-written"]);
}
