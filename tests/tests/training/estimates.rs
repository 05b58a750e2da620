//! Estimates before a run, measured costs after it, and a budget that stops it.

use std::sync::Arc;
use std::time::Duration;

use cache::{Archiving, CacheError};
use camino::Utf8PathBuf;
use engine::archive;
use engine::engine::{EngineError, RunOptions, WorkerCommand};
use engine::estimate::{Basis, StageEstimate};
use engine::estimate::{Estimate, RunOutcome, estimate, step_by_formula};
use engine::event::{Event, Status};
use engine::gc::GcLimits;
use engine::machine::Machine;
use engine::measure::{self, Measure};
use engine::record::{ITEM, ItemRecord, SPENT, decode, encode};
use engine::spending::{Spent, spent};
use stage_core::cost::{Cost, Training};
use stage_core::{
    Context, Default, FieldSet, FieldType, InputPort, Item, ItemJob, Job, Kind, Output, OutputPort,
    Parameter, ParameterType, Place, Reject, Setup, Stage, StageError, Work,
};
use throstle_tests::train::Remote;
use throstle_tests::training::{MANIFEST, STEPS, checkpoint, steps};
use throstle_tests::{Lab, Ran, stages};

/// The small pipeline with this number of texts, of 100 letters and one more each.
fn lab(texts: usize) -> Lab {
    let lab = Lab::new();
    write_texts(&lab, 0..texts);
    lab
}

fn write_texts(lab: &Lab, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let text = format!("{number:03}").repeat(34) + &"x".repeat(number);
        lab.write(&format!("data/clip{number:03}.txt"), &text);
    }
}

fn estimated(lab: &Lab) -> Estimate {
    let (pipeline, plan, cache) = (lab.pipeline(), lab.plan(), lab.cache());
    estimate(&pipeline, &plan, &cache, Machine::look(), lab.threads).unwrap()
}

fn stage(lab: &Lab, name: &str) -> StageEstimate {
    estimated(lab).stages[name].clone()
}

/// The reported size of the outputs of a stage in a run.
fn written(ran: &Ran, name: &str) -> f64 {
    let bytes = |event: &Event| match event {
        Event::Measured { stage, disk_bytes, .. } if stage == name => Some(*disk_bytes),
        _ => None,
    };
    ran.events.iter().find_map(bytes).unwrap()
}

#[test]
fn what_never_ran_has_no_estimate_and_says_so() {
    let lab = lab(5);
    let estimate = estimated(&lab);
    let loud = &estimate.stages["loud"];
    assert_eq!((loud.basis, loud.items, loud.seconds), (Basis::Unknown, 5, None));
    assert!(estimate.total.unknown.contains(&"loud".to_owned()), "{:?}", estimate.total);
}

#[test]
fn the_disk_of_new_items_is_known_to_five_percent_after_one_run() {
    let lab = lab(60);
    lab.run();
    write_texts(&lab, 60..80);
    let expected = stage(&lab, "loud");
    assert_eq!((expected.basis, expected.items), (Basis::Measured, 20));
    let ran = lab.run();
    let (disk, took) = (expected.disk_bytes.unwrap().likely, written(&ran, "loud"));
    assert!(took > 0.0 && (disk / took - 1.0).abs() < 0.05, "{disk} for {took}");
}

/// Half of four items were kept; now twenty arrive. Whether any of them reaches the next stage is not
/// known.
#[test]
fn behind_a_filter_the_items_of_the_last_run_grow_with_those_that_arrive() {
    let mut lab = lab_with(
        "[pipeline]\nname = \"x\"\n[stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n\
         [stage.loud]\nuse = \"test.shout\"\ninput = \"lines\"\n\
         [stage.kept]\nuse = \"dataset.filter\"\ninput = \"loud\"\n\
         where = [{ field = \"id\", none_of = [\"clip000\", \"clip001\"] }]\n\
         [stage.twice]\nuse = \"test.twice\"\ninput = \"kept\"\n",
    );
    lab.stages.extend(stage_speech::stages());
    assert_eq!(lab.run().executed("twice"), 2);
    write_texts(&lab, 4..20);
    let twice = stage(&lab, "twice");
    let seconds = twice.seconds.unwrap();
    assert_eq!((twice.items, seconds.low), (10, 0.0), "half of 20: {twice:?}");
    assert!(seconds.likely > 0.0, "{seconds:?}");
}

