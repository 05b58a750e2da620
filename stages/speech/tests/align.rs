//! Alignment with a recogniser that is nearly always right: 0.9 on the letter in the middle frames of
//! each true letter, else on the blank, and now and then on a wrong letter.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::ops::Range;

use stage_core::{Item, NewValue, Value};
use stage_formats::npy::{FloatArray, write_halves};
use support::spoken::*;
use support::*;

use stage_speech::align::recording::{AlignedSegment, Alignment, RecordingSegment, ScriptText};
use stage_speech::corpus::cues::{self, Cue, CueFormat, CueProblem};

fn script(sentences: &[String]) -> ScriptText {
    ScriptText { text: sentences.join(" "), ..ScriptText::default() }
}

/// Each segment has its own sentence, except those that are named.
fn assert_texts(outcome: &Alignment, spoken: &[String], without: &[usize]) {
    for (at, segment) in outcome.segments.iter().enumerate() {
        if without.contains(&at) {
            let reject = segment.reject.as_ref();
            assert_eq!(reject.map(|reject| reject.code.as_str()), Some("no-text"), "{at}");
        } else {
            assert_text(at, segment, &spoken[at])
        }
    }
}

fn assert_text(at: usize, segment: &AlignedSegment, spoken: &str) {
    assert_eq!(segment.reject, None, "{at}: {spoken}");
    assert_eq!(segment.text, spoken, "{at}");
}

#[test]
fn each_segment_gets_its_part_of_the_script_and_words_are_where_they_are_said() {
    let text = sentences(1, 120);
    let mut spoken = Spoken::new(2, 0.05);
    text.iter().for_each(|sentence| spoken.say(sentence));
    let outcome = spoken.align(&script(&text));
    assert_texts(&outcome, &text, &[]);
    assert_eq!(outcome.unheard, []);
    let mut errors = Vec::new();
    for (segment, words) in outcome.segments.iter().zip(&spoken.words) {
        let bare = |word: &str| word.trim_end_matches('.').to_owned();
        let found: Vec<String> = segment.words.iter().map(|(_, _, word)| word.clone()).collect();
        let said: Vec<String> = words.iter().map(|(_, word)| bare(word)).collect();
        assert_eq!(found, said);
        for (pair, true_pair) in segment.words.windows(2).zip(words.windows(2)) {
            let truth = (true_pair[0].0.end + true_pair[1].0.start) as f64 / 2.0 * HOP;
            errors.push((pair[0].1 - truth).abs());
        }
        assert!(segment.mean < 0.0 && segment.worst <= segment.mean && segment.edge <= 1.0);
        assert!((4.0..25.0).contains(&segment.letters_per_second));
    }
    errors.sort_by(f64::total_cmp);
    let p95 = errors[errors.len() * 95 / 100];
    assert!(errors.len() > 500 && p95 <= 0.040, "{p95}");
}

#[test]
fn a_chapter_that_is_not_read_is_told_and_one_without_a_text_is_left_out() {
    let text = sentences(3, 90);
    // The sound lacks sentences 30 to 49, and the text lacks 65 to 79.
    let said: Vec<String> = [&text[..30], &text[50..]].concat();
    let written = script(&[&text[..65], &text[80..]].concat());
    let mut spoken = Spoken::new(4, 0.05);
    said.iter().for_each(|sentence| spoken.say(sentence));
    let outcome = spoken.align(&written);
    let without: Vec<usize> = (45..60).collect();
    assert_texts(&outcome, &said, &without);
    assert_eq!(outcome.unheard.len(), 1, "{:?}", outcome.unheard);
    let lost = &written.text[outcome.unheard[0].start..outcome.unheard[0].end];
    assert_eq!(lost, text[30..50].join(" ").trim_end_matches('.'));
}

#[test]
fn a_recording_may_be_a_part_of_a_book() {
    let text = sentences(5, 200);
    let mut spoken = Spoken::new(6, 0.05);
    text[120..160].iter().for_each(|sentence| spoken.say(sentence));
    let outcome = spoken.align(&script(&text));
    assert_texts(&outcome, &text[120..160], &[]);
    let words = |range: Range<usize>| -> usize {
        text[range].iter().map(|sentence| sentence.split_whitespace().count()).sum()
    };
    let unheard: Vec<usize> = outcome.unheard.iter().map(|part| part.words).collect();
    assert_eq!(unheard, [words(0..120), words(160..200)]);
}

