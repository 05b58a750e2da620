//! What training takes on its device, from the sizes of a model alone: no weights are needed, and
//! nothing is computed.

/// How a model is trained, as far as its memory and its arithmetic depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Rows, or clips, that are computed at a time.
    pub rows: i64,
    /// The length of a row in tokens.
    pub length: i64,
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
    /// Bytes of a value in what is computed in.
    pub fn width(&self) -> f64 {
        if self.is_half { 2.0 } else { F32 }
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
