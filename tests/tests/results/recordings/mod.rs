//! Long recordings and their segments: an edit redoes the segments that it touches.

mod edits;
mod oracle;
mod world;

use std::f64::consts::TAU;
use std::sync::Arc;

use engine::event::Event;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use stage_core::{
    Context, FieldSet, FieldType, InputPort, Item, ItemJob, Job, Kind, NewValue, Output,
    OutputPort, Reject, Setup, Stage, StageError,
};
use stage_speech::audio::{Clip, Samples, wav};
use world::{RATE, World};

const MANIFEST: &str = r#"
[pipeline]
name = "long"

[stage.recordings]
use = "corpus.recordings"
folder = "data"
quarantine = 1.0

[stage.pauses]
use = "audio.pauses"
input = "recordings"
quarantine = 1.0

[stage.segments]
use = "audio.segment"
input = "pauses"
quarantine = 1.0

[stage.heard]
use = "test.hear"
input = "segments"
"#;

/// Stands for a recogniser: it reads the sound and nothing else.
struct Hear;

static HEAR: Kind = Kind {
    name: "test.hear",
    summary: "Hears.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort { writes: &[("bytes", FieldType::Number)], ..OutputPort::DATASET }],
    ..Kind::BASE
};

impl Stage for Hear {
    fn kind(&self) -> &'static Kind {
        &HEAR
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(Hear)))
    }
}

impl ItemJob for Hear {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let hear = |item: &Item| {
            let bytes = context.read(item.fields.blob("audio").unwrap())?;
            let heard = NewValue::Number(bytes.len() as f64);
            Ok(Ok(Output::default().with("bytes", heard)))
        };
        items.iter().map(hear).collect()
    }
}

/// Utterances of a few words with pauses of log-normal lengths (median 0.47 s, sigma 0.6) in a low
/// noise.
fn speech(seed: u64, seconds: f64) -> Vec<i16> {
    let mut random = StdRng::seed_from_u64(seed);
    let most = (seconds * f64::from(RATE)) as usize;
    let mut samples: Vec<i16> = Vec::with_capacity(most);
    while samples.len() < most {
        for _ in 0..random.random_range(2..10) {
            let (count, gap) = (random.random_range(800..2_400), random.random_range(80..240));
            let loud = random.random_range(2_000.0..6_000.0);
            for at in 0..count {
                // It swells and fades, and a syllable takes a fifth of a second.
                let place = at as f64 / count as f64;
                let shape =
                    (place * TAU / 2.0).sin().sqrt() * (0.7 + 0.3 * (at as f64 / 127.0).sin());
                samples.push((random.random_range(-1.0..1.0) * loud * shape) as i16);
            }
            samples.extend(std::iter::repeat_n(0, gap));
        }
        let (one, other) = (random.random_range(1e-9..1.0_f64), random.random_range(0.0..1.0));
        let normal = (-2.0 * one.ln()).sqrt() * (TAU * other).cos();
        let pause = (0.47 * (0.6 * normal).exp()).clamp(0.12, 3.0);
        samples.extend(std::iter::repeat_n(0, (pause * f64::from(RATE)) as usize));
    }
    samples.truncate(most);
    samples.iter_mut().for_each(|sample| *sample += random.random_range(-20..=20));
    samples
}

