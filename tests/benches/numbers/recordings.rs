//! The memory and the processor time for cutting very long recordings into segments.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

use crate::arguments::Arguments;
use crate::clock::{let_files_age, of_children};
use crate::corpus::header;
use crate::table::Table;

const MANIFEST: &str = r#"[pipeline]
name = "long"

[stage.recordings]
use = "corpus.recordings"
folder = "data"

[stage.pauses]
use = "audio.pauses"
input = "recordings"

[stage.segments]
use = "audio.segment"
input = "pauses"
"#;

const MOST_BYTES: u64 = 500_000_000;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    for (hours, rate) in [(3, 48_000), (12, 16_000)] {
        let seconds = arguments.scaled(hours * 3_600);
        let folder = tempfile::tempdir_in(&arguments.folder).unwrap();
        write_recording(folder.path(), seconds, rate);
        let own = std::env::current_exe().unwrap();
        let output = Command::new(own)
            .arg("--run-memory")
            .arg(folder.path())
            .arg("--program")
            .arg(&arguments.program)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let measured: Vec<f64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let what = format!("{:.2} h at {rate} Hz to segments", seconds as f64 / 3_600.0);
        let [bytes, processor, segments] = measured[..] else {
            let problem = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
            table.plain(&what, problem);
            continue;
        };
        table.judged(
            &format!("{what}, peak memory"),
            format!("under {} MB", MOST_BYTES / 1_000_000),
            format!("{:.0} MB", bytes / 1e6),
            bytes < MOST_BYTES as f64,
        );
        let per_hour = processor / (seconds as f64 / 3_600.0);
        let measured = format!("{processor:.1} s, {per_hour:.1} s an hour; {segments} segments");
        table.plain(&format!("{what}, processor time"), measured);
    }
}

/// Runs the pipeline of a folder in a process of its own, so that its peak is no other's. Prints the
/// peak in bytes, the processor time in seconds and the number of segments.
pub fn child(folder: &Path, program: &Path) {
    let call = |words: &[&str]| {
        let output = Command::new(program)
            .args(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    call(&["run"]);
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() * 1024;
    let processor = of_children().as_secs_f64();
    let listed = call(&["items", "segments", "--fields", "seconds", "--format", "jsonl"]);
    let segments = listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    println!("{peak} {processor} {segments}");
}

/// Noise in syllables of a fifth of a second, and a pause of a second after about every nine seconds.
/// It is written in parts, since it does not fit into the memory of a small machine.
fn write_recording(folder: &Path, seconds: usize, rate: u32) {
    std::fs::write(folder.join("pipeline.toml"), MANIFEST).unwrap();
    std::fs::create_dir(folder.join("data")).unwrap();
    let mut file = BufWriter::new(File::create(folder.join("data/book.wav")).unwrap());
    file.write_all(&header(seconds * rate as usize, rate)).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let syllable = rate as usize / 5;
    for second in 0..seconds {
        let is_pause = second % 10 == 9;
        for at in 0..rate as usize {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let noise = (state >> 48) as i32 - 32_768;
            let (place, half) = ((at % syllable) as i32, syllable as i32 / 2);
            // It swells and fades within the syllable, and never to nothing.
            let level =
                if is_pause { 20 } else { 3_000 + 5_000 * (half - (place - half).abs()) / half };
            file.write_all(&((noise * level / 32_768) as i16).to_le_bytes()).unwrap();
        }
    }
    file.flush().unwrap();
    let_files_age();
}
