//! The stages of the family `python`.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::python::kinds;
use camino::Utf8Path;
use stage_core::device::DeviceName;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, ItemJob, Job, NewItem, Output, PortInput,
    PortOutput, Reject, Setup, Stage, StageError,
};

use super::declared::FunctionDeclaration;
use super::failures::of_machine;
use super::inputs::{Inputs, out_of};
use super::messages::{DatasetAnswer, FunctionForm, ItemAnswer, Reply};
use super::process::{Process, ProcessFault};
use super::workers::Workers;
use crate::command::answers::{AnswerError, take};
use crate::command::gathered::GatheredInputs;
use crate::command::private::{INPUTS, OUTPUTS, create};
use crate::command::room::Room;
use crate::command::run::CommandError;
use crate::command::stage::fatal;
use crate::plain::{stage, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::PYTHON, open_each), stage(&kinds::ALL, open_all)]
}

type Results = Vec<Result<Output, Reject>>;

/// The name of the folder for the outputs of a whole data set.
const WHOLE: &str = "all";

/// After this many items without a result in time, and none with one, the function is to blame.
const LATE: usize = 3;

/// A process with its folders, while it works on one request.
struct OpenRequest<'a> {
    process: &'a mut Process,
    /// The number of items in it.
    items: usize,
    /// The time for its answer, or for its next report.
    limit: Option<Duration>,
}

impl OpenRequest<'_> {
    /// Waits for the answer; reports of progress pass by.
    fn answer(
        &mut self,
        request: u64,
        room: &Room,
        context: &mut dyn Context,
    ) -> Result<Reply, StageError> {
        let deadline = |limit| Instant::now().checked_add(limit);
        let mut until = self.limit.and_then(deadline);
        loop {
            match self.process.receive(request, until, context) {
                Ok(Reply::Progress { request: of }) if of == request => {
                    if !self.process.works_in_batches {
                        until = self.limit.and_then(deadline);
                    }
                }
                Ok(reply) => return Ok(reply),
                Err(fault) => return Err(self.error(fault, room)),
            }
        }
    }

    fn error(&self, fault: ProcessFault, room: &Room) -> StageError {
        match fault {
            ProcessFault::Stopped => StageError::Stopped,
            ProcessFault::Io(error) => {
                StageError::of_io(format!("failed to talk to the program: {error}"), &error)
            }
            ProcessFault::Broken(why) => self.broken(why),
            ProcessFault::Late { said } => {
                let seconds = self.limit.map_or(0.0, |limit| limit.as_secs_f64());
                match self.items {
                    0 | 1 => StageError::TimedOut {
                        seconds: seconds.to_string(),
                        said: said.to_string(),
                    },
                    count if self.process.works_in_batches => StageError::Died {
                        message: format!("{count} items are not done after {seconds} s{said}"),
                    },
                    _ => StageError::Died {
                        message: format!("an item is not done after {seconds} s{said}"),
                    },
                }
            }
            ProcessFault::Ended(error) => match room.judge::<()>(Err(error)) {
                Err(error @ (CommandError::Failed { .. } | CommandError::Killed { .. })) => {
                    let message = error.to_string().replacen("the command", "the program", 1);
                    StageError::Died { message }
                }
                Err(error) => of_one(fatal(error), self.items),
                Ok(()) => self.broken("it has ended".to_owned()),
            },
        }
    }

    /// An item may be to blame for it, so it counts as a death.
    fn broken(&self, why: String) -> StageError {
        StageError::Died { message: format!("the program violates the protocol: {why}") }
    }

    /// Empties the folders for the next request.
    fn tidy(&self, context: &mut dyn Context) -> Result<(), StageError> {
        if context.kept().is_some() {
            return Ok(());
        }
        for name in [INPUTS, OUTPUTS] {
            let folder = self.process.folder().join(name);
            let gone = |error: std::io::Error| {
                let message = format!("failed to empty `{folder}`: {error}");
                StageError::of_io(message, &error)
            };
            for entry in fs::read_dir(&folder).map_err(gone)? {
                let entry = entry.map_err(gone)?;
                let removed = if entry.file_type().map_err(gone)?.is_dir() {
                    fs::remove_dir_all(entry.path())
                } else {
                    fs::remove_file(entry.path())
                };
                removed.map_err(gone)?;
            }
        }
        Ok(())
    }

    /// The time for a number of items, or for each of them if the process reports each.
    fn limit(declared: &FunctionDeclaration, items: usize, process: &Process) -> Option<Duration> {
        if process.works_in_batches {
            declared.timeout?.checked_mul(items.max(1) as u32)
        } else {
            declared.timeout
        }
    }
}

