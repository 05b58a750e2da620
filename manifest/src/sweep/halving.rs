//! Successive halving with certain promotion.
//!
//! All trials train up to the first rung; the best `1/eta` of a rung go on to the next. A rung is
//! never waited for as a whole: a trial goes on as soon as it is among the best whatever the
//! unfinished ones will score, and is out as soon as enough others are better. This gives the
//! trials of synchronous halving in any order of completion (unlike ASHA, which promotes early and
//! sometimes wrongly), and idle workers take the next trials meanwhile.

use std::collections::BTreeMap;

/// The shape of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halving {
    pub trials: usize,
    /// Steps of each rung, rising; the last one is a whole training.
    pub rungs: Vec<u64>,
    pub eta: usize,
}

/// The score of a trial at a rung; lower is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    Of(f64),
    /// The training or its measures failed, which the trial is to blame for.
    Failed,
}

/// Finished trials by rung and number. A trial that a machine lost is not among them.
pub type Scores = BTreeMap<(usize, usize), Score>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on to the next rung, whatever the others score.
    On,
    /// Enough others are better.
    Out,
    /// It depends on unfinished ones.
    Open,
}

/// The part that a stage has in a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    #[default]
    In,
    /// Other trials are better.
    Out,
    /// Its trial has failed here, or upstream.
    Failed,
}

/// A trial up to a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leg {
    pub rung: usize,
    pub trial: usize,
}

impl Score {
    /// A score that is no number is a failure.
    pub fn new(value: f64) -> Score {
        if value.is_finite() { Score::Of(value) } else { Score::Failed }
    }

    /// Failures last; equal scores in the order of trials, the written one first.
    fn rank(self, trial: usize) -> (bool, f64, usize) {
        match self {
            Score::Of(value) => (false, value, trial),
            Score::Failed => (true, 0.0, trial),
        }
    }

    fn is_before(self, trial: usize, (other, its): (Score, usize)) -> bool {
        let (own, other) = (self.rank(trial), other.rank(its));
        let order = own.0.cmp(&other.0).then(own.1.total_cmp(&other.1)).then(own.2.cmp(&other.2));
        order.is_lt()
    }
}

impl Halving {
    /// Rungs from the steps of a whole training: as many as leave one trial at the end.
    pub fn new(trials: usize, steps: u64, eta: usize) -> Halving {
        let eta = eta.max(2);
        let mut rungs = vec![steps];
        let (mut left, mut at) = (trials, steps);
        while left >= eta && at >= eta as u64 {
            left /= eta;
            at = at.div_ceil(eta as u64);
            rungs.push(at);
        }
        rungs.reverse();
        Halving { trials, rungs, eta }
    }

    /// The number of trials at a rung.
    pub fn places(&self, rung: usize) -> usize {
        (0..rung).fold(self.trials, |left, _| (left / self.eta.max(2)).max(1)).min(self.trials)
    }

    /// The number of trials that a rung can still get: failed ones leave places empty.
    fn expected(&self, rung: usize, scores: &Scores) -> usize {
        let Some(below) = rung.checked_sub(1) else { return self.trials };
        let failed = scores.range((below, 0)..(rung, 0));
        let failed = failed.filter(|(_, score)| **score == Score::Failed).count();
        self.places(rung).min(self.expected(below, scores).saturating_sub(failed))
    }

    /// The trials that take part in a rung, as far as it is certain.
    pub fn members(&self, rung: usize, scores: &Scores) -> Vec<usize> {
        match rung.checked_sub(1) {
            None => (0..self.trials).collect(),
            Some(below) => {
                let members = self.members(below, scores).into_iter();
                members.filter(|trial| self.fate(below, *trial, scores) == Fate::On).collect()
            }
        }
    }

    /// The fate of a trial that takes part in a rung. At the last one, the best goes on: it is the
    /// winner.
    pub fn fate(&self, rung: usize, trial: usize, scores: &Scores) -> Fate {
        let places = if rung + 1 == self.rungs.len() { 1 } else { self.places(rung + 1) };
        let Some(own) = scores.get(&(rung, trial)).copied() else { return Fate::Open };
        let finished = scores.range((rung, 0)..(rung + 1, 0));
        let better = finished
            .clone()
            .filter(|((_, other), score)| *other != trial && score.is_before(*other, (own, trial)))
            .count();
        let unfinished = self.expected(rung, scores).saturating_sub(finished.count());
        match () {
            // A failed training has no state to continue from.
            () if own == Score::Failed => Fate::Out,
            () if better >= places => Fate::Out,
            () if better + unfinished < places => Fate::On,
            () => Fate::Open,
        }
    }

    /// The legs that can begin now, those of higher rungs first: they are what others wait for.
    pub fn ready(&self, scores: &Scores) -> Vec<Leg> {
        let rungs = (0..self.rungs.len()).rev();
        let legs = rungs.flat_map(|rung| {
            self.members(rung, scores).into_iter().map(move |trial| Leg { rung, trial })
        });
        legs.filter(|leg| !scores.contains_key(&(leg.rung, leg.trial))).collect()
    }

    /// The best trial of the last rung, once no other can be better. None as long as it is open,
    /// or if every trial has failed.
    pub fn winner(&self, scores: &Scores) -> Option<usize> {
        let last = self.rungs.len().checked_sub(1)?;
        let members = self.members(last, scores);
        members.into_iter().find(|trial| self.fate(last, *trial, scores) == Fate::On)
    }

    /// Steps of all legs together, if nothing fails: the most that the sweep costs.
    pub fn steps(&self) -> u64 {
        let before = std::iter::once(0).chain(self.rungs.iter().copied());
        let legs = self.rungs.iter().zip(before).enumerate();
        legs.map(|(rung, (end, start))| self.places(rung) as u64 * (end - start)).sum()
    }

    /// The share of the steps that whole trainings of all trials would take. Each repeat is a whole
    /// training of every trial in the last rung.
    pub fn share(&self, repeats: usize) -> f64 {
        let steps = self.rungs.last().copied().unwrap_or_default();
        let finalists = self.rungs.len().checked_sub(1).map_or(0, |last| self.places(last));
        let all = self.steps() + (repeats * finalists) as u64 * steps;
        all as f64 / (self.trials as u64 * steps).max(1) as f64
    }
}

#[cfg(test)]
mod tests;
