//! Groups clips by voice: agglomerative clustering with average linkage.
//!
//! The mean cosine between the clips of two groups is the product of the sums of their directions
//! over the number of pairs, so a group is its sum and its size. Groups are joined along chains of
//! nearest neighbours (F. Murtagh, "A survey of recent advances in hierarchical clustering
//! algorithms", The Computer Journal 26 (4), 1983): each group is compared with all others a few
//! times, and no table of all pairs is needed.

use super::voice::{Direction, add, dot};

struct Group {
    sum: Vec<f64>,
    clips: Vec<usize>,
}

impl Group {
    /// The mean cosine between the clips of two groups.
    fn linkage(&self, other: &Group) -> f64 {
        dot(&self.sum, &other.sum) / (self.clips.len() * other.clips.len()) as f64
    }
}

/// Lists of positions, the longest list first; of equally long ones that with the first clip.
/// None if `stops` says so, which is asked now and then.
pub fn groups(
    clips: &[&Direction],
    least: f64,
    mut stops: impl FnMut(usize) -> bool,
) -> Option<Vec<Vec<usize>>> {
    let one = |(at, clip): (usize, &&Direction)| Group { sum: (*clip).clone(), clips: vec![at] };
    // In the order of their first clips.
    let mut open: Vec<Option<Group>> = clips.iter().enumerate().map(one).map(Some).collect();
    let mut done: Vec<Group> = Vec::new();
    let mut chain: Vec<usize> = Vec::new();
    let mut first = 0;
    loop {
        if stops(done.len()) {
            return None;
        }
        let top = match chain.last() {
            Some(top) => *top,
            None => match (first..open.len()).find(|at| open[*at].is_some()) {
                Some(at) => {
                    (first, chain) = (at, vec![at]);
                    at
                }
                None => break,
            },
        };
        let before = chain.len().checked_sub(2).map(|at| chain[at]);
        match nearest(&open, top, before) {
            // A group that is too far from its nearest neighbour stays too far when that one grows.
            Some((_, linkage)) if linkage < least => {
                chain.pop();
                done.extend(open[top].take());
                // The groups before it in the chain had it as their nearest neighbour.
                chain.clear();
            }
            None => {
                chain.clear();
                done.extend(open[top].take());
            }
            Some((other, _)) if Some(other) == before => {
                chain.truncate(chain.len() - 2);
                join(&mut open, top, other);
            }
            Some((other, _)) => chain.push(other),
        }
    }
    let mut found: Vec<Vec<usize>> = done.into_iter().map(|group| group.clips).collect();
    found.iter_mut().for_each(|clips| clips.sort_unstable());
    found.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    Some(found)
}

/// The group with the highest linkage; of equal ones `preferred`, else the first.
fn nearest(open: &[Option<Group>], own: usize, preferred: Option<usize>) -> Option<(usize, f64)> {
    let group = open[own].as_ref()?;
    let linkage = |at: usize| Some((at, group.linkage(open.get(at)?.as_ref()?)));
    let others = (0..open.len()).filter(|at| *at != own);
    let all = preferred.into_iter().chain(others).filter_map(linkage);
    all.reduce(|one, other| if one.1 < other.1 { other } else { one })
}

/// The joined group is where the first of the two was.
fn join(open: &mut [Option<Group>], one: usize, other: usize) {
    let (to, from) = (one.min(other), one.max(other));
    let Some(moved) = open[from].take() else { return };
    if let Some(group) = &mut open[to] {
        add(&mut group.sum, &moved.sum);
        group.clips.extend(moved.clips);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::voice::direction;
    use super::*;

    fn grouped(clips: &[Vec<f64>], least: f64) -> Vec<Vec<usize>> {
        let directions: Vec<Direction> =
            clips.iter().map(|clip| direction(clip).unwrap()).collect();
        let all: Vec<&Direction> = directions.iter().collect();
        groups(&all, least, |_| false).unwrap()
    }

    /// The same by the definition: join the two nearest groups until none are near enough.
    fn by_definition(clips: &[Vec<f64>], least: f64) -> Vec<Vec<usize>> {
        let cosine = |one: usize, other: usize| {
            let [one, other] = [one, other].map(|at| direction(&clips[at]).unwrap());
            dot(&one, &other)
        };
        let mut groups: Vec<Vec<usize>> = (0..clips.len()).map(|at| vec![at]).collect();
        loop {
            let mut best = (least, None);
            for one in 0..groups.len() {
                for other in one + 1..groups.len() {
                    let pairs = groups[one]
                        .iter()
                        .flat_map(|a| groups[other].iter().map(|b| cosine(*a, *b)));
                    let count = groups[one].len() * groups[other].len();
                    let mean = pairs.sum::<f64>() / count as f64;
                    if mean > best.0 {
                        best = (mean, Some((one, other)));
                    }
                }
            }
            let Some((one, other)) = best.1 else { break };
            let moved = groups.remove(other);
            groups[one].extend(moved);
        }
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        groups
    }

    #[test]
    fn groups_are_those_of_the_definition() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / (1_u64 << 24) as f64 - 0.5
        };
        for round in 0..60 {
            let voices: Vec<Vec<f64>> =
                (0..4).map(|_| (0..6).map(|_| random()).collect()).collect();
            let clips: Vec<Vec<f64>> = (0..14)
                .map(|at| voices[at % 4].iter().map(|part| part + 0.5 * random()).collect())
                .collect();
            let least = 0.2 + 0.05 * f64::from(round % 10);
            assert_eq!(grouped(&clips, least), by_definition(&clips, least), "round {round}");
        }
    }

    #[test]
    fn the_largest_group_is_first_and_a_lonely_clip_is_a_group() {
        let clips = [[0.0, 1.0], [1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]].map(Vec::from);
        assert_eq!(grouped(&clips, 0.5), [vec![1, 2], vec![0], vec![3]]);
        assert_eq!(grouped(&clips, -1.0), [vec![0, 1, 2, 3]]);
        assert_eq!(grouped(&[], 0.5), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn it_ends_when_asked() {
        let clip = direction(&[1.0]).unwrap();
        assert_eq!(groups(&[&clip, &clip], 0.5, |_| true), None);
    }
}
