//! The duration predictors as a graph, in the direction of synthesis.

use std::f64::consts::SQRT_2;

use stage_core::StageError;
use stage_formats::onnx::Value;

use super::model::summed;
use super::net::{Conv, Net};
use crate::vits::Config;

/// The epsilon of the norms between separable convolutions, the default of PyTorch.
const EPSILON: f64 = 1e-5;
/// The smallest width and height of a bin, relative to all of them, and the smallest derivative.
const LEAST: f64 = 1e-3;
/// Added to the last edge, so that its own value is inside.
const EDGE: f64 = 1e-6;

/// Log-durations in frames: [1, 1, N].
pub fn predicted(
    net: &mut Net,
    config: &Config,
    hidden: &Value,
    speaker: Option<&Value>,
    noise_scale: &Value,
) -> Result<Value, StageError> {
    match config.use_stochastic_duration_prediction {
        true => stochastic(net, config, hidden, speaker, noise_scale),
        false => deterministic(net, config, hidden, speaker),
    }
}

fn deterministic(
    net: &mut Net,
    config: &Config,
    hidden: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let mut x = hidden.clone();
    if let Some(speaker) = speaker {
        let own = net.conv("duration_predictor.cond", speaker, Conv::POINT)?;
        x = net.add(&x, &own);
    }
    let form = Conv::same(config.duration_predictor_kernel_size, 1);
    for at in [1, 2] {
        x = net.conv(&format!("duration_predictor.conv_{at}"), &x, form)?;
        x = net.of("Relu", &x);
        let norm = format!("duration_predictor.norm_{at}");
        x = net.channel_norm(&norm, &x, config.layer_norm_eps)?;
    }
    net.conv("duration_predictor.proj", &x, Conv::POINT)
}

fn stochastic(
    net: &mut Net,
    config: &Config,
    hidden: &Value,
    speaker: Option<&Value>,
    noise_scale: &Value,
) -> Result<Value, StageError> {
    let mut x = net.conv("duration_predictor.conv_pre", hidden, Conv::POINT)?;
    if let Some(speaker) = speaker {
        let own = net.conv("duration_predictor.cond", speaker, Conv::POINT)?;
        x = net.add(&x, &own);
    }
    let x = separable(net, config, "duration_predictor.conv_dds", &x, None)?;
    let condition = net.conv("duration_predictor.conv_proj", &x, Conv::POINT)?;
    let like = net.slice(hidden, (0, 2), 1);
    let noise = net.noise(&like);
    let mut z = net.mul(&noise, noise_scale); // [1, 2, N]
    // The original omits the first coupling, which transforms the channel that is not a duration.
    for at in (2..=config.duration_predictor_num_flows).rev() {
        let flipped = net.flipped(&z);
        let name = format!("duration_predictor.flows.{at}");
        z = coupling(net, config, &name, &flipped, &condition)?;
    }
    let flipped = net.flipped(&z);
    let translate = net.tensor("duration_predictor.flows.0.translate")?;
    let translate = net.put(&translate, "translate", 0)?;
    let log_scale = net.tensor("duration_predictor.flows.0.log_scale")?;
    let shape: Vec<i64> = log_scale.shape().iter().map(|size| *size as i64).collect();
    let scale: Vec<f32> = log_scale.to_f32().iter().map(|log| (-log).exp()).collect();
    let scale = net.graph.numbers(&scale, &shape);
    let moved = net.sub(&flipped, &translate);
    let z = net.mul(&moved, &scale);
    Ok(net.slice(&z, (0, 1), 1))
}

/// Dilated and depth-separable convolutions: [1, C, N] to [1, C, N].
fn separable(
    net: &mut Net,
    config: &Config,
    name: &str,
    x: &Value,
    condition: Option<&Value>,
) -> Result<Value, StageError> {
    let (kernel, width) = (config.duration_predictor_kernel_size, config.hidden_size);
    let mut x = match condition {
        Some(condition) => net.add(x, condition),
        None => x.clone(),
    };
    let mut dilation = 1;
    for at in 0..config.depth_separable_num_layers {
        let form = Conv { groups: width, ..Conv::same(kernel, dilation) };
        dilation *= kernel;
        let y = net.conv(&format!("{name}.convs_dilated.{at}"), &x, form)?;
        let y = net.channel_norm(&format!("{name}.norms_1.{at}"), &y, EPSILON)?;
        let y = gelu(net, &y);
        let y = net.conv(&format!("{name}.convs_pointwise.{at}"), &y, Conv::POINT)?;
        let y = net.channel_norm(&format!("{name}.norms_2.{at}"), &y, EPSILON)?;
        let y = gelu(net, &y);
        x = net.add(&x, &y);
    }
    Ok(x)
}

fn gelu(net: &mut Net, x: &Value) -> Value {
    let scaled = net.times(x, 1.0 / SQRT_2);
    let error = net.of("Erf", &scaled);
    let error = net.plus(&error, 1.0);
    let half = net.times(x, 0.5);
    net.mul(&half, &error)
}

/// A coupling of two channels in reverse: the second is bent by a spline.
fn coupling(
    net: &mut Net,
    config: &Config,
    name: &str,
    z: &Value,
    condition: &Value,
) -> Result<Value, StageError> {
    let bins = config.duration_predictor_flow_bins;
    let (first, second) = net.halves(z, 1);
    let hidden = net.conv(&format!("{name}.conv_pre"), &first, Conv::POINT)?;
    let hidden = separable(net, config, &format!("{name}.conv_dds"), &hidden, Some(condition))?;
    let numbers = net.conv(&format!("{name}.conv_proj"), &hidden, Conv::POINT)?;
    let numbers = net.turned(&numbers, &[0, 2, 1]);
    let numbers = net.unsqueezed(&numbers, 1); // [1, 1, N, 3 * bins - 1]
    let scale = 1.0 / (config.hidden_size as f64).sqrt();
    let widths = net.slice(&numbers, (0, bins), -1);
    let widths = net.times(&widths, scale);
    let heights = net.slice(&numbers, (bins, 2 * bins), -1);
    let heights = net.times(&heights, scale);
    let derivatives = net.slice(&numbers, (2 * bins, 3 * bins - 1), -1);
    let bound = config.duration_predictor_tail_bound;
    let bent = unbend(net, &second, [&widths, &heights, &derivatives], (bins, bound));
    Ok(net.joined(&[&first, &bent], 1))
}