/// Clocks are not compared: the time that a run tells for its items is the estimate of another run of the
/// same items. It contains their fixed cost, beside the time of the stage's own code.
#[test]
fn the_time_of_items_is_that_of_the_last_run() {
    let lab = lab(60);
    let ran = lab.run();
    let measured = |event: &Event| match event {
        Event::Measured { stage, seconds, .. } if stage == "loud" || stage == "twice" => *seconds,
        _ => 0.0,
    };
    let all: f64 = ran.events.iter().map(measured).sum();
    let records = lab.cache().scan(ITEM).unwrap();
    let own = |bytes: &[u8]| match decode(bytes) {
        Some(ItemRecord::Done { seconds, .. }) => f64::from(seconds),
        _ => 0.0,
    };
    let own = records.iter().map(|(_, bytes)| own(bytes)).sum::<f64>() / lab.threads as f64;
    assert!(all > own, "{all} with {own} of the stages themselves");
    lab.write(
        "pipeline.toml",
        &lab.read("pipeline.toml").unwrap().replace("\"!\"", "\"!\"\nsalt = \"2\""),
    );
    let estimate = estimated(&lab);
    let (loud, twice) = (&estimate.stages["loud"], &estimate.stages["twice"]);
    assert_eq!((loud.basis, loud.items, twice.items), (Basis::Measured, 60, 60));
    let expected = loud.seconds.unwrap().likely + twice.seconds.unwrap().likely;
    assert!((expected / all - 1.0).abs() < 0.25, "{expected} for {all}");
}

#[test]
fn a_source_that_the_plan_has_read_is_expected_to_take_as_long_again() {
    let lab = lab(60);
    lab.run();
    write_texts(&lab, 60..61);
    let (pipeline, mut plan, cache) = (lab.pipeline(), lab.plan(), lab.cache());
    let lines = pipeline.find("lines").unwrap().id;
    assert!(plan.stage(lines).scan_seconds > 0.0);
    plan.stages[lines.0].scan_seconds = 0.25;
    let estimate = estimate(&pipeline, &plan, &cache, Machine::look(), lab.threads).unwrap();
    let lines = &estimate.stages["lines"];
    assert_eq!((lines.basis, lines.seconds.unwrap().likely), (Basis::Measured, 0.25));
}

/// Hands its items on, and says that it waited a day for each batch.
struct Waits;

static WAITS: Kind = Kind {
    name: "test.waits",
    summary: "Waits.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("body", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort::DATASET],
    ..Kind::BASE
};

impl Stage for Waits {
    fn kind(&self) -> &'static Kind {
        &WAITS
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(WaitsJob)))
    }
}

struct WaitsJob;

impl ItemJob for WaitsJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        context.waited(Duration::from_secs(24 * 3600));
        Ok(items.iter().map(|_| Ok(Output::default())).collect())
    }
}

#[test]
fn the_time_in_which_a_stage_waits_for_its_turn_is_no_cost_of_its_items() {
    let mut lab = lab(10);
    lab.stages.push(Arc::new(Waits));
    let more = "\n[stage.waiting]\nuse = \"test.waits\"\ninput = \"lines\"\n";
    lab.write("pipeline.toml", &(lab.read("pipeline.toml").unwrap() + more));
    let ran = lab.run();
    let counts = ran.stages["waiting"];
    assert_eq!((counts.executed, counts.reused, counts.seconds), (10, 0, 0.0));
    // No other stage costs nothing.
    let records = lab.cache().scan(ITEM).unwrap();
    let costs_nothing = |bytes: &[u8]| matches!(decode(bytes), Some(ItemRecord::Done { seconds, .. }) if seconds == 0.0);
    assert_eq!(records.iter().filter(|(_, bytes)| costs_nothing(bytes)).count(), 10);
}

