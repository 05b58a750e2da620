//! What a kind of stage costs before it was ever measured: rough speeds with their origin. They
//! enter no key, and give way to what is measured.

/// The cost model of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    Unknown,
    /// By the items and their sound.
    Rates(Rates),
    /// Carries the weights of a model from one form to another.
    Weights(Weights),
    /// Trains a model.
    Training(Training),
}

impl Cost {
    /// The family of the model that a stage trains or works with.
    pub fn family(&self) -> Option<&'static str> {
        match self {
            Cost::Training(training) => Some(training.family),
            Cost::Rates(rates) => rates.model,
            Cost::Unknown | Cost::Weights(_) => None,
        }
    }

    /// Whether a stage of the worker leaves a GPU alone.
    pub fn is_on_processor(&self) -> bool {
        matches!(self, Cost::Rates(rates) if rates.on_processor)
    }
}

/// Of one thread for a stage in the engine's process, and of a GPU of `speed = 1` (an A100) for a
/// stage of the worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Before the first item.
    pub start: f64,
    pub seconds_per_item: f64,
    /// Seconds of work for each second of sound that comes in, or of speech that comes out.
    pub seconds_per_second: f64,
    pub bytes_per_item: f64,
    /// Bytes written for each second of sound.
    pub bytes_per_second: f64,
    /// Taken on the GPU beside the model, for each second of sound in a batch.
    pub vram_per_second: f64,
    /// The family of the model that works, where its size counts: the rates are for the published one.
    pub model: Option<&'static str>,
    /// In the worker, and on the processor wherever that is: the rates are of one core.
    pub on_processor: bool,
    /// The truth is hardly beyond this factor either way.
    pub spread: f64,
    /// Where these figures come from: it stands among the assumptions of a plan.
    pub origin: &'static str,
}

impl Rates {
    /// Work whose time is that of looking at each item once.
    pub const LIGHT: Rates = Rates {
        start: 5e-3,
        seconds_per_item: 2e-5,
        seconds_per_second: 0.0,
        bytes_per_item: 0.0,
        bytes_per_second: 0.0,
        vram_per_second: 0.0,
        model: None,
        on_processor: false,
        spread: 5.0,
        origin: "looking at an item takes 20 µs (the benchmark of the overhead per item)",
    };
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Of how large a part of the model new objects are written: 0 where all are kept as they are.
    pub written: f64,
}

/// How weights go between a disk, a checksum and memory, in bytes a second.
pub const WEIGHT_BYTES_PER_SECOND: f64 = 3e8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// That of the model, as its artifact says it.
    pub family: &'static str,
    /// Small matrices beside frozen weights are trained, not the weights.
    pub adapters: bool,
}
