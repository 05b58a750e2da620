//! Attention over whole rows, for training and for prefixes.

use tch::{Device, Kind, Tensor};

use crate::device::compute_capability;
use crate::error::InTch;
use crate::nn::layers::repeat_heads;
use crate::runtime::shim;
use crate::runtime::upload::upload_all;

/// The keys that a query attends to. One mask for the whole batch.
#[derive(Debug)]
pub enum AttentionMask {
    /// Itself and all previous columns of its own row.
    Causal,
    /// The same within spans, row after row.
    Spans(Spans),
    /// True for attended keys: [B, 1, queries, keys].
    Explicit(Tensor),
}

/// Spans of columns that do not attend to each other.
#[derive(Debug)]
pub struct Spans {
    lengths: Vec<i64>,
    /// The first column of each span, and the end. None if the flash kernel cannot be used.
    bounds: Option<Tensor>,
}

/// Queries, keys and values: [B, T, heads, width]. Several query heads may share a key head.
#[derive(Debug)]
pub struct Heads {
    pub queries: Tensor,
    pub keys: Tensor,
    pub values: Tensor,
}

impl Heads {
    /// [B, T, heads * width]. Without a mask tensor if `is_causal` is exact.
    pub fn attend(&self, mask: &AttentionMask) -> Tensor {
        let size = self.queries.size();
        let y = match mask {
            AttentionMask::Causal => self.attend_rows(None),
            AttentionMask::Explicit(mask) => self.attend_rows(Some(mask)),
            AttentionMask::Spans(spans) => self.attend_spans(spans),
        };
        y.reshape([size[0], size[1], -1])
    }

    /// [B, T, heads, width]; causal if there is no mask.
    fn attend_rows(&self, mask: Option<&Tensor>) -> Tensor {
        let times = self.queries.size()[2] / self.keys.size()[2];
        let keys = repeat_heads(&self.keys.transpose(1, 2), 1, times);
        let values = repeat_heads(&self.values.transpose(1, 2), 1, times);
        let queries = self.queries.transpose(1, 2);
        let attended = if mask.is_none() && self.are_short() {
            short(&queries, &keys, &values)
        } else {
            scaled_dot_product(&queries, &keys, &values, mask, mask.is_none())
        };
        attended.transpose(1, 2)
    }

    /// True if the memory-efficient kernel can be used in place of the flash kernel, and the rows
    /// fill only a small part of the latter's tiles of 64 or 128 columns, as in the fast layers of
    /// Fish Speech.
    fn are_short(&self) -> bool {
        const SHORT: i64 = 32;
        let (size, kernels) = (self.queries.size(), shim::attention());
        self.queries.device().is_cuda()
            && is_half(&self.queries)
            && size[1] <= SHORT
            && size[3] % 8 == 0
            && kernels.flash
            && kernels.efficient
    }

    /// The batch as one long row, cut into spans that do not attend to each other.
    fn attend_spans(&self, spans: &Spans) -> Tensor {
        let whole = |x: &Tensor| x.flatten(0, 1);
        if let Some(bounds) = spans.bounds.as_ref().filter(|_| is_half(&self.queries)) {
            let longest = spans.lengths.iter().copied().max().unwrap_or(0);
            let heads = [&self.queries, &self.keys, &self.values].map(whole);
            return shim::attend_spans(heads.each_ref(), bounds, longest).in_tch();
        }
        let times = self.queries.size()[2] / self.keys.size()[2];
        let cut = |x: &Tensor, times: i64| {
            // Repeated once, not in each span.
            whole(&repeat_heads(x, 2, times)).unsqueeze(0).split_with_sizes(&spans.lengths[..], 1)
        };
        let (queries, keys) = (cut(&self.queries, 1), cut(&self.keys, times));
        let parts = queries.into_iter().zip(keys).zip(cut(&self.values, times));
        let parts: Vec<Tensor> = parts
            .map(|((queries, keys), values)| Heads { queries, keys, values }.attend_rows(None))
            .collect();
        Tensor::cat(&parts, 1)
    }
}

impl Spans {
    /// For a batch on this device.
    pub fn new(lengths: Vec<i64>, device: Device) -> Spans {
        let has_kernel = compute_capability(device).is_some_and(|has| has >= (8, 0));
        let bounds = (has_kernel && shim::attention().flash).then(|| {
            let bounds = std::iter::once(0).chain(lengths.iter().scan(0, |end, length| {
                *end += *length as i32;
                Some(*end)
            }));
            upload_all(&bounds.collect::<Vec<i32>>(), device)
        });
        Spans { bounds, lengths }
    }
}

fn is_half(x: &Tensor) -> bool {
    matches!(x.kind(), Kind::BFloat16 | Kind::Half)
}

/// Causal, with the memory-efficient kernel. libtorch would select the flash kernel.
fn short(queries: &Tensor, keys: &Tensor, values: &Tensor) -> Tensor {
    let (keeps, none) = (queries.requires_grad(), None::<&Tensor>);
    let (attended, ..) = Tensor::internal_scaled_dot_product_efficient_attention(
        queries, keys, values, none, keeps, 0.0, true, None,
    );
    attended
}

pub(super) fn scaled_dot_product(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
) -> Tensor {
    Tensor::scaled_dot_product_attention(queries, keys, values, mask, 0.0, causal, None, false)
}
