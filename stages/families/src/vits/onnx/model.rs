//! The model as a graph: tokens to samples, one text at a time.
//!
//! It follows the modules of `stages/torch/src/vits`, with the names of their weights. The
//! posterior encoder and the discriminator take no part in synthesis.

use stage_core::StageError;
use stage_formats::onnx::Value;

use super::net::{Conv, END, Net};
use crate::vits::Config;

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
pub fn speak(net: &mut Net, config: &Config, inputs: &Inputs) -> Result<Value, StageError> {
    let speaker = match &inputs.speaker {
        Some(number) => {
            let table = net.constant("embed_speaker.weight", 0)?;
            let row = net.gathered(&table, number, 0);
            Some(net.unsqueezed(&row, -1)) // [1, E, 1]
        }
        None => None,
    };
    let (hidden, count) = text_encoder(net, config, &inputs.tokens)?;
    let prior = net.conv("text_encoder.project", &hidden, Conv::POINT)?;
    let (mean, log_deviation) = net.halves(&prior, config.flow_size);
    let log_durations = super::durations::predicted(
        net,
        config,
        &hidden,
        speaker.as_ref(),
        &inputs.noise_scale_duration,
    )?;
    let tokens = token_of_frame(net, &log_durations, &inputs.length_scale, &count);
    let mean = net.gathered(&mean, &tokens, 2);
    let log_deviation = net.gathered(&log_deviation, &tokens, 2);
    let deviation = net.of("Exp", &log_deviation);
    let noise = net.noise(&mean);
    let noise = net.mul(&noise, &deviation);
    let noise = net.mul(&noise, &inputs.noise_scale);
    let latents = net.add(&mean, &noise);
    let latents = flow(net, config, &latents, speaker.as_ref())?;
    decoder(net, config, &latents, speaker.as_ref())
}

/// Hidden states [1, C, N], and the number of tokens.
fn text_encoder(
    net: &mut Net,
    config: &Config,
    tokens: &Value,
) -> Result<(Value, Value), StageError> {
    let table = net.constant("text_encoder.embed_tokens.weight", 0)?;
    let embedded = net.gathered(&table, tokens, 0);
    let mut x = net.times(&embedded, (config.hidden_size as f64).sqrt()); // [1, N, C]
    let shape = net.of("Shape", tokens);
    let one = net.graph.integer(1);
    let count = net.gathered(&shape, &one, 0);
    let positions = RelativePositions::new(net, &count, config.window_size);
    let kernel = config.ffn_kernel_size;
    let form = Conv { padding: [(kernel - 1) / 2, kernel / 2], ..Conv::same(kernel, 1) };
    for at in 0..config.num_hidden_layers {
        let layer = format!("text_encoder.encoder.layers.{at}");
        let attended = attention(net, config, &format!("{layer}.attention"), &x, &positions)?;
        let sum = net.add(&x, &attended);
        x = net.norm(&format!("{layer}.layer_norm"), &sum, config.layer_norm_eps)?;
        let inner = net.turned(&x, &[0, 2, 1]);
        let inner = net.conv(&format!("{layer}.feed_forward.conv_1"), &inner, form)?;
        let inner = net.of("Relu", &inner);
        let inner = net.conv(&format!("{layer}.feed_forward.conv_2"), &inner, form)?;
        let inner = net.turned(&inner, &[0, 2, 1]);
        let sum = net.add(&x, &inner);
        x = net.norm(&format!("{layer}.final_layer_norm"), &sum, config.layer_norm_eps)?;
    }
    Ok((net.turned(&x, &[0, 2, 1]), count))
}

/// Indices and masks between relative positions and keys, each [N, W] or [N, N].
struct RelativePositions {
    /// The relative position of each query and key, and whether it is in the window.
    relative: (Value, Value),
    /// The key at each relative position of each query, and whether there is one.
    keys: (Value, Value),
}

impl RelativePositions {
    fn new(net: &mut Net, count: &Value, window: i64) -> RelativePositions {
        let numbers = net.counted(count);
        let (row, column) = (net.unsqueezed(&numbers, 0), net.unsqueezed(&numbers, 1));
        let middle = net.graph.integers(&[window]);
        let apart = net.sub(&row, &column);
        let relative = net.add(&apart, &middle);
        let places: Vec<i64> = (0..=2 * window).collect();
        let places = net.graph.table(&places, &[1, 2 * window + 1]);
        let keys = net.add(&places, &column);
        let keys = net.sub(&keys, &middle);
        let (last, one) = (net.graph.integer(2 * window), net.graph.integer(1));
        let last_key = net.sub(count, &one);
        let relative = within(net, &relative, &last);
        RelativePositions { relative, keys: within(net, &keys, &last_key) }
    }
}

