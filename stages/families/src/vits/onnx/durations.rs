//! The duration predictors as a graph, in the direction of synthesis.

use std::f64::consts::SQRT_2;

use stage_core::StageError;
use stage_formats::onnx::Value;

use super::graph_builder::{Conv, GraphBuilder};
use super::model::summed;
use crate::vits::VitsConfig;

/// The epsilon of the norms between separable convolutions, the default of PyTorch.
const EPSILON: f64 = 1e-5;
/// The smallest width and height of a bin, relative to all of them, and the smallest derivative.
const LEAST: f64 = 1e-3;
/// Added to the last edge, so that its own value is inside.
const EDGE: f64 = 1e-6;

/// Log-durations in frames: [1, 1, N].
pub fn predicted(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    hidden: &Value,
    speaker: Option<&Value>,
    noise_scale: &Value,
) -> Result<Value, StageError> {
    match config.use_stochastic_duration_prediction {
        true => stochastic(builder, config, hidden, speaker, noise_scale),
        false => deterministic(builder, config, hidden, speaker),
    }
}

fn deterministic(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    hidden: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let mut x = hidden.clone();
    if let Some(speaker) = speaker {
        let own = builder.conv("duration_predictor.cond", speaker, Conv::POINT)?;
        x = builder.add(&x, &own);
    }
    let form = Conv::same(config.duration_predictor_kernel_size, 1);
    for at in [1, 2] {
        x = builder.conv(&format!("duration_predictor.conv_{at}"), &x, form)?;
        x = builder.of("Relu", &x);
        let norm = format!("duration_predictor.norm_{at}");
        x = builder.channel_norm(&norm, &x, config.layer_norm_eps)?;
    }
    builder.conv("duration_predictor.proj", &x, Conv::POINT)
}

fn stochastic(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    hidden: &Value,
    speaker: Option<&Value>,
    noise_scale: &Value,
) -> Result<Value, StageError> {
    let mut x = builder.conv("duration_predictor.conv_pre", hidden, Conv::POINT)?;
    if let Some(speaker) = speaker {
        let own = builder.conv("duration_predictor.cond", speaker, Conv::POINT)?;
        x = builder.add(&x, &own);
    }
    let x = separable(builder, config, "duration_predictor.conv_dds", &x, None)?;
    let condition = builder.conv("duration_predictor.conv_proj", &x, Conv::POINT)?;
    let like = builder.slice(hidden, (0, 2), 1);
    let noise = builder.noise(&like);
    let mut z = builder.mul(&noise, noise_scale); // [1, 2, N]
    // The original omits the first coupling, which transforms the channel that is not a duration.
    for at in (2..=config.duration_predictor_num_flows).rev() {
        let flipped = builder.flipped(&z);
        let name = format!("duration_predictor.flows.{at}");
        z = coupling(builder, config, &name, &flipped, &condition)?;
    }
    let flipped = builder.flipped(&z);
    let translate = builder.tensor("duration_predictor.flows.0.translate")?;
    let translate = builder.put(&translate, "translate", 0)?;
    let log_scale = builder.tensor("duration_predictor.flows.0.log_scale")?;
    let shape: Vec<i64> = log_scale.shape().iter().map(|size| *size as i64).collect();
    let scale: Vec<f32> = log_scale.to_f32().iter().map(|log| (-log).exp()).collect();
    let scale = builder.graph.numbers(&scale, &shape);
    let moved = builder.sub(&flipped, &translate);
    let z = builder.mul(&moved, &scale);
    Ok(builder.slice(&z, (0, 1), 1))
}

