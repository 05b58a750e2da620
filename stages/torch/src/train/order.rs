//! The order of clips in training: each pass is shuffled anew, whole clips only.
//!
//! It is a pure function of the seed, the pass and the clips' ids and lengths, so only a cursor of
//! three numbers is saved. Rows follow each other regardless of the size of a step: the last row of
//! a pass is followed by the first one of the next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stage_families::clips::hash;

use crate::error::TorchError;
use crate::nn::random::{Random, scramble};

/// The properties of a clip that the order depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipEntry {
    pub id: String,
    /// In positions of a row.
    pub length: usize,
    /// The group for [`Grouping::Drawn`], such as a language.
    pub group: u64,
}

/// Indices of the clips in one row of a batch. Clips of a row must not influence each other; the
/// model ensures that.
pub type Row = Vec<usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grouping {
    /// Rows of several whole clips, at most this number of positions long.
    Pack { length: usize },
    /// One clip per row, at most this long; `rows` clips of similar length follow each other.
    Buckets { length: usize, rows: usize },
    /// One clip per row, at most this long, sampled for each row: first a group, then a clip of it.
    /// A pass has as many rows as there are clips; some clips occur several times, others never.
    Drawn { length: usize },
}

impl Grouping {
    /// The longest row.
    fn longest(self) -> usize {
        let (Grouping::Pack { length }
        | Grouping::Buckets { length, .. }
        | Grouping::Drawn { length }) = self;
        length
    }

    /// The same rows with each clip once per pass.
    pub fn each_once(self) -> Grouping {
        match self {
            Grouping::Drawn { length } => Grouping::Buckets { length, rows: 1 },
            other => other,
        }
    }
}

/// The position of training in its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub pass: u64,
    /// Rows of that pass that were used.
    pub row: usize,
    /// The total number of used clips.
    pub clips: u64,
}

/// The number of open rows while a pass is packed. More of them fill better; fewer keep the order
/// closer to the shuffled one.
const OPEN_ROWS: usize = 64;

/// The number of buckets that are sorted by length together.
const SORTED_BUCKETS: usize = 32;

#[derive(Debug)]
pub struct Order {
    grouping: Grouping,
    seed: u64,
    lengths: Vec<usize>,
    /// Clips by the hash of their id.
    ranked: Vec<(u64, usize)>,
    /// Clips by group, both in their own order.
    groups: Vec<Vec<usize>>,
    /// The last requested pass.
    pass: Option<(u64, Vec<Row>)>,
}

impl Order {
    /// The order of the selected clips.
    pub fn new(
        grouping: Grouping,
        seed: u64,
        clips: &[ClipEntry],
        chosen: impl Fn(usize) -> bool,
    ) -> Result<Order, TorchError> {
        let length = grouping.longest();
        let mut order: Vec<usize> = (0..clips.len()).filter(|at| chosen(*at)).collect();
        let is_misfit = |clip: &&ClipEntry| clip.length > length || clip.length == 0;
        if let Some(clip) = order.iter().map(|at| &clips[*at]).find(is_misfit) {
            return Err(TorchError::Input(format!(
                "clip `{}` has {} positions, expected 1 to {length}: split it, drop it, or raise \
                 the longest row",
                clip.id, clip.length
            )));
        }
        order.sort_by(|one, other| clips[*one].id.cmp(&clips[*other].id));
        if let Some(pair) = order.windows(2).find(|pair| clips[pair[0]].id == clips[pair[1]].id) {
            return Err(TorchError::Input(format!("clip `{}` occurs twice", clips[pair[0]].id)));
        }
        let ranked: Vec<(u64, usize)> =
            order.iter().map(|at| (hash("order", &clips[*at].id), *at)).collect();
        let lengths = clips.iter().map(|clip| clip.length).collect();
        let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for at in &order {
            groups.entry(clips[*at].group).or_default().push(*at);
        }
        let groups = groups.into_values().collect();
        Ok(Order { grouping, seed, lengths, ranked, groups, pass: None })
    }