/// The edges of bins from -bound to bound: [1, 1, N, bins + 1]; and zeros, [1, 1, N, 1].
fn knots(net: &mut Net, sizes: &Value, (bins, bound): (i64, f64)) -> (Value, Value) {
    let shares = net.softmax(sizes);
    let shares = net.times(&shares, 1.0 - LEAST * bins as f64);
    let shares = net.plus(&shares, LEAST);
    let last = net.graph.integer(-1);
    let ends = net.graph.add("CumSum", &[&shares, &last]);
    let inner = net.slice(&ends, (0, bins - 1), -1);
    let inner = net.times(&inner, 2.0 * bound);
    let inner = net.plus(&inner, -bound);
    let zeros = net.slice(&ends, (0, 1), -1);
    let zeros = net.times(&zeros, 0.0);
    let (start, end) = (net.plus(&zeros, -bound), net.plus(&zeros, bound));
    (net.joined(&[&start, &inner, &end], -1), zeros)
}

/// The inverse of a rational-quadratic spline (Durkan et al., arXiv 1906.04032, equations 6 to 8);
/// values outside of the bound stay as they are.
fn unbend(
    net: &mut Net,
    y: &Value,
    [widths, heights, derivatives]: [&Value; 3],
    (bins, bound): (i64, f64),
) -> Value {
    let (xs, zeros) = knots(net, widths, (bins, bound));
    let (ys, _) = knots(net, heights, (bins, bound));
    let ones = net.plus(&zeros, 1.0);
    let inner = net.of("Softplus", derivatives);
    let inner = net.plus(&inner, LEAST);
    let slopes = net.joined(&[&ones, &inner, &ones], -1);
    let size = net.of("Abs", y);
    let limit = net.graph.number(bound);
    let is_inside = net.graph.add("LessOrEqual", &[&size, &limit]);
    let (low, high) =
        (net.graph.numbers(&[-bound as f32], &[]), net.graph.numbers(&[bound as f32], &[]));
    let clipped = net.graph.add("Clip", &[y, &low, &high]);
    let bin = bin(net, &clipped, &ys, bins);
    let one = net.graph.integers(&[1]);
    let next = net.add(&bin, &one);
    let at = |net: &mut Net, table: &Value, places: &Value| {
        let found = net.at(table, places, -1);
        net.squeezed(&found, &[-1])
    };
    let (left, bottom) = (at(net, &xs, &bin), at(net, &ys, &bin));
    let (right, top) = (at(net, &xs, &next), at(net, &ys, &next));
    let (slope, next_slope) = (at(net, &slopes, &bin), at(net, &slopes, &next));
    let (width, height) = (net.sub(&right, &left), net.sub(&top, &bottom));
    let delta = net.div(&height, &width);
    let slope_sum = net.add(&slope, &next_slope);
    let twice = net.times(&delta, 2.0);
    let bend = net.sub(&slope_sum, &twice);
    let rise = net.sub(&clipped, &bottom);
    let bent = net.mul(&rise, &bend);
    let (steeper, flat) = (net.sub(&delta, &slope), net.mul(&height, &slope));
    let a = net.mul(&height, &steeper);
    let a = net.add(&a, &bent);
    let b = net.sub(&flat, &bent);
    let c = net.mul(&delta, &rise);
    let c = net.of("Neg", &c);
    let root = discriminant(net, &a, &b, &c);
    let numerator = net.times(&c, 2.0);
    let negative = net.of("Neg", &b);
    let denominator = net.sub(&negative, &root);
    let theta = net.div(&numerator, &denominator);
    let inside = net.mul(&theta, &width);
    let inside = net.add(&inside, &left);
    net.graph.add("Where", &[&is_inside, &inside, y])
}

/// The square root of b² - 4ac.
fn discriminant(net: &mut Net, a: &Value, b: &Value, c: &Value) -> Value {
    let square = net.mul(b, b);
    let product = net.mul(a, c);
    let product = net.times(&product, 4.0);
    let inner = net.sub(&square, &product);
    let zero = net.graph.number(0.0);
    let inner = net.graph.add("Max", &[&inner, &zero]);
    net.of("Sqrt", &inner)
}

/// The bin of each value: [1, 1, N, 1].
fn bin(net: &mut Net, y: &Value, edges: &Value, bins: i64) -> Value {
    let inner = net.slice(edges, (0, bins), -1);
    let last = net.slice(edges, (bins, bins + 1), -1);
    let last = net.plus(&last, EDGE);
    let edges = net.joined(&[&inner, &last], -1);
    let y = net.unsqueezed(y, -1);
    let is_past = net.graph.add("GreaterOrEqual", &[&y, &edges]);
    let is_past = net.counts(&is_past);
    let count = summed(net, &is_past, -1, true);
    let [zero, one, most] = [0, 1, bins - 1].map(|value| net.graph.integers(&[value]));
    let bin = net.sub(&count, &one);
    let bin = net.graph.add("Max", &[&bin, &zero]);
    net.graph.add("Min", &[&bin, &most])
}
