//! Two steps of a training in memory, straight and with a stop between them, which must come to
//! the same; afterwards the model is as it was.

use stage_core::StageError;
use tch::Tensor;

use crate::error::TorchError;
use crate::train::run::{Data, Job, Trained, train};
use crate::train::schedule::Decay;
use crate::train::settings::Checkpoints;
use crate::train::{Checkpoint, Host, Settings, Trainee, order, replicas};

const STEPS: u64 = 2;

/// By how much the weights may differ, in relation to the largest one, where the device does not
/// add in the same order each time.
const SAME_WEIGHTS: f64 = 1e-2;

pub fn rehearse<T: Trainee, D: Data<T::Batch>>(
    models: &mut [T],
    data: &D,
    clips: &[order::Clip],
    settings: &Settings,
) -> Result<(), StageError> {
    let settings = shortened(settings);
    let parameters = models[0].parameters();
    let start: Vec<Tensor> = parameters.iter().map(|(_, tensor)| tensor.detach().copy()).collect();
    let result = compare(models, data, clips, &settings, &start);
    put_back(&models[0].parameters(), &start)?;
    replicas::share_weights(models)?;
    replicas::clear_gradients(models);
    result
}

/// Moves from the first step on, and does nothing but steps.
fn shortened(settings: &Settings) -> Settings {
    let mut short = settings.clone();
    short.steps = STEPS;
    (short.rows, short.accumulate) = (settings.rows.min(2), 1);
    (short.schedule.warm_up, short.schedule.decay) = (0, Decay::Constant);
    (short.early_stop, short.keep_best, short.keep_kind) = (None, 0, None);
    short.checkpoint = Checkpoints::default();
    short.report_every = 1;
    short
}

fn compare<T: Trainee, D: Data<T::Batch>>(
    models: &mut [T],
    data: &D,
    clips: &[order::Clip],
    settings: &Settings,
    start: &[Tensor],
) -> Result<(), StageError> {
    let run = |models: &mut [T], host: &mut Memory| {
        put_back(&models[0].parameters(), start)?;
        let held_out = vec![false; clips.len()];
        train(Job { replicas: models, data, clips, held_out: &held_out, settings }, host)
    };
    let mut straight = Memory::default();
    let one = run(models, &mut straight)?;
    if one.last.iter().any(|(_, kept)| !is_finite(&straight.tensors[*kept])) {
        return Err(StageError::with_help(
            "a step of training gave weights that are no numbers",
            "a lower `learning_rate` or `precision = \"f32\"` may help",
        ));
    }
    let mut stopped = Memory { stop_after: Some(1), ..Memory::default() };
    match run(models, &mut stopped) {
        Err(StageError::Stopped) => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(not_resumed("it did not stop when it was told to")),
    }
    stopped.stop_after = None;
    let other = run(models, &mut stopped)?;
    let is_exact = start.iter().all(|tensor| !tensor.device().is_cuda());
    same(&one, &straight, &other, &stopped, is_exact)
}

fn same(
    one: &Trained<usize>,
    straight: &Memory,
    other: &Trained<usize>,
    resumed: &Memory,
    is_exact: bool,
) -> Result<(), StageError> {
    for ((name, left), (_, right)) in one.last.iter().zip(&other.last) {
        let (left, right) = (&straight.tensors[*left], &resumed.tensors[*right]);
        let is_same = left.equal(right) || (!is_exact && is_near(left, right));
        if !is_same {
            let why = format!("`{name}` differs from that of a run without a stop");
            return Err(not_resumed(&why));
        }
    }
    Ok(())
}

fn not_resumed(why: &str) -> StageError {
    StageError::with_help(
        format!("a training that is stopped would not go on as it should: {why}"),
        "this is a defect: please report it, with the device and the parameters",
    )
}

fn is_finite(tensor: &Tensor) -> bool {
    tensor.isfinite().all().int64_value(&[]) == 1
}

fn is_near(left: &Tensor, right: &Tensor) -> bool {
    let size = left.abs().max().double_value(&[]);
    (left - right).abs().max().double_value(&[]) <= SAME_WEIGHTS * size
}

fn put_back(parameters: &[(String, Tensor)], start: &[Tensor]) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    for ((_, parameter), start) in parameters.iter().zip(start) {
        parameter.shallow_clone().f_copy_(start)?;
    }
    Ok(())
}

/// Keeps all in memory.
#[derive(Default)]
struct Memory {
    tensors: Vec<Tensor>,
    last: Option<Checkpoint<usize>>,
    stop_after: Option<u64>,
    step: u64,
}

impl Host for Memory {
    type Kept = usize;

    fn keep(&mut self, tensor: &Tensor) -> Result<usize, StageError> {
        self.tensors.push(tensor.detach().copy());
        Ok(self.tensors.len() - 1)
    }

    fn recall(&mut self, kept: &usize) -> Result<Tensor, StageError> {
        let tensor = self.tensors.get(*kept).map(Tensor::shallow_clone);
        tensor.ok_or_else(|| StageError::failed("a tensor of the rehearsal is gone"))
    }

    fn commit(&mut self, checkpoint: &Checkpoint<usize>) -> Result<(), StageError> {
        self.last = Some(checkpoint.clone());
        Ok(())
    }

    fn last(&mut self) -> Result<Option<Checkpoint<usize>>, StageError> {
        Ok(self.last.clone())
    }

    fn stopping(&mut self) -> bool {
        self.stop_after.is_some_and(|step| self.step >= step)
    }

    fn report(&mut self, step: u64, _: &[(&str, f64)]) {
        self.step = step;
    }

    fn seconds(&mut self) -> f64 {
        0.0
    }
}
