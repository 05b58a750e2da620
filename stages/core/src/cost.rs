//! The cost model of a stage kind, used until there are measures: rough rates with their source.
//! They enter no key.

/// The cost model of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// Nothing is known: a plan gives no time for the stage until it has run once.
    Unknown,
    /// By its items and their sound.
    Rates(Rates),
    /// Converts the weights of a model to another format.
    Weights(Weights),
    /// Trains a model.
    Training(Training),
}

impl Cost {
    /// The family of the model that a stage trains or uses.
    pub fn family(&self) -> Option<&'static str> {
        match self {
            Cost::Training(training) => Some(training.family),
            Cost::Rates(rates) => rates.model,
            Cost::Unknown | Cost::Weights(_) => None,
        }
    }

    /// Tests if a stage of the worker uses no GPU.
    pub fn is_on_processor(&self) -> bool {
        matches!(self, Cost::Rates(rates) if rates.on_processor)
    }
}

/// Rates of one thread for a stage in the engine's process, and of a GPU of `speed = 1` (an A100)
/// for a stage of the worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Seconds before the first item.
    pub start: f64,
    /// Seconds per item, whatever its length.
    pub seconds_per_item: f64,
    /// Seconds of work per second of input sound, or of output speech.
    pub seconds_per_second: f64,
    /// Bytes written per item, whatever its length.
    pub bytes_per_item: f64,
    /// Bytes written for each second of sound.
    pub bytes_per_second: f64,
    /// The sample rate that these bytes are for, if they are in proportion to it.
    pub sample_rate: Option<f64>,
    /// GPU memory beside the model, per second of sound in a batch.
    pub vram_per_second: f64,
    /// The family of the model, if its size counts: the rates are for the published one.
    pub model: Option<&'static str>,
    /// Runs in the worker, and always on the processor: the rates are for one core.
    pub on_processor: bool,
    /// The true value is rarely beyond this factor either way.
    pub spread: f64,
    /// The source of these figures, listed among the assumptions of a plan.
    pub origin: &'static str,
}

impl Rates {
    /// Work that takes as long as looking at each item once.
    pub const LIGHT: Rates = Rates {
        start: 5e-3,
        seconds_per_item: 2e-5,
        seconds_per_second: 0.0,
        bytes_per_item: 0.0,
        bytes_per_second: 0.0,
        sample_rate: None,
        vram_per_second: 0.0,
        model: None,
        on_processor: false,
        spread: 5.0,
        origin: "checking an item takes 20 µs (from the benchmark of the overhead per item)",
    };
}

/// Figures for a stage that imports, exports, converts or merges a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Seconds beside those for the bytes.
    pub start: f64,
    /// The share of the model that is written as new objects: 0 if all are kept.
    pub written: f64,
    /// One tensor is in memory at a time.
    pub streams: bool,
}

/// The speed of weights between disk, checksum and memory, in bytes per second; also for
/// checkpoints. At published sizes, imports, exports and merges had 0.7e8 to 3e8 on a core: this is
/// in the middle.
pub const WEIGHT_BYTES_PER_SECOND: f64 = 2e8;

/// Figures for a training. Its time follows from the sizes of the model family, which the estimate
/// gets from the stage's family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The family of the model, according to its artifact.
    pub family: &'static str,
    /// Trains small matrices beside frozen weights, not the weights.
    pub adapters: bool,
}
