//! The judges' figures of real recordings, which a synthesis can hardly exceed, and the lengths of their texts
//! beside those of the spoken sentences.

use std::collections::BTreeMap;

use serde::Serialize;
use stage_core::{GatherInput, Item, StageError};

use super::paired::{MeasureText, measure_alone};
use crate::numbers::{quantile, rounded};
use crate::statistics::bootstrap::{Draws, Interval};
use crate::statistics::table::SentenceTable;

/// Recordings of a person, and the same recordings after a codec.
const PORTS: [&str; 2] = ["recordings", "decoded"];

/// Sentences that are this many times as long as the recordings, or as short, are another task.
const MAX_LENGTH_RATIO: f64 = 1.5;

/// A row of recordings.
#[derive(Debug, PartialEq, Serialize)]
pub struct Ceiling {
    pub id: &'static str,
    pub recordings: usize,
    pub measures: BTreeMap<String, Interval>,
}

/// The lengths of texts, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TextLengths {
    pub median: f64,
    /// A tenth is shorter.
    pub short: f64,
    /// A tenth is longer.
    pub long: f64,
}

/// The items on a port; none if it has no reference.
pub fn items_on<'a>(input: &'a GatherInput, port: &str) -> Result<&'a [Item], StageError> {
    if input.ports.contains_key(port) { input.items(port) } else { Ok(&[]) }
}

/// The rows of all recordings that were judged.
pub fn ceilings(
    input: &GatherInput,
    measures: &[MeasureText],
    (draws, seed): (usize, u64),
    confidence: f64,
) -> Result<Vec<Ceiling>, StageError> {
    let mut found = Vec::new();
    for id in PORTS {
        let items = items_on(input, id)?;
        if items.is_empty() {
            continue;
        }
        let table = SentenceTable::of(items, |item| (id, &*item.id));
        let table = table.map_err(|twice| StageError::failed(twice.to_string()))?;
        let draws = Draws::new(items.len(), draws, seed);
        let measures = measure_alone(measures, id, &table, &draws, confidence);
        found.push(Ceiling { id, recordings: items.len(), measures });
    }
    Ok(found)
}

/// The figures that no recording has.
pub fn unmeasured(ceilings: &[Ceiling], measures: &[MeasureText]) -> Vec<String> {
    let lacks = |ceiling: &Ceiling| {
        let is_missing = |one: &&MeasureText| !ceiling.measures.contains_key(&one.text);
        let missing = measures.iter().filter(is_missing).map(|one| format!("`{}`", one.text));
        let missing = missing.collect::<Vec<_>>().join(", ");
        let fault =
            "some recordings lack a field of it: judge them by the same stages as the sentences";
        (!missing.is_empty()).then(|| format!("`{}` has no {missing}: {fault}", ceiling.id))
    };
    ceilings.iter().filter_map(lacks).collect()
}

impl TextLengths {
    /// None without texts.
    pub fn of(items: &[Item]) -> Option<TextLengths> {
        let texts = items.iter().filter_map(|item| item.fields.text("text"));
        let mut lengths: Vec<f64> = texts.map(|text| text.trim().chars().count() as f64).collect();
        let mut at = |share| quantile(&mut lengths, share).map(rounded);
        Some(TextLengths { median: at(0.5)?, short: at(0.1)?, long: at(0.9)? })
    }

    /// A warning about sentences that are much longer or shorter than the recordings.
    pub fn warning(self, recordings: TextLengths) -> Option<String> {
        let ratio = self.median / recordings.median.max(1.0);
        let differs = !(1.0 / MAX_LENGTH_RATIO..=MAX_LENGTH_RATIO).contains(&ratio);
        differs.then(|| {
            format!(
                "half of the sentences have at most {} characters, half of the recordings at most {}: error \
                 rates depend on the length, so compare sentences as long as the recordings",
                self.median, recordings.median
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::Value;

    use super::*;

    fn recording(id: &str, figures: &[(&str, f64)]) -> Item {
        let numbers = figures.iter().map(|(name, value)| (*name, Value::Number(*value)));
        Item::new(id, numbers.collect())
    }

    fn read(measures: &[&str]) -> Vec<MeasureText> {
        measures.iter().map(|text| MeasureText::read(text).unwrap()).collect()
    }

    fn written(lengths: &[usize]) -> Vec<Item> {
        let one = |(at, length): (usize, &usize)| {
            let text = Value::text("a".repeat(*length));
            Item::new(format!("{at}"), [("text", text)].into_iter().collect())
        };
        lengths.iter().enumerate().map(one).collect()
    }

    #[test]
    fn figures_of_recordings_have_intervals_and_lack_what_was_not_measured() {
        let items = [0.0, 0.1, 0.2, 0.3].map(|cer| recording(&format!("{cer}"), &[("cer", cer)]));
        let measures = read(&["mean(cer)", "mean(similarity)"]);
        let table = SentenceTable::of(&items, |item| ("recordings", &*item.id)).unwrap();
        let draws = Draws::new(items.len(), 500, 1);
        let own = measure_alone(&measures, "recordings", &table, &draws, 0.9);
        let cer = own["mean(cer)"];
        assert_eq!((own.len(), cer.value), (1, 0.15));
        assert!(cer.low > 0.0 && cer.low < 0.1 && cer.high > 0.2 && cer.high < 0.3, "{cer:?}");
        let ceilings = [Ceiling { id: "recordings", recordings: 4, measures: own }];
        let warned = unmeasured(&ceilings, &measures);
        assert!(warned[0].starts_with("`recordings` has no `mean(similarity)`"), "{warned:?}");
        assert!(unmeasured(&ceilings, &measures[..1]).is_empty());
    }

    #[test]
    fn sentences_of_another_length_than_the_recordings_are_told() {
        let of = |lengths: &[usize]| TextLengths::of(&written(lengths)).unwrap();
        let recordings = of(&[20, 30, 40]);
        assert_eq!(recordings.median, 30.0);
        assert_eq!(of(&[25, 30, 44]).warning(recordings), None);
        for lengths in [&[5, 10, 15], &[50, 60, 70]] {
            let warning = of(lengths).warning(recordings).unwrap();
            assert!(warning.contains("half of the recordings at most 30"), "{warning}");
        }
        assert_eq!(TextLengths::of(&[]), None);
    }
}