#[test]
fn after_an_edit_nearly_all_segments_have_the_same_bytes_and_ids() {
    let before = speech(1, 2_400.0);
    let mut world = World::new(MANIFEST, Arc::new(Hear));
    world.record("book.wav", &before);
    let ran = world.run();
    let segments = world.segments();
    assert!(segments.len() > 200, "{} segments", segments.len());
    assert_eq!(ran.executed("heard"), segments.len() as u64);
    let middle = before.len() / 2;
    let inserted = speech(7, 10.0 + 37.0 / f64::from(RATE));
    let edits = [
        ("insert", [&before[..middle], &inserted, &before[middle..]].concat(), 0),
        ("head cut", before[(4.0001 * f64::from(RATE)) as usize..].to_vec(), 1),
        ("append", [&before[..], &speech(9, 300.0)].concat(), 0),
    ];
    for (edit, samples, cut) in edits {
        world.record("book.wav", &before);
        world.run();
        world.record("book.wav", &samples);
        let ran = world.run();
        let now = world.segments();
        let same = now.intersection(&segments).count();
        // A segment that was cut off cannot be the same.
        let least = ((segments.len() - cut) as f64 * 0.99).floor() as usize;
        assert!(same >= least, "{edit}: {same} of {}", segments.len());
        let new = now.difference(&segments).count() as u64;
        assert_eq!((ran.executed("segments"), ran.executed("heard")), (1, new), "{edit}");
    }
}

#[test]
fn segments_are_the_samples_of_the_recording_in_order() {
    let samples = speech(3, 90.0);
    let mut world = World::new(MANIFEST, Arc::new(Hear));
    world.record("one.wav", &samples);
    world.write("one.txt", b"What is said.".to_vec());
    world.run();
    let mut items = world.items("segments");
    items.sort_by(|one, other| {
        let start = |item: &Item| item.fields.number("start").unwrap();
        start(one).total_cmp(&start(other))
    });
    let lab = world.lab();
    let joined: Vec<i16> = items
        .iter()
        .flat_map(|item| {
            assert_eq!(item.fields.text("recording"), Some("one"));
            assert!(item.fields.blob("script").is_some());
            let bytes = lab.cache().read(&item.fields.blob("audio").unwrap().digest).unwrap();
            let decoded = stage_speech::audio::decode::decode(&bytes, &Default::default()).unwrap();
            let seconds = decoded.clip.seconds();
            assert_eq!(item.fields.number("seconds"), Some(seconds));
            assert!((1.0..=20.0).contains(&seconds));
            decoded.clip.into_pcm().0
        })
        .collect();
    assert!(joined == samples);
    // Its name says nothing about its sound.
    world.remove("one.wav");
    world.remove("one.txt");
    world.record("other.wav", &samples);
    let ran = world.run();
    assert_eq!(
        (ran.executed("pauses"), ran.executed("segments"), ran.executed("heard")),
        (0, 0, 0)
    );
    assert!(world.items("segments").iter().all(|item| item.id.starts_with("other/")));
}

