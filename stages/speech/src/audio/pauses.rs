//! Finds pauses: dips of the energy against its surroundings.
//!
//! The energy is that of a box centred on each sample, compared with the largest energy near it. All
//! of it is in integers and at every sample, without frames and without a level of the whole
//! recording: an edit elsewhere moves no pause, wherever it shifts the samples to.

use std::collections::VecDeque;

/// The lengths in frames, and the depth of a dip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PauseRule {
    /// The frames on each side of the centre of a box.
    pub half: usize,
    /// The frames on each side in which the largest energy is found.
    pub around: usize,
    /// The shortest dip.
    pub least: u64,
    /// A thousand times the ratio of the energies.
    pub ratio: u64,
}

impl PauseRule {
    /// From seconds and decibels.
    pub fn new(rate: u32, seconds: [f64; 3], decibels: f64) -> PauseRule {
        let frames = |seconds: f64| (seconds * f64::from(rate)).round().max(1.0);
        let [wide, around, least] = seconds;
        PauseRule {
            half: (frames(wide) / 2.0) as usize,
            around: frames(around) as usize,
            least: frames(least) as u64,
            ratio: (10_f64.powf(decibels / 10.0) * 1000.0).round() as u64,
        }
    }
}

/// A pause, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub start: u64,
    pub end: u64,
    /// The quietest place, the first if there are several.
    pub quietest: u64,
}

impl Pause {
    pub fn frames(&self) -> u64 {
        self.end - self.start
    }
}

/// Takes the frames of a recording one after the other.
pub struct Pauses {
    rule: PauseRule,
    /// The energies of the frames in the box.
    inside: VecDeque<u64>,
    sum: u64,
    /// The frames seen so far.
    seen: u64,
    /// Boxes that still have to be compared, the first at `judged`.
    boxes: VecDeque<u64>,
    judged: u64,
    /// The number of boxes.
    boxed: u64,
    /// Boxes that may be the largest around: falling values with their places.
    largest: VecDeque<(u64, u64)>,
    dip: Option<(Pause, u64)>,
    found: Vec<Pause>,
}

impl Pauses {
    pub fn new(rule: PauseRule) -> Pauses {
        Pauses {
            rule,
            inside: VecDeque::new(),
            sum: 0,
            seen: 0,
            boxes: VecDeque::new(),
            judged: 0,
            boxed: 0,
            largest: VecDeque::new(),
            dip: None,
            found: Vec::new(),
        }
    }

    /// Takes whole frames of interleaved samples.
    pub fn push(&mut self, samples: &[i16], channels: u16) {
        for frame in samples.chunks_exact(usize::from(channels.max(1))) {
            let square = |sample: &i16| u64::from(sample.unsigned_abs()).pow(2);
            self.push_energy(frame.iter().map(square).sum());
        }
    }

    fn push_energy(&mut self, energy: u64) {
        self.inside.push_back(energy);
        self.sum += energy;
        self.seen += 1;
        if self.inside.len() > 2 * self.rule.half + 1 {
            self.sum -= self.inside.pop_front().unwrap_or(0);
        }
        if self.seen > self.rule.half as u64 {
            self.push_box();
        }
    }

    /// The box of the next frame is complete, or the recording ends within it.
    fn push_box(&mut self) {
        let (at, energy) = (self.boxed, self.sum);
        self.boxed += 1;
        self.boxes.push_back(energy);
        while self.largest.back().is_some_and(|(_, other)| *other <= energy) {
            self.largest.pop_back();
        }
        self.largest.push_back((at, energy));
        if self.boxed > self.judged + self.rule.around as u64 {
            self.judge();
        }
    }

    /// Compares the next box with those around it.
    fn judge(&mut self) {
        let Some(energy) = self.boxes.pop_front() else { return };
        let at = self.judged;
        self.judged += 1;
        let from = at.saturating_sub(self.rule.around as u64);
        while self.largest.front().is_some_and(|(place, _)| *place < from) {
            self.largest.pop_front();
        }
        let largest = self.largest.front().map_or(0, |(_, energy)| *energy);
        let is_low = u128::from(energy) * u128::from(self.rule.ratio) < u128::from(largest) * 1000;
        match (&mut self.dip, is_low) {
            (Some((pause, lowest)), true) => {
                pause.end = at + 1;
                if energy < *lowest {
                    (*lowest, pause.quietest) = (energy, at);
                }
            }
            (dip @ None, true) => {
                *dip = Some((Pause { start: at, end: at + 1, quietest: at }, energy));
            }
            (_, false) => self.end_dip(),
        }
    }

