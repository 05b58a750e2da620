//! The settings that a trainer saved beside the tensors: Lightning's `hyper_parameters`.

use serde_json::{Map, Number, Value};

use crate::pickle::{Node, NodeId, Pickle};

/// The key of the settings in the dictionary of a checkpoint.
const SETTINGS: &str = "hyper_parameters";
/// The largest nesting of settings, and the largest number of their values, counting repeated
/// references. Trainers have a few dozen.
const MAX_DEPTH: usize = 8;
const MAX_VALUES: usize = 10_000;

/// Plain values as JSON, null in place of all others such as paths; null without settings. Too
/// many or too deep ones are null too.
pub(super) fn settings(pickle: &Pickle) -> Value {
    let Node::Dict(pairs) = pickle.root() else { return Value::Null };
    let own = pairs.iter().rev().find(|(key, _)| pickle.text(*key) == Some(SETTINGS));
    let mut left = MAX_VALUES;
    own.and_then(|(_, settings)| plain(pickle, *settings, MAX_DEPTH, &mut left))
        .unwrap_or(Value::Null)
}

fn plain(pickle: &Pickle, id: NodeId, depth: usize, left: &mut usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    *left = left.checked_sub(1)?;
    Some(match pickle.node(id) {
        Node::Bool(value) => Value::Bool(*value),
        Node::Int(value) => Value::from(*value),
        Node::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        Node::Text(value) => Value::String(value.clone()),
        Node::List(items) | Node::Tuple(items) => {
            let items = items.iter().map(|item| plain(pickle, *item, depth, left));
            Value::Array(items.collect::<Option<_>>()?)
        }
        Node::Dict(pairs) => {
            let mut fields = Map::new();
            for (key, value) in pairs {
                if let Some(key) = pickle.text(*key) {
                    fields.insert(key.to_owned(), plain(pickle, *value, depth, left)?);
                }
            }
            Value::Object(fields)
        }
        _ => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// `pickle.dumps(value, protocol=2)` of CPython 3.11, with the paths of the last one.
    #[test]
    fn settings_are_plain_values_and_paths_are_null() {
        let pickle = b"\x80\x02}q\x00(X\x05\x00\x00\x00epochq\x01K\x03X\x10\x00\x00\x00\
            hyper_parametersq\x02}q\x03(X\x05\x00\x00\x00ratesq\x04K\x08K\x04\x86q\x05X\x08\x00\x00\x00\
            resblockq\x06X\x01\x00\x00\x002q\x07X\x07\x00\x00\x00datasetq\x08]q\tcpathlib\nPosixPath\n\
            q\nX\x01\x00\x00\x00dq\x0b\x85q\x0cRq\raX\x04\x00\x00\x00rateq\x0eG?\xe0\x00\x00\x00\
            \x00\x00\x00uu.";
        let settings = settings(&Pickle::read(pickle).unwrap());
        let expected = json!({"rates": [8, 4], "resblock": "2", "dataset": [null], "rate": 0.5});
        assert_eq!(settings, expected);
        let none = Pickle::read(b"\x80\x02}q\x00.").unwrap();
        assert_eq!(super::settings(&none), Value::Null);
    }

    #[test]
    fn settings_that_contain_themselves_are_none() {
        let pickle = b"\x80\x02}X\x10\x00\x00\x00hyper_parameters}q\x01X\x01\x00\x00\x00ah\x01ss.";
        assert_eq!(settings(&Pickle::read(pickle).unwrap()), Value::Null);
    }
}
