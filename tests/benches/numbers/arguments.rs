//! The selected measurements, and the programs to measure with.

use std::path::PathBuf;

use crate::corpus::Size;

const USAGE: &str = "\
arguments of the benchmark (after `cargo bench -p throstle-tests --bench numbers --`):
  --full              also 100,000 clips, and 1,000,000 items in memory
  --quick             few and small corpora, to see whether it works
  --sizes A,B         these numbers of clips
  --only PART,PART    parts, or groups of them, of the list below
  --program PATH      the `throstle` to measure; else the one beside this program
  --folder PATH       where corpora are made; they are removed afterwards
  --remote URL        also measure pulls from this place, in new folders, which stay there;
                      buckets need `--features cli/cloud`
  --python PATH       a Python that has `soxr`; `dvc` and `snakemake` are looked for beside it
                      and on the search path
groups and their parts:";

/// The groups of measurements with their parts; docs/benchmarks.md has the rows of each.
pub const PARTS: [(&str, &[&str]); 11] = [
    ("start-up", &[]),
    ("latency", &["no-op", "changed", "touched", "hashing", "peers", "gather"]),
    ("overhead", &[]),
    ("throughput", &[]),
    ("small", &[]),
    ("resampling", &[]),
    ("commands", &["programs", "once", "disks"]),
    ("memory", &[]),
    ("recordings", &[]),
    ("remote", &[]),
    ("report", &[]),
];

#[derive(Default)]
pub struct Arguments {
    pub measure: bool,
    pub full: bool,
    pub quick: bool,
    sizes: Vec<usize>,
    only: Vec<String>,
    pub program: PathBuf,
    pub folder: PathBuf,
    pub python: String,
    pub remote: Option<String>,
    /// Set for the child process that plans this number of items and prints its memory.
    pub plan_memory: Option<usize>,
    /// Set for the child process that runs the pipeline of this folder and prints the peak memory.
    pub run_memory: Option<PathBuf>,
}

impl Arguments {
    pub fn read() -> Arguments {
        let mut arguments = Arguments {
            program: beside(),
            folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            python: "python3".to_owned(),
            ..Arguments::default()
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| usage());
            match word.as_str() {
                // Cargo passes it to benchmarks, but not when it only tests that they start.
                "--bench" => arguments.measure = true,
                "--full" => arguments.full = true,
                "--quick" => arguments.quick = true,
                "--only" => arguments.only = parts(&value()),
                "--sizes" => arguments.sizes = numbers(&value()),
                "--program" => arguments.program = value().into(),
                "--folder" => arguments.folder = value().into(),
                "--python" => arguments.python = value(),
                "--remote" => arguments.remote = Some(value()),
                "--plan-memory" => arguments.plan_memory = numbers(&value()).first().copied(),
                "--run-memory" => arguments.run_memory = Some(value().into()),
                _ => usage(),
            }
        }
        arguments
    }

    /// Tests if a part of a group is requested.
    pub fn wants(&self, group: &str, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == group || only == part)
    }

    pub fn sizes(&self) -> Vec<Size> {
        let clips = match (self.sizes.as_slice(), self.quick, self.full) {
            ([], true, _) => vec![200],
            ([], false, false) => vec![1_000, 4_000, 10_000],
            ([], false, true) => vec![1_000, 4_000, 10_000, 100_000],
            (sizes, _, _) => sizes.to_vec(),
        };
        clips.into_iter().map(Size::of).collect()
    }

    /// A large number, smaller in a quick run.
    pub fn scaled(&self, usual: usize) -> usize {
        if self.quick { (usual / 20).max(20) } else { usual }
    }
}

/// `target/release/throstle` for `target/release/deps/numbers-0123`.
fn beside() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let profile = own.parent().and_then(|deps| deps.parent());
    profile.map_or_else(|| "throstle".into(), |folder| folder.join("throstle"))
}

fn numbers(text: &str) -> Vec<usize> {
    text.split(',').map(|number| number.parse().unwrap_or_else(|_| usage())).collect()
}

fn parts(text: &str) -> Vec<String> {
    let is_known =
        |name: &str| PARTS.iter().any(|(group, parts)| *group == name || parts.contains(&name));
    match text.split(',').find(|name| !is_known(name)) {
        None => text.split(',').map(str::to_owned).collect(),
        Some(name) => {
            eprintln!("there is no part `{name}`");
            usage()
        }
    }
}

fn usage() -> ! {
    eprintln!("{USAGE}");
    for (group, parts) in PARTS {
        eprintln!("  {group:<19} {}", parts.join(", "));
    }
    std::process::exit(2)
}