/// Numbers clamped from 0 to the largest, and a mask of those that were in range.
fn within(net: &mut Net, numbers: &Value, largest: &Value) -> (Value, Value) {
    let zero = net.graph.integer(0);
    let above = net.graph.add("GreaterOrEqual", &[numbers, &zero]);
    let below = net.graph.add("LessOrEqual", &[numbers, largest]);
    let inside = net.graph.add("And", &[&above, &below]);
    let inside = net.floats(&inside);
    let clamped = net.graph.add("Max", &[numbers, &zero]);
    (net.graph.add("Min", &[&clamped, largest]), inside)
}

fn converted(net: &mut Net, x: &Value, (index, inside): &(Value, Value), heads: i64) -> Value {
    let (head, size) = (net.graph.integers(&[1, heads]), net.of("Shape", index));
    let shape = net.joined(&[&head, &size], 0);
    let index = net.graph.add("Expand", &[index, &shape]);
    let found = net.at(x, &index, 3);
    net.mul(&found, inside)
}

/// [1, N, C] to [1, N, C].
fn attention(
    net: &mut Net,
    config: &Config,
    name: &str,
    x: &Value,
    positions: &RelativePositions,
) -> Result<Value, StageError> {
    let heads = config.num_attention_heads;
    let width = config.hidden_size / heads;
    let split = |net: &mut Net, part: &str| -> Result<Value, StageError> {
        let y = net.linear(&format!("{name}.{part}"), x)?;
        let y = net.reshaped(&y, &[1, -1, heads, width]);
        Ok(net.turned(&y, &[0, 2, 1, 3])) // [1, H, N, head width]
    };
    let (queries, keys) = (split(net, "q_proj")?, split(net, "k_proj")?);
    let values = split(net, "v_proj")?;
    let queries = net.times(&queries, (width as f64).powf(-0.5));
    let keys = net.turned(&keys, &[0, 1, 3, 2]);
    let scores = net.graph.add("MatMul", &[&queries, &keys]);
    let of_keys = net.constant(&format!("{name}.emb_rel_k"), 1)?;
    let of_keys = net.turned(&of_keys, &[0, 2, 1]);
    let relative = net.graph.add("MatMul", &[&queries, &of_keys]);
    let relative = converted(net, &relative, &positions.relative, heads);
    let scores = net.add(&scores, &relative);
    let weights = net.softmax(&scores);
    let y = net.graph.add("MatMul", &[&weights, &values]);
    let of_values = net.constant(&format!("{name}.emb_rel_v"), 1)?;
    let relative = converted(net, &weights, &positions.keys, heads);
    let relative = net.graph.add("MatMul", &[&relative, &of_values]);
    let y = net.add(&y, &relative);
    let y = net.turned(&y, &[0, 2, 1, 3]);
    let y = net.reshaped(&y, &[1, -1, heads * width]);
    net.linear(&format!("{name}.out_proj"), &y)
}

/// The token of each frame: [T]. Durations are whole frames, and at least one frame is spoken.
fn token_of_frame(
    net: &mut Net,
    log_durations: &Value,
    length_scale: &Value,
    count: &Value,
) -> Value {
    let durations = net.of("Exp", log_durations);
    let durations = net.mul(&durations, length_scale);
    let durations = net.of("Ceil", &durations);
    let durations = net.squeezed(&durations, &[0, 1]);
    let (zero, one) = (net.graph.integer(0), net.graph.integer(1));
    let ends = net.graph.add("CumSum", &[&durations, &zero]);
    let total = net.slice(&ends, (-1, END), 0);
    let total = net.counts(&total);
    let total = net.squeezed(&total, &[0]);
    let total = net.graph.add("Max", &[&total, &one]);
    let frames = net.counted(&total);
    let frames = net.floats(&frames);
    let (frames, ends) = (net.unsqueezed(&frames, 1), net.unsqueezed(&ends, 0));
    let is_past = net.graph.add("GreaterOrEqual", &[&frames, &ends]);
    let is_past = net.counts(&is_past);
    let tokens = summed(net, &is_past, 1, false);
    let last = net.sub(count, &one);
    net.graph.add("Min", &[&tokens, &last])
}

pub fn summed(net: &mut Net, x: &Value, axis: i64, keeps: bool) -> Value {
    let axis = net.graph.integers(&[axis]);
    let keeps = ("keepdims", stage_formats::onnx::Attribute::Integer(i64::from(keeps)));
    net.graph.with("ReduceSum", &[x, &axis], &[keeps])
}