/// A failure that may be that of one item of a batch: the batch is halved to find it, so that the
/// others do not fail with it.
fn of_one(error: StageError, batch: usize) -> StageError {
    match error {
        StageError::Transient { message } if batch > 1 => StageError::Died { message },
        other => other,
    }
}

/// Calls the function for each item.
struct ItemFunction {
    // Dropped first: the processes use the files of `declared`.
    workers: Workers,
    declared: FunctionDeclaration,
    rejects: bool,
    /// The stage fails if its first items all exceed the time limit; not with `reject-all`.
    judges: bool,
    /// Items that were tried alone without an answer in time; none counts after the first answer.
    late: AtomicUsize,
    has_answered: AtomicBool,
    /// True until an item was repeated alone.
    verifies: AtomicBool,
}

fn open_each(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let rejects = match parameters.text("on_failure")? {
        "reject" | "reject-all" => true,
        "fail" => false,
        other => return Err(unknown_choice("on_failure", other)),
    };
    let declared = FunctionDeclaration::open(&setup, FunctionForm::Items, context)?;
    let workers = Workers::new(
        usize::try_from(parameters.integer("workers")?).unwrap_or(0),
        &parameters.devices("devices")?,
    );
    let verifies = parameters.flag("verify")? && context.kept().is_none();
    let each = ItemFunction {
        workers,
        declared,
        rejects,
        judges: parameters.text("on_failure")? != "reject-all",
        late: AtomicUsize::new(0),
        has_answered: AtomicBool::new(false),
        verifies: AtomicBool::new(verifies),
    };
    // Problems that keep every process from starting are reported before any item waits.
    let mut place = each.workers.take(context)?;
    place.process = Some(each.declared.start(place.device, context)?);
    place.give_back();
    Ok(Job::Item(Box::new(each)))
}

impl ItemJob for ItemFunction {
    fn process(&self, items: &[Item], context: &mut dyn Context) -> Result<Results, StageError> {
        let mut place = self.workers.take(context)?;
        let mut process = match place.process.take() {
            Some(process) => process,
            None => self.declared.start(place.device, context)?,
        };
        let results =
            self.batch(&mut process, items, context).map_err(|error| self.judge(error))?;
        self.has_answered.store(true, Ordering::Relaxed);
        if let Some(item) = items.last()
            && self.verifies.swap(false, Ordering::Relaxed)
        {
            self.repeat(item, results.last(), place.device, context)?;
        }
        place.process = Some(process);
        place.give_back();
        Ok(results)
    }
}

impl ItemFunction {
    /// Waiting for each item of a function that always hangs would take days.
    fn judge(&self, error: StageError) -> StageError {
        let StageError::TimedOut { seconds, said } = &error else { return error };
        if !self.judges || self.has_answered.load(Ordering::Relaxed) {
            return error;
        }
        match self.late.fetch_add(1, Ordering::Relaxed) + 1 {
            LATE => StageError::Unable {
                message: format!(
                    "the first {LATE} items did not finish within {seconds} s each{said}"
                ),
                help: Some("raise `timeout`, or run an item with `throstle replay`".to_owned()),
            },
            _ => error,
        }
    }

