//! The samples of a voice: those of onnxruntime in Python, and the same for a seed.

use serde_json::json;

use crate::support::{DESCRIPTION, GRAPH, PublishedVoice};

/// The last one is longer than the decoder gets at once.
const SENTENCES: [&str; 4] = [
    "Hello, world.",
    "How are you?",
    "Fine, thanks: okay!",
    "When the sun rises over the quiet harbour, the first boats leave for the coast, and the gulls follow \
     them until the lighthouse looks like a small white line behind the waves.",
];

#[test]
fn samples_without_noise_are_those_of_onnxruntime_in_python() {
    let Some(voice) = PublishedVoice::quiet() else { return };
    let texts = SENTENCES.join("\n");
    let (_, phonemes) = voice.python(&["phonemes"], &texts);
    let mut items = String::new();
    for ((at, text), phonemes) in SENTENCES.iter().enumerate().zip(phonemes.lines()) {
        let (code, errors) = voice.say(&at.to_string(), text, &[]);
        assert_eq!(code, Some(0), "{errors}");
        items += &format!("{}\n", json!({"id": at.to_string(), "phonemes": phonemes}));
    }
    let (agree, told) = voice.python(&["speak", "out"], &items);
    assert!(agree && told.matches(" ok").count() == SENTENCES.len(), "{told}");
    assert!(voice.samples("3").len() > 2 * 192 * 256, "the decoder gets the last one in parts");
}

#[test]
fn a_seed_gives_the_same_samples_and_another_one_others() {
    let Some(voice) = PublishedVoice::find() else { return };
    let spoken = |name: &str, text: &str, seed: &[&str]| {
        let (code, errors) = voice.say(name, text, seed);
        assert_eq!(code, Some(0), "{errors}");
        voice.samples(name)
    };
    let first = spoken("a", SENTENCES[0], &[]);
    assert_eq!(first, spoken("b", SENTENCES[0], &["--seed", "1"]), "1 is the default");
    assert_ne!(first, spoken("c", SENTENCES[0], &["--seed", "2"]));
    // A sentence is the same whatever is spoken before it, also with another number of threads.
    let both = [SENTENCES[1], SENTENCES[0]].join(" ");
    let both = spoken("d", &both, &[]);
    let near = both[both.len() - first.len()..].iter().zip(&first);
    assert!(near.clone().all(|(one, other)| one.abs_diff(*other) <= 1), "of two sentences");
    let single = spoken("e", SENTENCES[0], &["--threads", "1"]);
    assert!(single.iter().zip(&first).all(|(one, other)| one.abs_diff(*other) <= 1), "threads");
}

#[test]
fn a_graph_is_prepared_once_and_again_if_it_or_its_parts_change() {
    let Some(voice) = PublishedVoice::quiet() else { return };
    assert_eq!(voice.say("a", "Hello.", &[]).0, Some(0));
    let parts = || {
        let mut parts: Vec<String> =
            voice.project.files("caches/throstle/players").into_keys().collect();
        parts.sort();
        parts
    };
    let first = parts();
    assert_eq!(first.len(), 5, "{first:?}");
    assert_eq!(voice.say("b", "Hello.", &[]).0, Some(0));
    assert_eq!(parts(), first);
    // What is cut off is found by its size, and what is damaged by the library.
    for (part, bytes) in [("first.weights", &b"short"[..]), ("decoder.onnx", &[7; 64])] {
        let name = first.iter().find(|name| name.ends_with(part)).unwrap();
        let path = format!("caches/throstle/players/{name}");
        let length = voice.project.read(&path).len();
        let damaged = match part {
            "decoder.onnx" => bytes.iter().copied().cycle().take(length).collect(),
            _ => bytes.to_vec(),
        };
        voice.project.write(&path, damaged);
        let (code, errors) = voice.say(part, "Hello.", &[]);
        assert_eq!(code, Some(0), "{part}: {errors}");
        assert_eq!(voice.samples(part), voice.samples("a"), "{part}");
    }
    // Another file under this name has parts of its own, and those of the old one are gone.
    let graph = voice.project.read(GRAPH);
    voice.project.remove(GRAPH);
    voice.project.write(GRAPH, &graph);
    assert_eq!(voice.say("c", "Hello.", &[]).0, Some(0));
    voice.project.write(GRAPH, &graph);
    assert_eq!(voice.say("c", "Hello.", &[]).0, Some(0));
    assert_eq!(parts().len(), 10, "of the link and of the file");
}

#[test]
fn speed_and_length_change_the_duration() {
    let Some(voice) = PublishedVoice::quiet() else { return };
    voice.say("a", "Hello, world.", &[]);
    let usual = voice.samples("a").len();
    voice.say("b", "Hello, world.", &["--speed", "2"]);
    let quick = voice.samples("b").len();
    assert!(quick < usual * 2 / 3, "{quick} of {usual}");
    voice.describe(|description| description["inference"]["length_scale"] = 2.into());
    voice.say("c", "Hello, world.", &[]);
    let slow = voice.samples("c").len();
    assert!(slow > usual * 3 / 2, "{slow} of {usual}");
    assert!(voice.project.text(DESCRIPTION).contains("length_scale"));
}
