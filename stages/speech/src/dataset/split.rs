//! `dataset.split`: selects the items that are held out for validation.
//!
//! An item's side depends on its own id (or its group's name) and the salt: their hash is below the
//! fraction or not. Adding or removing other items changes nothing. The one exception is the
//! requested top-up: a speaker with fewer held-out items than `minimum_per_speaker` gets those of
//! its items (or groups) that come next in the order of the hash. A topped-up item returns to
//! training only if a new item of the same speaker ranks before it.

use std::collections::{BTreeMap, HashMap};

use super::hash;

/// The options of a split.
#[derive(Debug, Clone)]
pub struct SplitOptions {
    /// The share of held-out items, from 0 to 1; met on average, not exactly.
    pub fraction: f64,
    /// Another salt gives another split.
    pub salt: String,
    /// The smallest number of held-out items of each speaker, as long as one item is left for
    /// training.
    pub minimum_per_speaker: usize,
}

/// The properties of an item that the split uses.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub id: &'a str,
    /// Members of one group are on one side: a recording, a chapter, a speaker.
    pub group: Option<&'a str>,
    pub speaker: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SplitSide {
    Training,
    Validation,
}

/// The side of each member, in the order given.
pub fn split(members: &[Member<'_>], options: &SplitOptions) -> Vec<SplitSide> {
    let ranks: Vec<u64> = members.iter().map(|member| rank(member, options)).collect();
    let mut sides: Vec<SplitSide> =
        ranks.iter().map(|rank| side(*rank, options.fraction)).collect();
    if options.minimum_per_speaker > 0 {
        top_up(members, &ranks, options.minimum_per_speaker, &mut sides);
    }
    sides
}

fn rank(member: &Member<'_>, options: &SplitOptions) -> u64 {
    match member.group {
        Some(group) => hash::stable("split group", &[&options.salt, group]),
        None => hash::stable("split item", &[&options.salt, member.id]),
    }
}

fn side(rank: u64, fraction: f64) -> SplitSide {
    if hash::position(rank) < fraction { SplitSide::Validation } else { SplitSide::Training }
}

/// Items of one speaker that move together.
struct Unit {
    rank: u64,
    name: String,
    items: Vec<usize>,
    /// A group of several speakers is never moved: it would shift the others' balance.
    is_own: bool,
}

fn top_up(members: &[Member<'_>], ranks: &[u64], minimum: usize, sides: &mut [SplitSide]) {
    for (_, mut units) in units_by_speaker(members, ranks) {
        units.sort_by(|one, other| (one.rank, &one.name).cmp(&(other.rank, &other.name)));
        let total: usize = units.iter().map(|unit| unit.items.len()).sum();
        let is_held = |unit: &Unit, sides: &[SplitSide]| {
            unit.items.iter().filter(|item| sides[**item] == SplitSide::Validation).count()
        };
        let mut held: usize = units.iter().map(|unit| is_held(unit, sides)).sum();
        for unit in units.iter().filter(|unit| unit.is_own) {
            if held >= minimum {
                break;
            }
            let added = unit.items.len() - is_held(unit, sides);
            if added == 0 || held + added >= total {
                continue;
            }
            for item in &unit.items {
                sides[*item] = SplitSide::Validation;
            }
            held += added;
        }
    }
}

fn units_by_speaker(members: &[Member<'_>], ranks: &[u64]) -> BTreeMap<String, Vec<Unit>> {
    let mut speakers_of_group: HashMap<&str, (&str, bool)> = HashMap::new();
    for member in members {
        let Some(group) = member.group else { continue };
        let speaker = member.speaker.unwrap_or_default();
        let entry = speakers_of_group.entry(group).or_insert((speaker, true));
        entry.1 &= entry.0 == speaker;
    }
    let mut units: BTreeMap<(&str, Option<&str>, &str), Unit> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        let speaker = member.speaker.unwrap_or_default();
        let name = member.group.unwrap_or(member.id);
        let is_own = member.group.is_none_or(|group| speakers_of_group[group].1);
        units
            .entry((speaker, member.group, name))
            .or_insert_with(|| Unit {
                rank: ranks[index],
                name: name.to_owned(),
                items: Vec::new(),
                is_own,
            })
            .items
            .push(index);
    }
    let mut by_speaker: BTreeMap<String, Vec<Unit>> = BTreeMap::new();
    for ((speaker, _, _), unit) in units {
        by_speaker.entry(speaker.to_owned()).or_default().push(unit);
    }
    by_speaker
}

/// The leaks between the sides: texts (or groups) on both.
pub fn leaks<'a>(keys_and_sides: impl IntoIterator<Item = (&'a str, SplitSide)>) -> Vec<&'a str> {
    let mut seen: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for (key, side) in keys_and_sides {
        let entry = seen.entry(key).or_default();
        match side {
            SplitSide::Training => entry.0 = true,
            SplitSide::Validation => entry.1 = true,
        }
    }
    seen.into_iter()
        .filter(|(_, (training, validation))| *training && *validation)
        .map(|(key, _)| key)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::*;

    fn options(fraction: f64, minimum_per_speaker: usize) -> SplitOptions {
        SplitOptions { fraction, salt: "salt".to_owned(), minimum_per_speaker }
    }

    fn item(id: &str) -> Member<'_> {
        Member { id, group: None, speaker: None }
    }

    fn held(members: &[Member<'_>], options: &SplitOptions) -> BTreeSet<String> {
        let sides = split(members, options);
        let held = members.iter().zip(sides).filter(|(_, side)| *side == SplitSide::Validation);
        held.map(|(member, _)| member.id.to_owned()).collect()
    }

    #[test]
    fn ten_more_clips_move_none_of_four_thousand() {
        let ids: Vec<String> = (0..4010).map(|number| format!("fi_{number:05}")).collect();
        let members: Vec<_> = ids.iter().map(|id| item(id)).collect();
        let before = held(&members[..4000], &options(0.025, 0));
        let after = held(&members, &options(0.025, 0));
        assert!((70..130).contains(&before.len()), "{}", before.len());
        assert_eq!(before, after.into_iter().filter(|id| id.as_str() < "fi_04000").collect());
    }

    #[test]
    fn members_of_a_group_never_straddle() {
        let ids: Vec<String> = (0..600).map(|number| format!("id{number}")).collect();
        let groups: Vec<String> = (0..600).map(|number| format!("tape{}", number / 6)).collect();
        let members: Vec<_> = ids
            .iter()
            .zip(&groups)
            .map(|(id, group)| Member { id, group: Some(group), speaker: Some("anna") })
            .collect();
        let sides = split(&members, &options(0.2, 150));
        let mut of_group = HashMap::new();
        for (member, side) in members.iter().zip(&sides) {
            assert_eq!(of_group.entry(member.group).or_insert(side), &side);
        }
        assert!(sides.iter().filter(|side| **side == SplitSide::Validation).count() >= 150);
    }

    #[test]
    fn a_small_speaker_is_topped_up_but_keeps_something_to_train_on() {
        let speaker = |id, speaker| Member { id, group: None, speaker: Some(speaker) };
        let members =
            [speaker("a1", "a"), speaker("a2", "a"), speaker("a3", "a"), speaker("b1", "b")];
        let held = held(&members, &options(0.0, 2));
        assert_eq!(held.iter().filter(|id| id.starts_with('a')).count(), 2);
        assert!(!held.contains("b1"));
    }

    #[test]
    fn what_stands_on_both_sides_is_reported() {
        let pairs = [
            ("x", SplitSide::Training),
            ("y", SplitSide::Validation),
            ("x", SplitSide::Validation),
        ];
        assert_eq!(leaks(pairs), ["x"]);
    }

    proptest! {
        #[test]
        fn others_coming_or_going_move_nobody(
            ids in proptest::collection::btree_set("[a-z0-9/]{1,10}", 1..60),
            keep in proptest::collection::vec(any::<bool>(), 60),
            fraction in 0.0f64..1.0,
        ) {
            let all: Vec<_> = ids.iter().map(|id| item(id)).collect();
            let some: Vec<_> = all.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(member, _)| *member).rev().collect();
            let held_of_all = held(&all, &options(fraction, 0));
            let held_of_some = held(&some, &options(fraction, 0));
            let expected: BTreeSet<String> = some.iter().map(|member| member.id.to_owned())
                .filter(|id| held_of_all.contains(id)).collect();
            prop_assert_eq!(held_of_some, expected);
        }

        #[test]
        fn a_top_up_holds_out_exactly_the_minimum_whatever_the_order(
            ids in proptest::collection::btree_set("[a-z0-9]{1,6}", 5..40), minimum in 1usize..4,
        ) {
            let all: Vec<_> = ids.iter().map(|id| item(id)).collect();
            let backwards: Vec<_> = all.iter().rev().copied().collect();
            let held_out = held(&all, &options(0.0, minimum));
            prop_assert_eq!(held_out.len(), minimum);
            prop_assert_eq!(held_out, held(&backwards, &options(0.0, minimum)));
        }
    }
}
