//! An invented speech, and a recogniser that hears it exactly, apart from rare mistakes: each letter
//! is a square wave of its own level. So emissions depend on the sound alone, without a model.

use std::f64::consts::TAU;

use rand::Rng;
use rand::rngs::StdRng;
use stage_core::{
    Context, FieldSet, FieldType, InputPort, Item, ItemJob, Job, Kind, NewValue, Output,
    OutputPort, Reject, Setup, Stage, StageError,
};
use stage_families::wav2vec2::Alphabet;
use stage_formats::npy::{FloatArray, write_halves};
use stage_speech::audio::Samples;
use stage_speech::audio::decode::decode;

use super::world::RATE;

/// The symbols after the blank, the one between words first.
const LETTERS: &str = " abdefghiklmnoprstuvw";
/// The samples of a frame of the recogniser, of a letter, and of the quiet between two letters. A
/// letter has the middle of two or three frames, and the quiet that of one.
const FRAME: usize = 80;
const LETTER: usize = 200;
const QUIET: usize = 80;
/// The level of the first letter, and the distance to that of the next.
const LEVEL: i16 = 4_000;
const STEP: i16 = 150;
/// The noise behind everything.
const NOISE: i16 = 20;

fn quiet(random: &mut StdRng, samples: usize) -> impl Iterator<Item = i16> {
    (0..samples).map(move |_| random.random_range(-NOISE..=NOISE))
}

fn tone(random: &mut StdRng, letter: char, samples: usize) -> impl Iterator<Item = i16> {
    let number = LETTERS.chars().position(|one| one == letter).unwrap() as i16;
    let level = LEVEL + STEP * number;
    (0..samples).map(move |at| {
        let sample = level + random.random_range(-NOISE..=NOISE);
        if at / 4 % 2 == 0 { sample } else { -sample }
    })
}

/// A few invented words with a capital and a full stop.
pub fn sentence(random: &mut StdRng) -> String {
    let mut text = String::new();
    for word in 0..random.random_range(2..6) {
        if word > 0 {
            text.push(' ');
        }
        for _ in 0..random.random_range(1..4) {
            for of in ["bdfghklmnprstvw", "aeiou"] {
                let at = random.random_range(0..of.len());
                text.push_str(&of[at..=at]);
            }
        }
    }
    format!("{}{}.", text[..1].to_uppercase(), &text[1..])
}

/// A sentence as it is said, without a pause.
pub fn speech(random: &mut StdRng, sentence: &str) -> Vec<i16> {
    let mut samples = Vec::new();
    for letter in sentence.trim_end_matches('.').to_lowercase().chars() {
        samples.extend(quiet(random, QUIET));
        let length = if letter == ' ' { QUIET } else { LETTER };
        samples.extend(tone(random, letter, length));
    }
    samples.extend(quiet(random, QUIET));
    samples
}

/// Lengths are log-normal with a median of half a second.
pub fn pause(random: &mut StdRng) -> Vec<i16> {
    let (one, other) = (random.random_range(1e-9..1.0_f64), random.random_range(0.0..1.0_f64));
    let normal = (-2.0 * one.ln()).sqrt() * (TAU * other).cos();
    let seconds = (0.5 * (0.6 * normal).exp()).clamp(0.12, 3.0);
    quiet(random, (seconds * f64::from(RATE)) as usize).collect()
}

/// The symbol of a frame: 0 is the blank. The noise of the sample decides if it is misheard.
fn heard(sample: i16) -> usize {
    let above = sample.abs() - LEVEL + STEP / 2;
    if above < 0 {
        return 0;
    }
    let (number, noise) = ((above / STEP) as usize, above % STEP - STEP / 2);
    let count = LETTERS.len();
    let number = if noise == NOISE { number + 7 } else { number };
    1 + number % count
}

pub struct Oracle;

static KIND: Kind = Kind {
    name: "test.emit",
    summary: "Hears the invented speech.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("emissions", FieldType::Blob),
            ("alphabet", FieldType::Text),
            ("hop", FieldType::Number),
            ("transcript", FieldType::Text),
        ],
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};

impl Stage for Oracle {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(Oracle)))
    }
}

impl ItemJob for Oracle {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let emit = |item: &Item| {
            let bytes = context.read(item.fields.blob("audio").unwrap())?;
            let Samples::Pcm(samples) = decode(&bytes, &Default::default()).unwrap().clip.samples
            else {
                panic!("segments have the samples of their recording")
            };
            let frames = samples.chunks_exact(FRAME).map(|frame| heard(frame[FRAME / 2]));
            Ok(Ok(emitted(&frames.collect::<Vec<_>>())))
        };
        items.iter().map(emit).collect()
    }
}

/// The output of a recogniser that gives the probability 0.9 to these symbols.
fn emitted(symbols: &[usize]) -> Output {
    let count = LETTERS.len() + 1;
    let rest = (0.1 / (count - 1) as f32).ln();
    let row = |symbol: &usize| {
        let symbol = *symbol;
        (0..count).map(move |at| if at == symbol { 0.9_f32.ln() } else { rest })
    };
    let values = symbols.iter().flat_map(row).collect();
    let array = FloatArray { shape: vec![symbols.len() as u64, count as u64], values };
    let names = std::iter::once(String::new()).chain(LETTERS.chars().map(String::from));
    let alphabet = Alphabet { blank: 0, symbols: names.collect() };
    let runs = symbols.chunk_by(|one, other| one == other).map(|run| &*alphabet.symbols[run[0]]);
    let transcript = runs.collect::<String>().trim().to_owned();
    Output::default()
        .with("emissions", NewValue::bytes("emissions/npy", write_halves(&array).unwrap()))
        .with("alphabet", NewValue::Text(serde_json::to_string(&alphabet).unwrap()))
        .with("hop", NewValue::Number(FRAME as f64 / f64::from(RATE)))
        .with("transcript", NewValue::Text(transcript))
}
