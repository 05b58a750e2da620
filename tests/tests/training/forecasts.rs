//! Plans of recipes without weights and recordings: all of them from formulas, and changes move
//! them in the right direction.

use std::collections::BTreeSet;
use std::sync::Arc;

use cache::fs::MemoryFs;
use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use engine::estimate::{Basis, Figure, StageEstimate};
use engine::estimate::{Estimate, FitVerdict, OnGpu, estimate};
use engine::machine::Machine;
use engine::manifest::{FileKind, LoadOptions, load};
use engine::pipeline::{Pipeline, StageWork};
use throstle_tests::Lab;

const FISH: &str = include_str!("../../../pipelines/finnish-fish/pipeline.toml");
const MMS: &str = include_str!("../../../pipelines/gujarati-mms/pipeline.toml");
const XTTS: &str = include_str!("../../../pipelines/amharic-xtts/pipeline.toml");
const DEMO: &str = include_str!("../../../pipelines/demo/vits.toml");
const SENTENCES: &str = include_str!("../../../pipelines/finnish-fish/sentences.txt");
const ABSENT: [&str; 5] = [
    "/voice/data",
    "/voice/data/metadata.csv",
    "/voice/models/mms-tts-guj",
    "/voice/models/openaudio-s1-mini",
    "/voice/models/xtts-v2",
];

const THREADS: usize = 8;

fn pipeline(recipe: &str, set: &[&str]) -> Pipeline {
    let set = set.iter().map(|argument| (*argument).to_owned()).collect();
    let options = LoadOptions { set, ..LoadOptions::default() };
    let file = Utf8Path::new("/voice/pipeline.toml");
    let loaded = load(recipe, file, &stage_speech::catalogue(), &options, &|_| FileKind::File);
    let absent: BTreeSet<Utf8PathBuf> = ABSENT.iter().map(Utf8PathBuf::from).collect();
    Pipeline { absent, ..loaded.unwrap_or_else(|problems| panic!("{problems}")).pipeline }
}

/// On a machine that has no GPU and was never measured.
fn forecast(set: &[&str]) -> Estimate {
    forecast_of(FISH, set)
}

fn forecast_of(recipe: &str, set: &[&str]) -> Estimate {
    let memory = MemoryFs::new();
    let mut lab = Lab::in_memory(&memory);
    lab.stages = stage_speech::stages();
    lab.write("/voice/sentences.txt", SENTENCES);
    let cache = Cache::open("/voice/cache".into(), Arc::new(memory), Access::ReadWrite).unwrap();
    let pipeline = pipeline(recipe, set);
    let plan = lab.engine().plan(&pipeline, &cache, &[], &mut |_| {}).unwrap();
    let machine = Machine { processor: "some".to_owned(), gpus: Vec::new() };
    estimate(&pipeline, &plan, &cache, machine, THREADS).unwrap()
}

fn stage(set: &[&str], name: &str) -> StageEstimate {
    forecast(set).stages[name].clone()
}

fn likely(figure: Option<Figure>) -> f64 {
    figure.unwrap().likely
}

/// Has each figure of every stage, and its basis.
fn assert_full(forecast: &Estimate, recipe: &str) {
    let pipeline = pipeline(recipe, &[]);
    assert_eq!(forecast.stages.len(), pipeline.stages.len());
    for (name, stage) in &forecast.stages {
        // The plan has just read the sources.
        let spec = pipeline.stages.iter().find(|spec| spec.name == *name).unwrap();
        let is_source = spec.work == StageWork::Source;
        let basis = if is_source { Basis::Measured } else { Basis::Formula };
        assert!([basis, Basis::Formula].contains(&stage.basis), "{name}: {:?}", stage.basis);
        for figure in [stage.seconds, stage.disk_bytes, stage.ram_bytes, stage.money] {
            let Figure { low, likely, high } = figure.unwrap_or_else(|| panic!("{name}"));
            assert!(low <= likely && likely <= high, "{name}: {figure:?}");
        }
    }
}

