//! `report.summary`: statistics of the data sets of a pipeline, as JSON with sorted keys.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use serde::{Deserialize, Serialize};
use stage_core::{Item, Reject, Value};

use crate::numbers::quantile;

/// The whole report, by the name of the stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    pub artifacts: BTreeMap<String, BTreeMap<String, ValueSummary>>,
    pub datasets: BTreeMap<String, DatasetSummary>,
}

/// One data set.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct DatasetSummary {
    pub fields: BTreeMap<String, FieldSummary>,
    pub items: u64,
    pub rejected: BTreeMap<String, QuarantineSummary>,
}

/// The statistics of one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FieldSummary {
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
pub struct QuarantineSummary {
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
pub enum ValueSummary {
    Text(String),
    Number(f64),
    Blob { bytes: u64, kind: String },
    Json(serde_json::Value),
}

/// The sum of some items of a data set.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Sum {
    items: u64,
    fields: BTreeMap<String, Values>,
}

/// The values of one field, by type.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Values {
    texts: u64,
    characters: u64,
    /// Starts of the digests of the texts.
    distinct: BTreeSet<u128>,
    numbers: Vec<f64>,
    blobs: u64,
    bytes: u64,
}

/// The number of items named for each reason.
const EXAMPLES: usize = 5;

impl Summary {
    pub fn add_dataset(&mut self, stage: &str, sum: Sum, rejects: &[(String, Reject)]) {
        let fields = sum.fields.into_iter().map(|(name, values)| (name, values.into_field()));
        let table = DatasetSummary {
            items: sum.items,
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

impl Sum {
    pub fn of(items: &[Item]) -> Sum {
        let mut sum = Sum { items: items.len() as u64, ..Sum::default() };
        for (name, value) in items.iter().flat_map(|item| item.fields.iter()) {
            match sum.fields.get_mut(&**name) {
                Some(values) => values.add(value),
                None => sum.fields.entry(name.to_string()).or_default().add(value),
            }
        }
        sum
    }

    /// Adds other items of the same data set.
    pub fn merge(&mut self, other: Sum) {
        self.items += other.items;
        for (name, values) in other.fields {
            self.fields.entry(name).or_default().merge(values);
        }
    }
}

impl Values {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Text(text) => {
                self.texts += 1;
                self.characters += text.chars().count() as u64;
                let mut start = [0; 16];
                start.copy_from_slice(&Digest::of(text.as_bytes()).as_bytes()[..16]);
                self.distinct.insert(u128::from_le_bytes(start));
            }
            Value::Number(number) => self.numbers.push(*number),
            Value::Blob(blob) => {
                self.blobs += 1;
                self.bytes += blob.size;
            }
        }
    }

    fn merge(&mut self, mut other: Values) {
        self.texts += other.texts;
        self.characters += other.characters;
        self.distinct.append(&mut other.distinct);
        self.numbers.append(&mut other.numbers);
        self.blobs += other.blobs;
        self.bytes += other.bytes;
    }

    fn into_field(self) -> FieldSummary {
        let items = self.texts + self.numbers.len() as u64 + self.blobs;
        if items == self.texts {
            let distinct = self.distinct.len() as u64;
            FieldSummary::Text { characters: self.characters, distinct, items }
        } else if items == self.blobs {
            FieldSummary::Blob { bytes: self.bytes, items }
        } else if self.texts + self.blobs == 0 {
            number_field(self.numbers, items)
        } else {
            FieldSummary::Mixed { items }
        }
    }
}

/// Sorted for the median before they are summed, so that the sum does not depend on the order of
/// the items.
fn number_field(mut numbers: Vec<f64>, items: u64) -> FieldSummary {
    let median = quantile(&mut numbers, 0.5).unwrap_or_default();
    let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
    let total = numbers.iter().sum();
    FieldSummary::Number {
        items,
        max: at(numbers.len().saturating_sub(1)),
        median,
        min: at(0),
        total,
    }
}

fn rejected(rejects: &[(String, Reject)]) -> BTreeMap<String, QuarantineSummary> {
    let mut sorted: Vec<&(String, Reject)> = rejects.iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    let mut found: BTreeMap<String, QuarantineSummary> = BTreeMap::new();
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
    fn the_report_depends_neither_on_the_order_of_the_items_nor_on_their_division() {
        let item = |id: &str, text: &str, seconds: f64| {
            let fields = [("text", Value::text(text)), ("seconds", Value::Number(seconds))];
            Item::new(id, fields.into_iter().collect())
        };
        let mut items = vec![item("b", "hei", 0.1), item("a", "äiti", 0.2), item("c", "hei", 0.3)];
        let rejects = [("z", "cut"), ("y", "cut")]
            .map(|(id, code)| (id.to_owned(), Reject::new(code, format!("{id} is cut"))));
        let mut forward = Summary::default();
        forward.add_dataset("clips", Sum::of(&items), &rejects);
        items.reverse();
        let mut backward = Summary::default();
        let mut sum = Sum::of(&items[..1]);
        sum.merge(Sum::of(&items[1..]));
        backward.add_dataset("clips", sum, &[rejects[1].clone(), rejects[0].clone()]);
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
