//! A rehearsal: the first step of a training, saved and restored, and the second one after it, as
//! after a stop and a resume. Afterwards the model is as before.
//!
//! Stored tensors go to files, one by one, as in a checkpoint, so that a rehearsal needs no more
//! memory than the training itself; on the disk it needs the space of a checkpoint and of the
//! weights.

mod disk;

use cache::fs::{Fs, FsError, RealFs};
use camino::Utf8Path;
use stage_core::{Blob, Context, StageError};
use tch::Kind;

use self::disk::{Disk, Keeps};
use super::frozen::{check_frozen, digests};
use super::order::ClipEntry;
use super::run::{Data, TrainingJob, rehearse as to_the_end, resumed_state};
use super::schedule::Decay;
use super::settings::Checkpoints;
use super::{Checkpoint, Host, Settings, Trainee, replicas};

const STEPS: u64 = 2;

/// The relative tolerance of the second step's loss on devices that do not sum in a fixed order.
const SAME_LOSS: f64 = 1e-2;

/// The folder of the files, below the one from the context.
const FOLDER: &str = "rehearsal";

/// # Errors
///
/// If the second step differs, or if a frozen tensor has changed.
pub fn rehearse<T: Trainee>(
    models: &mut [T],
    data: &dyn Data<T::Batch>,
    clips: &[ClipEntry],
    settings: &Settings,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let is_exact = !models.iter().any(on_gpu);
    let before = digests(models[0].frozen())?;
    rehearse_as(is_exact, models, data, clips, settings, context)?;
    check_frozen(&before, &digests(models[0].frozen())?)
}

/// `is_exact`: the same work gives the same bits.
pub(super) fn rehearse_as<T: Trainee>(
    is_exact: bool,
    models: &mut [T],
    data: &dyn Data<T::Batch>,
    clips: &[ClipEntry],
    settings: &Settings,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let folder = context.scratch()?.join(FOLDER);
    // Remains of an interrupted rehearsal.
    RealFs.remove_dir_all(&folder).and_then(|()| RealFs.create_dir(&folder)).map_err(not_kept)?;
    let settings = shortened(settings);
    let mut rehearsal = Rehearsal { is_exact, models, data, clips, settings: &settings };
    let result = rehearsal.play(&folder, context);
    replicas::clear_gradients(rehearsal.models);
    // Remaining files are swept with the parent folder.
    let _ = RealFs.remove_dir_all(&folder);
    result
}

/// The full rate from the first step on, and nothing but steps.
fn shortened(settings: &Settings) -> Settings {
    let mut short = settings.clone();
    (short.steps, short.until) = (STEPS, None);
    (short.rows, short.accumulate) = (settings.rows.min(2), 1);
    (short.schedule.warm_up, short.schedule.decay) = (0, Decay::Constant);
    (short.early_stop, short.keep_best, short.keep_kind) = (None, 0, None);
    short.checkpoint = Checkpoints::default();
    (short.record_every, short.report_every) = (1, 1);
    short
}

struct Rehearsal<'a, T: Trainee> {
    is_exact: bool,
    models: &'a mut [T],
    data: &'a dyn Data<T::Batch>,
    clips: &'a [ClipEntry],
    settings: &'a Settings,
}

