//! Low-rank adapters (LoRA): attaching, initialisation, and merging.
//!
//! The layers compute with an adapter (`layers::Adapter`); a model lists its layers by name
//! ([`Adaptable`]). Names, shapes and initialisation are those of the original: `<module>.lora_A`
//! [rank, inputs] and `<module>.lora_B` [outputs, rank].

use serde::{Deserialize, Serialize};
use stage_families::clips::hash;
use stage_formats::pattern::is_match;
use tch::{Kind, Tensor};

use crate::error::{InTch, TorchError};
use crate::nn::layers::{Adapter, Conv1D, Embedding, Linear};
use crate::nn::random::Random;
use crate::nn::weights::Weights;

use crate::patterns::{Match, matches};

/// The number of values that are merged at a time.
const MERGED: i64 = 1 << 22;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraSettings {
    pub rank: i64,
    /// The update is scaled by this divided by the rank.
    pub alpha: f64,
    pub dropout: f64,
    /// Names of modules; `*` means any characters.
    pub patterns: Vec<String>,
}

impl LoraSettings {
    pub fn scaling(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    fn check(&self) -> Result<(), TorchError> {
        let wrong = |text: String| Err(TorchError::Input(text));
        if self.rank < 1 {
            return wrong(format!("rank {} of the adapters, expected 1 or more", self.rank));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong(format!("dropout {} of the adapters, expected 0 to 1", self.dropout));
        }
        if self.patterns.is_empty() {
            return wrong("no module is selected for the adapters: use `*` for all".into());
        }
        Ok(())
    }
}

/// A layer that can take an adapter.
pub enum AdaptableLayer<'a> {
    Linear(&'a mut Linear),
    Conv1D(&'a mut Conv1D),
    Embedding(&'a mut Embedding),
}

/// A model with layers that can be adapted.
pub trait Adaptable {
    /// Its layers by the names of their modules, such as `layers.0.attention.wqkv`.
    fn layers(&mut self) -> Vec<(String, AdaptableLayer<'_>)>;

    /// All its tensors by name, adapters included.
    fn weights(&self) -> &Weights;

    fn weights_mut(&mut self) -> &mut Weights;

    /// The tensors without those of adapters, sorted by name; they share their memory.
    fn tensors(&self) -> Vec<(String, Tensor)> {
        self.weights().shared(|name, _| !is_adapter(name))
    }

    /// Those of them that are not trained.
    fn frozen(&self) -> Vec<(String, Tensor)> {
        self.weights().shared(|name, tensor| !is_adapter(name) && !tensor.requires_grad())
    }

    /// Makes all of them trainable.
    fn train_all(self) -> Self
    where
        Self: Sized,
    {
        for (_, tensor) in self.tensors() {
            let _ = tensor.set_requires_grad(true);
        }
        self
    }
}

impl AdaptableLayer<'_> {
    fn weight(&mut self) -> &mut Tensor {
        match self {
            AdaptableLayer::Linear(layer) => &mut layer.weight,
            AdaptableLayer::Conv1D(layer) => &mut layer.weight,
            AdaptableLayer::Embedding(layer) => &mut layer.weight,
        }
    }

    fn adapter(&mut self) -> &mut Option<Adapter> {
        match self {
            AdaptableLayer::Linear(layer) => &mut layer.adapter,
            AdaptableLayer::Conv1D(layer) => &mut layer.adapter,
            AdaptableLayer::Embedding(layer) => &mut layer.adapter,
        }
    }

    pub fn is_adapted(&mut self) -> bool {
        self.adapter().is_some()
    }

    /// Inputs and outputs of the adapter.
    fn size(&mut self) -> (i64, i64) {
        let size = self.weight().size();
        match self {
            AdaptableLayer::Linear(_) => (size[1], size[0]),
            AdaptableLayer::Conv1D(_) | AdaptableLayer::Embedding(_) => (size[0], size[1]),
        }
    }

    /// The initialisation of the original: one factor is zero, and so is the product.
    fn start(&mut self, rank: i64, seed: u64) -> (Tensor, Tensor) {
        let (inputs, outputs) = self.size();
        let mut random = Random::new(seed);
        let (a, b): (Vec<f32>, Vec<f32>) = match self {
            AdaptableLayer::Linear(_) | AdaptableLayer::Conv1D(_) => {
                let bound = 1.0 / (inputs as f64).sqrt();
                let mut draw = || ((random.fraction() * 2.0 - 1.0) * bound) as f32;
                ((0..rank * inputs).map(|_| draw()).collect(), vec![0.0; (outputs * rank) as usize])
            }
            AdaptableLayer::Embedding(_) => {
                let b = (0..outputs * rank).map(|_| random.gauss() as f32).collect();
                (vec![0.0; (rank * inputs) as usize], b)
            }
        };
        (Tensor::from_slice(&a).view([rank, inputs]), Tensor::from_slice(&b).view([outputs, rank]))
    }

    /// A weight in place of its own with the change of the adapter added, computed in f32 and rounded
    /// once, to `kind`; `None` where no adapter is. Embeddings are large, so only a part of the rows
    /// is in f32 at a time.
    pub fn merged(&mut self, weight: &Tensor, kind: Kind) -> Option<Tensor> {
        let is_transposed = !matches!(self, AdaptableLayer::Linear(_));
        let Some(adapter) = self.adapter() else { return None };
        let scaling = adapter.scaling;
        let (a, b) = (adapter.a.detach(), adapter.b.detach());
        let (a, b) = (a.to_kind(Kind::Float), b.to_kind(Kind::Float));
        // A row of the change is a row of the left one times the right one.
        let (left, right) = if is_transposed { (a.tr(), b.tr()) } else { (b, a) };
        let weight = weight.detach();
        let merged = Tensor::empty(weight.size(), (kind, weight.device()));
        let (count, width) = weight.size2().in_tch();
        let most = (MERGED / width.max(1)).max(1);
        for start in (0..count).step_by(most as usize) {
            let rows = |tensor: &Tensor| tensor.narrow(0, start, most.min(count - start));
            // The copy is written to.
            let mut part = rows(&weight).to_dtype(Kind::Float, false, true);
            let change = rows(&left).matmul(&right).g_mul_scalar_(scaling);
            let _ = part.g_add_(&change);
            rows(&merged).copy_(&part);
        }
        Some(merged)
    }
}

/// Attaches a fresh adapter in f32 to every layer that a pattern matches; its update is zero
/// at first. The weights of the layers are frozen. A layer with an adapter is refused: merge that
/// one first.
pub fn attach(
    model: &mut impl Adaptable,
    settings: &LoraSettings,
    seed: u64,
) -> Result<Vec<Match>, TorchError> {
    settings.check()?;
    let mut layers = model.layers();
    let names: Vec<&str> = layers.iter().map(|(name, _)| name.as_str()).collect();
    let matches = matches(&settings.patterns, "module", &names)?;
    for (name, layer) in &mut layers {
        let _ = layer.weight().requires_grad_(false);
        if !settings.patterns.iter().any(|pattern| is_match(pattern, name)) {
            continue;
        }
        if layer.adapter().is_some() {
            return Err(TorchError::Input(format!(
                "`{name}` already has an adapter: merge it first"
            )));
        }
        let stream = hash("adapter", name);
        let (a, b) = layer.start(settings.rank, seed ^ stream);
        let device = layer.weight().device();
        let place = |tensor: Tensor| tensor.to_device(device).set_requires_grad(true);
        *layer.adapter() = Some(Adapter {
            a: place(a),
            b: place(b),
            scaling: settings.scaling(),
            dropout: settings.dropout,
            stream,
        });
    }
    let attached = adapters(model);
    model.weights_mut().extend(attached);
    Ok(matches)
}

/// Tests if a name is that of an adapter's tensor.
pub fn is_adapter(name: &str) -> bool {
    name.ends_with(".lora_A") || name.ends_with(".lora_B")
}

/// The tensors of all adapters, sorted by name.
pub fn adapters(model: &mut impl Adaptable) -> Vec<(String, Tensor)> {
    let mut tensors = Vec::new();
    for (name, mut layer) in model.layers() {
        if let Some(adapter) = layer.adapter() {
            tensors.push((format!("{name}.lora_A"), adapter.a.shallow_clone()));
            tensors.push((format!("{name}.lora_B"), adapter.b.shallow_clone()));
        }
    }
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    tensors
}

/// Fills attached adapters with trained ones, which must be complete without extra ones.
pub fn load(model: &mut impl Adaptable, mut trained: Weights) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    for (name, tensor) in &mut adapters(model) {
        let size = tensor.size();
        tensor.copy_(&trained.take(name, &size)?);
    }
    trained.finish()
}

/// Adds the update of every adapter to its weight, in f32, and drops the adapters. The weights are
/// then rounded to a type, once.
pub fn merge(model: &mut impl Adaptable, kind: Kind) -> usize {
    let _guard = tch::no_grad_guard();
    let mut count = 0;
    for (_, mut layer) in model.layers() {
        let weight = layer.weight().shallow_clone();
        if let Some(merged) = layer.merged(&weight, kind) {
            // The tensor itself stays, since the model lists it.
            layer.weight().set_data(&merged);
            *layer.adapter() = None;
            count += 1;
        }
    }
    let weights = model.weights_mut();
    *weights = std::mem::take(weights).filtered(|name| !is_adapter(name));
    count
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Device;

    use super::*;
    use crate::nn::layers::Pass;

    struct TwoLayers {
        linear: Linear,
        embedding: Embedding,
        weights: Weights,
    }

    impl Adaptable for TwoLayers {
        fn layers(&mut self) -> Vec<(String, AdaptableLayer<'_>)> {
            vec![
                ("table.embeddings".into(), AdaptableLayer::Embedding(&mut self.embedding)),
                ("block.0.linear".into(), AdaptableLayer::Linear(&mut self.linear)),
            ]
        }

        fn weights(&self) -> &Weights {
            &self.weights
        }

        fn weights_mut(&mut self) -> &mut Weights {
            &mut self.weights
        }
    }

    fn ramp(rows: i64, columns: i64, kind: Kind) -> Tensor {
        let values = Tensor::arange(rows * columns, (Kind::Float, Device::Cpu)).sin();
        values.view([rows, columns]).to_kind(kind)
    }

    fn model(kind: Kind) -> TwoLayers {
        let linear = Linear { weight: ramp(3, 5, kind), bias: None, adapter: None };
        let embedding = Embedding { weight: ramp(7, 4, kind), adapter: None };
        TwoLayers { linear, embedding, weights: Weights::default() }
    }

    fn settings(patterns: &[&str]) -> LoraSettings {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        LoraSettings { rank: 2, alpha: 6.0, dropout: 0.0, patterns }
    }

    fn outputs(model: &TwoLayers) -> (Tensor, Tensor) {
        let input = ramp(2, 5, model.linear.weight.kind()).cos();
        let rows = Tensor::from_slice(&[6i64, 0, 3]);
        (model.linear.forward(&input, Pass::Evaluate), model.embedding.forward(&rows))
    }

    /// Puts values into the factors that start as zero.
    fn train(model: &mut TwoLayers) {
        let _guard = tch::no_grad_guard();
        for (_, tensor) in &mut adapters(model) {
            let size = tensor.size();
            let _ = tensor.f_add_(&(ramp(size[0], size[1], tensor.kind()) * 0.5)).unwrap();
        }
    }

    fn far(one: &Tensor, other: &Tensor) -> f64 {
        (one - other).abs().max().double_value(&[])
    }

    #[test]
    fn a_fresh_adapter_changes_nothing_to_the_bit() {
        let mut model = model(Kind::Float);
        let before = outputs(&model);
        let found = attach(&mut model, &settings(&["*"]), 1).unwrap();
        assert_eq!(found, [Match { pattern: "*".into(), count: 2 }]);
        assert_eq!(outputs(&model), before);
        let names: Vec<String> = adapters(&mut model).into_iter().map(|(name, _)| name).collect();
        let expected = [
            "block.0.linear.lora_A",
            "block.0.linear.lora_B",
            "table.embeddings.lora_A",
            "table.embeddings.lora_B",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn one_factor_starts_as_noise_of_the_published_size() {
        let mut model = model(Kind::Float);
        model.linear.weight = ramp(3, 4_096, Kind::Float);
        model.embedding.weight = ramp(7, 4_096, Kind::Float);
        attach(&mut model, &settings(&["*"]), 1).unwrap();
        let a = &model.linear.adapter.as_ref().unwrap().a;
        let bound = 1.0 / 64.0;
        assert!(a.abs().max().double_value(&[]) <= bound);
        // The deviation of a uniform distribution is its bound divided by the root of three.
        assert!((a.std(false).double_value(&[]) * 3f64.sqrt() / bound - 1.0).abs() < 0.05);
        let b = &model.embedding.adapter.as_ref().unwrap().b;
        assert!((b.std(false).double_value(&[]) - 1.0).abs() < 0.05);
        assert!(b.mean(Kind::Double).double_value(&[]).abs() < 0.05);
        let again = &mut self::model(Kind::Float);
        attach(again, &settings(&["*"]), 2).unwrap();
    }

    #[test]
    fn a_merged_model_computes_what_the_adapted_one_did() {
        let mut model = model(Kind::Float);
        attach(&mut model, &settings(&["*"]), 1).unwrap();
        train(&mut model);
        let (linear, embedding) = outputs(&model);
        assert_eq!(merge(&mut model, Kind::Float), 2);
        assert!(adapters(&mut model).is_empty());
        let merged = outputs(&model);
        assert!(far(&linear, &merged.0) < 1e-5 && far(&embedding, &merged.1) < 1e-5);
        // Adapters on the merged model start from there.
        attach(&mut model, &settings(&["*linear"]), 3).unwrap();
        assert_eq!(outputs(&model), merged);
    }

    struct Transposed(Conv1D, Weights);

    impl Adaptable for Transposed {
        fn layers(&mut self) -> Vec<(String, AdaptableLayer<'_>)> {
            vec![("conv".into(), AdaptableLayer::Conv1D(&mut self.0))]
        }

        fn weights(&self) -> &Weights {
            &self.1
        }

        fn weights_mut(&mut self) -> &mut Weights {
            &mut self.1
        }
    }

    #[test]
    fn a_weight_that_is_input_first_is_adapted_and_merged_like_a_linear_layer() {
        let mut linear = model(Kind::Float);
        let conv = Conv1D {
            weight: linear.linear.weight.tr().contiguous(),
            bias: Tensor::zeros([3], (Kind::Float, Device::Cpu)),
            adapter: None,
        };
        let mut conv = Transposed(conv, Weights::default());
        attach(&mut linear, &settings(&["*linear"]), 1).unwrap();
        attach(&mut conv, &settings(&["conv"]), 1).unwrap();
        let sizes: Vec<Vec<i64>> =
            adapters(&mut conv).iter().map(|(_, tensor)| tensor.size()).collect();
        assert_eq!(sizes, [[2, 5], [3, 2]]);
        let trained = |layer: &str| -> Weights {
            let parts = [("lora_A", ramp(2, 5, Kind::Float)), ("lora_B", ramp(3, 2, Kind::Float))];
            parts.map(|(name, tensor)| (format!("{layer}.{name}"), tensor)).into_iter().collect()
        };
        load(&mut linear, trained("block.0.linear")).unwrap();
        load(&mut conv, trained("conv")).unwrap();
        let input = ramp(2, 5, Kind::Float).cos();
        let expected = linear.linear.forward(&input, Pass::Evaluate);
        assert!(far(&conv.0.forward(&input, Pass::Evaluate), &expected) < 1e-6);
        merge(&mut conv, Kind::Float);
        assert_eq!(conv.0.weight.size(), [5, 3]);
        assert!(far(&conv.0.forward(&input, Pass::Evaluate), &expected) < 1e-5);
    }

    #[test]
    fn adapters_of_a_model_in_half_precision_are_f32() {
        let mut model = model(Kind::BFloat16);
        attach(&mut model, &settings(&["*"]), 1).unwrap();
        train(&mut model);
        let kinds: Vec<Kind> = adapters(&mut model).iter().map(|(_, one)| one.kind()).collect();
        assert_eq!(kinds, [Kind::Float; 4]);
        let (linear, embedding) = outputs(&model);
        assert_eq!([linear.kind(), embedding.kind()], [Kind::BFloat16; 2]);
        linear.sum(Kind::Float).backward();
        let a = &model.linear.adapter.as_ref().unwrap().a;
        assert_eq!(a.grad().kind(), Kind::Float);
    }

    #[test]
    fn a_merge_adds_in_f32_and_rounds_once() {
        let (mut rounded, mut exact) = (model(Kind::BFloat16), model(Kind::Float));
        let _guard = tch::no_grad_guard();
        exact.linear.weight = rounded.linear.weight.to_kind(Kind::Float);
        for model in [&mut rounded, &mut exact] {
            attach(model, &settings(&["*linear"]), 1).unwrap();
            train(model);
            merge(model, Kind::BFloat16);
        }
        assert_eq!(rounded.linear.weight, exact.linear.weight);
        assert_eq!(rounded.embedding.weight.kind(), Kind::BFloat16);
    }

    #[test]
    fn trained_adapters_are_loaded_whole_or_not_at_all() {
        let mut first = model(Kind::Float);
        attach(&mut first, &settings(&["*"]), 1).unwrap();
        train(&mut first);
        let trained = || -> Weights { adapters(&mut model_with(&first)).into_iter().collect() };
        let mut second = model(Kind::Float);
        attach(&mut second, &settings(&["*"]), 9).unwrap();
        load(&mut second, trained()).unwrap();
        assert_eq!(outputs(&first), outputs(&second));
        let mut third = model(Kind::Float);
        attach(&mut third, &settings(&["*linear"]), 9).unwrap();
        let error = load(&mut third, trained()).unwrap_err().to_string();
        assert!(error.contains("`table.embeddings.lora_A`"), "{error}");
    }

    fn model_with(other: &TwoLayers) -> TwoLayers {
        let adapter = |from: &Option<Adapter>| {
            from.as_ref().map(|from| Adapter {
                a: from.a.detach().copy(),
                b: from.b.detach().copy(),
                scaling: from.scaling,
                dropout: from.dropout,
                stream: from.stream,
            })
        };
        let mut model = model(Kind::Float);
        model.linear.adapter = adapter(&other.linear.adapter);
        model.embedding.adapter = adapter(&other.embedding.adapter);
        model
    }

    #[test]
    fn a_pattern_that_names_nothing_is_an_error() {
        let mut model = model(Kind::Float);
        let error = attach(&mut model, &settings(&["*", "block.1.*"]), 1).unwrap_err();
        let expected = "`block.1.*` matches no module; known names: `table.embeddings`, \
                        `block.0.linear`";
        assert_eq!(error.to_string(), expected);
        assert!(adapters(&mut model).is_empty());
        attach(&mut model, &settings(&["*linear"]), 1).unwrap();
        let error = attach(&mut model, &settings(&["*linear"]), 1).unwrap_err();
        assert_eq!(error.to_string(), "`block.0.linear` already has an adapter: merge it first");
    }
}