#[test]
fn cues_need_only_be_roughly_in_time() {
    let text = sentences(7, 60);
    let mut spoken = Spoken::new(8, 0.1);
    text.iter().for_each(|sentence| spoken.say(sentence));
    let mut random = Random(9);
    let cues: Vec<Cue> = spoken
        .segments
        .iter()
        .zip(&text)
        .map(|(segment, text)| {
            let shift = 5.0 * random.share() - 2.5;
            let at = |seconds: f64| ((seconds + shift).max(0.0) * 1000.0) as u64;
            let (start, end) = (at(segment.start), at(segment.start + segment.seconds));
            Cue { start, end, text: text.clone() }
        })
        .collect();
    let outcome = spoken.align(&ScriptText::of_cues(&cues));
    assert_texts(&outcome, &text, &[]);
}

#[test]
fn cues_that_are_far_from_their_words_are_counted_and_their_words_still_found() {
    let text = sentences(7, 60);
    let mut spoken = Spoken::new(8, 0.05);
    text.iter().for_each(|sentence| spoken.say(sentence));
    // All are late, or some of those in the middle.
    for (late, from, to) in [(30.0, 0, 60), (12.0, 20, 35), (0.0, 0, 60)] {
        let cue = |(at, (segment, text)): (usize, (&RecordingSegment, &String))| {
            let shift = if (from..to).contains(&at) { late } else { 0.0 };
            let time = |seconds: f64| ((seconds + shift) * 1000.0) as u64;
            let (start, end) = (time(segment.start), time(segment.start + segment.seconds));
            Cue { start, end, text: text.clone() }
        };
        let cues: Vec<Cue> = spoken.segments.iter().zip(&text).enumerate().map(cue).collect();
        let outcome = spoken.align(&ScriptText::of_cues(&cues));
        assert_texts(&outcome, &text, &[]);
        assert_eq!(outcome.misplaced, if late > 0.0 { to - from } else { 0 }, "{late}");
    }
}

#[test]
fn a_cut_within_a_word_is_told() {
    let text = sentences(10, 12);
    let mut spoken = Spoken::new(11, 0.0);
    text.iter().for_each(|sentence| spoken.say(sentence));
    // The fifth segment is cut in the middle of its second word.
    let word = spoken.words[4][1].0.clone();
    let at = word.start + word.len() / 2;
    let whole = spoken.segments[4];
    let cut = at as f64 * HOP;
    let first = RecordingSegment { frames: at, seconds: cut, ..whole };
    let second = RecordingSegment {
        frames: whole.frames - at,
        start: whole.start + cut,
        seconds: whole.seconds - cut,
        hop: HOP,
    };
    spoken.segments.splice(4..5, [first, second]);
    let outcome = spoken.align(&script(&text));
    let codes: Vec<&str> = outcome
        .segments
        .iter()
        .map(|segment| segment.reject.as_ref().map_or("", |reject| reject.code.as_str()))
        .collect();
    let expected: Vec<&str> =
        (0..13).map(|at| if at == 4 || at == 5 { "cut-word" } else { "" }).collect();
    assert_eq!(codes, expected);
}

#[test]
fn wrong_words_and_clipped_ends_score_low() {
    let text = sentences(12, 60);
    let mut spoken = Spoken::new(13, 0.02);
    let mut wrong = text.clone();
    for (at, sentence) in text.iter().enumerate() {
        if at % 10 == 3 {
            // A word that is not said.
            wrong[at] = sentence.replacen(' ', " zuzuzu ", 1);
        }
        spoken.say(sentence);
    }
    // The last letters of some segments are not heard.
    let symbols = LETTERS.len() + 1;
    let mut start = 0;
    for (at, segment) in spoken.segments.iter().enumerate() {
        if at % 10 == 7 {
            let end = spoken.words[at].last().unwrap().0.end;
            for frame in start + end - 6..start + segment.frames {
                let row = &mut spoken.values[frame * symbols..(frame + 1) * symbols];
                row.fill((0.1 / (symbols - 1) as f32).ln());
                row[0] = 0.9_f32.ln();
            }
        }
        start += segment.frames;
    }
    let outcome = spoken.align(&script(&wrong));
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (at, segment) in outcome.segments.iter().enumerate() {
        let is_bad = segment.reject.is_some() || segment.worst < -1.5 || segment.edge < 0.3;
        if at % 10 == 3 || at % 10 == 7 { bad.push(is_bad) } else { good.push(is_bad) }
    }
    let share = |list: &[bool]| list.iter().filter(|bad| **bad).count() as f64 / list.len() as f64;
    assert!(share(&bad) == 1.0, "found {}", share(&bad));
    assert!(share(&good) <= 0.1, "lost {}", share(&good));
}