impl<T: Trainee> Rehearsal<'_, T> {
    fn play(&mut self, folder: &Utf8Path, context: &mut dyn Context) -> Result<(), StageError> {
        let mut disk = Disk::new(folder);
        let parameters = self.models[0].parameters();
        let start: Vec<Blob> =
            parameters.iter().map(|(_, tensor)| disk.keep(tensor)).collect::<Result<_, _>>()?;
        let result = self.compare(&start, &mut disk, context);
        self.put_back(&start, &mut disk)?;
        result
    }

    fn compare(
        &mut self,
        start: &[Blob],
        disk: &mut Disk,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        disk.stop_after = Some(1);
        match self.run(disk) {
            Err(StageError::Stopped) => disk.stop_after = None,
            Err(error) => return Err(error),
            Ok(()) => return Err(not_resumed("it did not stop on request")),
        }
        go_on(context)?;
        // Other weights, so that those of the checkpoint have to be restored.
        self.put_back(start, disk)?;
        let saved = disk.saved()?;
        let again = resumed_state(self.job(), disk)?;
        check_same(&saved, &again, "changed between saving and loading")?;
        go_on(context)?;
        // Only compared tensors are needed from here on.
        disk.keeps = if self.is_exact { Keeps::Digest } else { Keeps::Nothing };
        self.run(disk)?;
        self.check_finite()?;
        go_on(context)?;
        self.put_back(start, disk)?;
        let mut straight = Disk::new(&disk.folder);
        straight.keeps = disk.keeps;
        self.run(&mut straight)?;
        if !self.is_exact {
            return check_same_loss(straight.loss, disk.loss);
        }
        check_same(&straight.saved()?, &disk.saved()?, "differs from a run without a stop")
    }

    fn check_finite(&self) -> Result<(), StageError> {
        for (_, tensor) in self.models[0].parameters() {
            // A sum is not finite if one of its terms is not; testing each term would need as much
            // memory as the tensor.
            if !tensor.sum(Kind::Float).double_value(&[]).is_finite() {
                return Err(not_finite("weights that are not finite"));
            }
        }
        Ok(())
    }

    fn job(&mut self) -> TrainingJob<'_, T> {
        let (data, clips, settings) = (self.data, self.clips, self.settings);
        TrainingJob { replicas: self.models, data, clips, held_out: &[], settings }
    }

    fn run(&mut self, disk: &mut Disk) -> Result<(), StageError> {
        to_the_end(self.job(), disk)
    }

    fn put_back(&mut self, start: &[Blob], disk: &mut Disk) -> Result<(), StageError> {
        let _guard = tch::no_grad_guard();
        for ((_, parameter), kept) in self.models[0].parameters().iter().zip(start) {
            let tensor = disk.recall(kept)?;
            parameter.shallow_clone().copy_(&tensor);
        }
        replicas::share_weights(self.models);
        Ok(())
    }
}

fn on_gpu<T: Trainee>(model: &T) -> bool {
    model.parameters().iter().any(|(_, tensor)| tensor.device().is_cuda())
}

/// Checks for a stop request between two parts.
fn go_on(context: &mut dyn Context) -> Result<(), StageError> {
    if context.stopping() { Err(StageError::Stopped) } else { Ok(()) }
}

/// Compares two states, to the bit.
fn check_same(one: &Checkpoint, other: &Checkpoint, how: &str) -> Result<(), StageError> {
    let mut pairs = one.tensors.iter().zip(&other.tensors);
    if let Some(((name, _), _)) = pairs.find(|(one, other)| one != other) {
        return Err(not_resumed(&format!("`{name}` {how}")));
    }
    if one.tensors.len() == other.tensors.len() && one.state == other.state {
        Ok(())
    } else {
        Err(not_resumed(&format!("its position in the data {how}")))
    }
}

fn check_same_loss(one: f64, other: f64) -> Result<(), StageError> {
    if !(one.is_finite() && other.is_finite()) {
        return Err(not_finite("a loss that is not finite"));
    }
    if (one - other).abs() <= SAME_LOSS * one.abs() {
        Ok(())
    } else {
        Err(not_resumed(&format!(
            "the loss of its second step is {other}, but {one} without a stop"
        )))
    }
}

fn not_finite(what: &str) -> StageError {
    StageError::with_help(
        format!("a training step produced {what}"),
        "a lower `learning_rate` or `precision = \"f32\"` may help",
    )
}

fn not_resumed(why: &str) -> StageError {
    StageError::with_help(
        format!("a stopped training would not resume correctly: {why}"),
        "this is a bug: please report it, with the device and the parameters",
    )
}

fn not_kept(error: FsError) -> StageError {
    let message = format!("a checkpoint cannot be saved: {error}: {}", error.source);
    let advice = "a training needs space for three checkpoints on the disk of the cache";
    match error.machine_fault() {
        Some(_) => StageError::of_io(format!("{message}; {advice}"), &error.source),
        None => StageError::with_help(message, advice),
    }
}
