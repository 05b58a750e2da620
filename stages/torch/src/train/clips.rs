//! The clips of a training: without duplicates, with held-out ones, in a stable order.

use std::collections::BTreeSet;

use stage_core::{Context, GatherInput, Item, PortInput, Reject, StageError};
use stage_families::clips::{held_out, repeats, repeats_note};

use super::notes::Notes;
use super::order::ClipEntry;

/// A clip in training, with the content that its model takes.
#[derive(Clone, Debug)]
pub struct TrainingClip<C> {
    pub entry: ClipEntry,
    /// The start of its text, which names it in messages.
    pub begin: String,
    pub content: C,
}

/// The clips of a training, and the reports on the others.
#[derive(Debug)]
pub struct Clips<C> {
    pub clips: Vec<TrainingClip<C>>,
    /// The held-out clips.
    pub held_out: Vec<bool>,
    pub aside: UnusableClips,
    /// The number of items that are not among the clips.
    pub left_out: u64,
    pub notes: Notes,
}

/// Unusable clips, by their index on each port.
#[derive(Debug, Default)]
pub struct UnusableClips {
    validation: Vec<(usize, Reject)>,
    training: Vec<(usize, Reject)>,
}

impl UnusableClips {
    /// Reports them before the training begins; an error if there are too many.
    pub fn tell(self, context: &mut dyn Context) -> Result<(), StageError> {
        for (port, rejects) in [(VALIDATION, self.validation), (TRAINING, self.training)] {
            if !rejects.is_empty() {
                context.set_aside(port, rejects)?;
            }
        }
        Ok(())
    }

    fn of(&mut self, is_held: bool) -> &mut Vec<(usize, Reject)> {
        if is_held { &mut self.validation } else { &mut self.training }
    }
}

/// The ports of clips.
const TRAINING: &str = "input";
const VALIDATION: &str = "validation";

/// The sources of clips, and the selection of held-out ones.
pub struct Sides<'a> {
    pub training: &'a [Item],
    pub validation: Option<&'a [Item]>,
    /// The held-out share if there is no validation port.
    pub fraction: f64,
    /// Separates the draw of held-out clips from other uses of the hash.
    pub salt: &'a str,
}

impl<'a> Sides<'a> {
    /// The ports `input` and `validation`.
    pub fn of(
        input: &'a GatherInput,
        fraction: f64,
        salt: &'a str,
    ) -> Result<Sides<'a>, StageError> {
        let validation = input.ports.get(VALIDATION).and_then(|ports| match ports.first()? {
            PortInput::Dataset { items, .. } => Some(items.as_slice()),
            PortInput::Artifact { .. } | PortInput::Sums { .. } => None,
        });
        Ok(Sides { training: input.items(TRAINING)?, validation, fraction, salt })
    }

    /// All items as clips, except those that `read` refuses.
    pub fn clips<C>(
        &self,
        mut read: impl FnMut(&Item, &mut Notes) -> Result<Result<TrainingClip<C>, Reject>, StageError>,
    ) -> Result<Clips<C>, StageError> {
        let mut clips = Clips::none();
        let (mut known, mut sources) = (BTreeSet::new(), Vec::new());
        // Held-out clips first, so that one that is on both sides stays held out.
        let validation = self.validation.unwrap_or_default().iter().enumerate();
        let training = self.training.iter().enumerate().map(|(at, item)| (at, item, false));
        let all = validation.map(|(at, item)| (at, item, true)).chain(training);
        for (at, item, is_held) in all {
            let clip = match read(item, &mut clips.notes)? {
                Ok(clip) => clip,
                Err(reject) => {
                    clips.left_out += 1;
                    clips.aside.of(is_held).push((at, reject));
                    continue;
                }
            };
            if !known.insert(clip.entry.id.clone()) {
                clips.left_out += 1;
                clips.notes.add("duplicate clips, left out", 1);
                continue;
            }
            clips.clips.push(clip);
            clips.held_out.push(is_held);
            sources.push(item);
        }
        if self.validation.is_none() {
            let ids: Vec<&str> = clips.clips.iter().map(|clip| &*clip.entry.id).collect();
            clips.held_out = held_out(&ids, self.fraction, self.salt);
        }
        let held = clips.held_out.iter().filter(|held| **held).count() as u64;
        note_repeats(&sources, &clips.held_out, &mut clips.notes);
        clips.notes.add("clips held out", held);
        clips.notes.add("clips trained on", clips.clips.len() as u64 - held);
        Ok(clips)
    }
}

/// Notes held-out clips with the sound of a training clip, which have another text or speaker: their
/// loss is too low.
fn note_repeats(items: &[&Item], held_out: &[bool], notes: &mut Notes) {
    let blob = |item: &Item, field| item.fields.blob(field).map(|blob| blob.digest);
    let sound = |item: &Item| blob(item, "audio").or_else(|| blob(item, "tokens"));
    let clips = items.iter().zip(held_out);
    let found = repeats(clips.map(|(item, is_held)| (&*item.id, sound(item), *is_held)));
    if let Some((first, original)) = found.first() {
        notes.add(&repeats_note(&items[*first].id, original), found.len() as u64);
    }
}

impl<C> Clips<C> {
    fn none() -> Clips<C> {
        let (clips, held_out) = (Vec::new(), Vec::new());
        Clips {
            clips,
            held_out,
            aside: UnusableClips::default(),
            left_out: 0,
            notes: Notes::default(),
        }
    }

    /// Refuses clips that are all held out.
    pub fn with_some_to_train_on(self) -> Result<Clips<C>, StageError> {
        if self.held_out.iter().any(|held| !held) {
            return Ok(self);
        }
        let held = self.held_out.len();
        Err(StageError::with_help(
            format!("there are no clips to train on: {held} are held out, and none is left"),
            "check the quarantined clips; at least one clip must stay for training",
        ))
    }

    /// The properties of the clips that the order depends on.
    pub fn order(&self) -> Vec<ClipEntry> {
        self.clips.iter().map(|clip| clip.entry.clone()).collect()
    }

    /// A few clips to check before training: held-out ones if there are any, independent of the
    /// order in which clips arrived.
    pub fn sample(&self, count: usize) -> Clips<C>
    where
        C: Clone,
    {
        let mut chosen: Vec<usize> = (0..self.clips.len()).collect();
        chosen.sort_by_key(|at| (!self.held_out[*at], &self.clips[*at].entry.id));
        chosen.truncate(count);
        let clips: Vec<_> = chosen.into_iter().map(|at| self.clips[at].clone()).collect();
        Clips { held_out: vec![false; clips.len()], clips, ..Clips::none() }
    }
}

/// A clip lacks what the stage reads of it.
pub fn missing(item: &Item, field: &str) -> StageError {
    let message = format!("the clip `{}` has no `{field}`", item.id);
    let help = match field {
        "tokens" => {
            "read the clips from the stage that makes their tokens: `vq.encode`, or `vq.adopt` \
             for tokens of another tool"
        }
        _ => "read the clips from a stage that has it; `throstle items STAGE` lists fields",
    };
    StageError::with_help(message, help)
}

/// The start of a text, long enough to identify it.
pub fn begin(text: &str) -> String {
    text.chars().take(40).collect()
}
