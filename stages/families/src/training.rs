//! The cost of training on its device, from the sizes of a model alone: no weights are needed, and
//! nothing is computed.

use cache::Digest;
use stage_core::{Fields, Parameters, StageError};
use stage_formats::pattern::is_match;
use stage_formats::shapes::Expected;

use crate::scope::parameters;

/// Models with fewer parameters run on one thread of the CPU: sharing such small products among
/// threads costs more than it saves, and many times more on busy cores.
pub const SHARED_FROM: i64 = 50_000_000;

/// A model that can be trained.
pub trait Trainable {
    /// The conversion of clips to rows, under the parameters of a training.
    fn rows(&self, parameters: &Parameters) -> Rows;

    /// The peak memory of a step.
    fn memory(&self, setting: &Setting) -> Memory;

    /// Time of one batch with its backward pass.
    fn effort(&self, setting: &Setting) -> Effort;

    /// The identity of a clip, by which it is held out; none if a training cannot read it.
    fn clip(&self, parameters: &Parameters, fields: &Fields) -> Option<Digest>;

    /// Separates the draw of held-out clips from other uses of the hash.
    fn clip_salt(&self) -> &'static str;

    /// True if a worker on the CPU trains it on one thread.
    fn is_small(&self) -> bool {
        false
    }

    /// Time to speak a clip as a sample of a validation, in rows of a batch; 0 without samples.
    fn rows_of_sample(&self, _setting: &Setting) -> f64 {
        0.0
    }
}

/// The conversion of clips to the rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows {
    /// One clip per row, at most as long as the parameter `max_seconds`.
    Clips,
    /// Rows of tokens, at most as many as the parameter `max_length`.
    Tokens(TokenRows),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRows {
    /// Tokens of the longest row that the model accepts.
    pub longest: i64,
    /// Tokens of each clip beside its text and its frames.
    pub per_clip: f64,
    /// The filled share of rows of whole clips; None: one clip per row.
    pub filled: Option<f64>,
    /// The assumption behind this, as shown in a plan.
    pub told: &'static str,
}

/// The work of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effort {
    /// Floating-point operations.
    Operations(f64),
    /// Seconds on a GPU of speed 1, those on a CPU core, and the assumption behind both.
    Seconds { seconds: f64, on_core: f64, told: &'static str },
}

/// The settings of a training that affect its memory and its arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Rows, or clips, per batch.
    pub rows: i64,
    /// The length of a row in tokens.
    pub length: i64,
    /// The mean length of a clip.
    pub clip_seconds: f64,
    /// bf16 or fp16, with f32 copies for the optimiser.
    pub is_half: bool,
    /// Layers are recomputed in the backward pass.
    pub checkpointing: bool,
    /// Small matrices are trained instead of the weights.
    pub adapters: Option<Adapters>,
    /// Patterns of the tensors that are not trained; `*` stands for anything.
    pub frozen: Vec<String>,
    /// The weights of attention are kept for the backward pass: no fused kernel has dropout. Only
    /// models with dropout of attention use this.
    pub keeps_attention: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Adapters {
    pub rank: i64,
    /// Patterns for the adapted modules; `*` means any characters.
    pub patterns: Vec<String>,
}

impl Setting {
    /// From the parameters of a training, without its clips.
    ///
    /// # Errors
    ///
    /// If the stage has no parameter `batch`, or lacks one that adapters need.
    pub fn read(
        parameters: &Parameters,
        trains_adapters: bool,
        is_gpu: bool,
    ) -> Result<Setting, StageError> {
        let is_half = match parameters.text("precision").unwrap_or("auto") {
            "auto" => is_gpu,
            precision => matches!(precision, "bf16" | "fp16"),
        };
        Ok(Setting {
            rows: parameters.integer("batch")?,
            length: 1,
            clip_seconds: 0.0,
            is_half,
            checkpointing: parameters.flag("gradient_checkpointing").unwrap_or(false),
            adapters: match trains_adapters {
                true => Some(Adapters::read(parameters)?),
                false => None,
            },
            frozen: parameters.texts("freeze").map(to_owned).unwrap_or_default(),
            keeps_attention: keeps_attention(parameters, is_half),
        })
    }

