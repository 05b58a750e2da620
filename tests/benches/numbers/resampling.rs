//! The resampler alone, beside soxr, and the extra cost of reading, writing and hashing.

use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use cache::Digest;
use stage_speech::audio::clip::Clip;
use stage_speech::audio::decode::DecodeOptions;
use stage_speech::audio::resample::resample;
use stage_speech::audio::{decode, wav};

use crate::arguments::Arguments;
use crate::clock::median;
use crate::corpus::clip;
use crate::table::Table;

const FROM: u32 = 44_100;
const TO: u32 = 16_000;
const SECONDS: usize = 2;
const ROUNDS: usize = 5;

/// Prints the seconds of audio per second of `soxr`, VHQ, on clips of two seconds.
const SOXR: &str = "
import sys, time, numpy, soxr
clips = [numpy.random.default_rng(n).uniform(-.3, .3, 88200).astype('float32') for n in range(int(sys.argv[1]))]
times = []
for _ in range(3):
    start = time.perf_counter()
    for clip in clips: soxr.resample(clip, 44100, 16000, quality='VHQ')
    times.append(time.perf_counter() - start)
print(len(clips) * 2 / sorted(times)[1])
";

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let count = arguments.scaled(400);
    let files: Vec<Vec<u8>> =
        (0..count as u64).map(|number| clip(number, SECONDS * FROM as usize, FROM)).collect();
    let clips: Vec<Clip> =
        files.iter().map(|file| decode(file, &DecodeOptions::default()).unwrap().clip).collect();
    let speed = |time: Duration| (count * SECONDS) as f64 / time.as_secs_f64();
    let alone = || {
        speed(median(3, || {
            for clip in &clips {
                black_box(resample(clip.clone(), TO).unwrap());
            }
        }))
    };
    // In turn, so that a busy machine slows both; the median round counts.
    let mut rounds: Vec<(f64, Option<f64>)> =
        (0..ROUNDS).map(|_| (alone(), soxr(arguments, count))).collect();
    rounds.sort_by(|one, other| ratio(*one).total_cmp(&ratio(*other)));
    let (alone, soxr) = rounds[ROUNDS / 2];
    against_soxr(alone, soxr, table);
    let chain = speed(median(5, || {
        for file in &files {
            let clip = decode(file, &DecodeOptions::default()).unwrap().clip;
            let (bytes, _) = wav::write(resample(clip, TO).unwrap().clip).unwrap();
            black_box((Digest::of(file), Digest::of(&bytes)));
        }
    }));
    table.judged(
        "decode + resample + write + hash, one thread",
        "at least 0.6 x of the resampler alone".into(),
        format!("{:.2} x ({chain:.0} x real time)", chain / alone),
        chain >= 0.6 * alone,
    );
}

/// The speed of `soxr`, if there is one.
fn soxr(arguments: &Arguments, count: usize) -> Option<f64> {
    let mut python = Command::new(&arguments.python);
    python.args(["-c", SOXR, &count.to_string()]);
    python.envs([("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1")]);
    let output = python.output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn ratio((own, soxr): (f64, Option<f64>)) -> f64 {
    own / soxr.unwrap_or(own)
}

fn against_soxr(own: f64, soxr: Option<f64>, table: &mut Table) {
    let what = "resampling alone, clips of 2 s, 44.1 to 16 kHz, one thread";
    match soxr {
        Some(soxr) => table.judged(
            what,
            "at least soxr VHQ".into(),
            format!("{own:.0} x real time against {soxr:.0}: {:.2} x", own / soxr),
            own >= soxr,
        ),
        None => table.plain(what, format!("{own:.0} x real time (no soxr here)")),
    }
}