/// The couplings in reverse: [1, C, T] to [1, C, T].
fn flow(
    net: &mut Net,
    config: &Config,
    latents: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let half = config.flow_size / 2;
    let mut z = latents.clone();
    for at in (0..config.prior_encoder_num_flows).rev() {
        let name = format!("flow.flows.{at}");
        let flipped = net.flipped(&z);
        let (first, second) = net.halves(&flipped, half);
        let hidden = net.conv(&format!("{name}.conv_pre"), &first, Conv::POINT)?;
        let hidden = wavenet(net, config, &format!("{name}.wavenet"), &hidden, speaker)?;
        let mean = net.conv(&format!("{name}.conv_post"), &hidden, Conv::POINT)?;
        let second = net.sub(&second, &mean);
        z = net.joined(&[&first, &second], 1);
    }
    Ok(z)
}

/// [1, C, T] to [1, C, T].
fn wavenet(
    net: &mut Net,
    config: &Config,
    name: &str,
    x: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let (width, layers) = (config.hidden_size, config.prior_encoder_num_wavenet_layers);
    let condition = match speaker {
        Some(speaker) => Some(net.conv(&format!("{name}.cond_layer"), speaker, Conv::POINT)?),
        None => None,
    };
    let (mut x, mut sum, mut dilation) = (x.clone(), None, 1);
    for at in 0..layers {
        let form = Conv::same(config.wavenet_kernel_size, dilation);
        dilation *= config.wavenet_dilation_rate;
        let mut inner = net.conv(&format!("{name}.in_layers.{at}"), &x, form)?;
        if let Some(condition) = &condition {
            let own = net.slice(condition, (at * 2 * width, (at + 1) * 2 * width), 1);
            inner = net.add(&inner, &own);
        }
        let (wave, gate) = net.halves(&inner, width);
        let (wave, gate) = (net.of("Tanh", &wave), net.of("Sigmoid", &gate));
        let inner = net.mul(&wave, &gate);
        let made = net.conv(&format!("{name}.res_skip_layers.{at}"), &inner, Conv::POINT)?;
        let skipped = if at + 1 < layers {
            let (residual, skipped) = net.halves(&made, width);
            x = net.add(&x, &residual);
            skipped
        } else {
            made
        };
        sum = Some(match sum {
            Some(sum) => net.add(&sum, &skipped),
            None => skipped,
        });
    }
    sum.ok_or_else(|| StageError::failed("a WaveNet of the model has no layers"))
}

/// [1, C, T] to [1, 1, samples].
fn decoder(
    net: &mut Net,
    config: &Config,
    latents: &Value,
    speaker: Option<&Value>,
) -> Result<Value, StageError> {
    let slope = config.leaky_relu_slope;
    let mut x = net.conv("decoder.conv_pre", latents, Conv::same(7, 1))?;
    if let Some(speaker) = speaker {
        let own = net.conv("decoder.cond", speaker, Conv::POINT)?;
        x = net.add(&x, &own);
    }
    let kinds = config.resblock_kernel_sizes.len();
    let steps = config.upsample_kernel_sizes.iter().zip(&config.upsample_rates);
    for (step, (kernel, rate)) in steps.enumerate() {
        x = net.leaky(&x, slope);
        x = net.upsample(&format!("decoder.upsampler.{step}"), &x, (*kernel, *rate))?;
        let mut sum = None;
        for kind in 0..kinds {
            let name = format!("decoder.resblocks.{}", step * kinds + kind);
            let y = resblock(net, config, &name, kind, &x)?;
            sum = Some(match sum {
                Some(sum) => net.add(&sum, &y),
                None => y,
            });
        }
        if let Some(sum) = sum {
            x = net.times(&sum, 1.0 / kinds as f64);
        }
    }
    x = net.leaky(&x, LAST_SLOPE);
    x = net.conv("decoder.conv_post", &x, Conv::same(7, 1))?;
    Ok(net.of("Tanh", &x))
}

fn resblock(
    net: &mut Net,
    config: &Config,
    name: &str,
    kind: usize,
    x: &Value,
) -> Result<Value, StageError> {
    let (kernel, slope) = (config.resblock_kernel_sizes[kind], config.leaky_relu_slope);
    let mut x = x.clone();
    for (at, dilation) in config.resblock_dilation_sizes[kind].iter().enumerate() {
        let y = net.leaky(&x, slope);
        let y = net.conv(&format!("{name}.convs1.{at}"), &y, Conv::same(kernel, *dilation))?;
        let y = net.leaky(&y, slope);
        let y = net.conv(&format!("{name}.convs2.{at}"), &y, Conv::same(kernel, 1))?;
        x = net.add(&x, &y);
    }
    Ok(x)
}
