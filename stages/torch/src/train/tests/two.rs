//! Two networks of letters that are trained in phases: the loss of the second grows with the
//! current weights of the first.

use tch::{Kind, Tensor};

use super::resume::LetterModel;
use super::tiny::{Letters, Tiny};
use crate::error::TorchError;
use crate::nn::layers::Pass;
use crate::train::{Losses, Means, Phase, Totals, Trainee};

pub struct Two {
    pub nets: [Tiny; 2],
    /// True if poison acts, by phase.
    pub is_sick: [bool; 2],
    /// True if the first network influences the second one.
    pub is_coupled: bool,
    /// The result that the first phase kept, and the number of times that the second one found it.
    pub kept: Option<u64>,
    pub reused: usize,
}

impl Two {
    pub fn new(kind: Kind, dropout: f64) -> Two {
        let net = || Tiny::new(kind, dropout);
        let (is_sick, is_coupled) = ([true; 2], true);
        Two { nets: [net(), net()], is_sick, is_coupled, kept: None, reused: 0 }
    }

    fn batch(&self, phase: usize, batch: &Letters) -> Letters {
        if self.is_sick[phase] { batch.clone() } else { batch.cured() }
    }

    /// Over all letters.
    fn echo(&self, batch: &Letters, pass: Pass) -> Result<Tensor, TorchError> {
        let (next, end) = self.nets[1].losses(&self.batch(1, batch), pass)?;
        Ok((next + end) * if self.is_coupled { 1.0 + self.pull() } else { 1.0 })
    }

    pub fn pull(&self) -> f64 {
        let square = |(_, tensor): (String, Tensor)| {
            tensor.detach().square().sum(Kind::Double).double_value(&[])
        };
        self.nets[0].base().into_iter().map(square).sum()
    }
}

impl LetterModel for Two {}

impl Trainee for Two {
    type Batch = Letters;
    type Network = Self;

    fn network(&self) -> &Self {
        self
    }

    fn network_mut(&mut self) -> &mut Self {
        self
    }

    const PHASES: &'static [&'static str] = &["first", "second"];

    fn phase_of(parameter: &str) -> usize {
        usize::from(parameter.starts_with("second."))
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        let names = Self::PHASES.iter().zip(&self.nets);
        let own = |(phase, net): (&&str, &Tiny)| {
            let named = |(name, tensor)| (format!("{phase}.{name}"), tensor);
            net.base().into_iter().map(named).collect::<Vec<_>>()
        };
        names.flat_map(own).collect()
    }

    fn accumulate(&mut self, batch: &Letters, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        if phase.number == 0 {
            self.kept = phase.is_followed.then_some(phase.seed);
            let batch = self.batch(0, batch);
            return self.nets[0].accumulate(&batch, phase);
        }
        self.reused += usize::from(self.kept.take() == Some(phase.seed));
        let echo = self.echo(batch, Pass::Train { seed: phase.step_seed })?;
        (&echo * phase.totals.weight("echo")).backward();
        Ok(Losses::default().with("echo", &echo))
    }

    fn evaluate(&self, batch: &Letters) -> Result<Losses, TorchError> {
        let losses = self.nets[0].evaluate(&self.batch(0, batch))?;
        Ok(losses.with("echo", &self.echo(batch, Pass::Evaluate)?))
    }

    fn count(batch: &Letters) -> Totals {
        let mut totals = Tiny::count(batch);
        totals.add(&Totals::new(&[("echo", totals.labels())]));
        totals
    }

    fn score(&self, means: &Means) -> f64 {
        means.of("echo").unwrap_or(f64::NAN)
    }
}