#[test]
fn the_table_of_vits_is_full_and_knows_its_weights() {
    let forecast = forecast_of(MMS, &["session.price_per_hour=1"]);
    assert_full(&forecast, MMS);
    // The published file has 145 MB (docs/guides/gujarati-mms.md), and the voice is as large.
    for stage in ["base", "original"] {
        let bytes = likely(forecast.stages[stage].disk_bytes);
        assert!((140e6..150e6).contains(&bytes), "{stage}: {bytes}");
    }
    // 1,000 clips of 6 s at 128 kB a second.
    let bytes = likely(forecast.stages["spectrograms"].disk_bytes);
    assert!((bytes / (6_000.0 * 128e3) - 1.0).abs() < 0.01, "{bytes}");
    let assumed = forecast.assumptions.join("\n");
    for part in ["one of MMS", "half a second of a processor core", "spectrograms"] {
        assert!(assumed.contains(part), "{part} in {assumed}");
    }
    for part in ["openaudio", "rows are"] {
        assert!(!assumed.contains(part), "{part} in {assumed}");
    }
}

/// The import supports models of many families; the stages that read it use XTTS.
/// They took 1.0 s on two cores (docs/benchmarks.md, small clips).
#[test]
fn clips_of_a_tenth_of_a_second_are_no_longer_than_their_small_fixed_cost() {
    let recipe = "[pipeline]\nname = \"x\"\n[expect]\nclips = 10000\nsound = \"1000s\"\n\
         [stage.clips]\nuse = \"corpus.folder\"\nfolder = \"data\"\n\
         [stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = 16000\n\
         [stage.good]\nuse = \"audio.check\"\ninput = \"voice\"\n";
    let forecast = forecast_of(recipe, &[]);
    let on_two_cores = |name: &str| likely(forecast.stages[name].seconds) * THREADS as f64 / 2.0;
    let seconds = on_two_cores("voice") + on_two_cores("good");
    assert!((0.5..2.0).contains(&seconds), "{seconds}");
}

#[test]
fn an_imported_xtts_model_encodes_with_its_own_dvae() {
    let forecast = forecast_of(XTTS, &["params.device=cpu", "params.precision=f32"]);
    assert_full(&forecast, XTTS);
    let codes = likely(forecast.stages["tokens"].ram_bytes);
    // The codec of Fish Speech alone has 1.87 GB of weights.
    assert!(codes < 1.2e9, "{codes}");
    assert!(forecast.assumptions.iter().any(|told| told.contains("DVAE of XTTS")));
}

#[test]
fn the_table_is_full_and_its_assumptions_are_named() {
    let forecast = forecast(&[]);
    assert_full(&forecast, FISH);
    let assumed = forecast.assumptions.join("\n");
    for part in
        ["4000 clips of 7.2 s", "openaudio-s1-mini", "391 million", "users report", "[prices]"]
    {
        assert!(assumed.contains(part), "{part} in {assumed}");
    }
}

#[test]
fn the_cheapest_gpu_that_fits_is_marked() {
    let forecast = forecast(&[]);
    let fits: Vec<(&str, FitVerdict)> =
        forecast.gpus.iter().map(|row| (row.name.as_str(), row.fits)).collect();
    assert_eq!(
        fits,
        [("a100-40", FitVerdict::Yes), ("rtx-4090", FitVerdict::Tight), ("t4", FitVerdict::No)]
    );
    let best = forecast.gpus.iter().filter(|row| row.is_best).map(|row| row.name.as_str());
    assert_eq!(best.collect::<Vec<_>>(), ["a100-40"]);
}

#[test]
fn where_no_listed_gpu_fits_the_times_are_those_of_the_first_one() {
    let only = |vram: &str| {
        let rest = FISH.split("[prices]").next().unwrap();
        let t4 =
            format!("{rest}[prices]\nt4 = {{ per_hour = 1.0, vram = \"{vram}\", speed = 0.1 }}\n");
        forecast_of(&t4, &["params.precision=f32"])
    };
    let (fits, small) = (only("80GB"), only("2GB"));
    assert_eq!((fits.gpus[0].fits, small.gpus[0].fits), (FitVerdict::Yes, FitVerdict::No));
    // Reading the sources takes another time in each plan.
    let seconds = |forecast: &Estimate| forecast.total.seconds.likely;
    assert!((seconds(&small) - seconds(&fits)).abs() < 1.0, "{small:?} {fits:?}");
    let assumed = small.assumptions.join("\n");
    assert!(assumed.contains("for `t4` in `[prices]`, although no GPU there"), "{assumed}");
}

#[test]
fn a_training_is_expected_on_the_gpus_that_it_names() {
    let stage = |set: &[&str]| stage(set, "finnish");
    let named = stage(&["params.device=auto", "stage.finnish.devices=[\"cuda:0\", \"cuda:1\"]"]);
    assert!(named.vram_bytes.is_some() && named.gpu_seconds.is_some(), "{named:?}");
    assert!(stage(&["params.device=auto"]).vram_bytes.is_none());
}