#[test]
fn what_cannot_be_used_is_named_and_the_rest_goes_on() {
    let mut world = World::new(MANIFEST, Arc::new(Hear));
    world.record("good.wav", &speech(4, 40.0));
    world.write("good.srt", b"1\n00:00:01,000 --> 00:00:02,000\nHello.\n".to_vec());
    world.record("twice.wav", &speech(5, 20.0));
    world.write("twice.txt", b"one".to_vec());
    world.write("twice.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\ntwo\n".to_vec());
    world.write("lonely.txt", b"no recording".to_vec());
    world.write("media.wma", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11 and more".to_vec());
    world.write("media.txt", b"a text".to_vec());
    world.write("good.mp4", b"the video that `good.wav` is from".to_vec());
    world.record("damaged.wav", &speech(6, 20.0));
    world.write("damaged.srt", b"1\n00:00:01,0 -> 00:00:02,0\nHello.\n".to_vec());
    world.write("torn.wav", world.files["good.wav"][..60_000].to_vec());
    world.write("empty.wav", Vec::new());
    world.record("wordless.wav", &speech(8, 20.0));
    world.write("wordless.txt", b"\xEF\xBB\xBF \n".to_vec());
    world.record("latin.wav", &speech(9, 20.0));
    world.write("latin.srt", b"1\n00:00:01,000 --> 00:00:02,000\ncaf\xE9\n".to_vec());
    world.record("backwards.wav", &speech(10, 20.0));
    world.write("backwards.vtt", b"WEBVTT\n\n00:05.000 --> 00:02.000\ntwo\n".to_vec());
    world.record("folder.wav", &speech(11, 20.0));
    world.lab().write("data/folder.srt/notes.md", "no subtitles");
    world.record("silence.wav", &vec![0; 30 * RATE as usize]);
    let steady: Vec<i16> =
        (0..40 * RATE as i64).map(|at| (at * 7_919 % 6_001) as i16 - 3_000).collect();
    world.record("music.wav", &steady);
    let ran = world.run();
    let told = ran.set_aside().join("\n");
    for part in [
        "`twice.txt` and `twice.vtt` are texts of the same recording",
        "`folder.srt` has the name of a text of `folder.wav` and is a folder; rename it",
        "`lonely.txt` has no recording beside it",
        "a Windows Media file (WMA, ASF)",
        "`damaged.srt`: line 1: text without a time before it",
        "`wordless.txt`: it has no text",
        "`latin.srt`: line 3 is not UTF-8",
        "`backwards.vtt`: line 3: the cue ends before it begins",
        "truncated:",
        "no pause within 30.0 s",
        "no pause within 40.0 s",
    ] {
        assert!(told.contains(part), "no `{part}` in\n{told}");
    }
    let is_named = |event: &&Event| match event {
        Event::ItemQuarantined { stage, item, .. } => stage == "pauses" && item == "empty",
        _ => false,
    };
    assert_eq!(ran.events.iter().filter(is_named).count(), 1, "{told}");
    let items = world.items("segments");
    assert!(!items.is_empty() && items.iter().all(|item| item.id.starts_with("good/")));
    assert!(items.iter().all(|item| item.fields.blob("cues").is_some()));
}

/// Behind the segments: telephone speech and stereo with a speaker on each side are no clips.
const CHECKED: &str = r#"
[stage.checked]
use = "audio.check"
input = "segments"
min_bandwidth = 5000
min_correlation = 0.3
quarantine = 1.0
"#;

/// Each sample several times: the same speech at a higher rate.
fn held(samples: &[i16], times: usize) -> Vec<i16> {
    samples.iter().flat_map(|sample| std::iter::repeat_n(*sample, times)).collect()
}

#[test]
fn telephone_speech_and_two_speakers_in_stereo_are_named_segment_by_segment() {
    let mut world = World::new(MANIFEST, Arc::new(Hear));
    world.lab().write("pipeline.toml", &format!("{MANIFEST}{CHECKED}"));
    let write = |clip: Clip| wav::write(clip).unwrap().0;
    let one = held(&speech(11, 30.0), 4);
    let other = held(&speech(12, 30.0), 4);
    world.write("good.wav", write(Clip::mono(16_000, one.clone())));
    world.write("phone.wav", write(Clip::mono(8_000, held(&speech(13, 30.0), 2))));
    let stereo = |left: &[i16], right: &[i16]| {
        let samples = left.iter().zip(right).flat_map(|(one, other)| [*one, *other]).collect();
        write(Clip { rate: 16_000, channels: 2, samples: Samples::Pcm(samples) })
    };
    world.write("interview.wav", stereo(&one, &other));
    world.write("both.wav", stereo(&one, &one));
    let ran = world.run();
    let of = |recording: &str, part: &str| {
        let is_told = |event: &&Event| {
            matches!(event, Event::ItemQuarantined { item, reason, .. }
                if item.starts_with(recording) && reason.contains(part))
        };
        ran.events.iter().filter(is_told).count()
    };
    assert!(of("phone/", "bandwidth") >= 2, "{:?}", ran.set_aside());
    assert!(of("interview/", "correlation of the channels") >= 2, "{:?}", ran.set_aside());
    let kept = world.items("checked");
    let from = |name: &str| kept.iter().filter(|item| item.id.starts_with(name)).count();
    assert!(from("good/") > 2 && from("both/") > 2);
    assert_eq!((from("phone/"), from("interview/")), (0, 0));
}
