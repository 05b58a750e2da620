//! The transformers of the codec: causal attention within a window.

use tch::{Device, Kind, Tensor};

use super::config::Transformer as Config;
use super::conv::take;
use super::load::Tensors;
use crate::error::TorchError;

#[derive(Debug)]
pub struct Transformer {
    config: Config,
    layers: Vec<Layer>,
    norm: Norm,
    /// Cosines and sines: [block_size, 1, head_dim / 2].
    cosines: Tensor,
    sines: Tensor,
}

impl Transformer {
    pub fn new(tensors: &Tensors, name: &str, config: &Config) -> Result<Transformer, TorchError> {
        let layers = (0..config.n_layer).map(|at| Layer::new(tensors, name, at, config));
        let norm = Norm::new(tensors, &format!("{name}.norm"), config)?;
        let (cosines, sines) = rotations(config, norm.weight.device())?;
        Ok(Transformer {
            layers: layers.collect::<Result<_, _>>()?,
            config: config.clone(),
            norm,
            cosines,
            sines,
        })
    }

    /// [B, C, T] to [B, C, T].
    pub fn forward(&self, input: &Tensor) -> Result<Tensor, TorchError> {
        let mut rows = input.f_transpose(1, 2)?; // [B, T, C]
        let length = rows.size()[1];
        if length > self.config.block_size {
            let most = self.config.block_size;
            return Err(TorchError::Input(format!("{length} positions, the codec has {most}")));
        }
        let (cosines, sines) =
            (self.cosines.f_narrow(0, 0, length)?, self.sines.f_narrow(0, 0, length)?);
        let band = Band::new(length, self.config.window_size, rows.device())?;
        for layer in &self.layers {
            rows = layer.forward(&rows, &|heads| rotate(heads, &cosines, &sines), &band)?;
        }
        Ok(self.norm.forward(&rows)?.f_transpose(1, 2)?)
    }
}

/// Cosines and sines of the angles, rounded to 16 bits as the original stores them.
fn rotations(config: &Config, device: Device) -> Result<(Tensor, Tensor), TorchError> {
    let options = (Kind::Float, Device::Cpu);
    let steps = Tensor::f_arange_start_step(0, config.head_dim, 2, options)?;
    let steps = steps.f_div_scalar(config.head_dim as f64)?;
    let speeds = Tensor::f_pow_scalar(config.rope_base, &steps)?.f_reciprocal()?;
    let positions = Tensor::f_arange(config.block_size, options)?;
    let angles = positions.f_outer(&speeds)?; // [T, D / 2]
    let circle = Tensor::f_polar(&angles.f_ones_like()?, &angles)?.f_view_as_real()?;
    let circle = circle.f_to_kind(Kind::BFloat16)?.f_to_kind(Kind::Float)?.f_to_device(device)?;
    let part = |at| circle.f_select(2, at)?.f_unsqueeze(1)?.f_contiguous();
    Ok((part(0)?, part(1)?))
}

/// Turns neighbouring pairs by their angles: [B, T, H, D].
fn rotate(heads: &Tensor, cosines: &Tensor, sines: &Tensor) -> Result<Tensor, TorchError> {
    let pairs = heads.f_unflatten(3, [-1, 2])?;
    let (even, odd) = (pairs.f_select(4, 0)?, pairs.f_select(4, 1)?);
    let turned_even = even.f_mul(cosines)?.f_sub(&odd.f_mul(sines)?)?;
    let turned_odd = odd.f_mul(cosines)?.f_add(&even.f_mul(sines)?)?;
    Ok(Tensor::f_stack(&[turned_even, turned_odd], 4)?.f_flatten(3, 4)?)
}

/// Which positions see which. A position sees the `window` up to itself, so a block of that
/// many queries needs the keys of its own block and of the one before: memory grows with
/// length times window and not with length squared.
struct Band {
    length: i64,
    window: i64,
    blocks: i64,
    /// True where a query sees a key: [T, T] when one block suffices, else
    /// [blocks, 1, window, 2 window].
    mask: Tensor,
}

impl Band {
    fn new(length: i64, window: i64, device: Device) -> Result<Band, TorchError> {
        let options = (Kind::Int64, device);
        let blocks = (length + window - 1) / window;
        let mask = if blocks <= 2 {
            let places = Tensor::f_arange(length, options)?;
            seen(&places.f_unsqueeze(1)?, &places.f_unsqueeze(0)?, window)?
        } else {
            let starts = Tensor::f_arange(blocks, options)?.f_mul_scalar(window)?;
            let starts = starts.f_reshape([-1, 1, 1, 1])?;
            let queries = Tensor::f_arange(window, options)?.f_reshape([-1, 1])?;
            let keys = Tensor::f_arange(2 * window, options)?.f_sub_scalar(window)?;
            let keys = keys.f_add(&starts)?;
            let real = keys.f_ge(0)?;
            seen(&queries.f_add(&starts)?, &keys, window)?.f_logical_and(&real)?
        };
        Ok(Band { length, window, blocks, mask })
    }