#[test]
fn more_rows_more_exact_numbers_and_no_checkpointing_need_more_memory() {
    let vram = |set: &[&str]| likely(stage(set, "finnish").vram_bytes);
    let usual = vram(&[]);
    assert!(vram(&["stage.finnish.batch=8"]) > usual);
    assert!(vram(&["stage.finnish.max_length=2048"]) < usual);
    // With recomputed blocks bf16 takes more: each weight has a copy and a gradient in f32 besides.
    let exact = "stage.finnish.precision=\"f32\"";
    let kept = "stage.finnish.gradient_checkpointing=false";
    assert!(vram(&[kept]) > usual);
    assert!(vram(&[exact, kept]) > vram(&[kept]));
}

/// Without files and without a GPU: published sizes, in f32.
fn on_the_cpu(recipe: &str, more: &[&str]) -> Estimate {
    let cpu = ["params.device=\"cpu\"", "params.precision=\"f32\"", "expect.clips=32"];
    forecast_of(recipe, &[&cpu[..], more].concat())
}

/// Measured with random weights of the published sizes (`tools/real_size.sh`, docs/benchmarks.md); that of
/// sentences of Fish Speech by the same on one thread.
#[test]
fn memory_on_a_processor_is_within_15_percent_of_what_was_measured() {
    let xtts = on_the_cpu(XTTS, &["references.model=\"base\""]);
    let fish = on_the_cpu(FISH, &["heard.max_frames=60", "heard.batch=1"]);
    for (forecast, stage, measured) in [
        (&xtts, "base", 0.114e9),
        (&xtts, "tokens", 0.40e9),
        (&xtts, "references", 0.39e9),
        (&fish, "heard", 5.4e9),
    ] {
        let planned = likely(forecast.stages[stage].ram_bytes);
        assert!((planned / measured - 1.0).abs() < 0.15, "{stage}: {planned} for {measured}");
    }
    // The merge holds the embedding twice, rounded, and the import as well.
    for stage in ["merged", "base"] {
        let planned = likely(fish.stages[stage].ram_bytes);
        assert!((0.6e9..1.0e9).contains(&planned), "{stage}: {planned}");
    }
}

#[test]
fn gpus_are_compared_only_where_there_is_work_for_one() {
    assert!(!forecast(&[]).gpus.is_empty());
    let here = on_the_cpu(FISH, &[]);
    assert!(here.gpus.is_empty(), "{:?}", here.gpus);
    assert!(!here.assumptions.iter().any(|told| told.contains("GPU times")));
}

#[test]
fn a_higher_rank_needs_more_memory_and_more_disk() {
    let of = |rank: &str| stage(&[&format!("stage.adapters.rank={rank}")], "adapters");
    let (low, high) = (of("8"), of("128"));
    assert!(likely(low.vram_bytes) < likely(high.vram_bytes));
    assert!(likely(low.disk_bytes) < likely(high.disk_bytes));
    let whole = stage(&[], "finnish");
    assert!(likely(high.vram_bytes) < likely(whole.vram_bytes));
}

#[test]
fn time_follows_what_is_computed() {
    let seconds = |set: &[&str]| likely(stage(set, "finnish").seconds);
    let usual = seconds(&[]);
    let twice = seconds(&["stage.finnish.epochs=120.0"]);
    assert!((1.8..2.2).contains(&(twice / usual)), "{twice} for {usual}");
    assert!(seconds(&["stage.finnish.precision=\"f32\""]) > usual);
    assert!(seconds(&["stage.finnish.gradient_checkpointing=false"]) < usual);
    let more = seconds(&["expect.clips=8000", "expect.sound=\"16h\""]);
    assert!((1.8..2.2).contains(&(more / usual)), "{more} for {usual}");
}

#[test]
fn a_faster_gpu_is_done_earlier_and_one_at_half_the_price_costs_half() {
    let row = |set: &[&str]| forecast(set).gpus[0].clone();
    let usual = row(&[]);
    let fast = row(&["prices.a100-40.speed=2"]);
    assert!(fast.seconds.likely < 0.6 * usual.seconds.likely, "{fast:?}");
    let cheap = row(&["prices.a100-40.per_hour=0.60"]);
    assert!((cheap.money.likely / usual.money.likely - 0.5).abs() < 1e-9, "{cheap:?}");
}