    fn batch(
        &self,
        process: &mut Process,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Results, StageError> {
        let folder = process.folder().to_owned();
        let room = Room::of(&folder, &[INPUTS, OUTPUTS]);
        let inputs = Inputs::lay_out(&self.declared, items, &folder, context)?;
        inputs.make_folders()?;
        let number = process.next_request();
        let mut results: Vec<Option<Result<Output, Reject>>> = items.iter().map(|_| None).collect();
        let count = inputs.lines.len();
        if count > 0 {
            inputs.send(process, number, "");
            let limit = OpenRequest::limit(&self.declared, count, process);
            let mut request = OpenRequest { process, items: count, limit };
            let answers = match request.answer(number, &room, context)? {
                Reply::Done { request: of, results } if of == number => results,
                _ => return Err(request.broken("it sent an unexpected answer".to_owned())),
            };
            let answers = by_item(answers, &inputs, context).map_err(|why| match why {
                Some(why) => request.broken(why),
                None => StageError::Stopped,
            })?;
            // A program may have gone on after a failed write.
            room.judge(Ok(())).map_err(fatal)?;
            for (at, answer) in answers {
                results[at] = Some(self.result(answer, at, &folder, &room, items.len())?);
            }
            request.tidy(context)?;
        }
        for (at, reject) in inputs.rejects {
            results[at] = Some(Err(reject));
        }
        let missing = || StageError::failed("an item has no result");
        results.into_iter().map(|result| result.ok_or_else(missing)).collect()
    }

    fn result(
        &self,
        answer: ItemAnswer,
        at: usize,
        folder: &Utf8Path,
        room: &Room,
        batch: usize,
    ) -> Result<Result<Output, Reject>, StageError> {
        match answer {
            ItemAnswer { fields: Some(fields), .. } => {
                match take(&fields, &self.declared.outputs, folder, &out_of(at)) {
                    Ok(values) => Ok(Ok(Output { values, notes: Vec::new() })),
                    Err(AnswerError::Reject(reject)) if self.rejects => Ok(Err(reject)),
                    Err(AnswerError::Reject(reject)) => Err(unable(reject.reason)),
                    Err(AnswerError::Error(error)) => Err(fatal(error)),
                }
            }
            ItemAnswer { reject: Some(reason), .. } => Ok(Err(Reject::new("rejected", reason))),
            ItemAnswer { error: Some(message), memory: true, numbers, .. }
                if numbers.is_empty() =>
            {
                match batch {
                    0 | 1 => Err(StageError::OutOfMemory { message }),
                    // The process has tried the item alone; the next one begins with empty memory.
                    _ => Err(StageError::Died { message }),
                }
            }
            ItemAnswer { error, numbers, .. } => {
                let said = error.unwrap_or_default();
                match of_machine(room, &said, &numbers) {
                    Some(error) => Err(of_one(error, batch)),
                    None => {
                        let reject = Reject::said("python-failed", "the program failed", &said);
                        if self.rejects { Ok(Err(reject)) } else { Err(unable(reject.reason)) }
                    }
                }
            }
        }
    }

    /// Repeats an item alone in a fresh process: it must have the same result.
    fn repeat(
        &self,
        item: &Item,
        known: Option<&Result<Output, Reject>>,
        device: DeviceName,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let mut fresh = self.declared.start(device, context)?;
        let again = self.batch(&mut fresh, std::slice::from_ref(item), context)?;
        let (Some(Ok(known)), Some(Ok(again))) = (known, again.first()) else {
            return if known.map(Result::is_ok) == again.first().map(Result::is_ok) {
                Ok(())
            } else {
                Err(differs("it fails in only one of the two cases"))
            };
        };
        let other = known.values.iter().zip(&again.values).find(|(one, two)| one != two);
        match other {
            None => Ok(()),
            Some(((name, _), _)) => Err(differs(&format!("the output `{name}` differs"))),
        }
    }
}

fn differs(how: &str) -> StageError {
    StageError::Unable {
        message: format!("an item alone in a fresh process gives another result: {how}"),
        help: Some(
            "use `item.seed` for random numbers, and keep no state between items".to_owned(),
        ),
    }
}

fn unable(message: String) -> StageError {
    StageError::Unable { message, help: None }
}

/// The answers by the position of their items. None: the request was cancelled.
fn by_item(
    answers: Vec<ItemAnswer>,
    inputs: &Inputs,
    context: &mut dyn Context,
) -> Result<Vec<(usize, ItemAnswer)>, Option<String>> {
    let mut awaited: BTreeMap<&str, usize> =
        inputs.lines.iter().map(|(at, line)| (line.id.as_str(), *at)).collect();
    let mut found = Vec::new();
    for answer in answers {
        let results = [answer.fields.is_some(), answer.reject.is_some(), answer.error.is_some()];
        if results.into_iter().filter(|is_there| *is_there).count() != 1 {
            return Err(Some("it returned no result or several for an item".to_owned()));
        }
        match awaited.remove(answer.id.as_str()) {
            Some(at) => found.push((at, answer)),
            None => return Err(Some("it returned a result for an unknown item".to_owned())),
        }
    }
    if awaited.is_empty() {
        Ok(found)
    } else if context.stopping() {
        Err(None)
    } else {
        Err(Some(format!("results missing: {}", awaited.len())))
    }
}

/// Calls the function once.
struct All {
    declared: FunctionDeclaration,
    device: DeviceName,
}

fn open_all(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let declared = FunctionDeclaration::open(&setup, FunctionForm::All, context)?;
    let devices = setup.parameters.devices("devices")?;
    let device = devices.first().copied().unwrap_or(DeviceName::CPU);
    Ok(Job::Gather(Box::new(All { declared, device })))
}

impl GatherJob for All {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = match input.ports.get("input").and_then(|inputs| inputs.first()) {
            Some(PortInput::Dataset { items, .. }) => items.as_slice(),
            _ => &[],
        };
        let mut process = self.declared.start(self.device, context)?;
        let folder = process.folder().to_owned();
        let gathered = GatheredInputs::lay_out(items, &self.declared.fields, &folder, context)?;
        let output = self.output(&mut process, items, &gathered, context)?;
        drop(process);
        gathered.keep();
        Ok(output)
    }
}