    /// [B, H, T, D] each.
    fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor, TorchError> {
        if self.blocks <= 2 {
            return attention(query, key, value, &self.mask);
        }
        let (batch, heads, _, width) = query.size4()?;
        let blocks = self.blocks;
        let behind = blocks * self.window - self.length;
        // The batch joins the heads, so that one mask serves all: [blocks, B * H, window, D].
        let query = query.f_flatten(0, 1)?.f_constant_pad_nd([0, 0, 0, behind])?;
        let query = query.f_unflatten(1, [blocks, self.window])?.f_transpose(0, 1)?;
        let (key, value) = (self.doubled(key, behind)?, self.doubled(value, behind)?);
        let output = attention(&query, &key, &value, &self.mask)?.f_transpose(0, 1)?;
        let output = output.f_reshape([batch, heads, blocks * self.window, width])?;
        Ok(output.f_narrow(2, 0, self.length)?)
    }

    /// Each block with the one before it: [blocks, B * H, 2 window, D].
    fn doubled(&self, keys: &Tensor, behind: i64) -> Result<Tensor, TorchError> {
        let padded = keys.f_flatten(0, 1)?.f_constant_pad_nd([0, 0, self.window, behind])?;
        let blocks = padded.f_unfold(1, 2 * self.window, self.window)?; // [B * H, n, D, 2 window]
        Ok(blocks.f_permute([1, 0, 3, 2])?)
    }
}

fn seen(queries: &Tensor, keys: &Tensor, window: i64) -> Result<Tensor, TorchError> {
    let distance = queries.f_sub(keys)?;
    Ok(distance.f_ge(0)?.f_logical_and(&distance.f_lt(window)?)?)
}

fn attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: &Tensor,
) -> Result<Tensor, TorchError> {
    let output = Tensor::f_scaled_dot_product_attention(
        query,
        key,
        value,
        Some(mask),
        0.0,
        false,
        None,
        false,
    );
    Ok(output?)
}

/// Scales each row to a root mean square of one.
#[derive(Debug)]
struct Norm {
    weight: Tensor,
    epsilon: f64,
}

impl Norm {
    fn new(tensors: &Tensors, name: &str, config: &Config) -> Result<Norm, TorchError> {
        Ok(Norm { weight: take(tensors, &format!("{name}.weight"))?, epsilon: config.norm_eps })
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor, TorchError> {
        let mean = rows.f_square()?.f_mean_dim([-1i64].as_slice(), true, None::<Kind>)?;
        let scale = mean.f_add_scalar(self.epsilon)?.f_rsqrt()?;
        Ok(rows.f_mul(&scale)?.f_mul_(&self.weight)?)
    }
}

#[derive(Debug)]
struct Layer {
    heads: [i64; 2],
    attention_norm: Norm,
    joined: Tensor,
    output: Tensor,
    attention_scale: Tensor,
    ffn_norm: Norm,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    ffn_scale: Tensor,
}

impl Layer {
    fn new(tensors: &Tensors, name: &str, at: i64, config: &Config) -> Result<Layer, TorchError> {
        let name = format!("{name}.layers.{at}");
        let part = |part: &str| take(tensors, &format!("{name}.{part}"));
        let norm = |part: &str| Norm::new(tensors, &format!("{name}.{part}"), config);
        Ok(Layer {
            heads: [config.n_head, config.head_dim],
            attention_norm: norm("attention_norm")?,
            joined: part("attention.wqkv.weight")?,
            output: part("attention.wo.weight")?,
            attention_scale: part("attention_layer_scale.gamma")?,
            ffn_norm: norm("ffn_norm")?,
            gate: part("feed_forward.w1.weight")?,
            up: part("feed_forward.w3.weight")?,
            down: part("feed_forward.w2.weight")?,
            ffn_scale: part("ffn_layer_scale.gamma")?,
        })
    }

    /// [B, T, C] to [B, T, C].
    fn forward(
        &self,
        rows: &Tensor,
        rotate: &dyn Fn(&Tensor) -> Result<Tensor, TorchError>,
        band: &Band,
    ) -> Result<Tensor, TorchError> {
        let attended = self.attend(&self.attention_norm.forward(rows)?, rotate, band)?;
        let rows = rows.f_add(&attended.f_mul(&self.attention_scale)?)?;
        let normed = self.ffn_norm.forward(&rows)?;
        let gate = linear(&normed, &self.gate)?.f_silu_()?;
        let inner = gate.f_mul(&linear(&normed, &self.up)?)?;
        Ok(rows.f_add(&linear(&inner, &self.down)?.f_mul(&self.ffn_scale)?)?)
    }

    fn attend(
        &self,
        rows: &Tensor,
        rotate: &dyn Fn(&Tensor) -> Result<Tensor, TorchError>,
        band: &Band,
    ) -> Result<Tensor, TorchError> {
        let [heads, width] = self.heads;
        let joined = linear(rows, &self.joined)?.f_unflatten(2, [3, heads, width])?;
        let part = |at| joined.f_select(2, at); // [B, T, H, D]
        let query = rotate(&part(0)?)?.f_transpose(1, 2)?;
        let key = rotate(&part(1)?)?.f_transpose(1, 2)?;
        let output = band.attend(&query, &key, &part(2)?.f_transpose(1, 2)?)?;
        linear(&output.f_transpose(1, 2)?.f_flatten(2, 3)?, &self.output)
    }
}

fn linear(rows: &Tensor, weight: &Tensor) -> Result<Tensor, TorchError> {
    Ok(rows.f_linear(weight, None::<Tensor>)?)
}