/// Dilated and depth-separable convolutions: [1, C, N] to [1, C, N].
fn separable(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    name: &str,
    x: &Value,
    condition: Option<&Value>,
) -> Result<Value, StageError> {
    let (kernel, width) = (config.duration_predictor_kernel_size, config.hidden_size);
    let mut x = match condition {
        Some(condition) => builder.add(x, condition),
        None => x.clone(),
    };
    let mut dilation = 1;
    for at in 0..config.depth_separable_num_layers {
        let form = Conv { groups: width, ..Conv::same(kernel, dilation) };
        dilation *= kernel;
        let y = builder.conv(&format!("{name}.convs_dilated.{at}"), &x, form)?;
        let y = builder.channel_norm(&format!("{name}.norms_1.{at}"), &y, EPSILON)?;
        let y = gelu(builder, &y);
        let y = builder.conv(&format!("{name}.convs_pointwise.{at}"), &y, Conv::POINT)?;
        let y = builder.channel_norm(&format!("{name}.norms_2.{at}"), &y, EPSILON)?;
        let y = gelu(builder, &y);
        x = builder.add(&x, &y);
    }
    Ok(x)
}

fn gelu(builder: &mut GraphBuilder, x: &Value) -> Value {
    let scaled = builder.times(x, 1.0 / SQRT_2);
    let error = builder.of("Erf", &scaled);
    let error = builder.plus(&error, 1.0);
    let half = builder.times(x, 0.5);
    builder.mul(&half, &error)
}

/// A coupling of two channels in reverse: the second is bent by a spline.
fn coupling(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    name: &str,
    z: &Value,
    condition: &Value,
) -> Result<Value, StageError> {
    let bins = config.duration_predictor_flow_bins;
    let (first, second) = builder.halves(z, 1);
    let hidden = builder.conv(&format!("{name}.conv_pre"), &first, Conv::POINT)?;
    let hidden = separable(builder, config, &format!("{name}.conv_dds"), &hidden, Some(condition))?;
    let numbers = builder.conv(&format!("{name}.conv_proj"), &hidden, Conv::POINT)?;
    let numbers = builder.turned(&numbers, &[0, 2, 1]);
    let numbers = builder.unsqueezed(&numbers, 1); // [1, 1, N, 3 * bins - 1]
    let scale = 1.0 / (config.hidden_size as f64).sqrt();
    let widths = builder.slice(&numbers, (0, bins), -1);
    let widths = builder.times(&widths, scale);
    let heights = builder.slice(&numbers, (bins, 2 * bins), -1);
    let heights = builder.times(&heights, scale);
    let derivatives = builder.slice(&numbers, (2 * bins, 3 * bins - 1), -1);
    let bound = config.duration_predictor_tail_bound;
    let bent = unbend(builder, &second, [&widths, &heights, &derivatives], (bins, bound));
    Ok(builder.joined(&[&first, &bent], 1))
}

/// The edges of bins from -bound to bound: [1, 1, N, bins + 1]; and zeros, [1, 1, N, 1].
fn knots(builder: &mut GraphBuilder, sizes: &Value, (bins, bound): (i64, f64)) -> (Value, Value) {
    let shares = builder.softmax(sizes);
    let shares = builder.times(&shares, 1.0 - LEAST * bins as f64);
    let shares = builder.plus(&shares, LEAST);
    let last = builder.graph.integer(-1);
    let ends = builder.graph.add("CumSum", &[&shares, &last]);
    let inner = builder.slice(&ends, (0, bins - 1), -1);
    let inner = builder.times(&inner, 2.0 * bound);
    let inner = builder.plus(&inner, -bound);
    let zeros = builder.slice(&ends, (0, 1), -1);
    let zeros = builder.times(&zeros, 0.0);
    let (start, end) = (builder.plus(&zeros, -bound), builder.plus(&zeros, bound));
    (builder.joined(&[&start, &inner, &end], -1), zeros)
}

