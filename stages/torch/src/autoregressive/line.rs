//! One draw of a frame.

use tch::{Device, Kind, Tensor};

/// A draw: its entries, and those of them that repetition is penalised for.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The number of entries to draw from.
    pub entries: i64,
    /// The last entry ends the row; it is not drawn before a row has its minimum length.
    pub ends: bool,
    /// The column of a frame in which repetition is looked up.
    pub column: i64,
    /// The number in that column that means entry 0; the others follow.
    pub first: i64,
    /// The number of entries that repetition is penalised for.
    pub repeatable: i64,
    /// Entries that are penalised from the first frame on, if all frames count.
    pub already: Vec<i64>,
    /// The vocabulary ids of the entries, if they are not contiguous.
    pub places: Option<Vec<i64>>,
}

impl Line {
    /// A draw of the first number of a frame, which is the entry itself.
    pub fn of(entries: i64) -> Line {
        Line { entries, repeatable: entries, ..Line::default() }
    }

    /// Tests which entries are among these numbers: [B, n] to [B, entries].
    pub(super) fn among(&self, numbers: &Tensor) -> Tensor {
        let entries = numbers - self.first;
        let is_one = entries.ge(0).logical_and(&entries.lt(self.repeatable));
        let entries = entries.masked_fill(&is_one.logical_not(), self.entries);
        let options = (Kind::Bool, numbers.device());
        let found = Tensor::zeros([numbers.size()[0], self.entries + 1], options);
        found.scatter_value(1, &entries, 1).narrow(1, 0, self.entries)
    }

    pub(super) fn already(&self, rows: i64, device: Device) -> Tensor {
        let already: Vec<i64> = self.already.iter().map(|entry| entry + self.first).collect();
        let already = Tensor::from_slice(&already).view([1, -1]).expand([rows, -1], false);
        self.among(&already.to_device(device))
    }
}
