//! The model as a graph: tokens to samples, one text at a time.
//!
//! It follows the modules of `stages/torch/src/vits`, with the names of their weights. The
//! posterior encoder and the discriminator take no part in synthesis.

use stage_core::StageError;
use stage_formats::onnx::Value;

use super::graph_builder::{Conv, END, GraphBuilder};
use crate::vits::VitsConfig;

/// The slope of the last activation, the default of PyTorch.
const LAST_SLOPE: f64 = 0.01;

/// The inputs of a graph.
pub struct Inputs {
    /// Tokens with their blanks: [1, N].
    pub tokens: Value,
    /// [1], like the other two.
    pub noise_scale: Value,
    pub length_scale: Value,
    pub noise_scale_duration: Value,
    /// The number of the speaker, [1], of models with several.
    pub speaker: Option<Value>,
}

/// The samples: [1, 1, T].
pub fn speak(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    inputs: &Inputs,
) -> Result<Value, StageError> {
    let speaker = match &inputs.speaker {
        Some(number) => {
            let table = builder.constant("embed_speaker.weight", 0)?;
            let row = builder.gathered(&table, number, 0);
            Some(builder.unsqueezed(&row, -1)) // [1, E, 1]
        }
        None => None,
    };
    let (hidden, count) = text_encoder(builder, config, &inputs.tokens)?;
    let prior = builder.conv("text_encoder.project", &hidden, Conv::POINT)?;
    let (mean, log_deviation) = builder.halves(&prior, config.flow_size);
    let log_durations = super::durations::predicted(
        builder,
        config,
        &hidden,
        speaker.as_ref(),
        &inputs.noise_scale_duration,
    )?;
    let tokens = token_of_frame(builder, &log_durations, &inputs.length_scale, &count);
    let mean = builder.gathered(&mean, &tokens, 2);
    let log_deviation = builder.gathered(&log_deviation, &tokens, 2);
    let deviation = builder.of("Exp", &log_deviation);
    let noise = builder.noise(&mean);
    let noise = builder.mul(&noise, &deviation);
    let noise = builder.mul(&noise, &inputs.noise_scale);
    let latents = builder.add(&mean, &noise);
    let latents = flow(builder, config, &latents, speaker.as_ref())?;
    decoder(builder, config, &latents, speaker.as_ref())
}

/// Hidden states [1, C, N], and the number of tokens.
fn text_encoder(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    tokens: &Value,
) -> Result<(Value, Value), StageError> {
    let table = builder.constant("text_encoder.embed_tokens.weight", 0)?;
    let embedded = builder.gathered(&table, tokens, 0);
    let mut x = builder.times(&embedded, (config.hidden_size as f64).sqrt()); // [1, N, C]
    let shape = builder.of("Shape", tokens);
    let one = builder.graph.integer(1);
    let count = builder.gathered(&shape, &one, 0);
    let positions = RelativePositions::new(builder, &count, config.window_size);
    let kernel = config.ffn_kernel_size;
    let form = Conv { padding: [(kernel - 1) / 2, kernel / 2], ..Conv::same(kernel, 1) };
    for at in 0..config.num_hidden_layers {
        let layer = format!("text_encoder.encoder.layers.{at}");
        let attended = attention(builder, config, &format!("{layer}.attention"), &x, &positions)?;
        let sum = builder.add(&x, &attended);
        x = builder.norm(&format!("{layer}.layer_norm"), &sum, config.layer_norm_eps)?;
        let inner = builder.turned(&x, &[0, 2, 1]);
        let inner = builder.conv(&format!("{layer}.feed_forward.conv_1"), &inner, form)?;
        let inner = builder.of("Relu", &inner);
        let inner = builder.conv(&format!("{layer}.feed_forward.conv_2"), &inner, form)?;
        let inner = builder.turned(&inner, &[0, 2, 1]);
        let sum = builder.add(&x, &inner);
        x = builder.norm(&format!("{layer}.final_layer_norm"), &sum, config.layer_norm_eps)?;
    }
    Ok((builder.turned(&x, &[0, 2, 1]), count))
}

/// Indices and masks between relative positions and keys, each [N, W] or [N, N].
struct RelativePositions {
    /// The relative position of each query and key, and whether it is in the window.
    relative: (Value, Value),
    /// The key at each relative position of each query, and whether there is one.
    keys: (Value, Value),
}

impl RelativePositions {
    fn new(builder: &mut GraphBuilder, count: &Value, window: i64) -> RelativePositions {
        let numbers = builder.counted(count);
        let (row, column) = (builder.unsqueezed(&numbers, 0), builder.unsqueezed(&numbers, 1));
        let middle = builder.graph.integers(&[window]);
        let apart = builder.sub(&row, &column);
        let relative = builder.add(&apart, &middle);
        let places: Vec<i64> = (0..=2 * window).collect();
        let places = builder.graph.table(&places, &[1, 2 * window + 1]);
        let keys = builder.add(&places, &column);
        let keys = builder.sub(&keys, &middle);
        let (last, one) = (builder.graph.integer(2 * window), builder.graph.integer(1));
        let last_key = builder.sub(count, &one);
        let relative = within(builder, &relative, &last);
        RelativePositions { relative, keys: within(builder, &keys, &last_key) }
    }
}

