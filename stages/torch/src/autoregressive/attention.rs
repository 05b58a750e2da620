//! Attention over whole rows, for training and for prefixes.

use tch::Tensor;

use crate::layers::repeat_heads;

/// The keys that a query attends to. One mask for the whole batch.
#[derive(Debug)]
pub enum AttentionMask {
    /// Itself and all previous columns of its own row.
    Causal,
    /// The same within spans: the length of each one, row after row.
    Spans(Vec<i64>),
    /// True for attended keys: [B, 1, queries, keys].
    Explicit(Tensor),
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
            AttentionMask::Spans(lengths) => self.attend_spans(lengths),
        };
        y.reshape([size[0], size[1], -1])
    }

    /// [B, T, heads, width]; causal if there is no mask.
    fn attend_rows(&self, mask: Option<&Tensor>) -> Tensor {
        let times = self.queries.size()[2] / self.keys.size()[2];
        let keys = repeat_heads(&self.keys.transpose(1, 2), 1, times);
        let values = repeat_heads(&self.values.transpose(1, 2), 1, times);
        let queries = self.queries.transpose(1, 2);
        scaled_dot_product(&queries, &keys, &values, mask, mask.is_none()).transpose(1, 2)
    }

    /// The batch as one long row, cut into spans that do not attend to each other.
    fn attend_spans(&self, lengths: &[i64]) -> Tensor {
        let times = self.queries.size()[2] / self.keys.size()[2];
        let cut = |x: &Tensor, times: i64| {
            // Repeated once, not in each span.
            repeat_heads(x, 2, times).flatten(0, 1).unsqueeze(0).split_with_sizes(lengths, 1)
        };
        let (queries, keys) = (cut(&self.queries, 1), cut(&self.keys, times));
        let parts = queries.into_iter().zip(keys).zip(cut(&self.values, times));
        let parts: Vec<Tensor> = parts
            .map(|((queries, keys), values)| Heads { queries, keys, values }.attend_rows(None))
            .collect();
        Tensor::cat(&parts, 1)
    }
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