    /// The next rows, and advances the cursor; None without clips.
    pub fn take(&mut self, cursor: &mut Cursor, count: usize) -> Vec<Row> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count && !self.ranked.is_empty() {
            let rows = self.pass(cursor.pass);
            match rows.get(cursor.row) {
                Some(row) => {
                    cursor.row += 1;
                    cursor.clips += row.len() as u64;
                    taken.push(row.clone());
                }
                None => (cursor.pass, cursor.row) = (cursor.pass + 1, 0),
            }
        }
        taken
    }

    /// The rows of one whole pass.
    pub fn pass(&mut self, number: u64) -> &[Row] {
        let rows = match self.pass.take() {
            Some((own, rows)) if own == number => rows,
            _ => self.shuffled(number),
        };
        &self.pass.insert((number, rows)).1
    }

    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// The number of positions in a row.
    pub fn length(&self, row: &Row) -> usize {
        row.iter().map(|clip| self.lengths[*clip]).sum()
    }

    /// The number of passes up to a cursor, with its fraction.
    pub fn passes(&self, cursor: &Cursor) -> f64 {
        cursor.clips as f64 / self.ranked.len().max(1) as f64
    }

    fn shuffled(&self, pass: u64) -> Vec<Row> {
        let salt = scramble(self.seed ^ scramble(pass.wrapping_add(1)));
        let mut clips: Vec<(u64, usize)> =
            self.ranked.iter().map(|(rank, clip)| (scramble(rank ^ salt), *clip)).collect();
        // Stable: equal ranks stay in the order of the ids.
        clips.sort_by_key(|(rank, _)| *rank);
        let clips: Vec<usize> = clips.into_iter().map(|(_, clip)| clip).collect();
        match self.grouping {
            Grouping::Pack { length } => self.packed(&clips, length),
            Grouping::Buckets { rows, .. } => self.bucketed(&clips, rows.max(1), salt),
            Grouping::Drawn { .. } => self.drawn(salt),
        }
    }

    fn drawn(&self, salt: u64) -> Vec<Row> {
        let mut random = Random::new(salt);
        let mut draw = |count: usize| (random.fraction() * count as f64) as usize;
        let mut row = |_| {
            let group = &self.groups[draw(self.groups.len())];
            vec![group[draw(group.len())]]
        };
        (0..self.ranked.len()).map(&mut row).collect()
    }

    /// Each clip joins the fullest open row that it fits into.
    fn packed(&self, clips: &[usize], limit: usize) -> Vec<Row> {
        let mut open: Vec<(usize, Row)> = Vec::new();
        let mut closed = Vec::new();
        for clip in clips {
            let length = self.lengths[*clip];
            let fits = open.iter_mut().filter(|(used, _)| used + length <= limit);
            match fits.max_by_key(|(used, _)| *used) {
                Some((used, row)) => {
                    *used += length;
                    row.push(*clip);
                }
                None => open.push((length, vec![*clip])),
            }
            if open.len() > OPEN_ROWS
                && let Some(fullest) = (0..open.len()).max_by_key(|at| open[*at].0)
            {
                closed.push(open.remove(fullest).1);
            }
        }
        closed.extend(open.into_iter().map(|(_, row)| row));
        closed
    }

    /// Clips are sorted by length within stretches, cut into buckets, and the buckets shuffled.
    fn bucketed(&self, clips: &[usize], rows: usize, salt: u64) -> Vec<Row> {
        let mut buckets: Vec<Vec<usize>> = Vec::new();
        for stretch in clips.chunks(rows * SORTED_BUCKETS) {
            let mut stretch = stretch.to_vec();
            stretch.sort_by_key(|clip| self.lengths[*clip]);
            buckets.extend(stretch.chunks(rows).map(<[usize]>::to_vec));
        }
        let mut ranked: Vec<(u64, Vec<usize>)> =
            (0..).map(|at: u64| scramble(salt.wrapping_add(at))).zip(buckets).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().flat_map(|(_, bucket)| bucket).map(|clip| vec![clip]).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    fn clips(count: usize) -> Vec<ClipEntry> {
        let clip = |number: usize| ClipEntry {
            id: format!("clip{number}"),
            length: 10 + (scramble(number as u64) % 90) as usize,
            group: number as u64 % 2,
        };
        (0..count).map(clip).collect()
    }

    fn all(_: usize) -> bool {
        true
    }

    const PACK: Grouping = Grouping::Pack { length: 256 };
    const BUCKETS: Grouping = Grouping::Buckets { length: 256, rows: 4 };

    #[test]
    fn every_pass_has_every_clip_once_in_another_order() {
        for grouping in [PACK, BUCKETS] {
            let mut order = Order::new(grouping, 1, &clips(300), all).unwrap();
            let (first, second) = (order.pass(0).to_vec(), order.pass(1).to_vec());
            for rows in [&first, &second] {
                let seen: Vec<usize> = rows.iter().flatten().copied().collect();
                assert_eq!(seen.len(), 300);
                assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 300);
            }
            assert_ne!(first, second);
            let mut other = Order::new(grouping, 2, &clips(300), all).unwrap();
            assert_ne!(first, other.pass(0));
        }
    }

    #[test]
    fn drawn_clips_come_back_and_groups_are_drawn_alike_however_small_they_are() {
        let mut listed = clips(900);
        listed.iter_mut().enumerate().for_each(|(at, clip)| clip.group = u64::from(at < 90));
        let grouping = Grouping::Drawn { length: 256 };
        let mut order = Order::new(grouping, 1, &listed, all).unwrap();
        let rows = order.pass(0).to_vec();
        assert_eq!(rows.len(), 900);
        let small = rows.iter().filter(|row| row[0] < 90).count();
        // Six standard deviations of a fair coin.
        assert!(small.abs_diff(450) < 90, "{small}");
        let seen: BTreeSet<usize> = rows.iter().flatten().copied().collect();
        assert!(seen.len() < 700, "{}", seen.len());
        assert_ne!(rows, order.pass(1));
        let reversed: Vec<ClipEntry> = listed.iter().rev().cloned().collect();
        let mut other = Order::new(grouping, 1, &reversed, all).unwrap();
        let names = |rows: &[Row], clips: &[ClipEntry]| -> Vec<String> {
            rows.iter().map(|row| clips[row[0]].id.clone()).collect()
        };
        assert_eq!(names(&rows, &listed), names(other.pass(0), &reversed));
        assert_eq!(grouping.each_once(), Grouping::Buckets { length: 256, rows: 1 });
    }

    #[test]
    fn the_order_does_not_depend_on_how_the_clips_are_listed() {
        let listed = clips(200);
        let reversed: Vec<ClipEntry> = listed.iter().rev().cloned().collect();
        for grouping in [PACK, BUCKETS] {
            let names = |clips: &[ClipEntry]| -> Vec<Vec<String>> {
                let mut order = Order::new(grouping, 1, clips, all).unwrap();
                let name = |row: &Row| row.iter().map(|at| clips[*at].id.clone()).collect();
                order.pass(3).iter().map(name).collect()
            };
            assert_eq!(names(&listed), names(&reversed));
        }
    }

    #[test]
    fn rows_are_full_and_never_too_full() {
        let mut order = Order::new(PACK, 1, &clips(1_000), all).unwrap();
        let rows = order.pass(0).to_vec();
        let lengths: Vec<usize> = rows.iter().map(|row| order.length(row)).collect();
        assert!(lengths.iter().all(|length| *length <= 256));
        let filled = lengths.iter().sum::<usize>() as f64 / (256 * lengths.len()) as f64;
        assert!(filled > 0.95, "{filled}");
    }

    #[test]
    fn a_bucket_wastes_little_on_padding() {
        let mut order = Order::new(BUCKETS, 1, &clips(1_000), all).unwrap();
        let rows = order.pass(0).to_vec();
        let padded: usize = rows
            .chunks(4)
            .map(|bucket| bucket.iter().map(|row| order.length(row)).max().unwrap_or(0) * 4)
            .sum();
        let filled: usize = rows.iter().map(|row| order.length(row)).sum();
        assert!((filled as f64) > 0.95 * padded as f64, "{filled} of {padded}");
    }

    #[test]
    fn a_cursor_goes_on_where_it_was_whatever_was_taken_at_a_time() {
        let take = |sizes: &[usize]| {
            let mut order = Order::new(PACK, 1, &clips(50), all).unwrap();
            let mut cursor = Cursor::default();
            let mut rows = Vec::new();
            for size in sizes {
                // A saved cursor and a new order, as after a restart.
                order = Order::new(PACK, 1, &clips(50), all).unwrap();
                rows.extend(order.take(&mut cursor, *size));
            }
            (rows, cursor, order.passes(&cursor))
        };
        let (at_once, cursor, passes) = take(&[60]);
        assert_eq!((at_once.clone(), cursor, passes), take(&[1, 7, 2, 20, 30]));
        let clips: usize = at_once.iter().map(Vec::len).sum();
        assert_eq!(passes, clips as f64 / 50.0);
        assert!(cursor.pass >= 2);
    }

    #[test]
    fn clips_that_cannot_be_placed_are_named() {
        let error = |clips: &[ClipEntry]| Order::new(PACK, 1, clips, all).unwrap_err().to_string();
        let long = ClipEntry { id: "long".into(), length: 257, group: 0 };
        let expected = "clip `long` has 257 positions, expected 1 to 256: split it, drop it, or \
                        raise the longest row";
        assert_eq!(error(std::slice::from_ref(&long)), expected);
        let twice = ClipEntry { length: 5, ..long };
        assert_eq!(error(&[twice.clone(), twice]), "clip `long` occurs twice");
    }
}
