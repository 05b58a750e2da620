//! `report.summary`: statistics of the data sets of a pipeline, as JSON with sorted keys.

use std::collections::BTreeMap;

use serde::Serialize;
use stage_core::{Item, Reject, Value};

use crate::numbers::quantile;

/// The whole report, by the name of the stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    pub artifacts: BTreeMap<String, BTreeMap<String, Entry>>,
    pub datasets: BTreeMap<String, Table>,
}

/// One data set.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    pub fields: BTreeMap<String, Field>,
    pub items: u64,
    pub rejected: BTreeMap<String, Rejected>,
}

/// The statistics of one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Field {
    Text {
        characters: u64,
        distinct: u64,
        items: u64,
    },
    Number {
        items: u64,
        max: f64,
        median: f64,
        min: f64,
        total: f64,
    },
    Blob {
        bytes: u64,
        items: u64,
    },
    /// Values of several types under one name.
    Mixed {
        items: u64,
    },
}

/// Items that were quarantined for one reason.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Rejected {
    pub count: u64,
    pub examples: Vec<Example>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    pub id: String,
    pub reason: String,
}

/// One value of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Entry {
    Text(String),
    Number(f64),
    Blob { bytes: u64, kind: String },
    Json(serde_json::Value),
}

/// The number of items named for each reason.
const EXAMPLES: usize = 5;

impl Summary {
    pub fn add_dataset(&mut self, stage: &str, items: &[Item], rejects: &[(String, Reject)]) {
        let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for (name, value) in items.iter().flat_map(|item| item.fields.iter()) {
            values.entry(name).or_default().push(value);
        }
        let fields = values.into_iter().map(|(name, values)| (name.to_owned(), field(&values)));
        let table = Table {
            items: items.len() as u64,
            fields: fields.collect(),
            rejected: rejected(rejects),
        };
        self.datasets.insert(stage.to_owned(), table);
    }

    /// The report as text; the same data sets always give the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        // Maps with text keys and numbers always become JSON.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }
}

fn field(values: &[&Value]) -> Field {
    let items = values.len() as u64;
    if let Some(texts) = values.iter().map(|value| value.as_text()).collect::<Option<Vec<&str>>>() {
        let characters = texts.iter().map(|text| text.chars().count() as u64).sum();
        let distinct = texts.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        return Field::Text { characters, distinct, items };
    }
    if let Some(numbers) =
        values.iter().map(|value| value.as_number()).collect::<Option<Vec<f64>>>()
    {
        return number_field(numbers, items);
    }
    match values.iter().map(|value| value.as_blob()).collect::<Option<Vec<_>>>() {
        Some(blobs) => Field::Blob { bytes: blobs.iter().map(|blob| blob.size).sum(), items },
        None => Field::Mixed { items },
    }
}

/// Sorted for the median before they are summed, so that the sum does not depend on the order of
/// the items.
fn number_field(mut numbers: Vec<f64>, items: u64) -> Field {
    let median = quantile(&mut numbers, 0.5).unwrap_or_default();
    let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
    let total = numbers.iter().sum();
    Field::Number { items, max: at(numbers.len().saturating_sub(1)), median, min: at(0), total }
}

fn rejected(rejects: &[(String, Reject)]) -> BTreeMap<String, Rejected> {
    let mut sorted: Vec<&(String, Reject)> = rejects.iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    let mut found: BTreeMap<String, Rejected> = BTreeMap::new();
    for (id, reject) in sorted {
        let entry = found.entry(reject.code.clone()).or_default();
        entry.count += 1;
        if entry.examples.len() < EXAMPLES {
            entry.examples.push(Example { id: id.clone(), reason: reject.reason.clone() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_does_not_depend_on_the_order_of_the_items() {
        let item = |id: &str, text: &str, seconds: f64| {
            let fields = [("text", Value::text(text)), ("seconds", Value::Number(seconds))];
            Item::new(id, fields.into_iter().collect())
        };
        let mut items = vec![item("b", "hei", 0.1), item("a", "äiti", 0.2), item("c", "hei", 0.3)];
        let rejects = [("z", "cut"), ("y", "cut")]
            .map(|(id, code)| (id.to_owned(), Reject::new(code, format!("{id} is cut"))));
        let mut forward = Summary::default();
        forward.add_dataset("clips", &items, &rejects);
        items.reverse();
        let mut backward = Summary::default();
        backward.add_dataset("clips", &items, &[rejects[1].clone(), rejects[0].clone()]);
        assert_eq!(forward.to_json(), backward.to_json());
        let expected = r#"{
  "artifacts": {},
  "datasets": {
    "clips": {
      "fields": {
        "seconds": {
          "type": "number",
          "items": 3,
          "max": 0.3,
          "median": 0.2,
          "min": 0.1,
          "total": 0.6000000000000001
        },
        "text": {
          "type": "text",
          "characters": 10,
          "distinct": 2,
          "items": 3
        }
      },
      "items": 3,
      "rejected": {
        "cut": {
          "count": 2,
          "examples": [
            {
              "id": "y",
              "reason": "y is cut"
            },
            {
              "id": "z",
              "reason": "z is cut"
            }
          ]
        }
      }
    }
  }
}
"#;
        assert_eq!(String::from_utf8_lossy(&forward.to_json()), expected);
    }
}
