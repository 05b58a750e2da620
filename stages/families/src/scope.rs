//! Lists of the tensors of a model: their names, below prefixes, and shapes.

use stage_formats::shapes::Expected;
/// Magnitude and direction of a weight under weight norm.
pub use stage_formats::weight_norm::{NEWER_DIRECTION as DIRECTION, NEWER_LENGTH as LENGTH};

/// Collects names below a prefix.
pub struct Scope<'a> {
    tensors: &'a mut Vec<Expected>,
    prefix: String,
}

impl Scope<'_> {
    pub fn under(&mut self, name: impl std::fmt::Display) -> Scope<'_> {
        Scope { prefix: format!("{}{name}.", self.prefix), tensors: self.tensors }
    }

    pub fn add(&mut self, name: &str, shape: &[i64]) {
        self.tensors.push((format!("{}{name}", self.prefix), shape.to_vec()));
    }

    /// A weight [outputs, ...rest] and a bias [outputs].
    pub fn layer(&mut self, name: impl std::fmt::Display, outputs: i64, rest: &[i64]) {
        let mut layer = self.under(name);
        layer.add("weight", &[&[outputs], rest].concat());
        layer.add("bias", &[outputs]);
    }

    pub fn norm(&mut self, name: impl std::fmt::Display, width: i64) {
        self.layer(name, width, &[]);
    }

    /// A convolution under weight norm, its weight `[first, second, kernel]`.
    pub fn normed(&mut self, name: impl std::fmt::Display, bias: i64, shape: [i64; 3]) {
        let mut layer = self.under(name);
        layer.add(LENGTH, &[shape[0], 1, 1]);
        layer.add(DIRECTION, &shape);
        layer.add("bias", &[bias]);
    }

    pub fn batch_norm(&mut self, name: impl std::fmt::Display, width: i64) {
        let mut norm = self.under(name);
        for part in ["weight", "bias", "running_mean", "running_var"] {
            norm.add(part, &[width]);
        }
        norm.add("num_batches_tracked", &[]);
    }
}

/// The tensors that `fill` adds below a prefix.
pub fn collect(prefix: &str, fill: impl FnOnce(&mut Scope)) -> Vec<Expected> {
    let mut tensors = Vec::new();
    fill(&mut Scope { tensors: &mut tensors, prefix: prefix.to_owned() });
    tensors
}

/// The number of values in all of them.
pub fn parameters<'a>(tensors: impl IntoIterator<Item = &'a Expected>) -> i64 {
    tensors.into_iter().map(|(_, shape)| shape.iter().product::<i64>()).sum()
}
