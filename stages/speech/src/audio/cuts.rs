//! Cuts of a recording: in its pauses, each chosen only by the pauses near it.

use std::ops::Range;

use super::pauses::Pause;

/// All lengths in frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// A pause of this length is a cut.
    pub cut_at: u64,
    /// So is the longest pause within this distance.
    pub wanted: u64,
    pub shortest: u64,
    pub longest: u64,
}

/// The cut parts of a recording, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CutParts {
    pub parts: Vec<Range<u64>>,
    /// Parts without a pause that are longer than the longest.
    pub left_out: Vec<Range<u64>>,
}

pub fn cut(pauses: &[Pause], frames: u64, lengths: &Lengths) -> CutParts {
    let chosen = apart(&chosen(pauses, lengths), frames, lengths.shortest);
    let edges: Vec<u64> =
        [0].into_iter().chain(chosen.iter().map(|pause| pause.quietest)).chain([frames]).collect();
    let mut cut = CutParts::default();
    for edge in edges.windows(2).filter(|edge| edge[0] < edge[1]) {
        split(edge[0]..edge[1], pauses, lengths, &mut cut);
    }
    cut
}

/// The pauses that are long, or the longest near them; of equal ones the first.
fn chosen(pauses: &[Pause], lengths: &Lengths) -> Vec<Pause> {
    let is_chosen = |at: usize| {
        let pause = &pauses[at];
        let is_near = |other: &&Pause| other.quietest.abs_diff(pause.quietest) <= lengths.wanted;
        let mut before = pauses[..at].iter().rev().take_while(is_near);
        let mut behind = pauses[at + 1..].iter().take_while(is_near);
        pause.frames() >= lengths.cut_at
            || (before.all(|other| other.frames() < pause.frames())
                && behind.all(|other| other.frames() <= pause.frames()))
    };
    (0..pauses.len()).filter(|at| is_chosen(*at)).map(|at| pauses[at]).collect()
}

/// Of two cuts that are too close the longer pause stays, and of equal ones the first.
fn apart(cuts: &[Pause], frames: u64, shortest: u64) -> Vec<Pause> {
    let mut kept: Vec<Pause> = Vec::new();
    for cut in cuts {
        let is_inside = cut.quietest >= shortest && cut.quietest + shortest <= frames;
        let mut is_weaker = !is_inside;
        while let Some(last) = kept.last().filter(|_| !is_weaker) {
            if cut.quietest - last.quietest >= shortest {
                break;
            }
            if cut.frames() > last.frames() {
                kept.pop();
            } else {
                is_weaker = true;
            }
        }
        if !is_weaker {
            kept.push(*cut);
        }
    }
    kept
}

/// Splits a part that is too long at its longest pause, again and again.
fn split(part: Range<u64>, pauses: &[Pause], lengths: &Lengths, cut: &mut CutParts) {
    let mut waiting = vec![part];
    while let Some(part) = waiting.pop() {
        if part.end - part.start <= lengths.longest {
            cut.parts.push(part);
            continue;
        }
        let (from, to) = (part.start + lengths.shortest, part.end.saturating_sub(lengths.shortest));
        let inside = pauses.iter().filter(|pause| {
            pause.quietest > part.start
                && pause.quietest < part.end
                && (from..=to).contains(&pause.quietest)
        });
        // Of equal ones `max_by` gives the last.
        let longest = inside.max_by(|one, other| {
            one.frames().cmp(&other.frames()).then(other.quietest.cmp(&one.quietest))
        });
        match longest {
            Some(pause) => {
                waiting.push(pause.quietest..part.end);
                waiting.push(part.start..pause.quietest);
            }
            None => cut.left_out.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { cut_at: 90, wanted: 600, shortest: 100, longest: 2_000 };

    fn pause(quietest: u64, frames: u64) -> Pause {
        Pause { start: quietest - frames / 2, end: quietest - frames / 2 + frames, quietest }
    }

    fn edges(pauses: &[(u64, u64)], frames: u64) -> Vec<u64> {
        let pauses: Vec<Pause> = pauses.iter().map(|(at, frames)| pause(*at, *frames)).collect();
        cut(&pauses, frames, &LENGTHS).parts.iter().map(|part| part.start).collect()
    }

    #[test]
    fn long_pauses_and_the_longest_near_them_are_cuts() {
        assert_eq!(edges(&[(500, 30), (700, 40), (900, 20)], 1_500), [0, 700]);
        assert_eq!(edges(&[(500, 95), (700, 99), (900, 20)], 1_500), [0, 500, 700]);
        // Of equal ones the first.
        assert_eq!(edges(&[(500, 40), (900, 40)], 1_500), [0, 500]);
        assert_eq!(edges(&[(500, 40), (1_101, 40)], 1_500), [0, 500, 1_101]);
    }

    #[test]
    fn no_part_is_too_short() {
        assert_eq!(edges(&[(50, 95), (500, 95), (560, 99), (1_450, 95)], 1_500), [0, 560]);
    }

    #[test]
    fn a_part_that_is_too_long_is_split_and_one_without_a_pause_is_left_out() {
        // 800 is no cut by the rule: 300 is longer.
        let pauses = [(300, 50), (800, 40), (1_200, 30), (1_700, 60)];
        assert_eq!(edges(&pauses, 2_300), [0, 300, 1_700]);
        let narrow = Lengths { longest: 1_000, ..LENGTHS };
        let pauses: Vec<Pause> = pauses.iter().map(|(at, frames)| pause(*at, *frames)).collect();
        let found = cut(&pauses, 4_000, &narrow);
        assert_eq!(found.parts, [0..300, 300..800, 800..1_700]);
        assert_eq!((found.left_out.len(), &found.left_out[0]), (1, &(1_700..4_000)));
        let whole = cut(&[], 2_000, &LENGTHS).parts;
        assert_eq!((whole.len(), &whole[0]), (1, &(0..2_000)));
        assert_eq!(cut(&[], 0, &LENGTHS), CutParts::default());
    }
}
