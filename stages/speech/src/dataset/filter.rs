//! `dataset.filter`: items that meet every condition.

use stage_core::{Item, Reject, Value};

/// One condition on one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub field: String,
    pub test: Test,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// A number, or a text with one, between the bounds, both included.
    Between {
        min: Option<f64>,
        max: Option<f64>,
    },
    AnyOf(Vec<String>),
    NoneOf(Vec<String>),
    /// Letters, digits or signs; spaces alone are empty.
    NotEmpty,
    /// The number of characters of a text.
    Length {
        min: Option<u64>,
        max: Option<u64>,
    },
}

/// The reason why an item is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The item lacks the field, or it has another type than the test needs.
    Missing,
    Unmet,
}

impl Condition {
    pub fn check(&self, item: &Item) -> Result<(), DropReason> {
        let value = match self.field.as_str() {
            "id" => Some(Value::Text(item.id.clone())),
            name => item.fields.get(name).cloned(),
        };
        let is_met = self.test.is_met(value.as_ref()).ok_or(DropReason::Missing)?;
        if is_met { Ok(()) } else { Err(DropReason::Unmet) }
    }

    /// True if the condition looks for items without the field.
    pub fn is_for_missing(&self) -> bool {
        self.test == Test::NotEmpty
    }

    /// The reason for quarantining an item that cannot be tested.
    pub fn untested(&self) -> Reject {
        let field = &self.field;
        let reason = format!("it has no field `{field}`, which the condition tests");
        Reject::new("no-field", reason)
    }
}

impl Test {
    /// None if the test does not apply to such a value.
    fn is_met(&self, value: Option<&Value>) -> Option<bool> {
        match self {
            Test::Between { min, max } => {
                let number = number(value?)?;
                Some(min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max))
            }
            Test::AnyOf(texts) => Some(texts.contains(&shown(value?)?)),
            // A missing speaker is not one of the excluded ones.
            Test::NoneOf(texts) => match value {
                None => Some(true),
                Some(value) => Some(!texts.contains(&shown(value)?)),
            },
            Test::NotEmpty => match value? {
                Value::Text(text) => Some(!text.trim().is_empty()),
                Value::Number(number) => Some(number.is_finite()),
                Value::Blob(blob) => Some(blob.size > 0),
            },
            Test::Length { min, max } => {
                let length = value?.as_text()?.chars().count() as u64;
                Some(min.is_none_or(|min| length >= min) && max.is_none_or(|max| length <= max))
            }
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Text(text) => text.trim().parse().ok(),
        Value::Blob(_) => None,
    }
}

/// A text, or a number in readable form.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Blob(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Item {
        let fields = [
            ("text", Value::text("Hei vaan")),
            ("votes", Value::text("3")),
            ("seconds", Value::Number(2.5)),
        ];
        Item::new("a/1", fields.into_iter().collect())
    }

    fn check(field: &str, test: Test) -> Result<(), DropReason> {
        Condition { field: field.to_owned(), test }.check(&item())
    }

    fn between(min: f64, max: f64) -> Test {
        Test::Between { min: Some(min), max: Some(max) }
    }

    #[test]
    fn bounds_include_their_ends_and_read_numbers_in_texts() {
        assert_eq!(check("seconds", between(2.5, 3.0)), Ok(()));
        assert_eq!(check("seconds", between(0.5, 2.4)), Err(DropReason::Unmet));
        assert_eq!(check("votes", between(3.0, 3.0)), Ok(()));
        assert_eq!(check("text", between(0.0, 9.0)), Err(DropReason::Missing));
    }

    #[test]
    fn texts_are_compared_whole_and_ids_count_as_a_field() {
        let any =
            |texts: &[&str]| Test::AnyOf(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(check("id", any(&["a/1"])), Ok(()));
        assert_eq!(check("text", any(&["Hei"])), Err(DropReason::Unmet));
        assert_eq!(check("seconds", any(&["2.5"])), Ok(()));
        assert_eq!(check("speaker", any(&["x"])), Err(DropReason::Missing));
        assert_eq!(check("speaker", Test::NoneOf(vec!["x".to_owned()])), Ok(()));
        assert_eq!(check("votes", Test::NoneOf(vec!["3".to_owned()])), Err(DropReason::Unmet));
    }

    #[test]
    fn length_counts_characters() {
        assert_eq!(check("text", Test::Length { min: Some(8), max: Some(8) }), Ok(()));
        assert_eq!(check("text", Test::Length { min: Some(9), max: None }), Err(DropReason::Unmet));
    }
}
