//! A project of spoken sentences, with a recogniser that hears every letter: a letter is a level of
//! sound that stays for a while.

use std::io::Cursor;
use std::sync::OnceLock;

use throstle_tests::{Project, RanProgram};

const RATE: u32 = 8_000;

const MANIFEST: &str = r#"
[pipeline]
name = "spoken"

[stage.recordings]
use = "corpus.recordings"
folder = "data"

[stage.pauses]
use = "audio.pauses"
input = "recordings"

[stage.segments]
use = "audio.segment"
input = "pauses"

[stage.corrected]
use = "corpus.corrections"
input = "segments"
table = "corrections.csv"
drops = "mark"

[stage.heard]
use = "python"
input = "corrected"
script = "hear.py"
fields = ["audio"]
outputs = { emissions = "emissions/npy", alphabet = "text", hop = "number" }
workers = 1

[stage.aligned]
use = "text.align"
input = "heard"
segments = "corrected"
quarantine = 1.0

[stage.fitting]
use = "quality.align"
input = "aligned"
quarantine = 1.0

[stage.spelled]
use = "command"
input = "fitting"
fields = ["text"]
command = "printf %s {text} > {out.spelled}"
outputs = { spelled = "spelled.txt" }

[stage.loud]
use = "audio.loudness"
input = "fitting"
"#;

/// Emissions of 20 ms: the letter of the level that a frame has, else the blank.
const HEAR: &str = r#"
import array, json, math, random, struct, wave, zlib
from throstle import stage

LETTERS = "abcdefghijklmnopqrstuvwxyz"

@stage
def hear(item, state):
    with wave.open(item["audio"]) as clip:
        samples = array.array("h", clip.readframes(clip.getnframes()))
    columns = len(LETTERS) + 1
    # Never as sure of two sounds, so that the measures of clips differ.
    noise = random.Random(zlib.crc32(samples.tobytes()))
    rows = []
    for start in range(0, len(samples) - 159, 160):
        level = max(map(abs, samples[start : start + 160]))
        symbol = round((level - 8000) / 200) + 1 if level > 4000 else 0
        sure = noise.uniform(0.85, 0.95)
        row = [math.log((1 - sure) / (columns - 1))] * columns
        row[symbol] = math.log(sure)
        rows.extend(row)
    head = str({"descr": "<f2", "fortran_order": False, "shape": (len(rows) // columns, columns)})
    head = head.ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
    data += struct.pack(f"<{len(rows)}e", *rows)
    alphabet = json.dumps({"blank": 0, "symbols": [""] + list(LETTERS)})
    return {"emissions": data, "alphabet": alphabet, "hop": 0.02}
"#;

/// Sentences of three words that occur once. One syllable of every fifth one is another in the script.
pub fn sentences() -> Vec<Sentence> {
    let syllables = ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se"];
    let word = |number: usize| {
        let places = [number % 12, number / 12 % 12, (number * 5 + 3) % 12];
        places.map(|at| syllables[at])
    };
    let sentence = |number: usize| {
        let mut words = [0, 1, 2].map(|at| word(number * 3 + at));
        let text = |words: [[&str; 3]; 3]| {
            let text = words.map(|word| word.concat()).join(" ");
            format!("{}{}.", text[..1].to_uppercase(), &text[1..])
        };
        let said = text(words);
        if number % 5 == 2 {
            words[1][1] = "wy";
        }
        Sentence { said, written: text(words) }
    };
    (0..40).map(sentence).collect()
}

pub struct Sentence {
    pub said: String,
    /// In the script.
    pub written: String,
}

fn recording(sentences: &[Sentence]) -> Vec<u8> {
    let mut samples: Vec<i16> = vec![0; 4_000];
    for sentence in sentences {
        for word in sentence.said.to_lowercase().trim_end_matches('.').split(' ') {
            for letter in word.bytes() {
                let level = 8_000 + 200 * i16::from(letter - b'a');
                samples.extend((0..320).map(|at| if at % 2 == 0 { level } else { -level }));
                samples.extend([0; 400]);
            }
            samples.extend([0; 800]);
        }
        samples.extend([0; 9_600]);
    }
    // A longer silence at the end would be a segment.
    samples.truncate(samples.len() - 8_000);
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: RATE, bits_per_sample, sample_format };
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    samples.into_iter().for_each(|sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
    bytes.into_inner()
}

/// A copy of the project after a run.
pub fn spoken() -> Project {
    static SPOKEN: OnceLock<Project> = OnceLock::new();
    let first = SPOKEN.get_or_init(|| {
        let project = Project::new(MANIFEST);
        project.write("hear.py", HEAR);
        project.write("corrections.csv", "segment,action,text,at,with\n");
        let sentences = sentences();
        for (name, part) in ["one", "two"].into_iter().zip(sentences.chunks(20)) {
            project.write(&format!("data/{name}.wav"), recording(part));
            let script: Vec<&str> = part.iter().map(|one| one.written.as_str()).collect();
            project.write(&format!("data/{name}.txt"), script.join(" "));
        }
        let ran = project.run();
        let executed = ran.executed();
        assert_eq!(
            (executed["heard"], executed["fitting"]),
            (40, 40),
            "{:?}",
            ran.all("quarantined")
        );
        project
    });
    Project::copy_of(first.path(), &[])
}

pub fn ran(project: &Project) -> RanProgram {
    RanProgram::of(project.output(&["run", ".", "--json"]))
}

/// The items of a stage as JSON.
pub fn items(project: &Project, stage: &str) -> Vec<serde_json::Value> {
    let listed = project.printed(&["items", stage, "--format", "jsonl"]);
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