#[test]
fn a_remembered_outcome_is_that_of_the_alignment_to_the_last_bit() {
    let text = sentences(1, 120);
    let mut spoken = Spoken::new(2, 0.05);
    text.iter().for_each(|sentence| spoken.say(sentence));
    let outcome = spoken.align(&script(&text));
    let remembered = serde_json::to_vec(&outcome).unwrap();
    let recalled: Alignment = serde_json::from_slice(&remembered).unwrap();
    assert_eq!(recalled, outcome);
}

#[test]
fn a_text_of_another_book_and_no_sound_are_told() {
    let text = sentences(14, 20);
    let mut spoken = Spoken::new(15, 0.0);
    text.iter().for_each(|sentence| spoken.say(sentence));
    for other in [
        ScriptText::default(),
        ScriptText { text: "\u{5D0}\u{5D1}".to_owned(), ..ScriptText::default() },
    ] {
        let outcome = spoken.align(&other);
        assert_eq!(outcome.segments.len(), 20);
        assert!(outcome.segments.iter().all(|segment| segment.reject.is_some()));
    }
    let silent = aligned(&[], &[], &script(&text));
    assert_eq!((silent.segments.len(), silent.unheard.len()), (0, 1));
}

#[test]
fn a_text_of_millions_of_letters_is_not_compared_with_a_minute_of_sound() {
    let mut spoken = Spoken::new(3, 0.05);
    sentences(4, 5).iter().for_each(|sentence| spoken.say(sentence));
    let outcome = spoken.align(&script(&["ab".repeat(1_500_000)]));
    for segment in &outcome.segments {
        let reject = segment.reject.as_ref().unwrap();
        assert_eq!(reject.code, "no-text");
        assert!(reject.reason.contains("3000000 letters are too many"), "{}", reject.reason);
    }
}

#[test]
fn a_script_in_another_language_gives_no_clip_a_text() {
    let mut spoken = Spoken::new(18, 0.02);
    sentences(19, 40).iter().for_each(|sentence| spoken.say(sentence));
    // Words of three to eight letters that no sentence has.
    let mut random = Random(20);
    let mut word = || -> String {
        (0..random.within(3..9)).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
    };
    let other: Vec<String> =
        (0..40).map(|_| format!("{} {} {} {}.", word(), word(), word(), word())).collect();
    let outcome = spoken.align(&script(&other));
    for (at, segment) in outcome.segments.iter().enumerate() {
        let is_bad = segment.reject.is_some() || segment.worst < -1.5;
        assert!(is_bad, "{at}: {segment:?}");
    }
}

#[test]
fn silence_and_music_have_no_text() {
    let text = sentences(21, 12);
    let mut spoken = Spoken::new(22, 0.0);
    for (at, sentence) in text.iter().enumerate() {
        if at == 6 {
            for symbol in [vec![0; 100], [Spoken::symbol('a'), Spoken::symbol('o')].repeat(60)] {
                symbol.iter().for_each(|symbol| spoken.frame(*symbol));
                let last = spoken.segments[spoken.segments.len() - 1];
                let (start, frames) = (last.start + last.seconds, symbol.len());
                let seconds = frames as f64 * HOP;
                spoken.segments.push(RecordingSegment { frames, start, seconds, hop: HOP });
            }
        }
        spoken.say(sentence);
    }
    let outcome = spoken.align(&script(&text));
    let said = [&text[..6], &[String::new(), String::new()], &text[6..]].concat();
    assert_texts(&outcome, &said, &[6, 7]);
}