impl All {
    fn output(
        &self,
        process: &mut Process,
        items: &[Item],
        gathered: &GatheredInputs<'_>,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let folder = process.folder().to_owned();
        let room = Room::of(&folder, &[INPUTS, OUTPUTS]);
        let inputs = Inputs::new(&self.declared, items, &folder, &gathered.files);
        if let Some((at, reject)) = inputs.rejects.first() {
            return Err(StageError::failed(format!("item `{}`: {}", items[*at].id, reject.reason)));
        }
        let out = Utf8Path::new(OUTPUTS).join(WHOLE);
        create(&folder.join(&out))?;
        let number = process.next_request();
        inputs.send(process, number, folder.join(&out).as_str());
        let limit = self.declared.timeout;
        let mut request = OpenRequest { process, items: 1, limit };
        match request.answer(number, &room, context)? {
            Reply::Made { request: of, fields, items: kept } if of == number => {
                room.judge(Ok(())).map_err(fatal)?;
                let whole = take(&fields, &self.declared.outputs, &folder, &out);
                let artifact = PortOutput::Artifact(whole.map_err(answer_error)?);
                let dataset = self.items(&kept, items, &folder, &out)?;
                let output = GatherOutput::default().with("output", artifact);
                Ok(output.with("items", PortOutput::Dataset(dataset)))
            }
            Reply::Failed { request: of, reason, memory, numbers } if of == number => {
                if memory && numbers.is_empty() {
                    return Err(StageError::OutOfMemory { message: reason });
                }
                let failed = || StageError::failed(format!("the program failed: {reason}"));
                Err(of_machine(&room, &reason, &numbers).unwrap_or_else(failed))
            }
            _ => Err(request.broken("it sent an unexpected answer".to_owned())),
        }
    }

    fn items(
        &self,
        kept: &[DatasetAnswer],
        items: &[Item],
        folder: &Utf8Path,
        out: &Utf8Path,
    ) -> Result<Vec<NewItem>, StageError> {
        let mut ids = BTreeSet::new();
        let each = |one: &DatasetAnswer| {
            if one.id.is_empty() || !ids.insert(one.id.clone()) {
                let message =
                    format!("two items of the program have the id `{}`, or it is empty", one.id);
                return Err(StageError::failed(message));
            }
            let was = one.handle.as_ref().and_then(|handle| handle.parse::<usize>().ok());
            let was = was.and_then(|at| items.get(at));
            let mut item = NewItem { id: one.id.clone(), values: Vec::new() };
            if let Some(was) = was {
                item.values = NewItem::kept(was).values;
            }
            let own = take(&one.fields, &self.declared.item_outputs, folder, out)
                .map_err(answer_error)?;
            Ok(own.into_iter().fold(item, |item, (name, value)| item.with(&name, value)))
        };
        kept.iter().map(each).collect()
    }
}

fn answer_error(answer_error: AnswerError) -> StageError {
    match answer_error {
        AnswerError::Reject(reject) => StageError::failed(reject.reason),
        AnswerError::Error(error) => fatal(error),
    }
}
