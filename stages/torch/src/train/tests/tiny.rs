//! A model of letters, small enough to train in milliseconds: an embedding, a hidden layer with
//! dropout, an output layer. It predicts the next letter, also past the end of a clip, which is a
//! second loss.

use tch::{Device, Kind, Tensor};

use crate::error::TorchError;
use crate::nn::layers::{Embedding, Linear, Pass, dropout};
use crate::nn::lora::{self, Adaptable, AdaptableLayer, LoraSettings};
use crate::nn::random::{Random, scramble};
use crate::nn::weights::Weights;
use crate::train::order::Row;
use crate::train::run::Purpose;
use crate::train::{Data, Losses, Phase, Totals, Trainee, samples};

const LETTERS: i64 = 12;
const WIDTH: i64 = 8;
/// A letter that makes the loss of its batch NaN.
pub const POISON: i64 = LETTERS - 1;

pub struct Tiny {
    embeddings: Embedding,
    hidden: Linear,
    output: Linear,
    dropout: f64,
    /// Only the adapters are trained.
    is_adapted: bool,
    /// Batches of more rows do not fit into memory.
    pub fits: usize,
    /// False: its samples do not fit into memory either.
    pub can_show: bool,
    weights: Weights,
}

fn noise(random: &mut Random, shape: &[i64], kind: Kind) -> Tensor {
    let count = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|_| random.fraction() as f32 - 0.5).collect();
    Tensor::from_slice(&values).view(shape).to_kind(kind).set_requires_grad(true)
}

impl Tiny {
    pub fn new(kind: Kind, dropout: f64) -> Tiny {
        let mut random = Random::new(7);
        let mut noise = |shape: &[i64]| noise(&mut random, shape, kind);
        Tiny {
            embeddings: Embedding { weight: noise(&[LETTERS, WIDTH]), adapter: None },
            hidden: Linear {
                weight: noise(&[2 * WIDTH, WIDTH]),
                bias: Some(noise(&[2 * WIDTH])),
                adapter: None,
            },
            output: Linear { weight: noise(&[LETTERS, 2 * WIDTH]), bias: None, adapter: None },
            dropout,
            is_adapted: false,
            fits: usize::MAX,
            can_show: true,
            weights: Weights::default(),
        }
    }

    pub fn adapted() -> Tiny {
        let mut tiny = Tiny::new(Kind::Float, 0.0);
        let settings = LoraSettings {
            rank: 3,
            alpha: 6.0,
            dropout: 0.1,
            patterns: vec!["hidden".into(), "embeddings".into()],
        };
        lora::attach(&mut tiny, &settings, 1).unwrap();
        tiny.is_adapted = true;
        tiny
    }

    /// Makes the output layer, and therefore the gradients, larger.
    pub fn amplify(&mut self, factor: f64) {
        let _guard = tch::no_grad_guard();
        let _ = self.output.weight.g_mul_scalar_(factor);
    }

    /// All tensors but the adapters, by name.
    pub fn base(&self) -> Vec<(String, Tensor)> {
        let mut tensors = vec![
            ("embeddings.weight", &self.embeddings.weight),
            ("hidden.weight", &self.hidden.weight),
            ("output.weight", &self.output.weight),
        ];
        tensors.extend(self.hidden.bias.iter().map(|bias| ("hidden.bias", bias)));
        tensors.sort_by_key(|(name, _)| *name);
        let own = |(name, tensor): (&str, &Tensor)| (name.to_owned(), tensor.shallow_clone());
        tensors.into_iter().map(own).collect()
    }

    /// The sums over all letters except the last ones, and over those.
    pub fn losses(&self, batch: &Letters, pass: Pass) -> Result<(Tensor, Tensor), TorchError> {
        if batch.rows > self.fits {
            return Err(TorchError::OutOfMemory("CUDA out of memory".into()));
        }
        let x = self.embeddings.forward(&Tensor::from_slice(&batch.letters));
        let x = self.hidden.forward(&x, pass).tanh();
        let x = match pass {
            Pass::Train { seed } if self.dropout > 0.0 => dropout(&x, self.dropout, scramble(seed)),
            _ => x,
        };
        let logits = self.output.forward(&x, pass).to_kind(Kind::Float);
        let labels = Tensor::from_slice(&batch.labels);
        let none = None::<Tensor>;
        let losses = logits.cross_entropy_loss(&labels, none, tch::Reduction::None, -100, 0.0);
        let losses = if batch.letters.contains(&POISON) { losses * f64::NAN } else { losses };
        let is_end = Tensor::from_slice(&batch.ends);
        let ends = (&losses * &is_end).sum(Kind::Float);
        Ok((losses.sum(Kind::Float) - &ends, ends))
    }
}

