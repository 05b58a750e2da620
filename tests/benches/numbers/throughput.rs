//! A cold run against the same functions in a bare loop on the same number of threads, and the disk
//! space of the store.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cache::Digest;
use rayon::prelude::*;
use stage_core::{Blob, Detached, Fields, Item, ItemJob, Job, NewValue, Output, Value};

use crate::arguments::Arguments;
use crate::clock::{medians_in_turn, timed};
use crate::corpus::Size;
use crate::inside;
use crate::project::{MANIFEST, Project};
use crate::table::Table;

const ROUNDS: usize = 9;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let size = Size::of(arguments.scaled(2_000));
    let project = Project::new(arguments, size);
    let mut unique = 0;
    let cold = || {
        project.forget();
        project.run().time
    };
    let bare = || {
        let (time, bytes) = timed(|| Bare::open(&project).run(&project));
        unique = bytes;
        time
    };
    let (cold, bare) = medians_in_turn(ROUNDS, cold, bare);
    let what = format!("cold run, {} clips of 2 s, resampled and checked", size.clips);
    table.within(&what, cold, ("the same functions in a bare rayon loop", bare), 1.15);
    let ratio = project.cache_bytes() as f64 / unique as f64;
    table.judged(
        "store size",
        "at most 1.05 x the unique bytes of the outputs".into(),
        format!("{ratio:.3} x"),
        ratio <= 1.05,
    );
}

/// The implementations of the stages, opened as the engine opens them.
struct Bare {
    resample: Box<dyn ItemJob>,
    check: Box<dyn ItemJob>,
    seen: Mutex<HashSet<Digest>>,
    output: Mutex<File>,
}

impl Bare {
    fn open(project: &Project) -> Bare {
        let engine = inside::engine(stage_speech::stages());
        let pipeline = inside::pipeline(&engine, project.path(), MANIFEST, &[]);
        let open = |name: &str| {
            let spec = pipeline.find(name).unwrap();
            let setup = engine.setup(&pipeline, spec).unwrap();
            match engine.open(spec.kind, setup, &mut Detached::default()).unwrap() {
                Job::Item(job) => job,
                Job::Source(_) | Job::Gather(_) => panic!("`{name}` works on items"),
            }
        };
        let output = File::create(project.path().join("bare.out")).unwrap();
        Bare {
            resample: open("voice"),
            check: open("good"),
            seen: Mutex::default(),
            output: Mutex::new(output),
        }
    }

    /// The necessary work for a clip and nothing else. Returns the number of unique bytes written;
    /// they are durable at the end, like the engine's.
    fn run(&self, project: &Project) -> u64 {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(std::thread::available_parallelism().map_or(1, usize::from))
            .build()
            .unwrap();
        let bytes = threads.install(|| project.clips.par_iter().map(|path| self.one(path)).sum());
        self.output.lock().unwrap().sync_all().unwrap();
        bytes
    }

    fn one(&self, path: &Path) -> u64 {
        let source = Bytes::from(std::fs::read(path).unwrap());
        let item = item_of(&source);
        let output = process(&*self.resample, &item, &source);
        let made = output.values.into_iter().find_map(|(name, value)| match value {
            NewValue::Bytes { bytes, .. } if name == "audio" => Some(bytes),
            _ => None,
        });
        let made = made.expect("resampling gives a recording");
        let item = item_of(&made);
        process(&*self.check, &item, &made);
        let new = self.seen.lock().unwrap().insert(item.fields.blob("audio").unwrap().digest);
        if new {
            self.output.lock().unwrap().write_all(&made).unwrap();
            made.len() as u64
        } else {
            0
        }
    }
}

fn item_of(bytes: &Bytes) -> Item {
    let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
    let blob = Value::Blob(Arc::new(Blob { digest, size, kind: "audio/wav".into() }));
    Item::new("clip", Fields::from_iter([("audio", blob)]))
}

fn process(job: &dyn ItemJob, item: &Item, bytes: &Bytes) -> Output {
    let mut context = Detached::holding(bytes.clone());
    let mut outputs = job.process(std::slice::from_ref(item), &mut context).unwrap();
    outputs.remove(0).unwrap()
}
