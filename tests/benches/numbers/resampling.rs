//! The resampler alone, beside soxr, and what reading, writing and hashing add to it.

use std::hint::black_box;
use std::process::Command;

use cache::Digest;
use stage_speech::audio::clip::Clip;
use stage_speech::audio::decode::Options;
use stage_speech::audio::resample::resample;
use stage_speech::audio::{decode, wav};

use crate::arguments::Arguments;
use crate::clock::median;
use crate::corpus::clip;
use crate::table::Table;

const FROM: u32 = 44_100;
const TO: u32 = 16_000;
const SECONDS: usize = 2;

/// Prints the seconds of audio per second of `soxr`, VHQ, on clips of two seconds.
const SOXR: &str = "
import sys, time, numpy, soxr
clips = [numpy.random.default_rng(n).uniform(-.3, .3, 88200).astype('float32') for n in range(int(sys.argv[1]))]
times = []
for _ in range(5):
    start = time.perf_counter()
    for clip in clips: soxr.resample(clip, 44100, 16000, quality='VHQ')
    times.append(time.perf_counter() - start)
print(len(clips) * 2 / sorted(times)[2])
";

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let count = arguments.scaled(400);
    let files: Vec<Vec<u8>> =
        (0..count as u64).map(|number| clip(number, SECONDS * FROM as usize, FROM)).collect();
    let clips: Vec<Clip> =
        files.iter().map(|file| decode(file, &Options::default()).unwrap().clip).collect();
    let speed = |time: std::time::Duration| (count * SECONDS) as f64 / time.as_secs_f64();
    let alone = speed(median(5, || {
        for clip in &clips {
            black_box(resample(clip.clone(), TO).unwrap());
        }
    }));
    let chain = speed(median(5, || {
        for file in &files {
            let clip = decode(file, &Options::default()).unwrap().clip;
            let (bytes, _) = wav::write(resample(clip, TO).unwrap().clip).unwrap();
            black_box((Digest::of(file), Digest::of(&bytes)));
        }
    }));
    against_soxr(arguments, count, alone, table);
    table.judged(
        "decode + resample + write + hash, one thread",
        "at least 0.6 x of the resampler alone".into(),
        format!("{:.2} x ({chain:.0} x real time)", chain / alone),
        chain >= 0.6 * alone,
    );
}

fn against_soxr(arguments: &Arguments, count: usize, own: f64, table: &mut Table) {
    let mut python = Command::new(&arguments.python);
    python.args(["-c", SOXR, &count.to_string()]);
    python.envs([("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1")]);
    let output = python.output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let what = "resampling alone, clips of 2 s, 44.1 to 16 kHz, one thread";
    match text.and_then(|text| text.trim().parse::<f64>().ok()) {
        Some(soxr) => table.judged(
            what,
            "at least soxr VHQ".into(),
            format!("{own:.0} x real time against {soxr:.0}: {:.2} x", own / soxr),
            own >= soxr,
        ),
        None => table.plain(what, format!("{own:.0} x real time (no soxr here)")),
    }
}
