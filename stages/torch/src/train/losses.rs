//! Losses as sums over labels, and the label counts that turn sums into means.
//!
//! A mean of means is wrong when micro-batches have different numbers of labels, so losses are
//! passed on as sums and divided once, by the count of the whole step.

use tch::{Kind, Tensor};

/// The number of labels of each loss, by the name of the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    counts: Vec<(&'static str, u64)>,
    scale: f64,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals { counts: Vec::new(), scale: 1.0 }
    }
}

impl Totals {
    pub fn new(counts: &[(&'static str, u64)]) -> Totals {
        Totals { counts: counts.to_vec(), scale: 1.0 }
    }

    pub fn add(&mut self, other: &Totals) {
        for (name, count) in &other.counts {
            match self.counts.iter_mut().find(|(own, _)| own == name) {
                Some((_, own)) => *own += count,
                None => self.counts.push((name, *count)),
            }
        }
    }

    /// With a factor on all gradients, which keeps small ones within the range of fp16.
    pub fn scaled(mut self, scale: f64) -> Totals {
        self.scale = scale;
        self
    }

    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(own, _)| *own == name).map_or(0, |(_, count)| *count)
    }

    /// The weight of the sum of a loss in the backward pass; 0 without any label.
    pub fn weight(&self, name: &str) -> f64 {
        match self.count(name) {
            0 => 0.0,
            count => self.scale / count as f64,
        }
    }

    /// The labels of all losses together.
    pub fn labels(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// The sum of each loss over its labels, by name. Kept on the device, since reading a number waits
/// for all the work before it.
#[derive(Debug, Default)]
pub struct Losses {
    sums: Vec<(&'static str, Tensor)>,
}

impl Losses {
    pub fn with(mut self, name: &'static str, sum: &Tensor) -> Losses {
        self.sums.push((name, sum.detach().to_kind(Kind::Float)));
        self
    }

    pub fn add(&mut self, other: Losses) {
        for (name, sum) in other.sums {
            match self.sums.iter_mut().find(|(own, _)| *own == name) {
                Some((_, own)) => *own = own.g_add(&sum.to_device(own.device())),
                None => self.sums.push((name, sum)),
            }
        }
    }

    /// The mean of each loss; one without labels is left out.
    pub fn means(&self, totals: &Totals) -> Means {
        let mut means = Vec::with_capacity(self.sums.len());
        for (name, sum) in &self.sums {
            let count = totals.count(name);
            if count > 0 {
                means.push((*name, sum.double_value(&[]) / count as f64));
            }
        }
        Means(means)
    }
}

/// The mean of each loss over its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Means(pub Vec<(&'static str, f64)>);

impl Means {
    /// The minimised value: all losses have equal weight.
    pub fn total(&self) -> f64 {
        self.0.iter().map(|(_, mean)| mean).sum()
    }

    pub fn of(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, mean)| *mean)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn means_are_over_all_labels_and_not_over_batches() {
        let mut totals = Totals::new(&[("base", 1), ("semantic", 0)]);
        totals.add(&Totals::new(&[("base", 3), ("semantic", 0)]));
        let mut losses = Losses::default().with("base", &Tensor::from(1.0));
        losses.add(Losses::default().with("base", &Tensor::from(7.0)));
        losses.add(Losses::default().with("semantic", &Tensor::from(0.0)));
        let means = losses.means(&totals);
        assert_eq!(means, Means(vec![("base", 2.0)]));
        assert_eq!((means.total(), totals.labels()), (2.0, 4));
    }

    #[test]
    fn weights_are_the_scale_over_the_count() {
        let totals = Totals::new(&[("base", 4), ("semantic", 0)]).scaled(8.0);
        assert_eq!((totals.weight("base"), totals.weight("semantic")), (2.0, 0.0));
        assert_eq!(totals.weight("unknown"), 0.0);
    }
}