#[test]
fn the_largest_batch_that_fits_keeps_the_rows_of_a_step() {
    let advice = |set: &[&str]| stage(set, "finnish").advice.join("\n");
    let usual = advice(&[]);
    assert!(usual.contains("a100-40: batch = 8 fits into 40 GB, with accumulation = 1"), "{usual}");
    let half = advice(&["stage.finnish.precision=\"fp16\""]);
    assert!(half.contains("t4: not even a batch of 1 fits into 15 GB"), "{half}");
    let large = advice(&["stage.finnish.batch=32", "prices.a100-40.vram=\"22GB\""]);
    let line = large.lines().find(|line| line.starts_with("a100-40")).unwrap();
    assert_eq!(
        line,
        "a100-40: batch = 4 fits into 22 GB, with accumulation = 16 for 64 rows a step"
    );
}

#[test]
fn a_gpu_without_bf16_fits_no_training_in_bf16() {
    let small = ["stage.finnish.batch=1", "prices.t4.vram=\"80GB\""];
    let advice = |set: &[&str]| stage(set, "finnish").advice.join("\n");
    let of_t4 = |row: &OnGpu| (row.name == "t4").then_some(row.fits);
    assert_eq!(forecast(&small).gpus.iter().find_map(of_t4), Some(FitVerdict::No));
    let told = "t4: bf16 is not supported; use `precision = \"auto\"`";
    assert!(advice(&small).contains(told), "{}", advice(&small));
    let half = advice(&[&small[..], &["stage.finnish.precision=\"fp16\""]].concat());
    assert!(half.contains("t4: ") && !half.contains(told), "{half}");
}

const GUIDE: &str = include_str!("../../../docs/guides/finnish-fish.md");

/// A number with its unit, as in a table.
fn figure(cell: &str) -> f64 {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let number: f64 = number.replace(',', "").parse().unwrap_or_else(|_| panic!("{cell}"));
    match unit {
        "h" => number * 3_600.0,
        "GB" => number * 1e9,
        "%" => number / 100.0,
        "" => number,
        other => panic!("{other}"),
    }
}