#[test]
fn a_run_keeps_what_was_expected_beside_what_it_took() {
    let lab = lab(10);
    lab.run();
    write_texts(&lab, 10..15);
    let ran = lab.run();
    assert!(ran.events.iter().any(|event| matches!(event, Event::Estimated { .. })));
    let outcome = RunOutcome::read(&lab.cache(), 2).unwrap().unwrap();
    let loud = outcome.stages["loud"];
    assert!(loud.expected_seconds.is_some() && loud.seconds > 0.0, "{loud:?}");
    assert_eq!(loud.bytes, written(&ran, "loud"));
    assert!(outcome.seconds > 0.0);
}

#[test]
fn what_is_measured_goes_with_the_archive() {
    let (lab, other) = (lab(10), lab(0));
    lab.run();
    let folder = lab.base().join("archive");
    let limits = GcLimits { keep_runs: 1, kept_since: None, most_bytes: None };
    let how =
        Archiving { folder: &folder, bases: &[], volume_bytes: 1 << 30, progress: &|_, _| {} };
    archive::pack(&lab.cache(), &limits, &how).unwrap();
    archive::unpack(&other.cache(), &[folder], &|_, _| {}).unwrap();
    write_texts(&other, 20..25);
    assert_eq!(stage(&other, "loud").basis, Basis::Measured);
}

#[test]
fn what_is_measured_changes_no_key() {
    let lab = lab(10);
    lab.run();
    assert!(lab.run().nothing_executed());
    assert!(estimated(&lab).stages.is_empty(), "nothing is left to do");
}

#[test]
fn a_probe_keeps_what_items_took_and_nothing_else() {
    let lab = lab(40);
    let open = || -> Result<cache::Cache, ProbeError> { Ok(lab.open_cache()?) };
    lab.engine().probe(&lab.pipeline(), 4, &open, &mut |_| {}).unwrap();
    let expected = estimated(&lab);
    let bases = ["loud", "twice", "joined"].map(|name| expected.stages[name].basis);
    assert_eq!(bases, [Basis::Probe, Basis::Probe, Basis::Unknown]);
    assert_eq!(lab.item_records(), 0);
    assert_eq!(lab.exports().len(), 0);
    let ran = lab.run();
    assert_eq!((ran.executed("loud"), ran.executed("twice")), (40, 40));
    write_texts(&lab, 40..41);
    assert_eq!(stage(&lab, "loud").basis, Basis::Measured);
}

#[test]
fn a_probe_tries_steps_of_a_training_whose_inputs_are_there_and_keeps_nothing() {
    let slow = MANIFEST.replace("retries = 2", "steps = 100000\npause = \"10ms\"");
    let lab = lab_with(&slow);
    let open = || -> Result<cache::Cache, ProbeError> { Ok(lab.open_cache()?) };
    let probe = || lab.engine().probe(&lab.pipeline(), 2, &open, &mut |_| {}).unwrap();
    probe();
    assert_eq!(stage(&lab, "model").basis, Basis::Unknown, "what it reads is not there");
    let targets = vec![lab.pipeline().find("loud").unwrap().id];
    lab.run_with(&RunOptions { targets, ..RunOptions::default() });
    probe();
    let model = stage(&lab, "model");
    assert_eq!((model.basis, model.disk_bytes), (Basis::Probe, None));
    // A pause is never shorter than requested.
    assert!(model.seconds.unwrap().likely >= 1000.0, "{model:?}");
    assert_eq!((checkpoint(&lab), lab.exports().len()), (0, 0));
    assert!(!lab.reasons("model").is_empty(), "it is still to be done");
}

#[derive(Debug)]
struct ProbeError;

impl From<EngineError> for ProbeError {
    fn from(_: EngineError) -> ProbeError {
        ProbeError
    }
}

impl From<CacheError> for ProbeError {
    fn from(_: CacheError) -> ProbeError {
        ProbeError
    }
}

#[test]
fn a_training_that_was_stopped_is_expected_to_take_the_rest() {
    let lab =
        paid(lab_with(&MANIFEST.replace("retries = 2", "steps = 100000\npause = \"10ms\"")), 1.0);
    assert_eq!(lab.run().status, Status::Paused);
    let whole = 100_000.0 * 0.010;
    let left = stage(&lab, "model").seconds.unwrap().likely;
    let done = checkpoint(&lab) as f64 / 100_000.0;
    assert!(done > 0.0 && left > whole * (1.0 - done) * 0.75, "{left}");
}

