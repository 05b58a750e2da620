//! Keys and values of previous columns, in buffers that are allocated once per batch.
//!
//! Rows end at the same column, so that a step writes one column for all of them; a row with a
//! shorter prefix starts further right.

use tch::{Device, Kind, Tensor};

use super::attention::{Heads, scaled_dot_product};
use super::generate::OpenRows;
use super::kernels::{self, KeyValues};
use super::rows;
use crate::runtime::upload::upload_all;

/// The shape of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheShape {
    pub layers: usize,
    /// Heads of keys and values.
    pub heads: i64,
    pub width: i64,
}

#[derive(Debug)]
pub struct KvCache {
    /// For each layer: [B, heads, capacity, width].
    layers: Vec<LayerCache>,
    /// The first column of each row.
    starts: Vec<i64>,
    /// The same on the device: [B, 1].
    starts_on_device: Tensor,
    /// The columns that are filled.
    length: i64,
    /// If rows start at different columns: true where a row has a column, [B, 1, 1, length].
    mask: Option<Tensor>,
}

#[derive(Debug)]
struct LayerCache {
    keys: Tensor,
    values: Tensor,
}

impl CacheShape {
    /// The size of a column of a row in bytes.
    pub fn bytes(&self, kind: Kind) -> u64 {
        let numbers = 2 * self.layers as u64 * (self.heads * self.width) as u64;
        numbers * kind.elt_size_in_bytes() as u64
    }
}

impl KvCache {
    /// Capacity for prefixes of these lengths and for `steps` columns after them.
    pub fn new(
        shape: CacheShape,
        prefixes: &[i64],
        steps: i64,
        (kind, device): (Kind, Device),
    ) -> KvCache {
        let longest = prefixes.iter().copied().max().unwrap_or(0);
        let starts: Vec<i64> = prefixes.iter().map(|length| longest - length).collect();
        let size = [starts.len() as i64, shape.heads, longest + steps, shape.width];
        let room = || Tensor::zeros(size, (kind, device));
        let layers =
            (0..shape.layers).map(|_| LayerCache { keys: room(), values: room() }).collect();
        KvCache {
            layers,
            starts_on_device: upload_all(&starts, device).view([-1, 1]),
            starts,
            length: longest,
            mask: None,
        }
    }

    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// The number of filled columns, which is that of the longest prefix.
    pub fn length(&self) -> i64 {
        self.length
    }

    /// The position of the newest column in each row: [B, 1].
    pub fn positions(&self) -> Tensor {
        self.length - 1 - &self.starts_on_device
    }

    /// Stores the keys and values of a whole prefix, [1, T, heads, width], of a row in a layer.
    pub fn fill(&self, layer: usize, row: usize, heads: &Heads) {
        let (start, LayerCache { keys, values }) = (self.starts[row], &self.layers[layer]);
        for (room, new) in [(keys, &heads.keys), (values, &heads.values)] {
            let room = room.narrow(0, row as i64, 1).narrow(2, start, new.size()[1]);
            room.shallow_clone().copy_(&new.transpose(1, 2));
        }
    }

    /// Begins a step: each row gets one more column, which every layer fills in
    /// [`attend`](Self::attend).
    pub fn grow(&mut self) {
        self.length += 1;
        let is_needed = self.starts.iter().any(|start| *start > 0);
        self.mask = (is_needed && !self.is_exact()).then(|| {
            let device = self.starts_on_device.device();
            let columns = Tensor::arange(self.length, (Kind::Int64, device));
            columns.ge_tensor(&self.starts_on_device).unsqueeze(1).unsqueeze(1)
        });
    }

    /// Stores the newest column of all rows in a layer, and its queries attend to all columns of
    /// their own row: heads of [B, 1, heads, width] to [B, 1, heads * width].
    pub fn attend(&self, layer: usize, heads: &Heads) -> Tensor {
        let LayerCache { keys, values } = &self.layers[layer];
        for (room, new) in [(keys, &heads.keys), (values, &heads.values)] {
            room.narrow(2, self.length - 1, 1).copy_(&new.transpose(1, 2));
        }
        let (rows, width) = (self.starts.len() as i64, keys.size()[3]);
        let queries = &heads.queries;
        if let Some(out) = self.attend_exactly(layer, queries) {
            return out.view([rows, 1, -1]);
        }
        // The queries that share a key head take the place of columns, so that the cache is not
        // copied.
        let queries = queries.reshape([rows, keys.size()[1], -1, width]);
        let seen = |room: &Tensor| room.narrow(2, 0, self.length);
        let mask = self.mask.as_ref();
        let y = scaled_dot_product(&queries, &seen(keys), &seen(values), mask, false);
        y.reshape([rows, 1, -1])
    }