impl Adaptable for Tiny {
    fn layers(&mut self) -> Vec<(String, AdaptableLayer<'_>)> {
        vec![
            ("embeddings".into(), AdaptableLayer::Embedding(&mut self.embeddings)),
            ("hidden".into(), AdaptableLayer::Linear(&mut self.hidden)),
            ("output".into(), AdaptableLayer::Linear(&mut self.output)),
        ]
    }

    fn weights(&self) -> &Weights {
        &self.weights
    }

    fn weights_mut(&mut self) -> &mut Weights {
        &mut self.weights
    }
}

impl Trainee for Tiny {
    type Batch = Letters;
    type Network = Self;

    fn network(&self) -> &Self {
        self
    }

    fn network_mut(&mut self) -> &mut Self {
        self
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        if !self.is_adapted {
            return self.base();
        }
        let mut tensors = Vec::new();
        let layers = [("embeddings", &self.embeddings.adapter), ("hidden", &self.hidden.adapter)];
        for (name, adapter) in layers {
            let adapter = adapter.as_ref().unwrap();
            tensors.push((format!("{name}.lora_A"), adapter.a.shallow_clone()));
            tensors.push((format!("{name}.lora_B"), adapter.b.shallow_clone()));
        }
        tensors
    }

    fn accumulate(&mut self, batch: &Letters, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        let (next, end) = self.losses(batch, Pass::Train { seed: phase.seed })?;
        let loss = &next * phase.totals.weight("next") + &end * phase.totals.weight("end");
        loss.backward();
        Ok(Losses::default().with("next", &next).with("end", &end))
    }

    fn evaluate(&self, batch: &Letters) -> Result<Losses, TorchError> {
        let (next, end) = self.losses(batch, Pass::Evaluate)?;
        Ok(Losses::default().with("next", &next).with("end", &end))
    }

    /// The losses of the clip.
    fn show(&self, batch: &Letters, number: usize) -> Result<samples::NamedSamples, TorchError> {
        if !self.can_show {
            return Err(TorchError::OutOfMemory("CUDA out of memory".into()));
        }
        let (next, end) = self.losses(batch, Pass::Evaluate)?;
        Ok(vec![(format!("losses/{number}"), Tensor::stack(&[next, end], 0))])
    }

    fn count(batch: &Letters) -> Totals {
        let ends = batch.ends.iter().filter(|end| **end > 0.0).count() as u64;
        Totals::new(&[("next", batch.letters.len() as u64 - ends), ("end", ends)])
    }
}

#[derive(Clone)]
pub struct Letters {
    rows: usize,
    letters: Vec<i64>,
    labels: Vec<i64>,
    /// 1 at the last letter of each clip.
    ends: Vec<f32>,
}

impl Letters {
    /// Without letters that spoil a loss.
    pub fn cured(&self) -> Letters {
        let cured = |letter: &i64| if *letter == POISON { 0 } else { *letter };
        Letters { letters: self.letters.iter().map(cured).collect(), ..self.clone() }
    }
}

/// Clips of letters.
pub struct Corpus(pub Vec<Vec<i64>>);

impl Corpus {
    /// Letters with predictable successors, so that there is something to learn.
    pub fn new(clips: usize) -> Corpus {
        let clip = |number: usize| {
            let mut random = Random::new(number as u64);
            let length = 3 + random.draw() % 12;
            let mut letter = random.draw() % (POISON as u64);
            let mut next = |_| {
                letter = if random.fraction() < 0.8 {
                    (letter + 1) % (POISON as u64)
                } else {
                    random.draw() % (POISON as u64)
                };
                letter as i64
            };
            (0..length).map(&mut next).collect()
        };
        Corpus((0..clips).map(clip).collect())
    }
}

impl Data<Letters> for Corpus {
    fn batch(&self, rows: &[Row], _: Purpose) -> Result<Letters, TorchError> {
        let (mut letters, mut labels, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for clip in rows.iter().flatten().map(|clip| &self.0[*clip]) {
            letters.extend(clip);
            labels.extend(&clip[1..]);
            labels.push((clip[clip.len() - 1] + 1) % POISON);
            ends.extend((1..=clip.len()).map(|at| if at == clip.len() { 1f32 } else { 0.0 }));
        }
        Ok(Letters { rows: rows.len(), letters, labels, ends })
    }

    fn name(&self, clip: usize) -> String {
        format!("clip {clip}")
    }
}

/// The values of tensors by name.
pub type Bits = Vec<(String, Vec<f32>)>;

pub fn bits(tensors: &[(String, Tensor)]) -> Bits {
    let values = |tensor: &Tensor| {
        Vec::try_from(tensor.detach().to_device(Device::Cpu).to_kind(Kind::Float).view(-1)).unwrap()
    };
    tensors.iter().map(|(name, tensor)| (name.clone(), values(tensor))).collect()
}