/// Numbers clamped from 0 to the largest, and a mask of those that were in range.
fn within(builder: &mut GraphBuilder, numbers: &Value, largest: &Value) -> (Value, Value) {
    let zero = builder.graph.integer(0);
    let above = builder.graph.add("GreaterOrEqual", &[numbers, &zero]);
    let below = builder.graph.add("LessOrEqual", &[numbers, largest]);
    let inside = builder.graph.add("And", &[&above, &below]);
    let inside = builder.floats(&inside);
    let clamped = builder.graph.add("Max", &[numbers, &zero]);
    (builder.graph.add("Min", &[&clamped, largest]), inside)
}

fn converted(
    builder: &mut GraphBuilder,
    x: &Value,
    (index, inside): &(Value, Value),
    heads: i64,
) -> Value {
    let (head, size) = (builder.graph.integers(&[1, heads]), builder.of("Shape", index));
    let shape = builder.joined(&[&head, &size], 0);
    let index = builder.graph.add("Expand", &[index, &shape]);
    let found = builder.at(x, &index, 3);
    builder.mul(&found, inside)
}

/// [1, N, C] to [1, N, C].
fn attention(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    name: &str,
    x: &Value,
    positions: &RelativePositions,
) -> Result<Value, StageError> {
    let heads = config.num_attention_heads;
    let width = config.hidden_size / heads;
    let split = |builder: &mut GraphBuilder, part: &str| -> Result<Value, StageError> {
        let y = builder.linear(&format!("{name}.{part}"), x)?;
        let y = builder.reshaped(&y, &[1, -1, heads, width]);
        Ok(builder.turned(&y, &[0, 2, 1, 3])) // [1, H, N, head width]
    };
    let (queries, keys) = (split(builder, "q_proj")?, split(builder, "k_proj")?);
    let values = split(builder, "v_proj")?;
    let queries = builder.times(&queries, (width as f64).powf(-0.5));
    let keys = builder.turned(&keys, &[0, 1, 3, 2]);
    let scores = builder.graph.add("MatMul", &[&queries, &keys]);
    let of_keys = builder.constant(&format!("{name}.emb_rel_k"), 1)?;
    let of_keys = builder.turned(&of_keys, &[0, 2, 1]);
    let relative = builder.graph.add("MatMul", &[&queries, &of_keys]);
    let relative = converted(builder, &relative, &positions.relative, heads);
    let scores = builder.add(&scores, &relative);
    let weights = builder.softmax(&scores);
    let y = builder.graph.add("MatMul", &[&weights, &values]);
    let of_values = builder.constant(&format!("{name}.emb_rel_v"), 1)?;
    let relative = converted(builder, &weights, &positions.keys, heads);
    let relative = builder.graph.add("MatMul", &[&relative, &of_values]);
    let y = builder.add(&y, &relative);
    let y = builder.turned(&y, &[0, 2, 1, 3]);
    let y = builder.reshaped(&y, &[1, -1, heads * width]);
    builder.linear(&format!("{name}.out_proj"), &y)
}

/// The token of each frame: [T]. Durations are whole frames, and at least one frame is spoken.
fn token_of_frame(
    builder: &mut GraphBuilder,
    log_durations: &Value,
    length_scale: &Value,
    count: &Value,
) -> Value {
    let durations = builder.of("Exp", log_durations);
    let durations = builder.mul(&durations, length_scale);
    let durations = builder.of("Ceil", &durations);
    let durations = builder.squeezed(&durations, &[0, 1]);
    let (zero, one) = (builder.graph.integer(0), builder.graph.integer(1));
    let ends = builder.graph.add("CumSum", &[&durations, &zero]);
    let total = builder.slice(&ends, (-1, END), 0);
    let total = builder.counts(&total);
    let total = builder.squeezed(&total, &[0]);
    let total = builder.graph.add("Max", &[&total, &one]);
    let frames = builder.counted(&total);
    let frames = builder.floats(&frames);
    let (frames, ends) = (builder.unsqueezed(&frames, 1), builder.unsqueezed(&ends, 0));
    let is_past = builder.graph.add("GreaterOrEqual", &[&frames, &ends]);
    let is_past = builder.counts(&is_past);
    let tokens = summed(builder, &is_past, 1, false);
    let last = builder.sub(count, &one);
    builder.graph.add("Min", &[&tokens, &last])
}

pub fn summed(builder: &mut GraphBuilder, x: &Value, axis: i64, keeps: bool) -> Value {
    let axis = builder.graph.integers(&[axis]);
    let keeps = ("keepdims", stage_formats::onnx::Attribute::Integer(i64::from(keeps)));
    builder.graph.with("ReduceSum", &[x, &axis], &[keeps])
}

