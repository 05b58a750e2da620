//! The items that a stage makes of one item, in the record of that item.
//!
//! A record is one list of named values. A child has its fields there as `NAME/FIELD`, and an entry
//! `NAME/` of its own. So everything that follows the blobs of a record finds those of the children.

use std::sync::Arc;

use crate::error::StageError;
use crate::item::{Fields, Item, Value};
use crate::output::{NewItem, NewValue, Output};

/// Between the id of a parent and the name of a child, and between a child and its fields.
const SEPARATOR: char = '/';

impl Output {
    /// The children of one item, for a kind that [expands](crate::Kind::expands) its items. The id
    /// of each is a name among these children: the id of the parent is put before it.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if a name is empty or has a `/`, or if two children have the same
    /// name.
    pub fn of_children(children: Vec<NewItem>) -> Result<Output, StageError> {
        let mut values: Vec<(String, NewValue)> = Vec::new();
        for child in children {
            let name = child.id;
            if name.is_empty() || name.contains(SEPARATOR) {
                return Err(StageError::failed(format!(
                    "`{name}` is not a valid name for an item made from another item"
                )));
            }
            values.push((format!("{name}{SEPARATOR}"), NewValue::Text(String::new())));
            let fields = child.values.into_iter();
            values
                .extend(fields.map(|(field, value)| (format!("{name}{SEPARATOR}{field}"), value)));
        }
        // In this order they are appended to the fields and not inserted.
        values.sort_by(|(one, _), (other, _)| one.cmp(other));
        match values.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => {
                let name = pair[0].0.split(SEPARATOR).next().unwrap_or_default();
                Err(StageError::failed(format!("two parts have the name `{name}`")))
            }
            None => Ok(Output { values, notes: Vec::new() }),
        }
    }
}

/// The children of an item, from its record: each has the fields of its parent, and its own.
pub fn children(parent: &Item, record: &Fields) -> Vec<Item> {
    let mut children: Vec<Item> = Vec::new();
    let mut before = None;
    for (name, value) in record.iter() {
        let Some((child, field)) = name.split_once(SEPARATOR) else { continue };
        if before != Some(child) {
            let id = format!("{}{SEPARATOR}{child}", parent.id);
            children.push(Item::new(id, parent.fields.clone()));
            before = Some(child);
        }
        if let (Some(item), false) = (children.last_mut(), field.is_empty()) {
            item.fields.set(Arc::<str>::from(field), Value::clone(value));
        }
    }
    children
}

/// The ids under which an item may be stored: children are in the bucket of their parent.
pub fn with_parents(id: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(id), |id| id.rsplit_once(SEPARATOR).map(|(parent, _)| parent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn child(id: &str, fields: &[(&str, &str)]) -> NewItem {
        let value = |text: &str| NewValue::Text(text.to_owned());
        let values = fields.iter().map(|(name, text)| ((*name).to_owned(), value(text)));
        NewItem { id: id.to_owned(), values: values.collect() }
    }

    fn record(children: Vec<NewItem>) -> Fields {
        let value = |value| match value {
            NewValue::Text(text) => Value::text(text),
            _ => unreachable!(),
        };
        let values = Output::of_children(children).unwrap().values;
        values.into_iter().map(|(name, text)| (name, value(text))).collect()
    }

    #[test]
    fn children_have_the_fields_of_their_parent_and_their_own() {
        let fields = [("body", Value::text("all")), ("speaker", Value::text("x"))];
        let parent = Item::new("book/1", fields.into_iter().collect());
        let made = vec![
            child("a-2", &[("body", "two")]),
            child("a", &[("body", "one"), ("at/which", "3")]),
            child("b", &[]),
        ];
        let found = children(&parent, &record(made));
        let told: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|item| (&*item.id, item.fields.text("body"), item.fields.text("at/which")))
            .collect();
        let expected = [
            ("book/1/a-2", Some("two"), None),
            ("book/1/a", Some("one"), Some("3")),
            ("book/1/b", Some("all"), None),
        ];
        assert_eq!(told, expected);
        assert!(found.iter().all(|item| item.fields.text("speaker") == Some("x")));
    }

    #[test]
    fn an_item_may_have_no_children() {
        assert_eq!(children(&Item::new("a", Fields::new()), &record(Vec::new())), []);
    }

    #[test]
    fn names_that_two_children_share_or_that_look_like_paths_are_errors() {
        for names in [vec!["a", "a"], vec!["a/b"], vec![""]] {
            let made = names.iter().map(|name| child(name, &[])).collect();
            assert!(Output::of_children(made).is_err(), "{names:?}");
        }
    }

    #[test]
    fn an_item_may_be_in_the_bucket_of_each_parent() {
        assert_eq!(with_parents("a/b/c").collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
    }
}
