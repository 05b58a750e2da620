//! `dataset.merge`: the union of several data sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use stage_core::Item;

/// The treatment of ids from several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefix {
    /// Ids stay; one id with two contents is an error.
    #[default]
    Never,
    /// `stage/` is put before every id. Not only if needed: an id that changes when another set
    /// grows would have all its work repeated.
    Stage,
}

/// Ids of different items in different sets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{count} ids are used for different items, such as `{id}` in `{first}` and `{second}`; set \
     `prefix = \"stage\"` to make them unique"
)]
pub struct Collision {
    pub count: usize,
    pub id: String,
    pub first: String,
    pub second: String,
}

/// Merges sets by id, given with the names of their stages. An item that is the same in two sets
/// appears once.
pub fn merge(sets: &[(&str, &[Item])], prefix: Prefix) -> Result<Vec<Item>, Collision> {
    let mut merged: BTreeMap<Arc<str>, (&str, Item)> = BTreeMap::new();
    let mut collisions = Vec::new();
    for (stage, items) in sets {
        for item in *items {
            let mut item = item.clone();
            if prefix == Prefix::Stage {
                item.id = format!("{stage}/{}", item.id).into();
            }
            match merged.get(&item.id) {
                None => {
                    merged.insert(item.id.clone(), (stage, item));
                }
                Some((_, known)) if *known == item => {}
                Some((first, _)) => collisions.push((item.id.clone(), *first, *stage)),
            }
        }
    }
    match collisions.iter().min() {
        None => Ok(merged.into_values().map(|(_, item)| item).collect()),
        Some((id, first, second)) => Err(Collision {
            count: collisions.len(),
            id: id.to_string(),
            first: (*first).to_owned(),
            second: (*second).to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use stage_core::Value;

    use super::*;

    fn item(id: &str, text: &str) -> Item {
        Item::new(id, [("text", Value::text(text))].into_iter().collect())
    }

    fn ids(items: &[Item]) -> Vec<&str> {
        items.iter().map(|item| &*item.id).collect()
    }

    #[test]
    fn equal_items_are_there_once_and_the_order_of_the_sets_does_not_matter() {
        let (one, two) =
            (vec![item("b", "x"), item("a", "y")], vec![item("b", "x"), item("c", "z")]);
        let forward = merge(&[("one", &one), ("two", &two)], Prefix::Never).unwrap();
        let backward = merge(&[("two", &two), ("one", &one)], Prefix::Never).unwrap();
        assert_eq!(ids(&forward), ["a", "b", "c"]);
        assert_eq!(forward, backward);
    }

    #[test]
    fn one_id_with_two_contents_is_an_error_that_a_prefix_settles() {
        let (one, two) = (vec![item("b", "x")], vec![item("b", "other")]);
        let sets: [(&str, &[Item]); 2] = [("one", &one), ("two", &two)];
        let error = merge(&sets, Prefix::Never).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 ids are used for different items, such as `b` in `one` and `two`; set `prefix = \
             \"stage\"` to make them unique"
        );
        assert_eq!(ids(&merge(&sets, Prefix::Stage).unwrap()), ["one/b", "two/b"]);
    }
}