/// The couplings in reverse: [1, C, T] to [1, C, T].
fn flow(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    latents: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let half = config.flow_size / 2;
    let mut z = latents.clone();
    for at in (0..config.prior_encoder_num_flows).rev() {
        let name = format!("flow.flows.{at}");
        let flipped = builder.flipped(&z);
        let (first, second) = builder.halves(&flipped, half);
        let hidden = builder.conv(&format!("{name}.conv_pre"), &first, Conv::POINT)?;
        let hidden = wavenet(builder, config, &format!("{name}.wavenet"), &hidden, speaker)?;
        let mean = builder.conv(&format!("{name}.conv_post"), &hidden, Conv::POINT)?;
        let second = builder.sub(&second, &mean);
        z = builder.joined(&[&first, &second], 1);
    }
    Ok(z)
}

/// [1, C, T] to [1, C, T].
fn wavenet(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    name: &str,
    x: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let (width, layers) = (config.hidden_size, config.prior_encoder_num_wavenet_layers);
    let condition = match speaker {
        Some(speaker) => Some(builder.conv(&format!("{name}.cond_layer"), speaker, Conv::POINT)?),
        None => None,
    };
    let (mut x, mut sum, mut dilation) = (x.clone(), None, 1);
    for at in 0..layers {
        let form = Conv::same(config.wavenet_kernel_size, dilation);
        dilation *= config.wavenet_dilation_rate;
        let mut inner = builder.conv(&format!("{name}.in_layers.{at}"), &x, form)?;
        if let Some(condition) = &condition {
            let own = builder.slice(condition, (at * 2 * width, (at + 1) * 2 * width), 1);
            inner = builder.add(&inner, &own);
        }
        let (wave, gate) = builder.halves(&inner, width);
        let (wave, gate) = (builder.of("Tanh", &wave), builder.of("Sigmoid", &gate));
        let inner = builder.mul(&wave, &gate);
        let made = builder.conv(&format!("{name}.res_skip_layers.{at}"), &inner, Conv::POINT)?;
        let skipped = if at + 1 < layers {
            let (residual, skipped) = builder.halves(&made, width);
            x = builder.add(&x, &residual);
            skipped
        } else {
            made
        };
        sum = Some(match sum {
            Some(sum) => builder.add(&sum, &skipped),
            None => skipped,
        });
    }
    sum.ok_or_else(|| StageError::failed("a WaveNet of the model has no layers"))
}

/// [1, C, T] to [1, 1, samples].
fn decoder(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    latents: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let slope = config.leaky_relu_slope;
    let mut x = builder.conv("decoder.conv_pre", latents, Conv::same(7, 1))?;
    if let Some(speaker) = speaker {
        let own = builder.conv("decoder.cond", speaker, Conv::POINT)?;
        x = builder.add(&x, &own);
    }
    let kinds = config.resblock_kernel_sizes.len();
    let steps = config.upsample_kernel_sizes.iter().zip(&config.upsample_rates);
    for (step, (kernel, rate)) in steps.enumerate() {
        x = builder.leaky(&x, slope);
        x = builder.upsample(&format!("decoder.upsampler.{step}"), &x, (*kernel, *rate))?;
        let mut sum = None;
        for kind in 0..kinds {
            let name = format!("decoder.resblocks.{}", step * kinds + kind);
            let y = resblock(builder, config, &name, kind, &x)?;
            sum = Some(match sum {
                Some(sum) => builder.add(&sum, &y),
                None => y,
            });
        }
        if let Some(sum) = sum {
            x = builder.times(&sum, 1.0 / kinds as f64);
        }
    }
    x = builder.leaky(&x, LAST_SLOPE);
    x = builder.conv("decoder.conv_post", &x, Conv::same(7, 1))?;
    Ok(builder.of("Tanh", &x))
}

fn resblock(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    name: &str,
    kind: usize,
    x: &Value,
) -> Result<Value, StageError> {
    let (kernel, slope) = (config.resblock_kernel_sizes[kind], config.leaky_relu_slope);
    let mut x = x.clone();
    for (at, dilation) in config.resblock_dilation_sizes[kind].iter().enumerate() {
        if !config.has_paired_blocks() {
            let y = builder.leaky(&x, slope);
            let y =
                builder.conv(&format!("{name}.convs.{at}"), &y, Conv::same(kernel, *dilation))?;
            x = builder.add(&x, &y);
            continue;
        }
        let y = builder.leaky(&x, slope);
        let y = builder.conv(&format!("{name}.convs1.{at}"), &y, Conv::same(kernel, *dilation))?;
        let y = builder.leaky(&y, slope);
        let y = builder.conv(&format!("{name}.convs2.{at}"), &y, Conv::same(kernel, 1))?;
        x = builder.add(&x, &y);
    }
    Ok(x)
}
