//! Dropout in a pass.

use tch::Tensor;

use crate::layers::{Pass, dropout};
use crate::random::scramble;

/// A dropout layer; each has its own random stream.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    probability: f64,
    stream: u64,
}

impl Dropout {
    pub fn new(probability: f64, stream: u64) -> Dropout {
        Dropout { probability, stream }
    }

    pub fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        match pass {
            Pass::Train { seed } if self.probability > 0.0 => {
                dropout(x, self.probability, scramble(seed ^ scramble(self.stream)))
            }
            _ => x.shallow_clone(),
        }
    }
}