/// The rows of the table of the guide: name, reported value, plan, and bounds, if any.
fn published() -> Vec<(String, f64, f64, Option<f64>)> {
    let rows = GUIDE.lines().skip_while(|line| !line.starts_with("| figure |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let band = Some(cells[3]).filter(|cell| *cell != "-").map(figure);
        (cells[0].to_owned(), figure(cells[1]), figure(cells[2]), band)
    };
    rows.map(row).collect()
}

#[test]
fn the_plan_of_4000_clips_is_within_the_band_of_the_published_workflow_and_as_the_guide_says() {
    let forecast = forecast(&[]);
    let rows = published();
    assert_eq!(rows.iter().filter(|(.., band)| band.is_some()).count(), 5);
    assert_eq!(rows.len(), 6);
    for (what, reported, told, band) in rows {
        let stage = if what.ends_with("phase 1") {
            &forecast.stages["finnish"]
        } else {
            &forecast.stages["adapters"]
        };
        let planned = match what.split(' ').next() {
            Some("steps") => stage.training.as_ref().unwrap().course.timetable.steps as f64,
            Some("time") => likely(stage.seconds),
            _ => likely(stage.vram_bytes),
        };
        eprintln!("{what}: {planned}");
        assert!(
            (planned / told - 1.0).abs() < 0.02,
            "{what}: {planned}, and the guide says {told}"
        );
        let band = band.unwrap_or(f64::INFINITY);
        assert!((planned / reported - 1.0).abs() <= band, "{what}: {planned} for {reported}");
    }
}

#[test]
fn a_training_is_planned_in_steps_rows_passes_and_clips() {
    let training = stage(&[], "finnish").training.unwrap();
    let (course, bounds) = (&training.course, training.bounds);
    assert_eq!((course.rows_of_step, training.steps_of_pass, training.passes), (8, 27.0, 60.0));
    let clips = course.clips;
    assert_eq!((clips.used, clips.held_out, clips.left_out), (3_920, 80, 0));
    assert!(bounds.low < bounds.likely && bounds.likely < bounds.high, "{bounds:?}");
    let table = &course.timetable;
    assert_eq!((table.warm_up, table.validate_every, table.save_every), (81, 65, 405));
    assert!(training.idle.is_empty() && training.is_certain);
    // As many steps as rows of 16 clips; held-out clips are not part of a pass.
    let expected = format!("{MMS}\n[expect]\nclips = 800\nsound = \"1h\"\n");
    let forecast = forecast_of(&expected, &[]);
    for (phase, passes) in [("adapted", 150.0), ("trained", 50.0)] {
        let training = forecast.stages[phase].training.clone().unwrap();
        assert_eq!((training.steps_of_pass, training.passes), (47.5, passes));
        let (clips, steps) = (training.course.clips, Figure::exact(47.5 * passes));
        assert_eq!((clips.used, clips.held_out, training.bounds), (760, 40, steps));
    }
    // The outputs of a split are its shares: trainings and comparisons see no clip twice.
    let expected = format!(
        "{}[expect]\nclips = 800\nsound = \"1h\"\n",
        XTTS.split("[expect]").next().unwrap()
    );
    let forecast = forecast_of(&expected, &[]);
    let clips = forecast.stages["trained"].training.clone().unwrap().course.clips;
    assert_eq!((clips.used, clips.held_out), (784, 16));
    assert_eq!(forecast.stages["spoken_after"].items, 100 + 16);
}

/// The demo's training of VITS with this sweep.
fn swept(sweep: &str) -> Estimate {
    let (demo, _) = DEMO.split_once("[stage.sentences]").unwrap();
    // A step costs more than all else.
    let demo = demo.replace("steps = 6\n", "steps = 2700000\n");
    let expected = "[expect]\nclips = 100\nsound = \"10m\"\n[session]\nprice_per_hour = 2.0\n";
    forecast_of(&format!("{demo}\n{expected}\n{sweep}"), &[])
}

#[test]
fn a_sweep_costs_at_most_the_share_that_halving_leaves() {
    let whole = &swept("").stages["trained"];
    let whole = (likely(whole.seconds), likely(whole.money));
    for (shape, trials, legs, share) in [
        ("trials = 27\nrungs = 4", 27.0, [27, 9, 3, 1], 0.111),
        ("trials = 16\nrungs = 3\neta = 4", 16.0, [16, 4, 1, 0], 0.156),
        ("trials = 9\nrungs = 3", 9.0, [9, 3, 1, 0], 0.259),
    ] {
        let sweep = format!(
            "[sweep.rate]\nstage = \"trained\"\nover = {{ learning_rate = {{ from = 1e-4, to = 1e-2 }} }}\n\
             score = \"mean(held_out)\"\n{shape}\n"
        );
        let forecast = swept(&sweep);
        let trainings = |rung: usize| {
            let rung = format!("rung={}]", rung + 1);
            let own = forecast.stages.iter().filter(|(name, _)| name.ends_with(&rung));
            own.map(|(_, stage)| stage.clone()).collect::<Vec<StageEstimate>>()
        };
        let of_rungs: Vec<Vec<StageEstimate>> = (0..4).map(trainings).collect();
        assert_eq!(of_rungs.iter().map(Vec::len).collect::<Vec<_>>(), legs);
        let all = || of_rungs.iter().flatten();
        let seconds: f64 = all().map(|stage| likely(stage.seconds)).sum();
        let money: f64 = all().map(|stage| likely(stage.money)).sum();
        for (found, whole) in [(seconds, whole.0), (money, whole.1)] {
            let found = found / (trials * whole);
            assert!((found / share - 1.0).abs() < 0.02, "{shape}: {found}, not {share}");
        }
    }
}

/// The settings that the recipe once had for phase 1.
const ONCE: [&str; 4] = [
    "stage.finnish.epochs=3.0",
    "stage.finnish.warm_up=100",
    "stage.finnish.validate_every=200",
    "stage.finnish.save_every=500",
];

#[test]
fn a_schedule_that_cannot_act_is_sure_where_the_clips_are_told_and_likely_where_they_are_guessed() {
    let of = |set: &[&str]| stage(&[&ONCE, set].concat(), "finnish").training.unwrap();
    let names = |idle: &[stage_core::course::Idle]| -> Vec<String> {
        idle.iter().map(|idle| idle.parameter.clone()).collect()
    };
    let all = ["warm_up", "validate_every", "patience", "save_every"];
    let training = of(&[]);
    assert_eq!(training.course.timetable.steps, 81);
    assert_eq!(names(training.mistakes()), all);
    let near = of(&["stage.finnish.warm_up=85"]);
    assert_eq!((names(&near.idle), near.mistakes().len()), (all.map(str::to_owned).to_vec(), 0));
    let guessed = FISH.split("[expect]").next().unwrap();
    let guessed = forecast_of(guessed, &ONCE).stages["finnish"].training.clone().unwrap();
    assert_eq!((names(&guessed.idle).len(), guessed.mistakes().len()), (4, 0));
}
