//! What training takes on its device, from the sizes of a model alone: no weights are needed, and
//! nothing is computed.

use stage_core::{Parameters, StageError};

/// A model that can be trained.
pub trait Trainable {
    /// How clips become rows, under the parameters of a training.
    fn rows(&self, parameters: &Parameters) -> Rows;

    /// Memory of a step at its worst moment.
    fn memory(&self, setting: &Setting) -> Memory;

    /// Time of one batch with its backward pass.
    fn effort(&self, setting: &Setting) -> Effort;
}

/// How clips become the rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows {
    /// One clip a row, at most as long as the parameter `max_seconds` says.
    Clips,
    /// Rows of tokens, at most as many as the parameter `max_length` says.
    Tokens(TokenRows),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRows {
    /// Tokens of the longest row that the model takes.
    pub longest: i64,
    /// Tokens of each clip beside its text and its frames.
    pub per_clip: f64,
    /// How full rows are of whole clips; none: each row has one clip.
    pub filled: Option<f64>,
    /// The assumption behind this, as a plan tells it.
    pub told: &'static str,
}

/// The work of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effort {
    /// Floating-point operations.
    Operations(f64),
    /// Seconds on a GPU of speed 1, and the assumption behind them.
    Seconds { seconds: f64, told: &'static str },
}

/// How a model is trained, as far as its memory and its arithmetic depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Rows, or clips, that are computed at a time.
    pub rows: i64,
    /// The length of a row in tokens.
    pub length: i64,
    /// The mean length of a clip.
    pub clip_seconds: f64,
    /// bf16 or fp16, with f32 copies for the optimiser.
    pub is_half: bool,
    /// Layers are computed anew on the way back.
    pub checkpointing: bool,
    /// Small matrices are trained and the weights are not.
    pub adapters: Option<Adapters>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    pub rank: i64,
    /// Of the modules that get one; `*` stands for anything.
    pub patterns: Vec<String>,
}

impl Setting {
    /// From the parameters of a training, which says nothing of its clips.
    ///
    /// # Errors
    ///
    /// When the stage has no parameter `batch`, or none of the ones that adapters need.
    pub fn read(
        parameters: &Parameters,
        trains_adapters: bool,
        is_gpu: bool,
    ) -> Result<Setting, StageError> {
        Ok(Setting {
            rows: parameters.integer("batch")?,
            length: 1,
            clip_seconds: 0.0,
            is_half: match parameters.text("precision").unwrap_or("auto") {
                "auto" => is_gpu,
                precision => matches!(precision, "bf16" | "fp16"),
            },
            checkpointing: parameters.flag("gradient_checkpointing").unwrap_or(false),
            adapters: match trains_adapters {
                true => Some(Adapters::read(parameters)?),
                false => None,
            },
        })
    }

    /// Bytes of a value in what is computed in.
    pub fn width(&self) -> f64 {
        if self.is_half { 2.0 } else { F32 }
    }
}

impl Adapters {
    fn read(parameters: &Parameters) -> Result<Adapters, StageError> {
        let patterns = parameters.texts("modules")?;
        let patterns = patterns.into_iter().map(str::to_owned).collect();
        Ok(Adapters { rank: parameters.integer("rank")?, patterns })
    }
}

pub(crate) const F32: f64 = 4.0;

/// Bytes at the worst moment of a step, by what takes them; of the program itself nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    pub weights: f64,
    pub gradients: f64,
    /// The two moments of AdamW and, where weights are not f32, the f32 copies.
    pub optimizer: f64,
    /// What the way back needs of the way there.
    pub activations: f64,
    /// Of the pieces that have logits at a time, with their gradients.
    pub logits: f64,
}

impl Memory {
    pub fn total(&self) -> f64 {
        self.weights + self.gradients + self.optimizer + self.activations + self.logits
    }

    /// Of a model with so many frozen and so many trained values.
    pub(crate) fn of_values(frozen: f64, trained: f64, setting: &Setting) -> Memory {
        let copies = if setting.is_half { F32 } else { 0.0 };
        Memory {
            weights: (frozen + trained) * setting.width(),
            gradients: trained * setting.width(),
            optimizer: trained * (2.0 * F32 + copies),
            ..Memory::default()
        }
    }
}