#[test]
fn a_whisper_segment_that_ends_before_it_begins_is_damage() {
    let read = |end: &str| {
        let second = format!(r#"{{"start": 2.0, "end": {end}, "text": "b"}}"#);
        let text = format!(r#"[{{"start": 0.0, "end": 1.0, "text": "a"}}, {second}]"#);
        cues::read(text.as_bytes(), CueFormat::Json)
    };
    assert_eq!(read("1.5"), Err(CueProblem::BackwardsSegment { number: 2 }));
    assert_eq!(read("2.0").unwrap().len(), 2);
}

/// The segments of a recording as `asr.emit` leaves them.
fn emitted(bench: &mut Bench, recording: &str, spoken: &Spoken, script: &str) -> Vec<Item> {
    let symbols = LETTERS.len() + 1;
    let script = bench.blob("text/plain", script.as_bytes().to_vec());
    let mut start = 0;
    let mut items = Vec::new();
    for (at, segment) in spoken.segments.iter().enumerate() {
        let end = start + segment.frames;
        let values = spoken.values[start * symbols..end * symbols].to_vec();
        let array = FloatArray { shape: vec![segment.frames as u64, symbols as u64], values };
        let emissions = bench.blob("emissions/npy", write_halves(&array).unwrap());
        let fields = [
            ("recording", Value::text(recording)),
            ("script", script.clone()),
            ("emissions", emissions),
            ("alphabet", Value::text(serde_json::to_string(&alphabet()).unwrap())),
            ("hop", Value::Number(HOP)),
            ("start", Value::Number(segment.start)),
            ("seconds", Value::Number(segment.seconds)),
        ];
        items.push(item(&format!("{recording}/{at:02}"), &fields));
        start = end;
    }
    items
}

#[test]
fn the_stage_gives_texts_to_segments_and_tells_the_rest() {
    let text = sentences(20, 60);
    let script = text[..50].join(" ");
    let [mut one, mut two] = [Spoken::new(21, 0.02), Spoken::new(22, 0.02)];
    text[..20].iter().for_each(|sentence| one.say(sentence));
    // The script is that of both recordings, and lacks the last ten sentences; the two lack 20 to 29.
    text[30..60].iter().for_each(|sentence| two.say(sentence));
    let mut bench = Bench::default();
    let mut heard = emitted(&mut bench, "one", &one, &script);
    heard.extend(emitted(&mut bench, "two", &two, &script));
    heard.push(item("other", &[("recording", Value::text("three"))]));
    let before: Vec<Item> = heard
        .iter()
        .map(|item| {
            Item::new(item.id.clone(), [("at", Value::text("44100"))].into_iter().collect())
        })
        .collect();
    let ports = |heard: &[Item]| {
        vec![
            ("input", vec![dataset("heard", heard.to_vec())]),
            ("segments", vec![dataset("segments", before.clone())]),
        ]
    };
    let output = bench.gather_ports("text.align", &[], ports(&heard)).unwrap();
    let kept = items(&output, "output");
    assert_eq!(kept.len(), 40);
    for (item, text) in kept.iter().zip(text[..20].iter().chain(&text[30..50])) {
        let value =
            |name: &str| item.values.iter().find(|(own, _)| own == name).map(|(_, value)| value);
        assert_eq!(value("text"), Some(&NewValue::Text(text.clone())), "{}", item.id);
        assert!(value("at").is_some() && value("emissions").is_none());
        assert!(value("words").is_some() && value("align_worst").is_some());
    }
    let aside: Vec<String> = bench.set_aside();
    assert_eq!(aside.len(), 11);
    assert!(aside[..10].iter().all(|one| one.ends_with("no-text")), "{aside:?}");
    assert_eq!(aside[10], "input 50 no-emissions");
    let unheard = artifact(&output, "unheard");
    let NewValue::Bytes { bytes, .. } = unheard["unheard"] else { panic!() };
    let passages: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(passages.as_array().unwrap().len(), 1, "{passages}");
    let lost: usize = text[20..30].iter().map(|sentence| sentence.split_whitespace().count()).sum();
    assert_eq!(passages[0]["words"], lost);
    assert!(text[20].starts_with(passages[0]["text"].as_str().unwrap().split(' ').next().unwrap()));
    // Both recordings are remembered: the emissions are not even read again.
    let parts = bench.parts.len();
    assert_eq!(parts, 2);
    heard.iter().filter_map(|item| item.fields.blob("emissions")).for_each(|blob| {
        bench.blobs.remove(&blob.digest);
    });
    let again = bench.gather_ports("text.align", &[], ports(&heard)).unwrap();
    assert_eq!(items(&again, "output"), kept);
}

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// The processor time of this process in seconds; the kernel counts hundredths.
fn processor_time() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = told.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

#[test]
fn the_text_of_a_person_is_aligned_in_its_segment_and_dropped_ones_are_set_aside_after_it() {
    let text = sentences(30, 12);
    let mut spoken = Spoken::new(31, 0.02);
    text.iter().for_each(|sentence| spoken.say(sentence));
    // The script has other words in place of the third sentence.
    let wrong = [&text[..2], &sentences(32, 1), &text[3..]].concat();
    let mut bench = Bench::default();
    let heard = emitted(&mut bench, "one", &spoken, &wrong.join(" "));
    let gather = |bench: &mut Bench, heard: &[Item]| {
        let output = bench.gather("text.align", &[], vec![dataset("heard", heard.to_vec())]);
        items(&output.unwrap(), "output").to_vec()
    };
    let value = |item: &stage_core::NewItem, field: &str| {
        item.values.iter().find(|(own, _)| own == field).map(|(_, value)| value.clone())
    };
    let before = gather(&mut bench, &heard);
    let mut marked = heard.clone();
    marked[2].fields.set("corrected", Value::text(text[2].as_str()));
    marked[7].fields.set("dropped", Value::text("a cough"));
    bench.aside.clear();
    let made = gather(&mut bench, &marked);
    assert_eq!(bench.set_aside(), ["input 7 dropped"]);
    let ids: Vec<&str> = made.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids.len(), 11, "{ids:?}");
    let own = made.iter().find(|item| item.id == "one/02").unwrap();
    assert_eq!(value(own, "text"), Some(NewValue::Text(text[2].clone())));
    let Some(NewValue::Number(worst)) = value(own, "align_worst") else { panic!() };
    assert!(worst > -1.0, "{worst}");
    // Every word is where it is said.
    let Some(NewValue::Bytes { bytes, .. }) = value(own, "words") else { panic!() };
    let words: Vec<(f64, f64, String)> = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(words.len(), spoken.words[2].len());
    for ((from, to, _), (frames, _)) in words.iter().zip(&spoken.words[2]) {
        let middle = (frames.start + frames.end) as f64 / 2.0 * HOP;
        assert!((from..to).contains(&&middle), "{middle} is not in {from} to {to}");
    }
    // The others are as before, the neighbours of the dropped one too.
    for item in made.iter().filter(|item| item.id != "one/02") {
        assert!(before.contains(item), "{}", item.id);
    }
    // A text that does not fit at all is still the text of a person.
    marked[2].fields.set("corrected", Value::text("words ".repeat(200).trim_end()));
    let made = gather(&mut bench, &marked);
    let own = made.iter().find(|item| item.id == "one/02").unwrap();
    assert_eq!(value(own, "align_worst"), Some(NewValue::Number(-100.0)));
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_hours_are_aligned_by_their_anchors_in_bounded_memory() {
    // About 1,300 sentences are an hour. A peak only grows, so the longest comes last.
    for (count, most) in [(1_300, 512_u64 << 20), (5_200, 1 << 30), (15_600, 2 << 30)] {
        let text = sentences(16, count);
        let mut spoken = Spoken::new(17, 0.05);
        text.iter().for_each(|sentence| spoken.say(sentence));
        let hours = spoken.segments.iter().map(|segment| segment.seconds).sum::<f64>() / 3600.0;
        let before = processor_time();
        let outcome = spoken.align(&script(&text));
        let seconds = processor_time() - before;
        println!("{hours:.1} h: {seconds:.1} s of a core, peak {} MB", peak() >> 20);
        for (at, segment) in outcome.segments.iter().enumerate() {
            let is_torn = spoken.is_torn_after(at) || at > 0 && spoken.is_torn_after(at - 1);
            if !is_torn {
                assert_text(at, segment, &text[at]);
            }
        }
        assert!(peak() < most, "{} bytes", peak());
    }
}
