//! The most likely path of a text through the emissions of a recogniser (CTC).
//!
//! States are those of Graves et al. 2006: a blank before and after each target. A frame stays in its
//! state, or goes to the next one, or passes over a blank between two different targets. Two
//! extensions: an optional target may be passed over, and sentences may be left out.
//!
//! Rows of scores are kept at intervals, and the rows between are computed again on the way back, so
//! that hours of sound need little memory.

use std::collections::HashMap;
use std::ops::Range;

const NEVER: f64 = f64::NEG_INFINITY;

/// Logarithms of probabilities, one row for each frame.
#[derive(Clone, Copy, Debug)]
pub struct Emissions<'a> {
    pub symbols: usize,
    pub blank: usize,
    pub values: &'a [f32],
}

impl Emissions<'_> {
    pub fn frames(&self) -> usize {
        self.values.len() / self.symbols.max(1)
    }

    pub fn row(&self, frame: usize) -> &[f32] {
        &self.values[frame * self.symbols..(frame + 1) * self.symbols]
    }

    /// The best symbol except the blank.
    pub fn best_sound(&self, frame: usize) -> f32 {
        let row = self.row(frame).iter().enumerate();
        let sounds = row.filter(|(at, _)| *at != self.blank).map(|(_, value)| *value);
        sounds.fold(f32::NEG_INFINITY, f32::max)
    }
}

/// The cost of a frame of audio without text. Its symbols, blanks included, are taken as the recogniser hears
/// them: a star that scores sounds alone makes the blanks between them expensive, and words beside it move into it.
const GAP: f32 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    Symbol(usize),
    /// Any sound: the best symbol except the blank.
    Star,
    /// Anything without a text.
    Gap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub label: Label,
    /// It may take no frame at all.
    pub is_optional: bool,
    /// The first target of a sentence.
    pub begins: bool,
    /// The last target of a sentence.
    pub ends: bool,
}

impl Target {
    pub const fn of(label: Label) -> Target {
        Target { label, is_optional: false, begins: false, ends: false }
    }
}

/// The targets that a frame may be at: from one to another, both included.
pub type Band<'a> = &'a dyn Fn(usize) -> (usize, usize);

/// Returns true if the run has to stop. It is called once for each row that is kept: on the way
/// forwards, and on the way back.
pub type Stopping<'a> = &'a mut dyn FnMut() -> bool;

/// The run was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopRequest;

fn go_on(stopping: Stopping) -> Result<(), StopRequest> {
    if stopping() { Err(StopRequest) } else { Ok(()) }
}

/// The states of all frames, and the sum of their scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Even: the blank before target `state / 2`. Odd: that target.
    pub states: Vec<u32>,
    pub score: f64,
}

impl Path {
    /// The target of a frame; None in a blank.
    pub fn target(&self, frame: usize) -> Option<usize> {
        let state = self.states[frame] as usize;
        (state % 2 == 1).then_some(state / 2)
    }
}

/// The best predecessor of a state is this number of states before it, or a jump.
const JUMP: u8 = 5;

pub struct Aligner<'a> {
    emissions: Emissions<'a>,
    targets: &'a [Target],
    /// The scores of a star and of a gap in each frame.
    free: Vec<(f32, f32)>,
    /// The cost of leaving sentences out; None if all have to be said.
    jump: Option<f64>,
}

/// The scores of a frame for the states from `first` on.
#[derive(Clone, Default)]
struct ScoreRow {
    first: usize,
    scores: Vec<f64>,
}

impl ScoreRow {
    fn get(&self, state: usize, back: usize) -> f64 {
        let at = state.checked_sub(back).and_then(|state| state.checked_sub(self.first));
        at.and_then(|at| self.scores.get(at)).copied().unwrap_or(NEVER)
    }
}

/// The predecessors of the states of some frames.
#[derive(Default)]
struct Back {
    rows: Vec<(usize, Vec<u8>)>,
    jumps: HashMap<(usize, usize), usize>,
}