fn lab_with(manifest: &str) -> Lab {
    let lab = lab(4);
    lab.write("pipeline.toml", manifest);
    lab
}

/// With a budget of 10 and this rest, at 1 per second.
fn paid(lab: Lab, left: f64) -> Lab {
    let manifest = lab.read("pipeline.toml").unwrap();
    let session = "[session]\nprice_per_hour = 3600\nbudget = 10\n";
    lab.write("pipeline.toml", &format!("{manifest}\n{session}"));
    let (pipeline, run, seconds) = ("voice".to_owned(), 1, 10.0 - left);
    let record = Spent { pipeline, run, started: 1, seconds, price_per_hour: 3600.0 };
    let cache = lab.cache();
    cache.record(SPENT, &record.key(), encode(&record)).unwrap();
    cache.commit().unwrap();
    lab
}

#[test]
fn a_budget_that_is_used_up_lets_nothing_begin() {
    let lab = paid(lab_with(MANIFEST), 0.0);
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("loud")), (Status::Paused, 0));
    let told = ran.stopping();
    assert_eq!(told.len(), 1, "{told:?}");
    // The time until then is counted too.
    assert!(told[0].starts_with("budget: 10."), "{told:?}");
    assert!(told[0].contains(" of 10.00 spent, 0.00 left"), "{told:?}");
    assert!(told[0].ends_with("raise `budget` to continue"), "{told:?}");
}

#[test]
fn training_saves_before_the_budget_is_used_up() {
    let manifest =
        MANIFEST.replace("retries = 2", "steps = 100000\nevery = 50000\npause = \"20ms\"");
    let lab = paid(lab_with(&manifest), 1.5);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Paused, "{:?}", ran.failures());
    assert_eq!(ran.stopping().len(), 1, "{:?}", ran.stopping());
    assert_eq!(Some(&checkpoint(&lab)), steps(&ran).last());
    assert!(spent(&lab.cache(), "voice").unwrap() > 8.5, "the run is counted");
}

#[test]
fn a_run_within_its_budget_comes_to_its_end() {
    let lab = paid(lab_with(MANIFEST), 9.0);
    let ran = lab.run();
    assert_eq!((ran.status, steps(&ran).last()), (Status::Done, Some(&STEPS)));
}

#[test]
fn the_plan_says_what_the_session_has_no_room_for() {
    let manifest = MANIFEST.replace("retries = 2", "steps = 100000\npause = \"10ms\"");
    let lab = paid(lab_with(&manifest), 1.0);
    lab.run();
    let manifest = lab.read("pipeline.toml").unwrap().replace("budget = 10", "budget = 50");
    lab.write("pipeline.toml", &manifest);
    let fitted = estimated(&lab).fitted.unwrap();
    assert_eq!(fitted.left_out, ["model"]);
    assert!(fitted.left_out_money.unwrap().likely > 50.0, "{fitted:?}");
}

/// A stage in the worker, with only its description here.
struct Far;

impl Stage for Far {
    fn kind(&self) -> &'static Kind {
        &stages::REMOTE
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Err(StageError::failed("this stage runs in the worker"))
    }
}

#[test]
fn where_gpus_are_counted_they_wait_until_all_is_there() {
    let mut lab = Lab::new();
    for number in 0..6 {
        lab.write(&format!("data/slow{number}.txt"), &format!("slow {number}"));
    }
    let manifest = "[pipeline]\nname = \"far\"\n\
        [stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n\
        [stage.loud]\nuse = \"test.shout\"\ninput = \"lines\"\n\
        [stage.far]\nuse = \"test.remote\"\ninput = \"loud\"\ndevice = \"cuda:0\"\n\
        [session]\ngpu_hours_per_week = 30\n";
    lab.write("pipeline.toml", manifest);
    lab.stages.extend([Arc::new(Far) as Arc<dyn Stage>, Arc::new(Remote)]);
    let program = Some(Utf8PathBuf::from(env!("CARGO_BIN_EXE_fake_worker")));
    lab.worker = WorkerCommand { program, ..std::default::Default::default() };
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 6), "{:?}", ran.failures());
    let at = |wanted: &dyn Fn(&Event) -> bool| ran.events.iter().position(wanted).unwrap();
    let ready = at(&|event| matches!(event, Event::StageFinished { stage, .. } if stage == "loud"));
    let began = at(&|event| matches!(event, Event::WorkerStarted { .. }));
    assert!(ready < began, "the worker began at event {began}, all was there at {ready}");
}

