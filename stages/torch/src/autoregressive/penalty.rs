//! The entries with a repetition penalty, kept on the device.

use tch::{Device, Kind, Tensor};

use super::line::Line;

/// The scope of the repetition penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyScope {
    /// Of all frames.
    All,
    /// Of the last frames.
    Last(usize),
    /// The behaviour of Fish Speech: the first frame is left out; while there are fewer frames than
    /// the window is long, zeros fill it; and the first number of a frame is compared with all
    /// numbers of the oldest frame.
    FishSpeech(usize),
}

#[derive(Debug)]
pub(super) struct Penalty {
    scope: PenaltyScope,
    /// The frames of the window: [B, numbers of a frame, window].
    window: Option<Tensor>,
    /// For each line: the entries that were ever drawn, [B, entries]. Empty unless all frames
    /// count.
    seen: Vec<Tensor>,
    /// The number of drawn frames.
    frames: usize,
}

/// Means no entry.
const NONE: i64 = -1;

impl Penalty {
    pub fn new(
        scope: PenaltyScope,
        rows: i64,
        lines: &[Line],
        width: i64,
        device: Device,
    ) -> Penalty {
        let window = |length: usize, fill: i64| {
            Tensor::full([rows, width, length as i64], fill, (Kind::Int64, device))
        };
        let (window, seen) = match scope {
            PenaltyScope::All => {
                (None, lines.iter().map(|line| line.already(rows, device)).collect())
            }
            PenaltyScope::Last(length) => (Some(window(length, NONE)), Vec::new()),
            PenaltyScope::FishSpeech(length) => (Some(window(length, 0)), Vec::new()),
        };
        Penalty { scope, window, seen, frames: 0 }
    }

    /// The penalised entries of a line, [B, entries]; None while there are none.
    pub fn of(&self, at: usize, line: &Line) -> Option<Tensor> {
        let Some(window) = &self.window else {
            return Some(self.seen[at].shallow_clone());
        };
        if self.frames == 0 {
            return None;
        }
        let drawn = match self.scope {
            PenaltyScope::FishSpeech(_) if line.column == 0 => window.select(2, 0),
            _ => window.select(1, line.column),
        };
        Some(line.among(&drawn))
    }

    /// Notes a frame of all rows: [B, numbers].
    pub fn push(&mut self, lines: &[Line], frame: &Tensor) {
        let number = self.frames;
        self.frames += 1;
        for (seen, line) in self.seen.iter_mut().zip(lines) {
            *seen = seen.logical_or(&line.among(&frame.narrow(1, line.column, 1)));
        }
        let Some(window) = &mut self.window else { return };
        let length = window.size()[2];
        let place = match self.scope {
            PenaltyScope::FishSpeech(_) if number == 0 => return,
            PenaltyScope::FishSpeech(_) => number as i64 - 1,
            _ => number as i64,
        };
        if place < length {
            window.select(2, place).copy_(frame);
        } else if length > 0 {
            let later = window.narrow(2, 1, length - 1);
            *window = Tensor::cat(&[later, frame.unsqueeze(2)], 2);
        }
    }

    /// Keeps only these rows.
    pub fn keep(&mut self, rows: &Tensor) {
        for kept in self.seen.iter_mut().chain(&mut self.window) {
            *kept = kept.index_select(0, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOTHING: [Vec<usize>; 2] = [Vec::new(), Vec::new()];

    /// A token from 10 on, with the end after the four repeatable entries, and a code.
    fn lines() -> [Line; 2] {
        [
            Line { ends: true, first: 10, repeatable: 4, ..Line::of(5) },
            Line { column: 1, ..Line::of(4) },
        ]
    }

    /// The penalised entries of each line after some frames of a single row.
    fn losing(scope: PenaltyScope, frames: &[[i64; 2]]) -> [Vec<usize>; 2] {
        let lines = lines();
        let mut penalty = Penalty::new(scope, 1, &lines, 2, Device::Cpu);
        for frame in frames {
            penalty.push(&lines, &Tensor::from_slice(frame).unsqueeze(0));
        }
        [0, 1].map(|at| {
            let Some(entries) = penalty.of(at, &lines[at]) else { return Vec::new() };
            let entries = Vec::<bool>::try_from(entries.view(-1)).unwrap();
            (0..entries.len()).filter(|entry| entries[*entry]).collect()
        })
    }

    #[test]
    fn only_the_last_frames_count_and_only_entries_of_the_line() {
        let frames = [[10, 1], [3, 2], [14, 0], [12, 0]];
        assert_eq!(losing(PenaltyScope::Last(3), &[]), NOTHING);
        assert_eq!(losing(PenaltyScope::Last(9), &frames), [vec![0, 2], vec![0, 1, 2]]);
        assert_eq!(losing(PenaltyScope::Last(2), &frames), [vec![2], vec![0]]);
        assert_eq!(losing(PenaltyScope::All, &frames), [vec![0, 2], vec![0, 1, 2]]);
    }

    #[test]
    fn fish_speech_leaves_out_the_first_frame_and_fills_the_window_with_zeros() {
        let scope = PenaltyScope::FishSpeech(2);
        assert_eq!(losing(scope, &[]), NOTHING);
        assert_eq!(losing(scope, &[[10, 1]]), [vec![], vec![0]]);
        assert_eq!(losing(scope, &[[10, 1], [11, 2]]), [vec![1], vec![0, 2]]);
        let frames = [[10, 1], [11, 2], [12, 3], [13, 1]];
        assert_eq!(losing(scope, &frames), [vec![2], vec![1, 3]]);
    }

    #[test]
    fn some_entries_lose_before_any_frame_was_drawn() {
        let lines = [Line { already: vec![1, 3], ..Line::of(4) }];
        let mut penalty = Penalty::new(PenaltyScope::All, 3, &lines, 1, Device::Cpu);
        penalty.push(&lines, &Tensor::from_slice(&[0i64, 1, 2]).unsqueeze(1));
        penalty.keep(&Tensor::from_slice(&[0i64, 2]));
        let losing = penalty.of(0, &lines[0]).unwrap().to_kind(Kind::Int64);
        let wanted = Tensor::from_slice(&[1i64, 1, 0, 1, 0, 1, 1, 1]).view([2, 4]);
        assert_eq!(losing, wanted);
    }
}