impl<'a> Aligner<'a> {
    pub fn new(emissions: Emissions<'a>, targets: &'a [Target], jump: Option<f64>) -> Aligner<'a> {
        let is_free = |target: &Target| !matches!(target.label, Label::Symbol(_));
        let free = |frame: usize| {
            let sound = emissions.best_sound(frame);
            (sound, sound.max(emissions.row(frame)[emissions.blank]) - GAP)
        };
        let free = if targets.iter().any(is_free) {
            (0..emissions.frames()).map(free).collect()
        } else {
            Vec::new()
        };
        Aligner { emissions, targets, free, jump }
    }

    /// None if the targets do not fit into the frames, or not into the band.
    pub fn path(&self, band: Band, stopping: Stopping) -> Result<Option<Path>, StopRequest> {
        let frames = self.emissions.frames();
        if frames == 0 {
            return Ok(None);
        }
        let every = (frames as f64).sqrt().ceil() as usize;
        let mut kept = Vec::with_capacity(frames / every + 1);
        let mut row = self.first(self.states(band, 0));
        for frame in 1..frames {
            if (frame - 1) % every == 0 {
                go_on(stopping)?;
                kept.push(row.clone());
            }
            row = self.next(&row, frame, self.states(band, frame), None);
        }
        if frames == 1 {
            kept.push(row.clone());
        }
        let Some((mut state, score)) = self.last(&row) else { return Ok(None) };
        let mut states = vec![0_u32; frames];
        for (part, start) in kept.iter().enumerate().rev().map(|(at, row)| (row, at * every)) {
            go_on(stopping)?;
            let end = (start + every).min(frames - 1);
            let mut back = Back::default();
            let mut row = part.clone();
            for frame in start + 1..=end {
                row = self.next(&row, frame, self.states(band, frame), Some(&mut back));
            }
            for frame in (start + 1..=end).rev() {
                states[frame] = state as u32;
                let (first, codes) = &back.rows[frame - start - 1];
                state = match codes[state - first] {
                    JUMP => back.jumps[&(frame, state)],
                    code => state - usize::from(code),
                };
            }
        }
        states[0] = state as u32;
        Ok(Some(Path { states, score }))
    }

    fn states(&self, band: Band, frame: usize) -> Range<usize> {
        let (from, to) = band(frame);
        let all = 2 * self.targets.len() + 1;
        (2 * from).min(all)..(2 * to + 3).min(all)
    }

    fn score(&self, frame: usize, state: usize) -> f64 {
        let symbol = match state % 2 {
            0 => self.emissions.blank,
            _ => match self.targets[state / 2].label {
                Label::Symbol(symbol) => symbol,
                Label::Star => return f64::from(self.free[frame].0),
                Label::Gap => return f64::from(self.free[frame].1),
            },
        };
        f64::from(self.emissions.values[frame * self.emissions.symbols + symbol])
    }

    /// A path begins before the first target or in it, or in a later sentence.
    fn first(&self, states: Range<usize>) -> ScoreRow {
        let score = |state: usize| {
            let entry = match state {
                0 | 1 => 0.0,
                3 if self.targets[0].is_optional => 0.0,
                _ if state % 2 == 1 && self.targets[state / 2].begins => {
                    self.jump.map_or(NEVER, |cost| -cost)
                }
                _ => NEVER,
            };
            entry + self.score(0, state)
        };
        ScoreRow { first: states.start, scores: states.map(score).collect() }
    }

    fn next(
        &self,
        before: &ScoreRow,
        frame: usize,
        states: Range<usize>,
        back: Option<&mut Back>,
    ) -> ScoreRow {
        let mut row = ScoreRow { first: states.start, scores: Vec::with_capacity(states.len()) };
        let mut codes = Vec::with_capacity(if back.is_some() { states.len() } else { 0 });
        let mut jumps = Vec::new();
        // The best end of a sentence among the states so far, which may lie before the band.
        let (mut ended, mut ended_at) = (NEVER, 0);
        if self.jump.is_some() {
            for state in before.first..states.start.min(before.first + before.scores.len()) {
                self.note_end(before, state, &mut ended, &mut ended_at);
            }
        }
        for state in states {
            let (mut best, mut code) = (before.get(state, 0), 0);
            let mut offer = |score: f64, from: u8| {
                if score > best {
                    (best, code) = (score, from);
                }
            };
            offer(before.get(state, 1), 1);
            if state % 2 == 1 && state >= 3 {
                let (target, other) = (&self.targets[state / 2], &self.targets[state / 2 - 1]);
                if target.label != other.label {
                    offer(before.get(state, 2), 2);
                }
                if other.is_optional {
                    offer(before.get(state, 3), 3);
                    if state >= 5 && self.targets[state / 2 - 2].label != target.label {
                        offer(before.get(state, 4), 4);
                    }
                }
            }
            if let Some(cost) = self.jump {
                if state % 2 == 1 && self.targets[state / 2].begins {
                    offer(ended - cost, JUMP);
                }
                if code == JUMP {
                    jumps.push((state, ended_at));
                }
                self.note_end(before, state, &mut ended, &mut ended_at);
            }
            row.scores.push(if best == NEVER { NEVER } else { best + self.score(frame, state) });
            if back.is_some() {
                codes.push(code);
            }
        }
        if let Some(back) = back {
            back.rows.push((row.first, codes));
            back.jumps.extend(jumps.into_iter().map(|(state, from)| ((frame, state), from)));
        }
        row
    }

    /// Sentences end in their last target, in the blank after it, and in a star behind it.
    fn note_end(&self, row: &ScoreRow, state: usize, best: &mut f64, at: &mut usize) {
        let before = (state / 2).checked_sub(1).map(|target| &self.targets[target]);
        let is_end = match state % 2 {
            0 => before.is_some_and(|target| target.ends || target.is_optional),
            _ => {
                let target = &self.targets[state / 2];
                target.ends || target.is_optional
            }
        };
        let score = row.get(state, 0);
        if is_end && score > *best {
            (*best, *at) = (score, state);
        }
    }

    /// The best state to end in.
    fn last(&self, row: &ScoreRow) -> Option<(usize, f64)> {
        let end = 2 * self.targets.len();
        let mut best = (NEVER, 0);
        let mut offer = |state: Option<usize>, cost: f64| {
            let Some(state) = state else { return };
            let score = row.get(state, 0) - cost;
            if score > best.0 {
                best = (score, state);
            }
        };
        // As torchaudio decides: the last target wins if both are equal.
        offer(end.checked_sub(1), 0.0);
        offer(Some(end), 0.0);
        if self.targets.last().is_some_and(|target| target.is_optional) {
            offer(end.checked_sub(3), 0.0);
            offer(end.checked_sub(2), 0.0);
        }
        if let Some(cost) = self.jump {
            let (mut ended, mut at) = (NEVER, 0);
            for state in row.first..row.first + row.scores.len() {
                self.note_end(row, state, &mut ended, &mut at);
            }
            offer((ended > NEVER).then_some(at), cost);
        }
        (best.0 > NEVER).then_some((best.1, best.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % below
        }

        fn emissions(&mut self, frames: usize, symbols: usize) -> Vec<f32> {
            (0..frames * symbols).map(|_| -(self.next(1_000_000) as f32) / 200_000.0).collect()
        }
    }

    fn symbols(labels: &[usize]) -> Vec<Target> {
        labels.iter().map(|label| Target::of(Label::Symbol(*label))).collect()
    }

    fn path_of(aligner: &Aligner, band: Band) -> Option<Path> {
        aligner.path(band, &mut || false).unwrap()
    }

    /// The best score over all paths, by recursion.
    fn by_search(aligner: &Aligner, frame: usize, state: usize) -> f64 {
        let own = aligner.score(frame, state);
        if frame == 0 {
            return aligner.first(state..state + 1).scores[0];
        }
        let mut best = by_search(aligner, frame - 1, state);
        let target = |state: usize| &aligner.targets[state / 2];
        for back in 1..=4_usize.min(state) {
            let from = state - back;
            let is_target = state % 2 == 1;
            let is_allowed = match back {
                1 => true,
                2 => is_target && target(state).label != target(from).label,
                3 => is_target && state >= 3 && target(state - 2).is_optional,
                _ => {
                    is_target
                        && target(state - 2).is_optional
                        && target(state).label != target(from).label
                }
            };
            if is_allowed {
                best = best.max(by_search(aligner, frame - 1, from));
            }
        }
        best + own
    }

    #[test]
    fn the_path_is_the_best_of_all() {
        let mut random = Random(5);
        for round in 0..200 {
            let (frames, kinds) = (1 + random.next(7) as usize, 4);
            let values = random.emissions(frames, kinds);
            let emissions = Emissions { symbols: kinds, blank: 0, values: &values };
            let labels: Vec<usize> =
                (0..1 + random.next(3)).map(|_| 1 + random.next(3) as usize).collect();
            let mut targets = symbols(&labels);
            if round % 3 == 0 {
                targets.insert(
                    targets.len() / 2,
                    Target { is_optional: round % 2 == 0, ..Target::of(Label::Star) },
                );
            }
            let aligner = Aligner::new(emissions, &targets, None);
            let path = path_of(&aligner, &|_| (0, targets.len()));
            let ends = 2 * targets.len() - 1..=2 * targets.len();
            let mut best =
                ends.map(|state| by_search(&aligner, frames - 1, state)).fold(NEVER, f64::max);
            if targets.last().unwrap().is_optional && targets.len() > 1 {
                let before = 2 * targets.len() - 3..=2 * targets.len() - 2;
                best =
                    before.map(|state| by_search(&aligner, frames - 1, state)).fold(best, f64::max);
            }
            match path {
                None => assert_eq!(best, NEVER),
                Some(path) => {
                    assert!((path.score - best).abs() < 1e-9, "round {round}");
                    let states = path.states.iter().enumerate();
                    let sum: f64 =
                        states.map(|(frame, state)| aligner.score(frame, *state as usize)).sum();
                    assert!((sum - best).abs() < 1e-9, "round {round}");
                }
            }
        }
    }

    #[test]
    fn a_band_around_the_path_gives_the_path() {
        let mut random = Random(9);
        let values = random.emissions(900, 6);
        let emissions = Emissions { symbols: 6, blank: 0, values: &values };
        let labels: Vec<usize> = (0..300).map(|_| 1 + random.next(5) as usize).collect();
        let targets = symbols(&labels);
        let aligner = Aligner::new(emissions, &targets, None);
        let whole = path_of(&aligner, &|_| (0, 300)).unwrap();
        let near = |frame: usize| {
            let target = whole.states[frame] as usize / 2;
            (target.saturating_sub(12), target + 12)
        };
        assert_eq!(path_of(&aligner, &near).unwrap(), whole);
        assert_eq!(path_of(&aligner, &|_| (0, 3)), None);
    }

    #[test]
    fn a_search_stops_when_it_is_asked_to_on_both_ways() {
        let mut random = Random(3);
        let values = random.emissions(401, 6);
        let emissions = Emissions { symbols: 6, blank: 0, values: &values };
        let targets = symbols(&[1, 2, 3]);
        let aligner = Aligner::new(emissions, &targets, None);
        let stop_after = |asks: usize| {
            let mut asked = 0;
            let path = aligner.path(&|_| (0, 3), &mut || {
                asked += 1;
                asked > asks
            });
            (path.map(|path| path.is_some()), asked)
        };
        // 400 steps in rows of 21: 20 forwards, as many backwards.
        assert_eq!(stop_after(usize::MAX), (Ok(true), 40));
        assert_eq!(stop_after(0), (Err(StopRequest), 1));
        assert_eq!(stop_after(30), (Err(StopRequest), 31));
    }

    #[test]
    fn too_few_frames_have_no_path() {
        let values = [-1.0; 3 * 4];
        let emissions =
            |frames: usize| Emissions { symbols: 3, blank: 0, values: &values[..3 * frames] };
        // A blank must stand between two equal targets.
        let targets = symbols(&[1, 1, 2]);
        let path = |frames| path_of(&Aligner::new(emissions(frames), &targets, None), &|_| (0, 3));
        assert_eq!(path(3), None);
        assert_eq!(path(4).unwrap().states, [1, 2, 3, 5]);
        assert_eq!(path(0), None);
    }

    /// Emissions in which these symbols are likely, one a frame.
    fn said(symbols: &[usize], kinds: usize) -> Vec<f32> {
        let row = |symbol: &usize| -> Vec<f32> {
            (0..kinds).map(|kind| if kind == *symbol { -0.1 } else { -8.0 }).collect()
        };
        symbols.iter().flat_map(row).collect()
    }

    #[test]
    fn sentences_that_are_not_said_are_left_out() {
        let sentence = |labels: [usize; 3]| {
            let mut targets = symbols(&labels);
            targets[0].begins = true;
            targets[2].ends = true;
            targets.push(Target { is_optional: true, ..Target::of(Label::Gap) });
            targets
        };
        let targets: Vec<Target> =
            [[1, 2, 3], [4, 5, 4], [3, 1, 2], [5, 2, 5]].into_iter().flat_map(sentence).collect();
        let heard = |said_symbols: &[usize], jump: Option<f64>| {
            let values = said(said_symbols, 6);
            let emissions = Emissions { symbols: 6, blank: 0, values: &values };
            let aligner = Aligner::new(emissions, &targets, jump);
            let path = path_of(&aligner, &|_| (0, targets.len())).unwrap();
            let mut found: Vec<usize> =
                path.states.iter().map(|state| *state as usize / 8).collect();
            found.dedup();
            found
        };
        // The second sentence of four is not said; the first; the last two.
        assert_eq!(heard(&[1, 0, 2, 3, 0, 3, 1, 0, 2, 0, 5, 2, 0, 5], Some(5.0)), [0, 2, 3]);
        assert_eq!(heard(&[4, 0, 5, 4, 0, 3, 1, 0, 2, 0, 5, 2, 0, 5], Some(5.0)), [1, 2, 3]);
        assert_eq!(heard(&[1, 0, 2, 3, 0, 4, 5, 0, 0, 4], Some(5.0)), [0, 1]);
        // Without leave all of them are forced in.
        assert_eq!(heard(&[1, 0, 2, 3, 0, 3, 1, 0, 2, 0, 5, 2, 0, 5], None), [0, 1, 2, 3]);
    }

    #[test]
    fn a_gap_takes_the_sound_between_two_sentences() {
        let mut targets = symbols(&[1, 2]);
        targets.push(Target { is_optional: true, ..Target::of(Label::Gap) });
        targets.extend(symbols(&[3, 1]));
        let values = said(&[1, 2, 0, 5, 4, 5, 4, 5, 0, 3, 1], 6);
        let emissions = Emissions { symbols: 6, blank: 0, values: &values };
        let path = path_of(&Aligner::new(emissions, &targets, None), &|_| (0, 5)).unwrap();
        let at: Vec<Option<usize>> = (0..11).map(|frame| path.target(frame)).collect();
        let (star, none) = (Some(2), None);
        let expected =
            [Some(0), Some(1), none, star, star, star, star, star, none, Some(3), Some(4)];
        assert_eq!(at, expected);
    }
}