    /// True if a tensor is trained or has an adapter.
    pub(crate) fn is_trained(&self, name: &str) -> bool {
        match &self.adapters {
            Some(adapters) => {
                let module = name.strip_suffix(".weight").unwrap_or(name);
                adapters.patterns.iter().any(|pattern| is_match(pattern, module))
            }
            None => !self.frozen.iter().any(|pattern| is_match(pattern, name)),
        }
    }

    /// The sum of `of` over the shapes of all matrices below a prefix that have an adapter.
    pub(crate) fn sum_of_adapted(
        &self,
        tensors: &[Expected],
        prefix: &str,
        of: impl Fn(&[i64]) -> i64,
    ) -> f64 {
        let is_adapted = |(name, shape): &&Expected| {
            let is_matrix = self.adapters.is_some() && shape.len() == 2;
            is_matrix && name.starts_with(prefix) && self.is_trained(name)
        };
        tensors.iter().filter(is_adapted).map(|(_, shape)| of(shape) as f64).sum()
    }

    /// Bytes of a value in the compute type.
    pub fn width(&self) -> f64 {
        if self.is_half { 2.0 } else { F32 }
    }
}

impl Adapters {
    fn read(parameters: &Parameters) -> Result<Adapters, StageError> {
        let patterns = to_owned(parameters.texts("modules")?);
        Ok(Adapters { rank: parameters.integer("rank")?, patterns })
    }
}

fn keeps_attention(parameters: &Parameters, is_half: bool) -> bool {
    let dropout = ["attention_dropout", "dropout"].iter().find_map(|name| {
        parameters.is_set(name).then(|| parameters.number(name)).and_then(Result::ok)
    });
    let is_plain = match parameters.text("attention") {
        Ok("math") => true,
        // Only for half precision.
        Ok("flash") => !is_half,
        _ => false,
    };
    is_plain || dropout.is_some_and(|probability| probability > 0.0)
}

fn to_owned(patterns: Vec<&str>) -> Vec<String> {
    patterns.into_iter().map(str::to_owned).collect()
}

pub(crate) const F32: f64 = 4.0;

/// Bytes of a step by purpose, without the memory of the program itself. Gradients are made in the
/// backward pass, which frees activations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    pub weights: f64,
    pub gradients: f64,
    /// The two moments of AdamW, and the f32 copies if weights are not f32.
    pub optimizer: f64,
    /// Activations at the start of the backward pass.
    pub activations: f64,
    /// Logits of one chunk, with their gradients.
    pub logits: f64,
    /// Activations of the last block of the backward pass.
    pub block: f64,
    /// Freed memory that the C library keeps between tensors on a CPU.
    pub kept: f64,
}

impl Memory {
    /// The peak of a step of one batch.
    pub fn total(&self) -> f64 {
        self.states() + (self.activations + self.logits).max(self.gradients + self.block)
    }

    /// The peak of a step of several batches: their gradients are summed up.
    pub fn total_of_several(&self) -> f64 {
        self.states() + self.gradients + (self.activations + self.logits).max(self.block)
    }

    fn states(&self) -> f64 {
        self.weights + self.optimizer
    }

    /// For a model with these tensors.
    pub(crate) fn of(tensors: &[Expected], setting: &Setting) -> Memory {
        let all = parameters(tensors) as f64;
        match &setting.adapters {
            None => {
                let trained = tensors.iter().filter(|(name, _)| setting.is_trained(name));
                let trained = parameters(trained) as f64;
                Memory::of_values(all - trained, trained, setting)
            }
            Some(Adapters { rank, .. }) => {
                let values = |shape: &[i64]| rank * (shape[0] + shape[1]);
                Memory::of_values(all, setting.sum_of_adapted(tensors, "", values), setting)
            }
        }
    }

    /// For a model with these numbers of frozen and trained values.
    pub(crate) fn of_values(frozen: f64, trained: f64, setting: &Setting) -> Memory {
        let copies = if setting.is_half { F32 } else { 0.0 };
        Memory {
            weights: (frozen + trained) * setting.width(),
            // Summed up in f32 in every precision.
            gradients: trained * F32,
            optimizer: trained * (2.0 * F32 + copies),
            ..Memory::default()
        }
    }
}