    fn end_dip(&mut self) {
        if let Some((pause, _)) = self.dip.take()
            && pause.frames() >= self.rule.least
        {
            self.found.push(pause);
        }
    }

    /// The pauses of the whole recording.
    pub fn finish(mut self) -> Vec<Pause> {
        while self.boxed < self.seen {
            // The box loses frames at its start and gains none.
            if self.boxed > self.rule.half as u64 {
                self.sum -= self.inside.pop_front().unwrap_or(0);
            }
            self.push_box();
        }
        while !self.boxes.is_empty() {
            self.judge();
        }
        self.end_dip();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PauseRule = PauseRule { half: 3, around: 20, least: 4, ratio: 15_849 };

    fn noise(seed: u64, count: usize, loud: i16) -> Vec<i16> {
        let mut state = seed.wrapping_mul(6_364_136_223_846_793_005) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count).map(|_| (next() % (2 * loud as u64 + 1)) as i16 - loud).collect()
    }

    /// The definition, for each frame by itself.
    fn plainly(samples: &[i16], rule: PauseRule) -> Vec<Pause> {
        let count = samples.len();
        let energy = |at: usize| u64::from(samples[at].unsigned_abs()).pow(2);
        let boxed = |at: usize| -> u64 {
            (at.saturating_sub(rule.half)..(at + rule.half + 1).min(count)).map(energy).sum()
        };
        let low = |at: usize| {
            let near = at.saturating_sub(rule.around)..(at + rule.around + 1).min(count);
            let largest = near.map(boxed).max().unwrap_or(0);
            u128::from(boxed(at)) * u128::from(rule.ratio) < u128::from(largest) * 1000
        };
        let mut found = Vec::new();
        let mut at = 0;
        while at < count {
            let start = at;
            while at < count && low(at) {
                at += 1;
            }
            if (at - start) as u64 >= rule.least {
                let quietest = (start..at).min_by_key(|at| boxed(*at)).unwrap_or(start);
                let [start, end, quietest] = [start, at, quietest].map(|at| at as u64);
                found.push(Pause { start, end, quietest });
            }
            at += 1;
        }
        found
    }

    fn pauses(samples: &[i16], rule: PauseRule) -> Vec<Pause> {
        let mut pauses = Pauses::new(rule);
        samples.chunks(7).for_each(|part| pauses.push(part, 1));
        pauses.finish()
    }

    #[test]
    fn pauses_are_those_of_the_definition() {
        for seed in 0..60 {
            let mut samples = Vec::new();
            for part in 0..seed % 9 {
                let loud = if part % 2 == 0 { 9_000 } else { 3 };
                samples.extend(noise(seed * 31 + part, (seed as usize * 13) % 50 + 1, loud));
            }
            let rule =
                PauseRule { half: (seed % 4) as usize, around: 1 + (seed % 30) as usize, ..RULE };
            assert_eq!(pauses(&samples, rule), plainly(&samples, rule), "seed {seed}");
        }
    }

    #[test]
    fn a_pause_is_found_between_loud_parts_and_none_in_a_steady_sound() {
        let loud = noise(1, 100, 9_000);
        let samples = [&loud[..], &noise(2, 30, 5), &loud[..]].concat();
        let found = pauses(&samples, RULE);
        assert_eq!(found.len(), 1);
        assert!((100..130).contains(&found[0].quietest), "{found:?}");
        assert_eq!(pauses(&noise(3, 500, 9_000), RULE), []);
        assert_eq!(pauses(&[0; 500], RULE), []);
        assert_eq!(pauses(&[], RULE), []);
    }

    #[test]
    fn a_shift_by_any_number_of_frames_moves_pauses_and_changes_none() {
        let parts: Vec<Vec<i16>> =
            (0..12).map(|part| noise(part, 60, if part % 2 == 0 { 9_000 } else { 4 })).collect();
        let samples = parts.concat();
        let before = pauses(&samples, RULE);
        for shift in [1, 37, 160] {
            let moved = pauses(&[noise(99, shift, 9_000), samples.clone()].concat(), RULE);
            let back = |pause: &Pause| Pause {
                start: pause.start - shift as u64,
                end: pause.end - shift as u64,
                quietest: pause.quietest - shift as u64,
            };
            let far = moved.iter().filter(|pause| pause.start as usize > shift + 60).map(back);
            let expected = before.iter().filter(|pause| pause.start > 60).copied();
            assert_eq!(far.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{shift}");
        }
    }
}