/// Described like a stage that fine-tunes VITS.
struct FineTune;

static FINE_TUNE: Kind = Kind {
    name: "test.vits",
    summary: "Trains.",
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Training(Training { family: stage_families::artifact::VITS, adapters: false }),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("body", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort::ARTIFACT],
    parameters: &[
        integer("batch", 16),
        integer("accumulation", 1),
        integer("steps", 1_000),
        Parameter {
            name: "devices",
            parameter_type: ParameterType::List(&ParameterType::Device { or_auto: false }),
            default: Default::Devices(&[]),
            ..Parameter::BASE
        },
        Parameter {
            name: "precision",
            parameter_type: ParameterType::Choice(&["f32", "fp16"]),
            default: Default::Text("f32"),
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

const fn integer(name: &'static str, default: i64) -> Parameter {
    Parameter {
        name,
        parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
        default: Default::Integer(default),
        ..Parameter::BASE
    }
}

impl Stage for FineTune {
    fn kind(&self) -> &'static Kind {
        &FINE_TUNE
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Err(StageError::failed("this stage runs in the worker"))
    }
}

#[test]
fn training_vits_has_a_formula_too() {
    let forecast = |parameters: &str| {
        let mut lab = lab(4);
        lab.stages.push(Arc::new(FineTune));
        let manifest = "[pipeline]\nname = \"vits\"\n\
            [stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n\
            [stage.voice]\nuse = \"test.vits\"\ninput = \"lines\"\ndevice = \"cuda:0\"\n";
        lab.write("pipeline.toml", &format!("{manifest}{parameters}\n"));
        let voice = stage(&lab, "voice");
        assert_eq!(voice.basis, Basis::Formula);
        (voice.vram_bytes.unwrap().likely, voice.seconds.unwrap().likely)
    };
    let (usual, small) = (forecast(""), forecast("batch = 4"));
    assert!(small.0 < usual.0 && small.1 < usual.1, "{small:?} {usual:?}");
    assert!(forecast("precision = \"fp16\"").0 < usual.0);
    assert!(forecast("steps = 2000").1 > 1.8 * usual.1);
    let twice = forecast("accumulation = 2");
    let shared = forecast("accumulation = 2\ndevices = [\"cuda:0\", \"cuda:1\"]");
    assert!(shared.1 < 0.6 * twice.1, "{shared:?} {twice:?}");
    // Each device has a half of the only micro-batch.
    let halves = forecast("devices = [\"cuda:0\", \"cuda:1\"]");
    assert!(halves.0 < usual.0 && halves.1 < 0.8 * usual.1, "{halves:?} {usual:?}");
    // Of three micro-batches, one device has two.
    let uneven = forecast("accumulation = 3\ndevices = [\"cuda:0\", \"cuda:1\"]");
    assert!((uneven.1 / twice.1 - 1.0).abs() < 0.02, "{uneven:?} {twice:?}");
    let slow = forecast("accumulation = 2\ndevices = [\"cuda:0\", \"cpu\"]");
    assert!(slow.1 > 5.0 * shared.1, "{slow:?} {shared:?}");
}

#[test]
fn a_training_of_twice_the_steps_takes_twice_as_long_as_the_one_that_was_measured() {
    let mut lab = lab(4);
    lab.stages.push(Arc::new(FineTune));
    let with = |parameters: &str| {
        let manifest = "[pipeline]\nname = \"vits\"\n\
            [stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n\
            [stage.voice]\nuse = \"test.vits\"\ninput = \"lines\"\ndevice = \"cpu\"\n";
        lab.write("pipeline.toml", &format!("{manifest}{parameters}\n"));
        let (pipeline, machine) = (lab.pipeline(), Machine::look());
        let spec = pipeline.find("voice").unwrap();
        let formula = step_by_formula(
            &pipeline,
            &lab.plan(),
            &lab.cache(),
            (machine.clone(), lab.threads),
            spec.id,
        );
        (formula.unwrap(), spec.clone(), machine.label(&machine.device(spec)).unwrap())
    };
    let (formula, spec, device) = with("steps = 500");
    let (kind, mut measure) = (spec.kind.name.to_owned(), Measure::default());
    for _ in 0..500 {
        // Three times as long as the formula has it.
        measure.seconds.add(0.0, 3.0 * formula);
        measure.formula.add(0.0, formula);
    }
    measure.start.add(0.0, 7.0);
    measure.save.add(0.0, 0.0);
    measure.validation.add(0.0, 0.0);
    let cache = lab.cache();
    measure::add(&cache, &spec, &Measure { kind, device, ..measure }).unwrap();
    cache.commit().unwrap();
    drop(cache);
    let seconds = |parameters: &str| {
        let (formula, ..) = with(parameters);
        let voice = stage(&lab, "voice");
        assert_eq!(voice.basis, Basis::Similar, "{parameters}");
        (formula, voice.seconds.unwrap().likely)
    };
    for steps in [1_000.0, 2_000.0] {
        let (same, seconds) = seconds(&format!("steps = {steps}"));
        assert_eq!(same, formula);
        assert!((seconds / (7.0 + steps * 3.0 * formula) - 1.0).abs() < 0.01, "{seconds}");
    }
    // Steps of twice as many clips are longer as the formula has it.
    let (longer, seconds) = seconds("steps = 1000\nbatch = 32");
    assert!(longer > 1.5 * formula);
    assert!((seconds / (7.0 + 1_000.0 * 3.0 * longer) - 1.0).abs() < 0.01, "{seconds}");
}

/// A stage of the worker, of which there is only the description here.
struct Described(&'static Kind);

impl Stage for Described {
    fn kind(&self) -> &'static Kind {
        self.0
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Err(StageError::failed("this stage runs in the worker"))
    }
}

#[test]
fn sentences_that_are_spoken_at_once_take_memory_each() {
    use stage_families::xtts::{kinds::INIT, speech};
    let forecast = |parameters: &str| {
        let mut lab = Lab::new();
        let kinds = [&INIT, &speech::VOICE, &speech::SYNTHESIZE];
        let sentences = |stage: &Arc<dyn Stage>| stage.kind().name == "corpus.sentences";
        lab.stages.extend(stage_speech::stages().into_iter().filter(sentences));
        lab.stages.extend(kinds.map(|kind| Arc::new(Described(kind)) as Arc<dyn Stage>));
        let manifest = "[pipeline]\nname = \"spoken\"\n\
            [stage.texts]\nuse = \"corpus.sentences\"\nsentences = [\"Hei, maailma!\"]\n\
            [stage.model]\nuse = \"xtts.init\"\nshape = \"published\"\n\
            [stage.voice]\nuse = \"xtts.voice\"\nmodel = \"model\"\nspeaker = \"Ana\"\n\
            [stage.said]\nuse = \"xtts.synthesize\"\ninput = \"texts\"\nmodel = \"model\"\n\
            voice = \"voice\"\nlanguage = \"en\"\n";
        let texts: Vec<String> = (0..20).map(|at| format!("\"text number {at}\"")).collect();
        let manifest = manifest.replace("\"Hei, maailma!\"", &texts.join(", "));
        lab.write("pipeline.toml", &format!("{manifest}{parameters}\n"));
        let said = stage(&lab, "said");
        assert_eq!(said.basis, Basis::Formula);
        let memory = said.vram_bytes.or(said.ram_bytes).unwrap();
        memory.likely
    };
    // 737 columns of 30 layers of 2,048 numbers.
    let row = 737.0 * 30.0 * 2048.0 * 4.0;
    for device in ["device = \"cuda:0\"", "device = \"cpu\""] {
        let usual = forecast(device);
        let single = forecast(&format!("{device}\nbatch = 1"));
        assert!(((usual - single) / row - 7.0).abs() < 1e-6, "{usual} {single}");
    }
}
