//! A JSON object that people or their programs wrote, in which a key may be repeated by mistake.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value as Json};

#[derive(Debug, Default)]
pub struct Object {
    pub fields: Map<String, Json>,
    /// The first key that is there twice.
    pub repeated: Option<String>,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some((key, value)) = entries.next_entry::<String, Json>()? {
            if object.fields.contains_key(&key) {
                object.repeated.get_or_insert(key);
            } else {
                object.fields.insert(key, value);
            }
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_repeated_key_is_named_and_those_of_inner_objects_are_not_looked_at() {
        let read = |text: &str| serde_json::from_str::<Object>(text);
        let object = read(r#"{"a": 1, "b": {"c": 1, "c": 2}, "a": 2}"#).unwrap();
        assert_eq!((object.fields.len(), object.repeated.as_deref()), (2, Some("a")));
        assert_eq!(read(r#"{"a": 1, "b": [1]}"#).unwrap().repeated, None);
        // As for any other type of this kind.
        let own = read("[1]").unwrap_err().to_string();
        assert_eq!(own, serde_json::from_str::<Map<String, Json>>("[1]").unwrap_err().to_string());
    }
}
