//! The input of one forward pass of training: clips in rows, as plain numbers.

use tch::{Device, Tensor};

use crate::error::TorchError;
use crate::runtime::upload::upload;

/// The label of ignored positions.
pub const IGNORED: i32 = -100;

/// One clip: columns of a token and the codes of a frame, and the labels of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClipColumns {
    /// [1 + K, T], row by row.
    pub tokens: Vec<i32>,
    /// The same shape; [`IGNORED`] without a label.
    pub labels: Vec<i32>,
}

/// Clips in rows of equal length, padded on the right.
#[derive(Clone, Debug, PartialEq)]
pub struct DualArBatch {
    pub(crate) rows: i64,
    pub(crate) height: i64,
    pub(crate) length: i64,
    /// [B, 1 + K, T].
    pub(crate) tokens: Vec<i32>,
    pub(crate) labels: Vec<i32>,
    pub(crate) scope: AttentionScope,
}

/// The previous columns that each column attends to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttentionScope {
    /// One clip per row: the padding is on the right, and no column of the clip attends to it.
    Row,
    /// Several independent clips per row: their lengths, padding included, row after row.
    Spans(Vec<i64>),
    /// True where a column is padding: [B, T].
    Padding(Vec<bool>),
}

impl DualArBatch {
    /// Rows of clips; `pad` fills the remaining columns. Clips that share a row do not attend to
    /// each other.
    pub fn new(
        codebooks: usize,
        rows: &[Vec<&ClipColumns>],
        pad: i32,
    ) -> Result<DualArBatch, TorchError> {
        let height = codebooks + 1;
        let width = |clip: &&ClipColumns| clip.tokens.len() / height;
        let misfit = |clip: &&ClipColumns| {
            clip.tokens.len() != clip.labels.len() || !clip.tokens.len().is_multiple_of(height)
        };
        if rows.iter().flatten().any(misfit) {
            let text = format!("a clip has tokens or labels with a shape other than [{height}, T]");
            return Err(TorchError::Input(text));
        }
        let length = rows.iter().map(|row| row.iter().map(width).sum()).max().unwrap_or(0);
        let mut tokens = vec![0; rows.len() * height * length];
        let mut labels = vec![IGNORED; tokens.len()];
        let mut spans = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let mut column = 0;
            for clip in row {
                let count = width(clip);
                for line in 0..height {
                    let to = (at * height + line) * length + column;
                    let from = line * count..(line + 1) * count;
                    tokens[to..to + count].copy_from_slice(&clip.tokens[from.clone()]);
                    labels[to..to + count].copy_from_slice(&clip.labels[from]);
                }
                spans.push(count as i64);
                column += count;
            }
            let first = at * height * length;
            tokens[first + column..first + length].fill(pad);
            spans.push((length - column) as i64);
        }
        spans.retain(|length| *length > 0);
        let scope = if rows.iter().all(|row| row.len() <= 1) {
            AttentionScope::Row
        } else {
            AttentionScope::Spans(spans)
        };
        let (rows, height, length) = (rows.len() as i64, height as i64, length as i64);
        Ok(DualArBatch { rows, height, length, tokens, labels, scope })
    }

    /// Rows from elsewhere: [B, 1 + K, T] twice, and true for padding columns, [B, T].
    pub fn from_rows(
        [rows, height, length]: [i64; 3],
        tokens: Vec<i32>,
        labels: Vec<i32>,
        padding: Option<Vec<bool>>,
    ) -> Result<DualArBatch, TorchError> {
        let numbers = (rows * height * length) as usize;
        let columns = padding.as_ref().map_or(rows * length, |padding| padding.len() as i64);
        if tokens.len() != numbers || labels.len() != numbers || columns != rows * length {
            let shape = [rows, height, length];
            return Err(TorchError::Input(format!("a batch does not have the shape {shape:?}")));
        }
        // Attention is causal, so padding on the right needs no mask.
        let behind = |row: &[bool]| row.is_sorted();
        let scope = match padding {
            Some(padding) if !padding.chunks(length.max(1) as usize).all(behind) => {
                AttentionScope::Padding(padding)
            }
            _ => AttentionScope::Row,
        };
        Ok(DualArBatch { rows, height, length, tokens, labels, scope })
    }

    /// The number of columns, padding included.
    pub fn columns(&self) -> i64 {
        self.rows * self.length
    }

    pub(crate) fn tokens(&self, device: Device) -> Tensor {
        let shape = [self.rows, self.height, self.length];
        let tokens = Tensor::from_slice(&self.tokens).view(shape);
        upload(&tokens.to_kind(tch::Kind::Int64), device)
    }

    /// The columns with a label of a kind: their positions in the batch, row after row.
    fn labelled(&self, wanted: impl Fn(i32) -> bool) -> impl Iterator<Item = (usize, usize)> {
        let (height, length) = (self.height as usize, self.length as usize);
        let places = move |at: usize| (at / length.max(1), at % length.max(1));
        (0..self.columns() as usize).filter_map(move |at| {
            let (row, column) = places(at);
            let label = row * height * length + column;
            wanted(self.labels[label]).then_some((at, label))
        })
    }

    /// The positions with token labels, and these labels.
    pub(crate) fn token_labels(&self) -> (Vec<i64>, Vec<i64>) {
        let labelled = self.labelled(|label| label != IGNORED);
        labelled.map(|(at, label)| (at as i64, i64::from(self.labels[label]))).unzip()
    }

    /// The positions with frame labels, and their codes: [N, K]. A frame has a label if its codes
    /// do.
    pub(crate) fn frame_labels(&self) -> (Vec<i64>, Vec<i64>) {
        let (mut places, mut codes) = (Vec::new(), Vec::new());
        if self.height < 2 {
            return (places, codes);
        }
        let length = self.length as usize;
        for (at, label) in self.labelled(|label| label != IGNORED) {
            if self.labels[label + length] == IGNORED {
                continue;
            }
            places.push(at as i64);
            let line = |line: usize| i64::from(self.labels[label + line * length]);
            codes.extend((1..self.height as usize).map(line));
        }
        (places, codes)
    }

    /// The positions of the columns, [B, T], if they are not consecutive in each row.
    pub(crate) fn positions(&self) -> Option<Vec<i64>> {
        match &self.scope {
            AttentionScope::Spans(lengths) => {
                Some(lengths.iter().flat_map(|length| 0..*length).collect())
            }
            AttentionScope::Row | AttentionScope::Padding(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn clip(first: i32, columns: i32) -> ClipColumns {
        let tokens: Vec<i32> = (0..2 * columns).map(|at| first + at).collect();
        let labels = tokens.iter().map(|token| token + 100).collect();
        ClipColumns { tokens, labels }
    }

    #[test]
    fn clips_lie_side_by_side_and_the_rest_is_padding() {
        let (one, two, three) = (clip(0, 2), clip(10, 1), clip(20, 4));
        let batch = DualArBatch::new(1, &[vec![&one, &two], vec![&three]], 9).unwrap();
        assert_eq!((batch.rows, batch.height, batch.length), (2, 2, 4));
        assert_eq!(batch.tokens[..8], [0, 1, 10, 9, 2, 3, 11, 0]);
        assert_eq!(batch.labels[..8], [100, 101, 110, IGNORED, 102, 103, 111, IGNORED]);
        assert_eq!(batch.scope, AttentionScope::Spans(vec![2, 1, 1, 4]));
        assert_eq!(batch.positions().unwrap(), [0, 1, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn one_clip_a_row_needs_no_spans() {
        let (one, two) = (clip(0, 2), clip(10, 1));
        let batch = DualArBatch::new(1, &[vec![&one], vec![&two]], 9).unwrap();
        assert_eq!((&batch.scope, batch.positions()), (&AttentionScope::Row, None));
    }

    #[test]
    fn labels_are_found_with_their_places() {
        let mut one = clip(0, 3);
        one.labels = vec![IGNORED, 7, 8, IGNORED, 1, IGNORED];
        let batch = DualArBatch::new(1, &[vec![&one]], 0).unwrap();
        assert_eq!(batch.token_labels(), (vec![1, 2], vec![7, 8]));
        assert_eq!(batch.frame_labels(), (vec![1], vec![1]));
    }

    #[test]
    fn a_clip_of_another_height_is_refused() {
        let odd = ClipColumns { tokens: vec![1, 2, 3], labels: vec![1, 2, 3] };
        let error = DualArBatch::new(1, &[vec![&odd]], 0).unwrap_err().to_string();
        assert!(error.contains("[2, T]"), "{error}");
    }
}
