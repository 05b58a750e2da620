//! The noise of a voice: an input of its graph, drawn here, so that a seed and a text give the same samples whatever
//! was spoken before and whichever library speaks.
//!
//! A graph draws its noise itself (`RandomNormalLike`), and a library goes on with its own state from sentence to
//! sentence. Such a node becomes a choice from a list, `noise[i mod length]`, in the shape that the node had.

use std::f32::consts::TAU;

use stage_formats::onnx::{Element, GraphNode, GraphParts, Size};

use crate::interface::noise_input;

const DRAWN: &str = "RandomNormalLike";
/// Names of constants that no graph has.
const ZERO: &str = "throstle_zero";
const ONE: &str = "throstle_one";

/// Makes all noise of a graph that is standard normal an input, and returns the number of such inputs.
pub fn make_inputs(graph: &mut GraphParts) -> usize {
    let mut count = 0;
    let drawn = |node: &GraphNode| {
        node.operator() == DRAWN
            && node.number("mean").unwrap_or(0.0) == 0.0
            && node.number("scale").unwrap_or(1.0) == 1.0
    };
    while let Some(at) = graph.nodes().iter().position(drawn) {
        let node = &graph.nodes()[at];
        let (Some(like), Some(made)) = (node.inputs().first(), node.outputs().first()) else {
            break;
        };
        let chosen = choice(count, like, made);
        graph.replace(at, chosen);
        graph.add_input(&noise_input(count), Element::F32, &[Size::Named("noise")]);
        count += 1;
    }
    if count > 0 {
        graph.add_integer(ZERO, 0);
        graph.add_integer(ONE, 1);
    }
    count
}

/// The nodes that choose from a list of noise in the shape of a value.
fn choice(number: usize, like: &str, made: &str) -> Vec<GraphNode> {
    let noise = noise_input(number);
    let [size, places, length, index, flat, shape] =
        ["size", "places", "length", "index", "flat", "shape"]
            .map(|part| format!("{noise}_{part}"));
    vec![
        GraphNode::new("Size", &[like], &size),
        GraphNode::new("Range", &[ZERO, &size, ONE], &places),
        GraphNode::new("Shape", &[&noise], &length),
        GraphNode::new("Mod", &[&places, &length], &index),
        GraphNode::new("Gather", &[&noise, &index], &flat),
        GraphNode::new("Shape", &[like], &shape),
        GraphNode::new("Reshape", &[&flat, &shape], made),
    ]
}

/// Standard normal numbers from a seed: SplitMix64, and pairs by Box and Muller.
pub fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut numbers = Vec::with_capacity(count + 1);
    while numbers.len() < count {
        let (radius, angle) = pair(next(&mut state));
        numbers.push(radius * angle.cos());
        numbers.push(radius * angle.sin());
    }
    numbers.truncate(count);
    numbers
}

/// The next number of SplitMix64.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A radius and an angle from the two halves of a number.
fn pair(bits: u64) -> (f32, f32) {
    // From 2^-33 on: the logarithm is finite.
    let first = ((bits >> 32) as f64 + 0.5) / f64::from(u32::MAX);
    let second = (bits & u64::from(u32::MAX)) as f32 / u32::MAX as f32;
    ((-2.0 * (first as f32).min(1.0).ln()).sqrt(), TAU * second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_standard_normal_and_the_same_for_a_seed() {
        let noise = normal(7, 100_001);
        assert_eq!(noise.len(), 100_001);
        assert_eq!(noise, normal(7, 100_001));
        assert_ne!(noise[..9], normal(8, 9));
        let mean = noise.iter().map(|own| f64::from(*own)).sum::<f64>() / 1e5;
        let square = noise.iter().map(|own| f64::from(*own).powi(2)).sum::<f64>() / 1e5;
        let within = noise.iter().filter(|own| own.abs() < 1.0).count() as f64 / 1e5;
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.02, "{mean} {square}");
        assert!((within - 0.6827).abs() < 0.01, "{within}");
        assert!(noise.iter().all(|own| own.is_finite()));
    }
}