    fn attend_exactly(&self, layer: usize, queries: &Tensor) -> Option<Tensor> {
        let LayerCache { keys, values } = &self.layers[layer];
        let size = keys.size();
        let cached = KeyValues {
            keys: rows::floats(keys)?,
            values: rows::floats(values)?,
            heads: size[1] as usize,
            room: size[2] as usize,
            width: size[3] as usize,
            starts: &self.starts,
            end: self.length as usize,
        };
        let queries = queries.contiguous();
        let values = rows::floats(&queries)?;
        Some(rows::filled(&queries.size(), |out| {
            kernels::attend(out, values, &cached, rows::threads());
        }))
    }

    /// Keeps only some rows, in order.
    pub fn keep(&mut self, kept: &OpenRows) {
        for LayerCache { keys, values } in &mut self.layers {
            *keys = keys.index_select(0, &kept.index);
            *values = values.index_select(0, &kept.index);
        }
        self.starts_on_device = self.starts_on_device.index_select(0, &kept.index);
        self.starts = kept.places.iter().map(|row| self.starts[*row]).collect();
    }

    /// Removes all columns; the buffers stay.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    fn is_exact(&self) -> bool {
        self.layers.first().is_some_and(|layer| rows::is_exact(&layer.keys))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::autoregressive::AttentionMask;

    const SHAPE: CacheShape = CacheShape { layers: 1, heads: 2, width: 6 };

    fn heads(rows: i64, length: i64) -> Heads {
        let random = |heads| Tensor::randn([rows, length, heads, 6], (Kind::Float, Device::Cpu));
        Heads { queries: random(4), keys: random(2), values: random(2) }
    }

    fn part(heads: &Heads, row: i64, start: i64, length: i64) -> Heads {
        let part = |x: &Tensor| x.narrow(0, row, 1).narrow(1, start, length);
        Heads {
            queries: part(&heads.queries),
            keys: part(&heads.keys),
            values: part(&heads.values),
        }
    }

    /// Attention of the last column of rows that begin at different columns, step by step, in a
    /// precision; the second row leaves before the last step.
    fn stepped(heads: &Heads, prefixes: &[i64], kind: Kind) -> Tensor {
        let to = |heads: Heads| Heads {
            queries: heads.queries.to_kind(kind),
            keys: heads.keys.to_kind(kind),
            values: heads.values.to_kind(kind),
        };
        let mut cache = KvCache::new(SHAPE, prefixes, 3, (kind, Device::Cpu));
        for (row, length) in prefixes.iter().enumerate() {
            cache.fill(0, row, &to(part(heads, row as i64, 0, *length)));
        }
        let mut rows: Vec<usize> = (0..prefixes.len()).collect();
        let mut y = Tensor::new();
        for step in 0..3 {
            if step == 2 {
                cache.keep(&OpenRows::new(vec![0, 2], Device::Cpu));
                rows.remove(1);
            }
            cache.grow();
            let columns = rows.iter().map(|row| part(heads, *row as i64, prefixes[*row] + step, 1));
            let columns: Vec<Heads> = columns.collect();
            let join = |of: fn(&Heads) -> &Tensor| {
                Tensor::cat(&columns.iter().map(of).collect::<Vec<_>>(), 0).to_kind(kind)
            };
            let (queries, keys) = (join(|heads| &heads.queries), join(|heads| &heads.keys));
            y = cache.attend(0, &Heads { queries, keys, values: join(|heads| &heads.values) });
            let positions: Vec<i64> = rows.iter().map(|row| prefixes[*row] + step).collect();
            assert_eq!(Vec::<i64>::try_from(cache.positions().view(-1)).unwrap(), positions);
        }
        y.to_kind(Kind::Float)
    }

    #[test]
    fn rows_of_unequal_prefixes_attend_as_whole_rows_do() {
        let heads = heads(3, 12);
        for (kind, bound) in [(Kind::Float, 1e-6), (Kind::BFloat16, 0.03)] {
            for prefixes in [[4, 7, 1], [5, 5, 5]] {
                let y = stepped(&heads, &prefixes, kind);
                for (at, row) in [(0, 0), (1, 2)] {
                    let length = prefixes[row as usize] + 3;
                    let whole = part(&heads, row, 0, length).attend(&AttentionMask::Causal);
                    let far = (whole.narrow(1, length - 1, 1) - y.narrow(0, at, 1)).abs().max();
                    assert!(far.double_value(&[]) < bound, "{kind:?} {far:?}");
                }
            }
        }
    }
}
