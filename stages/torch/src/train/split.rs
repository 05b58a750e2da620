//! The selection of held-out clips: by each clip's own id, so that other clips never move one from
//! side to side.

use crate::random::hash;

/// True for each held-out id: `fraction` of them on average. If chance holds out none of several,
/// the one with the lowest hash is held out; one always stays for training.
pub fn held_out(ids: &[&str], fraction: f64, salt: &str) -> Vec<bool> {
    let ranks: Vec<u64> = ids.iter().map(|id| hash(salt, id)).collect();
    // A double has 53 exact bits.
    let is_below = |rank: &u64| ((rank >> 11) as f64 / (1u64 << 53) as f64) < fraction;
    let mut sides: Vec<bool> = ranks.iter().map(is_below).collect();
    if fraction <= 0.0 || ids.len() < 2 {
        return vec![false; ids.len()];
    }
    let place = |(at, rank): (usize, &u64)| (*rank, ids[at], at);
    let held = sides.iter().filter(|side| **side).count();
    if held == 0
        && let Some((_, _, at)) = ranks.iter().enumerate().map(place).min()
    {
        sides[at] = true;
    }
    if held == ids.len()
        && let Some((_, _, at)) = ranks.iter().enumerate().map(place).max()
    {
        sides[at] = false;
    }
    sides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("clip{number}")).collect()
    }

    fn sides(ids: &[String], fraction: f64) -> Vec<bool> {
        held_out(&ids.iter().map(String::as_str).collect::<Vec<_>>(), fraction, "salt")
    }

    #[test]
    fn new_clips_move_no_other_clip() {
        let (few, many) = (sides(&ids(100), 0.1), sides(&ids(1_000), 0.1));
        assert_eq!(few, many[..100]);
        let held = many.iter().filter(|side| **side).count();
        assert!((60..140).contains(&held), "{held}");
    }

    #[test]
    fn both_sides_have_a_clip_where_there_are_two() {
        for count in [2, 3] {
            for fraction in [1e-9, 0.5, 1.0] {
                let sides = sides(&ids(count), fraction);
                assert!(sides.contains(&true) && sides.contains(&false), "{count} {fraction}");
            }
        }
        assert_eq!(sides(&ids(1), 0.5), [false]);
        assert_eq!(sides(&ids(3), 0.0), [false; 3]);
    }
}