/// The inverse of a rational-quadratic spline (Durkan et al., arXiv 1906.04032, equations 6 to 8);
/// values outside of the bound stay as they are.
fn unbend(
    builder: &mut GraphBuilder,
    y: &Value,
    [widths, heights, derivatives]: [&Value; 3],
    (bins, bound): (i64, f64),
) -> Value {
    let (xs, zeros) = knots(builder, widths, (bins, bound));
    let (ys, _) = knots(builder, heights, (bins, bound));
    let ones = builder.plus(&zeros, 1.0);
    let inner = builder.of("Softplus", derivatives);
    let inner = builder.plus(&inner, LEAST);
    let slopes = builder.joined(&[&ones, &inner, &ones], -1);
    let size = builder.of("Abs", y);
    let limit = builder.graph.number(bound);
    let is_inside = builder.graph.add("LessOrEqual", &[&size, &limit]);
    let (low, high) =
        (builder.graph.numbers(&[-bound as f32], &[]), builder.graph.numbers(&[bound as f32], &[]));
    let clipped = builder.graph.add("Clip", &[y, &low, &high]);
    let bin = bin(builder, &clipped, &ys, bins);
    let one = builder.graph.integers(&[1]);
    let next = builder.add(&bin, &one);
    let at = |builder: &mut GraphBuilder, table: &Value, places: &Value| {
        let found = builder.at(table, places, -1);
        builder.squeezed(&found, &[-1])
    };
    let (left, bottom) = (at(builder, &xs, &bin), at(builder, &ys, &bin));
    let (right, top) = (at(builder, &xs, &next), at(builder, &ys, &next));
    let (slope, next_slope) = (at(builder, &slopes, &bin), at(builder, &slopes, &next));
    let (width, height) = (builder.sub(&right, &left), builder.sub(&top, &bottom));
    let delta = builder.div(&height, &width);
    let slope_sum = builder.add(&slope, &next_slope);
    let twice = builder.times(&delta, 2.0);
    let bend = builder.sub(&slope_sum, &twice);
    let rise = builder.sub(&clipped, &bottom);
    let bent = builder.mul(&rise, &bend);
    let (steeper, flat) = (builder.sub(&delta, &slope), builder.mul(&height, &slope));
    let a = builder.mul(&height, &steeper);
    let a = builder.add(&a, &bent);
    let b = builder.sub(&flat, &bent);
    let c = builder.mul(&delta, &rise);
    let c = builder.of("Neg", &c);
    let root = discriminant(builder, &a, &b, &c);
    let numerator = builder.times(&c, 2.0);
    let negative = builder.of("Neg", &b);
    let denominator = builder.sub(&negative, &root);
    let theta = builder.div(&numerator, &denominator);
    let inside = builder.mul(&theta, &width);
    let inside = builder.add(&inside, &left);
    builder.graph.add("Where", &[&is_inside, &inside, y])
}

/// The square root of b² - 4ac.
fn discriminant(builder: &mut GraphBuilder, a: &Value, b: &Value, c: &Value) -> Value {
    let square = builder.mul(b, b);
    let product = builder.mul(a, c);
    let product = builder.times(&product, 4.0);
    let inner = builder.sub(&square, &product);
    let zero = builder.graph.number(0.0);
    let inner = builder.graph.add("Max", &[&inner, &zero]);
    builder.of("Sqrt", &inner)
}

/// The bin of each value: [1, 1, N, 1].
fn bin(builder: &mut GraphBuilder, y: &Value, edges: &Value, bins: i64) -> Value {
    let inner = builder.slice(edges, (0, bins), -1);
    let last = builder.slice(edges, (bins, bins + 1), -1);
    let last = builder.plus(&last, EDGE);
    let edges = builder.joined(&[&inner, &last], -1);
    let y = builder.unsqueezed(y, -1);
    let is_past = builder.graph.add("GreaterOrEqual", &[&y, &edges]);
    let is_past = builder.counts(&is_past);
    let count = summed(builder, &is_past, -1, true);
    let [zero, one, most] = [0, 1, bins - 1].map(|value| builder.graph.integers(&[value]));
    let bin = builder.sub(&count, &one);
    let bin = builder.graph.add("Max", &[&bin, &zero]);
    builder.graph.add("Min", &[&bin, &most])
}
