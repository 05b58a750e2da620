//! Places where a script and the transcript certainly agree: runs of words that occur once in each,
//! in the same order. Between them, short alignments suffice, and text or sound without a
//! counterpart shows.

use std::collections::HashMap;

/// A word, as a number, at a place: a target of the script, or a frame of the sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordPosition {
    pub word: u32,
    pub at: usize,
}

/// A frame in which a target is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub frame: usize,
    pub target: usize,
}

/// No voice says more letters in a frame of 20 ms.
const FASTEST: f64 = 0.8;

/// The anchors in order. `run` words in a row are one.
pub fn anchors(script: &[WordPosition], heard: &[WordPosition], run: usize) -> Vec<Anchor> {
    let (in_script, in_sound) = (once(script, run), once(heard, run));
    let mut pairs: Vec<(usize, usize)> =
        in_script.iter().filter_map(|(words, at)| Some((*in_sound.get(words)?, *at))).collect();
    pairs.sort_unstable();
    let chain = rising(&pairs);
    let place = |(heard_at, script_at): (usize, usize)| {
        // The first words of both runs are at the same place.
        Anchor { frame: heard[heard_at].at, target: script[script_at].at }
    };
    proven(&chain.into_iter().map(place).collect::<Vec<Anchor>>())
}

/// The runs of words that occur once, with their places in the list.
fn once(words: &[WordPosition], run: usize) -> HashMap<Vec<u32>, usize> {
    let mut found: HashMap<Vec<u32>, Option<usize>> = HashMap::new();
    for (at, words) in words.windows(run.max(1)).enumerate() {
        let key: Vec<u32> = words.iter().map(|placed| placed.word).collect();
        found.entry(key).and_modify(|place| *place = None).or_insert(Some(at));
    }
    found.into_iter().filter_map(|(words, at)| Some((words, at?))).collect()
}

/// The longest chain in which both places rise.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length the pair that ends such a chain with the lowest place.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (at, (_, place)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *place);
        before[at] = length.checked_sub(1).map(|length| ends[length]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut chain = Vec::new();
    let mut next = ends.last().copied();
    while let Some(at) = next {
        chain.push(pairs[at]);
        next = before[at];
    }
    chain.reverse();
    chain
}

/// Without those that no voice could reach from both of their neighbours.
fn proven(chain: &[Anchor]) -> Vec<Anchor> {
    let reaches = |one: &Anchor, other: &Anchor| {
        let (frames, targets) = (other.frame - one.frame, other.target - one.target);
        targets as f64 <= FASTEST * frames as f64
    };
    let is_proven = |at: usize| {
        let before = at.checked_sub(1).map(|before| reaches(&chain[before], &chain[at]));
        let behind = chain.get(at + 1).map(|behind| reaches(&chain[at], behind));
        // The first and the last have one neighbour, and a single one has none to contradict it.
        before.unwrap_or(false) || behind.unwrap_or(false) || chain.len() == 1
    };
    (0..chain.len()).filter(|at| is_proven(*at)).map(|at| chain[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(words: &[u32], step: usize) -> Vec<WordPosition> {
        words
            .iter()
            .enumerate()
            .map(|(at, word)| WordPosition { word: *word, at: at * step })
            .collect()
    }

    #[test]
    fn runs_that_occur_once_in_both_are_anchors() {
        let script = placed(&[1, 2, 3, 4, 1, 2, 9, 8, 7], 6);
        let heard = placed(&[5, 1, 2, 3, 4, 1, 2, 9, 6, 7], 20);
        let found = anchors(&script, &heard, 3);
        let expected = [(20, 0), (40, 6), (60, 12), (80, 18), (100, 24)];
        assert_eq!(found, expected.map(|(frame, target)| Anchor { frame, target }));
        // `1, 2` occurs twice.
        assert!(anchors(&script, &heard, 2).iter().all(|anchor| anchor.frame != 20));
        assert_eq!(anchors(&script, &[], 3), []);
    }

    #[test]
    fn a_run_in_the_wrong_place_is_no_anchor() {
        let script = placed(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 6);
        // The last three words are heard first.
        let heard = placed(&[10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8], 20);
        let found = anchors(&script, &heard, 3);
        assert!(found.iter().all(|anchor| anchor.frame >= 60), "{found:?}");
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn an_anchor_that_no_voice_reaches_is_dropped() {
        let mut chain: Vec<Anchor> =
            (0..6).map(|at| Anchor { frame: at * 100, target: at * 30 }).collect();
        let wrong = Anchor { frame: 350, target: 4_000 };
        chain.insert(4, wrong);
        chain[5].target = 4_100;
        chain[6].target = 4_130;
        // Those behind it are near each other: a chapter was left out before them.
        let found = proven(&chain);
        assert_eq!(found.len(), 7 - 1, "{found:?}");
        assert!(!found.contains(&wrong));
    }

    #[test]
    fn the_longest_rising_chain_is_found() {
        let pairs = [(0, 5), (1, 0), (2, 1), (3, 9), (4, 2), (5, 3)];
        assert_eq!(rising(&pairs), [(1, 0), (2, 1), (4, 2), (5, 3)]);
    }
}
